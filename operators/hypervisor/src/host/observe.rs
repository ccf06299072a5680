//! Reads what the transition needs, and no more: which calls are made depends on the phase.

use std::collections::BTreeMap;

use c5c3_api::conditions::hypervisor::EVICTING;
use c5c3_api::conditions::reason;
use c5c3_api::hypervisor::{Eviction, Hypervisor, Maintenance, OnboardingPhase};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Node;
use kube::ResourceExt;
use openstack_client::Guest;

use super::checks::Complaint;
use super::failover::{self, Verdict};
use super::reactions;
use super::view::{EvictionView, NodeView, PlacementView, View};
use crate::eviction::{Refusals, no_room};
use crate::names;
use crate::nova::{Found, Host, Nova};
use crate::power::PowerView;
use crate::pulse::AgentView;

/// What Kubernetes says.
#[derive(Clone, Debug, Default)]
pub struct Ground {
    pub node: NodeView,
    pub fence: Option<String>,
    pub pressure: Vec<String>,
    pub taints: Vec<String>,
    pub power: Option<PowerView>,
    pub eviction: Option<EvictionView>,
    pub complaints: Vec<Complaint>,
    pub agent: AgentView,
    pub now: Timestamp,
}

pub(crate) fn node(node: Option<&Node>) -> NodeView {
    let Some(node) = node else {
        return NodeView::Missing;
    };
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let is_true = |kind: &str| {
        let mut all = conditions.into_iter().flatten();
        all.any(|condition| condition.type_ == kind && condition.status == "True")
    };
    NodeView::There {
        ready: is_true("Ready"),
        terminating: node.metadata.deletion_timestamp.is_some() || is_true("Terminating"),
    }
}

/// What the Node is short of, by the names of its conditions.
pub(crate) fn pressure(node: &Node) -> Vec<String> {
    let conditions = node.status.as_ref().and_then(|status| status.conditions.as_ref());
    let short = |kind: &str| ["DiskPressure", "MemoryPressure", "PIDPressure"].contains(&kind);
    let found = conditions.into_iter().flatten();
    let found = found.filter(|one| short(&one.type_) && one.status == "True");
    let mut found: Vec<String> = found.map(|one| one.type_.clone()).collect();
    found.sort();
    found
}

/// Taints that keep pods away.
pub(crate) fn taints(node: &Node) -> Vec<String> {
    let all = node.spec.as_ref().and_then(|spec| spec.taints.as_ref());
    let hard = all
        .into_iter()
        .flatten()
        .filter(|taint| taint.effect != "PreferNoSchedule");
    let mut hard: Vec<String> = hard
        .map(|taint| format!("{}:{}", taint.key, taint.effect))
        .collect();
    hard.sort();
    hard
}

/// How it is known that the Node has no power.
pub(crate) fn fence(node: &Node) -> Option<String> {
    let taints = node.spec.as_ref()?.taints.as_ref()?;
    let of_power = |key: &str| [names::OUT_OF_SERVICE, names::SHUTDOWN].contains(&key);
    let found = taints.iter().find(|taint| of_power(&taint.key))?;
    Some(format!("taint {}", found.key))
}

fn unplugged(power: Option<&PowerView>) -> Option<String> {
    (power == Some(&PowerView::Off)).then(|| "its management controller reports Off".to_owned())
}

pub(crate) fn address(node: &Node) -> Option<String> {
    let addresses = node.status.as_ref()?.addresses.as_ref()?;
    let internal = addresses.iter().find(|address| address.type_ == "InternalIP");
    internal.map(|found| found.address.clone())
}

/// `None`: it goes, or has said nothing of this generation.
pub fn eviction(eviction: &Eviction) -> Option<EvictionView> {
    if eviction.metadata.deletion_timestamp.is_some() {
        return None;
    }
    let status = eviction.status.as_ref()?;
    let told = status.conditions.iter().find(|c| c.type_ == EVICTING)?;
    Some(EvictionView {
        succeeded: told.status == "False" && told.reason == reason::SUCCEEDED,
        reason: told.reason.clone(),
        message: told.message.clone(),
    })
}

