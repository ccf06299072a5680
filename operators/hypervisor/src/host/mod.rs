//! Hypervisor: one host from its first day to its last.

mod checks;
mod failover;
#[cfg(test)]
mod golden;
mod history;
mod leaving;
mod observe;
mod onboarding;
mod reactions;
mod transition;
mod unsupported;
mod upkeep;
mod view;

use std::time::Duration;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::conditions::hypervisor::{
    AGENT_REPORTING, AGGREGATES_UPDATED, EVICTING, HA_ENABLED, HOST_FAILED, HYPERVISOR_DISABLED,
    INSTANCES_WELL, OFFBOARDED, ONBOARDING, OPERATING_SYSTEM_UPDATE, OVERCOMMIT_UPDATED, TAINTED,
    TERMINATING, TLS_CERTIFICATE_INSTALLED, TRAITS_UPDATED,
};
use c5c3_api::hypervisor::{Eviction, EvictionSpec, Hypervisor, HypervisorStatus, OnboardingPhase};
use c5c3_api::ovs::OvsNode;
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Note, Observed, Part, Reader, Reference, Report, Touch,
    Wanted,
};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::ResourceExt;
use openstack_client::Class;

use crate::Error;
use crate::eviction::Refusals;
use crate::login::{CONTROL_PLANE, Clouds};
use crate::nova::{Host, Nova};
use crate::power::{self, Plugs};
use crate::pulse::{AgentView, Pulses};

pub use checks::Complaint;
pub use observe::{Ground, eviction as eviction_view, look};
pub use transition::transition;
pub use view::{Action, EvictionView, NodeView, PlacementView, Step, View};

/// How long a host that cannot be emptied is reported before its object goes anyway.
const WITHIN: Duration = Duration::from_secs(7 * 24 * 3600);

/// The controller.
#[derive(Clone, Debug)]
pub struct Hosts {
    pub clouds: Clouds,
    pub plugs: Plugs,
    pub pulses: Pulses,
    pub refusals: Refusals,
}

