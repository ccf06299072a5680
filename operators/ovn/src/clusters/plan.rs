//! Pure. What should be there.

use std::collections::BTreeMap;

use c5c3_api::ovn::{OvnChassis, OvnCluster};
use c5c3_kit::kinds::Key;
use c5c3_kit::{Decision, HOME, Kind, Reference, Wanted};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{Secret, Service, VolumeResourceRequirements};
use kube::ResourceExt;

use super::{Action, Facts};
use crate::authority::Data;
use crate::build::database::{self, Reach};
use crate::build::{NODE_TLS, Tls, agents, northd, remotes};
use crate::chassis::{self, Chassis, Unfit};
use crate::error::Error;
use crate::names::{Names, Side};
use crate::view::ASK;

/// What the Secret of the certificates must hold.
const KEYS: [&str; 3] = ["tls.crt", "tls.key", "ca.crt"];

pub(super) fn decide(cluster: &OvnCluster, facts: &Facts, now: Timestamp) -> Result<Decision<Action>, Error> {
    let place = super::place(cluster);
    let names = Names::of(cluster);
    names.check(cluster)?;
    let tls = tls(cluster, facts)?;
    let mut wanted = own_certificates(cluster, facts);
    let southbound_tls = Tls {
        trusts: facts.trusts_of_southbound().filter(|_| tls.secret.is_some()),
        ..tls.clone()
    };
    for side in Side::BOTH {
        shrinks(cluster, facts, side)?;
        switches(cluster, facts, side)?;
        let formed = facts.formed.contains(&side) || facts.ready_members(&names, side) > 0;
        wanted.push(Wanted::of(&database::state(cluster, side, formed)));
        let reach = match side {
            Side::Southbound if place != HOME => Reach::Outside,
            _ => Reach::Inside,
        };
        wanted.extend(database::services(cluster, side, reach).iter().map(Wanted::of));
        wanted.extend(database::budget(cluster, side).iter().map(Wanted::of));
        let tls = match side {
            Side::Northbound => &tls,
            Side::Southbound => &southbound_tls,
        };
        wanted.push(Wanted::of(&members(cluster, facts, side, tls)));
    }
    let (Some(northbound), Some(southbound)) = (
        endpoint(cluster, facts, Side::Northbound),
        endpoint(cluster, facts, Side::Southbound),
    ) else {
        // Without addresses nobody can be told where the databases are; what runs goes on.
        return Ok(Decision::only(wanted));
    };
    wanted.push(Wanted::of(&northd::deployment(
        cluster,
        &northbound,
        &southbound,
        &tls,
    )));

    if facts.away.is_some() {
        let chassis = facts.chassis.iter();
        let chassis = chassis.map(|name| Kind::of::<OvnChassis>().named(Some(&names.namespace), name));
        let kept = facts.elsewhere.iter().cloned().chain(chassis);
        return Ok(kept.fold(Decision::want(wanted), Decision::keep));
    }
    let (fit, _) = hypervisors(facts);
    let gateways = gateways(&fit);
    for (node, chassis) in &fit {
        let mut object = OvnChassis::new(node, chassis.spec.clone());
        object.metadata = names.meta((*node).clone(), "chassis");
        wanted.push(Wanted::of(&object));
    }
    let by_node: BTreeMap<String, String> = fit
        .iter()
        .map(|(node, chassis)| {
            let gateway = gateways.contains(&node.as_str());
            (node.clone(), chassis::settings(chassis, &southbound, gateway))
        })
        .collect();
    let mut remote = Tls {
        secret: tls.secret.as_ref().map(|_| names.hypervisors(cluster)),
        ..tls.clone()
    };
    let mut there = vec![Wanted::of(&agents::settings(cluster, by_node))];
    if let Some(data) = facts
        .hypervisors
        .as_ref()
        .filter(|_| tls.secret.is_some() && place != HOME)
    {
        remote.secret = Some(names.suffixed(NODE_TLS));
        let used = data.iter().filter(|(key, _)| KEYS.contains(&key.as_str()));
        let used: Data = used.map(|(key, value)| (key.clone(), value.clone())).collect();
        there.push(Wanted::of(&Secret {
            metadata: names.meta(names.suffixed(NODE_TLS), "chassis"),
            data: Some(used),
            ..Secret::default()
        }));
    }
    there.push(Wanted::of(&agents::switch(cluster)));
    there.push(Wanted::of(&agents::controller(cluster, &remote)));
    wanted.extend(there.into_iter().map(|object| object.in_cluster(place.clone())));
    let (kept, actions) = in_databases(cluster, facts, &fit, now);
    let decision = Decision::want(wanted).act(actions);
    Ok(kept.into_iter().fold(decision, Decision::keep))
}

