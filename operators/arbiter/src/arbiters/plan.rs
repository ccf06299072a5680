//! What is reserved, applied and removed, from what was read. Pure.

use std::fmt;
use std::net::IpAddr;
use std::time::Duration;

use c5c3_api::ceph::{ArbiterServiceType, RemoteArbiter};
use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::fields;
use c5c3_kit::ownership::Owner;
use c5c3_kit::rewritten::still;
use k8s_openapi::api::core::v1::Pod;
use kube::ResourceExt;
use serde_json::Value;

use super::NAME;
use super::build::{self, JOINED_AS, LONGEST, Material};
use super::endpoints::{Address, V1, V2, mon_host};
use super::facts::{Facts, Live, ceph_namespace};
use super::mon_ids::{self, Change};
use crate::error::Error;
use crate::remote::{Kind, Way, reference};

/// On a CephCluster: other namespaces whose arbiters may have the key of its monitors, with commas.
pub(crate) const LETS_IN: &str = "ceph.c5c3.io/arbiters-from";
/// How long a monitor that is being deleted stays, so that the others can remove it from their map: if
/// it vanished, they might lose their majority.
pub(crate) const FAREWELL: Duration = Duration::from_secs(120);

/// So long it takes until the readiness of a pod that was just made says something.
pub(super) const PROBED: Duration = Duration::from_secs(15);

/// What is done outside of the kit.
#[derive(Clone, PartialEq)]
pub(crate) enum Action {
    /// Who is who in the CephCluster.
    Name(Change),
    Apply {
        way: Way,
        kind: Kind,
        name: String,
        object: Value,
    },
    Delete {
        way: Way,
        kind: Kind,
        name: String,
        uid: String,
    },
}

/// Without the object, which may be a Secret.
impl fmt::Debug for Action {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Action::Name(change) => write!(f, "name {} in {}", change.told(), change.cluster),
            Action::Apply { kind, name, .. } => write!(f, "apply {kind} {name}"),
            Action::Delete { kind, name, .. } => write!(f, "delete {kind} {name}"),
        }
    }
}

/// The one thing that is waited for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Waits {
    /// For the other cluster.
    Remote(String),
    /// For Ceph at home.
    Ceph(String),
    /// For the name, which is told in the status before anything bears it.
    Name,
    Address(String),
    /// For the pod.
    Pod(String),
    Quorum(String),
}

#[derive(Debug, Default)]
pub(crate) struct Plan {
    pub mon_id: Option<String>,
    pub actions: Vec<Action>,
    pub waits: Option<Waits>,
    pub refused: Option<Error>,
    /// Of one under deletion: what is still there.
    pub left: Vec<String>,
}

impl Plan {
    fn waiting(mut self, waits: Waits) -> Self {
        self.waits = Some(waits);
        self
    }

    fn refusing(mut self, error: Error) -> Self {
        self.refused = Some(error);
        self
    }
}

/// `leaving`: for how long it has been under deletion.
pub(super) fn plan(arbiter: &RemoteArbiter, facts: &Facts, leaving: Option<Duration>) -> Plan {
    let Some(owner) = Owner::of(NAME, arbiter) else {
        return Plan::default();
    };
    let held = facts
        .ceph
        .as_ref()
        .and_then(|ceph| mon_ids::held(ceph, &owner.uid));
    match leaving {
        Some(since) => farewell(arbiter, facts, &owner, held, since),
        None => stay(arbiter, facts, &owner, held),
    }
}