impl Controller for Hosts {
    type Kind = Hypervisor;
    type Facts = Facts;
    type Plan = Step;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "hypervisor";
    const PARTS: &'static [Part] = &[
        Part::required(ONBOARDING),
        Part::required(TRAITS_UPDATED),
        Part::required(AGGREGATES_UPDATED),
        Part::required(OVERCOMMIT_UPDATED),
        Part::informative(HYPERVISOR_DISABLED),
        Part::informative(EVICTING),
        Part::informative(TERMINATING),
        Part::informative(OFFBOARDED),
        Part::informative(HA_ENABLED),
        Part::informative(HOST_FAILED),
        Part::informative(INSTANCES_WELL),
        Part::informative(AGENT_REPORTING),
        Part::informative(TAINTED),
        Part::informative(OPERATING_SYSTEM_UPDATE),
        Part::informative(TLS_CERTIFICATE_INSTALLED),
    ];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "hypervisor.c5c3.io/offboarding",
        within: WITHIN,
    });

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Eviction>()]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Node>().everywhere()]
    }

    fn touches() -> Vec<Touch> {
        vec![
            Touch::of::<ControlPlane>(&["list"]),
            Touch::of::<Secret>(&["get"]),
            Touch::of::<OvsNode>(&["get"]).at_home(),
            Touch::of::<Lease>(&["list", "watch"]).at_home(),
            Touch::of::<Pod>(&["list"]),
            Touch::of::<ControlPlane>(&["list"]).in_cluster(CONTROL_PLANE),
            Touch::of::<Secret>(&["get"]).in_cluster(CONTROL_PLANE),
        ]
    }

    fn references(object: &Hypervisor) -> Vec<Reference> {
        vec![Kind::of::<Node>().named(None, &object.name_any())]
    }

    async fn observe(&self, object: &Hypervisor, reader: &Reader) -> Result<Facts, Error> {
        let name = object.name_any();
        let node: Option<Node> = reader.get_global(&name).await?;
        let eviction: Option<Eviction> = reader.get_global(&name).await?;
        let agent = self.pulses.look(&name).await;
        let mut ground = Ground {
            node: observe::node(node.as_ref()),
            fence: node.as_ref().and_then(observe::fence),
            pressure: node.as_ref().map(observe::pressure).unwrap_or_default(),
            taints: node.as_ref().map(observe::taints).unwrap_or_default(),
            power: None,
            eviction: eviction.as_ref().and_then(observe::eviction),
            complaints: complaints(object, agent, reader).await?,
            agent,
            now: Timestamp::now(),
        };
        // The controller of a host that is heard is left alone.
        let silent = matches!(ground.node, NodeView::There { ready: false, .. });
        if let Some(fencing) = object
            .spec
            .fencing
            .as_ref()
            .filter(|_| silent && failover::applies(&object.spec))
        {
            ground.power = Some(self.plugs.look(&name, &fencing.redfish, reader).await);
        }
        let address = node.as_ref().and_then(observe::address);
        let known = object
            .status
            .as_ref()
            .and_then(|status| status.service_id.as_ref());
        let nova = match self.clouds.of(reader).await {
            // Without a cloud there is nothing that a host could leave behind in it.
            Err(Error::NoLogin(_)) if object.metadata.deletion_timestamp.is_some() && known.is_none() => {
                let view = observe::untold(object, Host::default(), ground);
                return Ok(Facts { view, address });
            }
            found => found?,
        };
        let view = look(object, &nova, &self.refusals, ground).await;
        // A login that is not taken any more is read again.
        if let Err(error) = &view {
            self.clouds.failed(error);
        }
        Ok(Facts { view: view?, address })
    }

    fn plan(observed: &Observed<Self>) -> Step {
        let mut step = transition(&observed.facts.view);
        if observed.facts.address.is_some() {
            step.status.internal_ip.clone_from(&observed.facts.address);
        }
        step
    }

    fn decide(observed: &Observed<Self>, step: &Step) -> Result<Decision<Action>, Error> {
        let name = observed.object.name_any();
        let wanted = step.evict.as_ref().map(|reason| {
            let spec = EvictionSpec {
                hypervisor: name.clone(),
                reason: reason.clone(),
                ..EvictionSpec::default()
            };
            Wanted::of(&Eviction::new(&name, spec))
        });
        Ok(Decision::want(wanted).act(step.actions.clone()))
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        if let Action::PowerOff { host } = action {
            return self.plugs.cut(host).await;
        }
        let nova = self.clouds.current()?;
        let done = carry_out(&nova, action, &self.refusals).await;
        if let Err(error) = &done {
            self.clouds.failed(error);
        }
        done
    }

    fn report(observed: &Observed<Self>, step: &Step, applied: &Applied<Self>) -> Report {
        let done = applied.outcomes().iter().filter(|outcome| outcome.result.is_ok());
        let done = done.map(|outcome| (&outcome.action, said(&outcome.action)));
        let status = HypervisorStatus {
            history: history::after(&observed.facts.view, step, done),
            ..step.status.clone()
        };
        let mut report = Report::new(step.states.clone())
            .status(&status)
            .again_in(step.again)
            .left(step.left.clone());
        for note in &step.notes {
            report = report.note(note.clone());
        }
        for outcome in applied.outcomes().iter().filter(|outcome| outcome.result.is_ok()) {
            report = report.note(Note::normal("Changed", said(&outcome.action)));
        }
        report
    }
}

/// What the agents and pods of a host say that is on its way into service.
async fn complaints(object: &Hypervisor, agent: AgentView, reader: &Reader) -> Result<Vec<Complaint>, Error> {
    let status = object.status.clone().unwrap_or_default();
    let phase = status.onboarding.unwrap_or_default().phase;
    let under_way = matches!(phase, OnboardingPhase::Initial | OnboardingPhase::Testing);
    if !under_way || !object.spec.lifecycle_enabled {
        return Ok(Vec::new());
    }
    let name = object.name_any();
    let switch: Option<OvsNode> = reader.get(power::NAMESPACE, &name).await?;
    let here = format!("spec.nodeName={name}");
    let pods: Vec<Pod> = reader.list_where("app.kubernetes.io/name=nova", &here).await?;
    Ok(checks::complaints(
        &status.conditions,
        agent,
        switch.as_ref(),
        &pods,
    ))
}

/// What a pass read.
#[derive(Clone, Debug)]
pub struct Facts {
    pub view: View,
    pub address: Option<String>,
}