/// A chassis goes from the database first, and only then the object by which we know of it. While
/// ovn-controller still runs there, it would come back.
fn in_databases(
    cluster: &OvnCluster,
    facts: &Facts,
    fit: &BTreeMap<String, Chassis>,
    now: Timestamp,
) -> (Vec<Reference>, Vec<Action>) {
    let key = Key::of(cluster);
    let (mut kept, mut actions) = (Vec::new(), Vec::new());
    let gone = facts.chassis.iter().filter(|name| !fit.contains_key(*name));
    for name in gone {
        let registered = facts.view.chassis.as_ref().map(|all| all.contains_key(name));
        if registered == Some(false) {
            continue;
        }
        kept.push(Kind::of::<OvnChassis>().named(key.namespace.as_deref(), name));
        if registered == Some(true) && !facts.controller_on(name) {
            actions.push(Action::Remove {
                cluster: key.clone(),
                chassis: name.clone(),
            });
        }
    }
    let due = facts
        .view
        .asked
        .is_some_and(|asked| asked.is_none_or(|at| now.duration_since(at) >= ASK));
    if due && facts.view.chassis.as_ref().is_some_and(|all| !all.is_empty()) {
        actions.push(Action::Ask { cluster: key });
    }
    (kept, actions)
}

/// The chassis that carry routers: those with a way out. Of two, each takes itself for cut off when it
/// hears no other and gives its routers up, so one of them is enough.
pub(super) fn gateways(fit: &BTreeMap<String, Chassis>) -> Vec<&str> {
    let able = fit
        .iter()
        .filter(|(_, chassis)| !chassis.spec.bridge_mappings.is_empty());
    let mut able: Vec<&str> = able.map(|(node, _)| node.as_str()).collect();
    if able.len() == 2 {
        able.truncate(1);
    }
    able
}

/// Every selected Node as a chassis, and those that cannot be one.
pub(super) fn hypervisors(facts: &Facts) -> (BTreeMap<String, Chassis>, Vec<Unfit>) {
    let mut fit = BTreeMap::new();
    let mut unfit = Vec::new();
    for node in &facts.nodes {
        match chassis::of_node(node) {
            Ok(chassis) => {
                fit.insert(node.name_any(), chassis);
            }
            Err(error) => unfit.push(error),
        }
    }
    (fit, unfit)
}

/// With TLS on, both Secrets have what programs need, or it is said what is missing.
fn tls(cluster: &OvnCluster, facts: &Facts) -> Result<Tls, Error> {
    let spec = &cluster.spec.tls;
    if !spec.enabled {
        return Ok(Tls {
            protocol: protocol(cluster),
            ..Tls::default()
        });
    }
    if let (Some(alone), None) = (&spec.hypervisor_secret_ref, &spec.cert_secret_ref) {
        return Err(Error::HypervisorsAlone(alone.name.clone()));
    }
    let names = Names::of(cluster);
    let (name, _) = names.certificates(cluster);
    whole("certSecretRef", &name, facts.certificates.as_ref())?;
    let hypervisors = names.hypervisors(cluster);
    whole("hypervisorSecretRef", &hypervisors, facts.hypervisors.as_ref())?;
    Ok(Tls {
        protocol: protocol(cluster),
        secret: Some(name),
        trusts: None,
    })
}

fn whole(field: &'static str, secret: &str, data: Option<&Data>) -> Result<(), Error> {
    let secret = secret.to_owned();
    let Some(data) = data else {
        return Err(Error::SecretMissing { field, secret });
    };
    let lacks = |key: &&str| data.get(*key).is_none_or(|value| value.0.is_empty());
    match KEYS.into_iter().find(lacks) {
        Some(key) => Err(Error::KeyMissing { field, secret, key }),
        None => Ok(()),
    }
}

