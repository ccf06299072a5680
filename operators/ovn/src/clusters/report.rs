//! Pure. How things are.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::common::LocalRef;
use c5c3_api::conditions::ovn::{CONTROLLERS_READY, NORTHBOUND_READY, SOUTHBOUND_READY};
use c5c3_api::conditions::reason;
use c5c3_api::ovn::{OvnClientSecrets, OvnCluster, OvnClusterStatus, OvnEndpoints, RaftMember, RaftRole};
use c5c3_kit::conditions::{State, Truth};
use c5c3_kit::{Kind, Reference, Report, States};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Node, Pod, Secret};
use kube::ResourceExt;

use super::Facts;
use super::plan::{endpoint, gateways, hypervisors};
use crate::build::{agents, northd};
use crate::chassis::Chassis;
use crate::names::{Names, Side};

/// Addresses of Services come with the Services, and what we write ourselves brings no pass.
const ADDRESSES: Duration = Duration::from_secs(1);
/// A little more than chassis have to answer.
const LOOK: Duration = Duration::from_secs(5 * 60 + 5);
const AWAY: Duration = Duration::from_secs(15);
const CERTIFICATES: Duration = Duration::from_secs(6 * 3600);
const DEGRADED: &str = "Degraded";

pub(super) fn report(cluster: &OvnCluster, facts: &Facts, now: Timestamp) -> Report {
    let names = Names::of(cluster);
    let [northbound, southbound] = Side::BOTH.map(|side| endpoint(cluster, facts, side));
    let addressed = northbound.is_some() && southbound.is_some();
    let states = States::default()
        .with(
            NORTHBOUND_READY,
            members(cluster, facts, &names, Side::Northbound),
        )
        .with(SOUTHBOUND_READY, southbound_state(cluster, facts, &names))
        .with(CONTROLLERS_READY, controllers(cluster, facts, &names, addressed))
        .because_of(
            NORTHBOUND_READY,
            Some(behind(cluster, facts, &names, Side::Northbound)),
        )
        .because_of(SOUTHBOUND_READY, Some(behind_southbound(cluster, facts, &names)))
        .because_of(
            CONTROLLERS_READY,
            behind_controllers(cluster, facts, &names, addressed),
        );
    let known = facts.view.chassis.as_ref();
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    // While the database is not reached, what it said last holds.
    let before = cluster.status.clone().unwrap_or_default();
    let status = OvnClusterStatus {
        endpoints: Some(OvnEndpoints {
            northbound,
            southbound,
        }),
        client_secrets: client_secrets(cluster, facts, &names),
        chassis_count: known.map(|all| count(all.len())).or(before.chassis_count),
        active_controllers: known
            .map(|all| count(all.values().filter(|one| one.lives(now)).count()))
            .or(before.active_controllers),
        northbound_members: roles(cluster, facts, &names, Side::Northbound),
        southbound_members: roles(cluster, facts, &names, Side::Southbound),
        ..OvnClusterStatus::default()
    };
    let report = Report::new(states).status(&status);
    // For silence of a chassis there is no news.
    let awaits_answers = !facts.nodes.is_empty();
    if !addressed {
        report.again_in(ADDRESSES)
    } else if facts.away.is_some() {
        // No watch tells when another cluster answers again.
        report.again_in(AWAY)
    } else if awaits_answers {
        report.again_in(LOOK)
    } else if facts.authorities.is_some() {
        // A certificate comes to its end without news too.
        report.again_in(CERTIFICATES)
    } else {
        report
    }
}

/// Once they are there.
fn client_secrets(cluster: &OvnCluster, facts: &Facts, names: &Names) -> Option<OvnClientSecrets> {
    let there = facts.certificates.is_some() && facts.hypervisors.is_some();
    (cluster.spec.tls.enabled && there).then(|| OvnClientSecrets {
        control_plane: LocalRef::new(names.certificates(cluster).0),
        hypervisors: LocalRef::new(names.hypervisors(cluster)),
    })
}

fn roles(cluster: &OvnCluster, facts: &Facts, names: &Names, side: Side) -> Vec<RaftMember> {
    (0..side.spec(cluster).replicas)
        .map(|ordinal| {
            let name = names.member(side, ordinal);
            let role = facts.view.roles.get(&name).copied().unwrap_or(RaftRole::Unknown);
            RaftMember { name, role }
        })
        .collect()
}

fn state(truth: Truth, reason: &str, message: String) -> State {
    State::new(truth, reason, message)
}