/// For events: what was done in Nova and Placement.
fn said(action: &Action) -> String {
    match action {
        Action::Enable { service } => format!("enabled compute service {service}"),
        Action::Disable { service, reason } => format!("disabled compute service {service}: {reason}"),
        Action::ForceDown { service, down: true } => {
            format!("forced compute service {service} down in Nova")
        }
        Action::ForceDown { service, .. } => {
            format!("ended the forced down state of compute service {service}")
        }
        Action::PowerOff { host } => format!("powered off {host} and verified that it is off"),
        Action::Restart { server } => format!("restarted server {server} on its host"),
        Action::Move { server } => format!("started moving server {server} to another host"),
        Action::Confirm { server } => format!("confirmed the move of server {server}"),
        Action::Evacuate { server } => format!("started server {server} on another host"),
        Action::Join { aggregate, host } => format!("added {host} to aggregate {aggregate}"),
        Action::Leave { aggregate, host } => format!("removed {host} from aggregate {aggregate}"),
        Action::SetTraits { provider, .. } => format!("set the traits of {provider}"),
        Action::SetInventories { provider, .. } => format!("set the allocation ratios of {provider}"),
        Action::CreateTest(draft) => format!("created test server {}", draft.name),
        Action::DeleteTest { server } => format!("deleted test server {server}"),
        Action::DeleteService { service } => format!("deleted compute service {service}"),
        Action::Release { consumer, provider } => {
            format!("deleted the allocation of {consumer} on {provider}")
        }
        Action::DeleteProvider { provider } => format!("deleted resource provider {provider}"),
    }
}

/// One server that Nova refuses must not keep the others waiting. The refusal is kept for the next look.
fn bearing(done: openstack_client::Result<()>, server: &str, refusals: &Refusals) -> Result<(), Error> {
    match done {
        Err(error) if matches!(error.class(), Class::Conflict | Class::Invalid) => {
            tracing::warn!(server, "{error}");
            refusals.keep(server, error.to_string());
            Ok(())
        }
        done => done.map_err(Error::OpenStack),
    }
}

/// One call.
pub async fn carry_out(nova: &Nova, action: &Action, refusals: &Refusals) -> Result<(), Error> {
    let fleet = &nova.fleet;
    match action {
        Action::Enable { service } => nova.enable(service).await.map_err(Error::Onboarding),
        Action::Disable { service, reason } => nova.disable(service, reason).await.map_err(Error::OpenStack),
        Action::ForceDown { service, down } => {
            let told = nova.force_down(service, *down).await;
            told.map_err(Error::OpenStack)
        }
        // Nova has no part in it.
        Action::PowerOff { .. } => Ok(()),
        Action::Restart { server } => bearing(fleet.hard_reboot(server).await, server, refusals),
        Action::Move { server } => bearing(fleet.cold_migrate(server).await, server, refusals),
        Action::Confirm { server } => bearing(fleet.confirm_migration(server).await, server, refusals),
        Action::Evacuate { server } => bearing(fleet.evacuate(server).await, server, refusals),
        Action::Join { aggregate, host } => nova.join(*aggregate, host).await.map_err(Error::Aggregates),
        Action::Leave { aggregate, host } => nova.leave(*aggregate, host).await.map_err(Error::Aggregates),
        Action::SetTraits {
            provider,
            generation,
            traits,
        } => {
            let set = fleet.set_provider_traits(provider, *generation, traits).await;
            set.map_err(Error::Traits)
        }
        Action::SetInventories {
            provider,
            generation,
            inventories,
        } => {
            let set = fleet
                .set_provider_inventories(provider, *generation, inventories)
                .await;
            set.map_err(Error::OpenStack)
        }
        Action::CreateTest(draft) => {
            let made = fleet.create_test_server(draft).await;
            made.map(drop).map_err(Error::Onboarding)
        }
        Action::DeleteTest { server } => fleet.delete_server(server).await.map_err(Error::Onboarding),
        Action::DeleteService { service } => nova.delete_service(service).await.map_err(Error::Offboarding),
        Action::Release { consumer, provider } => fleet
            .release(consumer, provider)
            .await
            .map_err(Error::Offboarding),
        Action::DeleteProvider { provider } => {
            fleet.delete_provider(provider).await.map_err(Error::Offboarding)
        }
    }
}

#[cfg(test)]
impl Hosts {
    fn parts() -> impl Iterator<Item = &'static str> {
        Self::PARTS.iter().map(|part| part.name)
    }
}