/// The authorities first: certificates without them could not be renewed.
fn own_certificates(cluster: &OvnCluster, facts: &Facts) -> Vec<Wanted> {
    let names = Names::of(cluster);
    let secret = |name: String, data: &Data| {
        Wanted::of(&Secret {
            metadata: names.meta(name, "tls"),
            data: Some(data.clone()),
            ..Secret::default()
        })
    };
    match (&facts.authorities, &facts.certificates, &facts.hypervisors) {
        (Some([own, of_hypervisors]), Some(certificates), Some(hypervisors)) => vec![
            secret(names.authority(), own),
            secret(names.hypervisor_authority(), of_hypervisors),
            secret(names.certificates(cluster).0, certificates),
            secret(names.hypervisors(cluster), hypervisors),
        ],
        _ => Vec::new(),
    }
}

fn protocol(cluster: &OvnCluster) -> &'static str {
    if cluster.spec.tls.enabled { "ssl" } else { "tcp" }
}

fn shrinks(cluster: &OvnCluster, facts: &Facts, side: Side) -> Result<(), Error> {
    let set = facts.sets.get(&Names::of(cluster).set(side));
    let there = set.and_then(|set| set.spec.replicas).unwrap_or(0);
    let wished = side.spec(cluster).replicas;
    if wished < there {
        Err(Error::CannotShrink { side, wished, there })
    } else {
        Ok(())
    }
}

/// How members talk to each other is in the file of each. One alone writes its file anew.
fn switches(cluster: &OvnCluster, facts: &Facts, side: Side) -> Result<(), Error> {
    let Some(set) = facts.sets.get(&Names::of(cluster).set(side)) else {
        return Ok(());
    };
    let containers = set.spec.template.spec.iter().flat_map(|pod| &pod.containers);
    let mut variables = containers.flat_map(|container| container.env.iter().flatten());
    let spoken = variables.find(|variable| variable.name == database::PROTOCOL);
    let Some(spoken) = spoken.and_then(|variable| variable.value.as_deref()) else {
        return Ok(());
    };
    let several = side.spec(cluster).replicas.max(set.spec.replicas.unwrap_or(1)) > 1;
    if several && spoken != protocol(cluster) {
        let enabled = !cluster.spec.tls.enabled;
        return Err(Error::CannotSwitch { side, enabled });
    }
    Ok(())
}

/// What a StatefulSet says of its volumes cannot change later.
fn members(cluster: &OvnCluster, facts: &Facts, side: Side, tls: &Tls) -> StatefulSet {
    let mut set = database::members(cluster, side, tls);
    let live = facts.sets.get(&Names::of(cluster).set(side));
    let size = |set: &StatefulSet| {
        let claim = set.spec.volume_claim_templates.as_ref()?.first()?;
        let requests = claim.spec.as_ref()?.resources.as_ref()?.requests.as_ref()?;
        requests.get("storage").cloned()
    };
    if let Some(first) = live.and_then(size) {
        let claims = set.spec.volume_claim_templates.iter_mut().flatten();
        for spec in claims.filter_map(|claim| claim.spec.as_mut()) {
            spec.resources = Some(VolumeResourceRequirements {
                requests: Some([("storage".to_owned(), first.clone())].into()),
                ..VolumeResourceRequirements::default()
            });
        }
    }
    set
}

/// Where clients find the database, when all of its addresses are known.
pub(super) fn endpoint(cluster: &OvnCluster, facts: &Facts, side: Side) -> Option<String> {
    let mut found = Vec::new();
    for (name, port) in database::addressed(cluster, side) {
        found.push((address(facts.services.get(&name)?)?, port));
    }
    let found = found.iter().map(|(address, port)| (address, *port));
    Some(remotes(protocol(cluster), found))
}

/// A number: programs of OVS are slow with names, and some do without.
fn address(service: &Service) -> Option<String> {
    let spec = service.spec.as_ref()?;
    if spec.type_.as_deref() == Some("LoadBalancer") {
        let ingress = service
            .status
            .as_ref()?
            .load_balancer
            .as_ref()?
            .ingress
            .as_ref()?;
        return ingress.iter().find_map(|one| one.ip.clone());
    }
    spec.cluster_ip
        .clone()
        .filter(|address| !address.is_empty() && address != "None")
}