/// Certificates that we ourselves are not let in with are of no use to anybody else.
fn untrusted(cluster: &OvnCluster, facts: &Facts, names: &Names, side: Side) -> Option<State> {
    let why = facts.view.untrusted.get(&side)?;
    let secret = names.certificates(cluster).0;
    let said = format!(
        "TLS with the {} database fails: {why}; tls.crt of Secret {secret} has to be valid and of an authority in its ca.crt",
        side.field()
    );
    Some(state(Truth::False, reason::CERTIFICATES_NOT_ACCEPTED, said))
}

/// A database serves as long as a majority of its members does.
fn members(cluster: &OvnCluster, facts: &Facts, names: &Names, side: Side) -> State {
    if let Some(untrusted) = untrusted(cluster, facts, names, side) {
        return untrusted;
    }
    let wanted = side.spec(cluster).replicas;
    let ready = facts.ready_members(names, side);
    if ready >= wanted {
        let said = format!("{ready} of {wanted} members are ready");
        return state(Truth::True, reason::READY, said);
    }
    let trouble = trouble(facts, side.short()).unwrap_or_else(|| "they start".to_owned());
    let said = format!("{ready} of {wanted} members are ready: {trouble}");
    if ready * 2 > wanted {
        state(Truth::True, DEGRADED, format!("{said}; a majority serves"))
    } else {
        state(Truth::False, reason::PROGRESSING, said)
    }
}

/// What a database that is not ready waits for: certificates that it takes, or its members.
fn behind(cluster: &OvnCluster, facts: &Facts, names: &Names, side: Side) -> Reference {
    if facts.view.untrusted.contains_key(&side) {
        return Kind::of::<Secret>().named(None, &names.certificates(cluster).0);
    }
    Kind::of::<StatefulSet>().named(None, &names.set(side))
}

fn behind_southbound(cluster: &OvnCluster, facts: &Facts, names: &Names) -> Reference {
    match members(cluster, facts, names, Side::Southbound).truth {
        Truth::True => Kind::of::<Deployment>().named(None, &names.suffixed(northd::COMPONENT)),
        _ => behind(cluster, facts, names, Side::Southbound),
    }
}

/// The first of the two that is not on all nodes. That a cluster is away, or a node unfit, is no object's fault.
fn behind_controllers(
    cluster: &OvnCluster,
    facts: &Facts,
    names: &Names,
    addressed: bool,
) -> Option<Reference> {
    if !addressed || facts.away.is_some() || !hypervisors(facts).1.is_empty() {
        return None;
    }
    let short = |component: &&str| {
        let set = facts.daemon_sets.get(&names.suffixed(component));
        let Coverage { ready, wanted, .. } = Coverage::of(set);
        wanted == 0 || ready < wanted
    };
    let component = [agents::SWITCH, agents::CONTROLLER].into_iter().find(short)?;
    let kind = Kind::of::<DaemonSet>().in_cluster(super::place(cluster));
    Some(kind.named(None, &names.suffixed(component)))
}

/// Without northd nothing reaches the southbound database.
fn southbound_state(cluster: &OvnCluster, facts: &Facts, names: &Names) -> State {
    let members = members(cluster, facts, names, Side::Southbound);
    if members.truth != Truth::True {
        return members;
    }
    let deployment = facts.deployments.get(&names.suffixed(northd::COMPONENT));
    let ready = deployment.and_then(|found| found.status.as_ref()?.ready_replicas);
    if ready.unwrap_or(0) > 0 {
        return members;
    }
    let trouble = trouble(facts, northd::COMPONENT).unwrap_or_else(|| "it starts".to_owned());
    state(
        Truth::False,
        reason::PROGRESSING,
        format!("ovn-northd is not ready: {trouble}"),
    )
}