fn stay(arbiter: &RemoteArbiter, facts: &Facts, owner: &Owner, held: Option<String>) -> Plan {
    let told = arbiter
        .status
        .as_ref()
        .and_then(|status| status.mon_id.as_deref());
    let plan = Plan {
        // Without the CephCluster nobody else knows it.
        mon_id: match facts.ceph {
            Some(_) => held.clone(),
            None => told.map(str::to_owned),
        },
        ..Plan::default()
    };
    let name = arbiter.name_any();
    if !is_label(&name) {
        return plan.refusing(Error::NameNotUsable {
            name,
            longest: LONGEST,
        });
    }
    if let Some(why) = &facts.away {
        return plan.waiting(Waits::Remote(why.clone()));
    }
    let (ceph, fsid, image, keyring) = match ingredients(arbiter, facts, held.is_some()) {
        Ok(all) => all,
        Err(why) => return plan.waiting(Waits::Ceph(why)),
    };
    let (Some(way), Some(live)) = (&facts.way, &facts.live) else {
        return plan.waiting(Waits::Remote("it has not been checked yet".to_owned()));
    };
    let Some(id) = held.filter(|id| mon_ids::listed(ceph).contains(id)) else {
        return named(plan, arbiter, facts, ceph, owner, None);
    };
    // A name that nobody knows of would be left behind.
    if told != Some(id.as_str()) {
        return plan.waiting(Waits::Name);
    }
    if let Some((kind, live, stranger)) = strangers(owner, live).next() {
        let object = format!("{kind} {}/{}", way.to, text(live, "/metadata/name"));
        return plan.refusing(Error::NotOwned {
            object,
            owner: stranger,
        });
    }
    let hosts = mon_host(&facts.mons, &id);
    let material = Material {
        arbiter,
        namespace: &way.to,
        id: &id,
        fsid,
        image,
        keyring,
        mon_host: &hosts,
        config: &facts.config,
    };
    let mut plan = plan;
    let mut wanted = vec![
        (Kind::Secret, material.secret()),
        (Kind::ConfigMap, material.config_map()),
        (Kind::Service, material.service()),
    ];
    let address = match address(arbiter, live) {
        Ok(address) => address,
        Err(error) => return plan.refusing(error),
    };
    match address {
        Some(address) if moved(live, &id, &address) => {
            return named(plan, arbiter, facts, ceph, owner, Some(id));
        }
        Some(address) => wanted.push((Kind::Deployment, material.deployment(&address))),
        None => plan.waits = Some(Waits::Address(unaddressed(arbiter))),
    }
    for (kind, mut object) in wanted {
        owner.mark(&mut object, false);
        let name = build::name(arbiter);
        let to = reference(way, kind, &name);
        let same = live.objects.get(&kind).is_some_and(|there| {
            !fields::differs(&object, there, NAME, None) || live.sent.holds(&to, &object, &still(there))
        });
        if !same {
            plan.actions.push(Action::Apply {
                way: way.clone(),
                kind,
                name,
                object,
            });
        }
    }
    if plan.waits.is_none() {
        plan.waits = running(&plan, facts, live, &id);
    }
    plan
}

/// What the monitor is made of; an error says what Ceph lacks.
fn ingredients<'a>(
    arbiter: &RemoteArbiter,
    facts: &'a Facts,
    runs: bool,
) -> Result<(&'a CephCluster, &'a str, &'a str, &'a str), String> {
    let (namespace, name) = (ceph_namespace(arbiter), &arbiter.spec.ceph_cluster.name);
    let lacks = |what: &str| Err(format!("CephCluster {namespace}/{name} {what}"));
    let Some(ceph) = &facts.ceph else {
        return lacks("is missing: create it");
    };
    let own = arbiter.namespace().unwrap_or_default();
    let lets_in = ceph.annotations().get(LETS_IN);
    let lets_in = |from: &str| lets_in.is_some_and(|all| all.split(',').any(|one| one.trim() == from));
    if own != namespace && !lets_in(&own) {
        return lacks(&format!(
            "does not share its key with arbiters of namespace {own}: annotate it with {LETS_IN}: {own}"
        ));
    }
    let status = ceph.status.clone().unwrap_or_default();
    // One that runs goes on while Ceph has its troubles: for these it is there.
    if !runs && status.state.as_deref() != Some("Created") {
        let why = status.message.unwrap_or_else(|| "it begins".to_owned());
        return lacks(&format!("is not ready: {why}"));
    }
    let status = ceph.status.as_ref();
    let fsid = status.and_then(|status| status.ceph.as_ref()?.fsid.as_deref());
    let Some(fsid) = fsid.filter(|fsid| !fsid.is_empty()) else {
        return lacks("does not report its fsid yet");
    };
    let image = status.and_then(|status| status.version.as_ref()?.image.as_deref());
    let asked = ceph.spec.ceph_version.as_ref();
    let Some(image) = image.or_else(|| asked.and_then(|version| version.image.as_deref())) else {
        return lacks("does not report its image yet");
    };
    let Some(keyring) = &facts.keyring else {
        return lacks("has no key of its monitors in Secret rook-ceph-mons-keyring");
    };
    if facts.mons.is_empty() {
        return lacks("has no monitors in ConfigMap rook-ceph-mon-endpoints");
    }
    Ok((ceph, fsid, image, keyring))
}