/// Of a host of which nobody outside Kubernetes has said anything.
pub(crate) fn untold(object: &Hypervisor, nova: Host, ground: Ground) -> View {
    View {
        name: object.name_any(),
        uid: object.uid().unwrap_or_default(),
        spec: object.spec.clone(),
        before: object.status.clone().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        retry: object.annotations().get(names::RETRY).cloned(),
        node: ground.node,
        complaints: ground.complaints,
        agent: ground.agent,
        pressure: ground.pressure,
        taints: ground.taints,
        fence: ground.fence.or_else(|| unplugged(ground.power.as_ref())),
        power: ground.power,
        nova,
        placement: PlacementView::default(),
        tests: Vec::new(),
        console: String::new(),
        bed: None,
        guests: None,
        troubled: Vec::new(),
        refused: BTreeMap::new(),
        moves: Vec::new(),
        no_room: BTreeMap::new(),
        eviction: ground.eviction,
        now: ground.now,
    }
}

/// Asks Nova and Placement.
pub async fn look(
    object: &Hypervisor,
    nova: &Nova,
    refusals: &Refusals,
    ground: Ground,
) -> Result<View, openstack_client::Error> {
    let id = object
        .status
        .as_ref()
        .and_then(|status| status.service_id.as_deref());
    let host = nova.host(id, &object.name_any(), ground.now).await?;
    let mut view = untold(object, host, ground);
    if !view.spec.lifecycle_enabled {
        return Ok(view);
    }
    let onboarding = view.before.onboarding.clone().unwrap_or_default();
    let leaving = view.leaving();
    placement(nova, &mut view, leaving).await?;
    let failed = match &view.nova.service {
        Found::One(service) if failover::applies(&view.spec) => {
            matches!(failover::judge(&view, service), Verdict::Off(_))
        }
        _ => false,
    };
    if failed && let Found::One(service) = &view.nova.service {
        view.moves = nova.fleet.moves_from(&service.host).await?;
    }
    if leaving || failed || view.spec.maintenance != Maintenance::None {
        let host = match &view.nova.service {
            Found::One(service) => Some(service.host.clone()),
            // Servers of a host whose service is gone are still on that host.
            _ => view.before.host.clone(),
        };
        view.guests = match host {
            Some(host) => Some(nova.fleet.guests_on(&host).await?),
            None => Some(Vec::new()),
        };
    }
    if let (true, Some(provider), Some(guests)) = (failed, &view.placement.provider, &view.guests) {
        view.no_room = no_room(nova, provider, guests).await?;
    }
    for server in reactions::concerned(&view) {
        view.troubled.extend(nova.fleet.guest(&server).await?);
    }
    let concerned = view.troubled.iter().chain(view.guests.iter().flatten());
    view.refused = refusals.take(concerned.map(|guest| guest.id.as_str()));
    tests(nova, &mut view).await?;
    let settled =
        matches!(onboarding.phase, OnboardingPhase::Testing) && view.spec.maintenance == Maintenance::None;
    if settled && !leaving {
        view.bed = Some(nova.fleet.test_bed(names::TEST).await?);
        if let Some(first) = view.tests.first().filter(|first| first.status == "ACTIVE") {
            view.console = nova.fleet.console_of(&first.id).await?;
        }
    }
    // Test servers are ours: no one else has to be moved for them.
    if let Some(guests) = &mut view.guests {
        guests.retain(|guest| !view.tests.iter().any(|test| test.id == guest.id));
    }
    Ok(view)
}

async fn placement(nova: &Nova, view: &mut View, leaving: bool) -> Result<(), openstack_client::Error> {
    let provider = view
        .nova
        .provider
        .clone()
        .or_else(|| view.before.hypervisor_id.clone());
    let Some(provider) = provider else {
        return Ok(());
    };
    let traits = nova.fleet.provider_traits(&provider).await?;
    let inventories = match &traits {
        Some(_) => nova.fleet.provider_inventories(&provider).await?,
        None => None,
    };
    let consumers = match (leaving, &traits) {
        (true, Some(_)) => nova.fleet.consumers(&provider).await?,
        _ => BTreeMap::new(),
    };
    view.placement = PlacementView {
        provider: Some(provider),
        traits,
        inventories,
        consumers: consumers.into_iter().collect(),
    };
    Ok(())
}

/// By their exact name, and by the id that was stored.
async fn tests(nova: &Nova, view: &mut View) -> Result<(), openstack_client::Error> {
    let stored = view
        .before
        .onboarding
        .as_ref()
        .and_then(|one| one.test_server.clone());
    let mut found: Vec<Guest> = nova.fleet.guests_named(&names::test_server(&view.uid)).await?;
    if let Some(id) = stored.filter(|id| found.iter().all(|guest| guest.id != *id)) {
        found.extend(nova.fleet.guest(&id).await?);
    }
    found.sort_by(|a, b| a.id.cmp(&b.id));
    view.tests = found;
    Ok(())
}