fn controllers(cluster: &OvnCluster, facts: &Facts, names: &Names, addressed: bool) -> State {
    if let Some(why) = &facts.away {
        return state(Truth::False, reason::UNREACHABLE, why.clone());
    }
    let (fit, unfit) = hypervisors(facts);
    if let Some(unfit) = unfit.first() {
        return state(Truth::False, reason::INVALID, unfit.to_string());
    }
    if fit.is_empty() {
        let labels = cluster.spec.controller.node_selector.iter();
        let labels: Vec<String> = labels.map(|(key, value)| format!("{key}={value}")).collect();
        let said = if labels.is_empty() {
            "there are no nodes".to_owned()
        } else {
            format!(
                "no node has the labels {} of controller.nodeSelector",
                labels.join(", ")
            )
        };
        return state(Truth::True, reason::NOT_REQUIRED, said);
    }
    if !addressed {
        let said = "the southbound database has no address yet".to_owned();
        return state(Truth::False, reason::WAITING, said);
    }
    let dead = dead(facts, &fit);
    let served = was_served(cluster);
    let mut missing = None;
    for component in [agents::SWITCH, agents::CONTROLLER] {
        let set = facts.daemon_sets.get(&names.suffixed(component));
        let Coverage {
            ready,
            updated,
            wanted,
        } = Coverage::of(set);
        if ready >= wanted && wanted > 0 {
            continue;
        }
        let who = match dead.as_slice() {
            [] => trouble(facts, component).unwrap_or_else(|| "they start".to_owned()),
            dead => format!("{} does not answer", dead.join(", ")),
        };
        let said = format!("{component}: {ready} of {wanted} pods are ready: {who}");
        // A hypervisor that is lost takes no network from the others. One that was never there, and pods
        // of an older template, are on their way.
        let lost = i32::try_from(dead.len()).unwrap_or(i32::MAX);
        let excused = ready + lost >= wanted || (served && updated + lost >= wanted);
        if ready == 0 || !excused {
            return state(Truth::False, reason::PROGRESSING, said);
        }
        missing = missing.or(Some(said));
    }
    if let Some(missing) = missing {
        return state(Truth::True, DEGRADED, format!("{missing}; the others serve"));
    }
    let said = match gateways(&fit).as_slice() {
        [] => format!("ovn-controller runs on {} nodes", fit.len()),
        named => format!(
            "ovn-controller runs on {} nodes, routers on {}",
            fit.len(),
            named.join(", ")
        ),
    };
    state(Truth::True, reason::READY, said)
}

/// The hypervisors whose Node is not Ready.
fn dead<'f>(facts: &'f Facts, fit: &BTreeMap<String, Chassis>) -> Vec<String> {
    let lost = |node: &&'f Node| {
        let status = node.status.as_ref();
        let mut told = status
            .into_iter()
            .flat_map(|status| status.conditions.iter().flatten());
        told.any(|condition| condition.type_ == "Ready" && condition.status != "True")
    };
    let nodes = facts.nodes.iter().filter(lost).map(ResourceExt::name_any);
    nodes.filter(|node| fit.contains_key(node)).collect()
}

/// All controllers were ready, or as many as could be, when it was told last.
fn was_served(cluster: &OvnCluster) -> bool {
    let status = cluster.status.as_ref();
    let mut told = status.into_iter().flat_map(|status| &status.conditions);
    told.any(|condition| condition.type_ == CONTROLLERS_READY && condition.status == "True")
}

/// On how many nodes a DaemonSet is. Numbers of an earlier generation say nothing.
#[derive(Default)]
struct Coverage {
    ready: i32,
    updated: i32,
    wanted: i32,
}

impl Coverage {
    fn of(set: Option<&DaemonSet>) -> Self {
        let told = set.and_then(|set| {
            let status = set.status.as_ref()?;
            (status.observed_generation >= set.metadata.generation).then_some(status)
        });
        told.map_or_else(Self::default, |status| Self {
            ready: status.number_ready,
            updated: status.updated_number_scheduled.unwrap_or(0),
            wanted: status.desired_number_scheduled,
        })
    }
}

/// The first pod of the component that does not get on, and what it says.
fn trouble(facts: &Facts, component: &str) -> Option<String> {
    let of = |pod: &&Pod| {
        pod.labels()
            .get("app.kubernetes.io/component")
            .map(String::as_str)
            == Some(component)
    };
    facts.pods.iter().filter(of).find_map(|pod| {
        let status = pod.status.as_ref()?;
        let unschedulable = status
            .conditions
            .iter()
            .flatten()
            .find(|condition| condition.type_ == "PodScheduled" && condition.status == "False");
        if let Some(condition) = unschedulable {
            let message = condition.message.clone().unwrap_or_default();
            return Some(format!("pod {} has no node: {message}", pod.name_any()));
        }
        let waiting = status.container_statuses.iter().flatten().find_map(|container| {
            let waiting = container.state.as_ref()?.waiting.as_ref()?;
            let reason = waiting
                .reason
                .clone()
                .filter(|reason| reason != "ContainerCreating")?;
            Some((reason, waiting.message.clone().unwrap_or_default()))
        });
        if let Some((reason, message)) = waiting {
            return Some(format!("pod {}: {reason}: {message}", pod.name_any()));
        }
        let unready = |container: &&k8s_openapi::api::core::v1::ContainerStatus| !container.ready;
        let container = status.container_statuses.iter().flatten().find(unready)?;
        Some(format!("pod {}: {} is not ready", pod.name_any(), container.name))
    })
}