/// Takes a name: the one with our mark again, or the first that is free. `goes` cannot be used any more.
fn named(
    plan: Plan,
    arbiter: &RemoteArbiter,
    facts: &Facts,
    ceph: &CephCluster,
    owner: &Owner,
    goes: Option<String>,
) -> Plan {
    let known: Vec<String> = facts.mons.keys().cloned().collect();
    let prefix = &arbiter.spec.mon_id_prefix;
    let id = match (&plan.mon_id, &goes) {
        (Some(held), None) => Some(held.clone()),
        _ => mon_ids::free(ceph, prefix, &known, goes.as_deref()),
    };
    let Some(id) = id else {
        return plan.refusing(Error::NoMonIdLeft {
            prefix: prefix.clone(),
            ceph: ceph.name_any(),
        });
    };
    let mark = format!("{} {}", owner.uid, owner.key);
    let mut plan = plan.waiting(Waits::Name);
    plan.actions
        .push(Action::Name(mon_ids::reserve(ceph, &id, mark, goes)));
    plan
}

fn strangers<'a>(owner: &'a Owner, live: &'a Live) -> impl Iterator<Item = (Kind, &'a Value, String)> {
    live.objects
        .iter()
        .filter_map(|(kind, live)| Some((*kind, live, owner.stranger(live)?)))
}

/// Where others reach the monitor; `None` while the Service has no address.
fn address(arbiter: &RemoteArbiter, live: &Live) -> Result<Option<Address>, Error> {
    let service = live.objects.get(&Kind::Service);
    let spec = &arbiter.spec.service;
    let ip = match (spec.type_, &spec.node_ip) {
        (ArbiterServiceType::NodePort, None) => return Err(Error::NodeAddressMissing),
        (ArbiterServiceType::NodePort, Some(ip)) => Some(ip.clone()),
        (ArbiterServiceType::ClusterIP, _) => service.map(|one| text(one, "/spec/clusterIP").to_owned()),
        (ArbiterServiceType::LoadBalancer, _) => service.map(|one| {
            let ingress = one
                .pointer("/status/loadBalancer/ingress")
                .and_then(Value::as_array);
            let mut ips = ingress.into_iter().flatten().map(|one| text(one, "/ip"));
            ips.find(|ip| !ip.is_empty()).unwrap_or_default().to_owned()
        }),
    };
    let Some(ip) = ip.and_then(|ip| ip.parse::<IpAddr>().ok()) else {
        return Ok(None);
    };
    if spec.type_ != ArbiterServiceType::NodePort {
        return Ok(Some(Address { ip, v2: V2, v1: V1 }));
    }
    let port = |number: u16| {
        let ports = service?.pointer("/spec/ports")?.as_array()?;
        let of = ports.iter().find(|port| port["port"] == number)?;
        u16::try_from(of["nodePort"].as_u64()?).ok()
    };
    Ok(port(V2).zip(port(V1)).map(|(v2, v1)| Address { ip, v2, v1 }))
}

fn unaddressed(arbiter: &RemoteArbiter) -> String {
    let kind = arbiter.spec.service.type_;
    format!(
        "the Service {} of type {kind:?} has no address yet",
        build::name(arbiter)
    )
}

/// A monitor keeps the address with which it joined; with another it has to be another monitor.
fn moved(live: &Live, id: &str, address: &Address) -> bool {
    let deployment = live.objects.get(&Kind::Deployment);
    let annotations = deployment.and_then(|one| one.pointer("/metadata/annotations"));
    let joined = annotations.and_then(|all| all.get(JOINED_AS)?.as_str());
    joined
        .and_then(|text| text.split_once(' '))
        .is_some_and(|(joined, at)| joined == id && at != address.to_string())
}

/// How far the pod is; `None` when the monitor is in the quorum.
fn running(plan: &Plan, facts: &Facts, live: &Live, id: &str) -> Option<Waits> {
    let applied = |action: &Action| matches!(action, Action::Apply { kind, .. } if *kind == Kind::Deployment);
    if plan.actions.iter().any(applied) {
        return Some(Waits::Pod("the Deployment is being applied".to_owned()));
    }
    let deployment = live.objects.get(&Kind::Deployment)?;
    let number = |path: &str| deployment.pointer(path).and_then(Value::as_i64).unwrap_or(0);
    if number("/status/observedGeneration") < number("/metadata/generation")
        || number("/status/updatedReplicas") < 1
    {
        return Some(Waits::Pod("the Deployment is being rolled out".to_owned()));
    }
    let Some(pod) = live.pod() else {
        return Some(Waits::Pod("there is no pod yet".to_owned()));
    };
    if let Some(why) = trouble(pod) {
        return Some(Waits::Pod(why));
    }
    if !is_ready(pod) {
        let pod = pod.name_any();
        return Some(Waits::Quorum(format!(
            "mon.{id} in pod {pod} is not in the quorum: it has not joined yet, or has lost it"
        )));
    }
    let missed = facts.out_of_quorum.iter().any(|out| out == id);
    missed.then(|| Waits::Quorum(format!("the other monitors have lost mon.{id}")))
}

/// In its pod's readiness stands whether the monitor is in the quorum.
pub(super) fn is_ready(pod: &Pod) -> bool {
    let conditions = pod.status.as_ref().and_then(|status| status.conditions.as_ref());
    conditions.is_some_and(|all| all.iter().any(|one| one.type_ == "Ready" && one.status == "True"))
}

/// Why its container does not run.
fn trouble(pod: &Pod) -> Option<String> {
    let name = pod.name_any();
    let Some(status) = &pod.status else {
        return Some(format!("pod {name} was just created"));
    };
    let unscheduled = status.conditions.iter().flatten();
    let unscheduled = unscheduled
        .into_iter()
        .find(|one| one.type_ == "PodScheduled" && one.status == "False");
    if let Some(condition) = unscheduled {
        let why = condition.message.clone().unwrap_or_default();
        return Some(format!("pod {name} is not scheduled: {why}"));
    }
    let container = status.container_statuses.iter().flatten().next();
    let state = container.and_then(|container| container.state.as_ref());
    match state {
        Some(state) if state.running.is_some() => None,
        Some(state) => {
            let waiting = state.waiting.clone().unwrap_or_default();
            let said = [waiting.reason, waiting.message].into_iter().flatten();
            let said: Vec<String> = said.collect();
            let said = if said.is_empty() {
                "it ended".to_owned()
            } else {
                said.join(": ")
            };
            Some(format!("pod {name} is not running: {said}"))
        }
        None => Some(format!("pod {name} is starting")),
    }
}

/// Gives the name back, waits until the others have let the monitor go, and removes what was made.
fn farewell(
    arbiter: &RemoteArbiter,
    facts: &Facts,
    owner: &Owner,
    held: Option<String>,
    since: Duration,
) -> Plan {
    // Nothing bears a name that was not told before.
    let told = arbiter.status.as_ref().and_then(|status| status.mon_id.clone());
    let id = held.clone().or(told);
    let mut plan = Plan {
        // By it the next look knows that there is something in a cluster that does not answer.
        mon_id: id.clone(),
        ..Plan::default()
    };
    if let (Some(id), Some(ceph)) = (&held, &facts.ceph) {
        plan.actions.push(Action::Name(mon_ids::release(ceph, id)));
        plan.left
            .push(format!("the name {id} in CephCluster {}", ceph.name_any()));
    }
    let place = facts.way.as_ref().map(|way| way.to.clone()).unwrap_or_default();
    let Some((live, way)) = facts.live.as_ref().zip(facts.way.as_ref()) else {
        if let Some(id) = id {
            let why = facts.away.clone().unwrap_or_default();
            let name = build::name(arbiter);
            plan.left.push(format!(
                "mon.{id}: Deployment, Service, ConfigMap and Secret {place}/{name} in the other cluster, which cannot be reached ({why})"
            ));
        }
        return plan;
    };
    let serves = |pod: &Pod| is_ready(pod) || since < PROBED;
    let serves = facts.ceph.is_some() && live.pod().is_some_and(serves);
    let stays = (held.is_some() || serves) && since < FAREWELL;
    // The Deployment first: what the monitor reads goes after it.
    for kind in Kind::ALL.into_iter().rev() {
        let Some(object) = live
            .objects
            .get(&kind)
            .filter(|one| owner.stranger(one).is_none())
        else {
            continue;
        };
        let name = build::name(arbiter);
        plan.left
            .push(format!("{kind} {place}/{name} in the other cluster"));
        let going = object.pointer("/metadata/deletionTimestamp").is_some();
        if !stays && !going {
            plan.actions.push(Action::Delete {
                way: way.clone(),
                kind,
                name,
                uid: text(object, "/metadata/uid").to_owned(),
            });
        }
    }
    plan
}

fn text<'a>(value: &'a Value, path: &str) -> &'a str {
    value.pointer(path).and_then(Value::as_str).unwrap_or_default()
}

fn is_label(name: &str) -> bool {
    let letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    name.len() <= LONGEST
        && name.starts_with(|first: char| first.is_ascii_lowercase())
        && name.bytes().all(letter)
}
