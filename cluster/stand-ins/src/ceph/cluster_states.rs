//! The conditions of a CephCluster: whether its monitors, manager and OSDs are there. Pure.

use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::States;

use super::super::fields;
use super::super::seats;
use super::super::view::View;
use super::{Facts, MANAGED, Plan, QUORUM, STORED, UNDERSTOOD};

pub(super) fn states(cluster: &CephCluster, facts: &Facts, plan: &Plan, view: Option<&View>) -> States {
    let states = daemons(cluster, facts, plan, view);
    let ignored = fields::ignored(&cluster.spec);
    if ignored.is_empty() {
        return states.met(UNDERSTOOD, "AllRun", "every field that is set is run");
    }
    let told = format!("without effect on an embedded cluster: {}", ignored.join(", "));
    states.unmet(UNDERSTOOD, "SomeIgnored", told)
}

fn daemons(cluster: &CephCluster, facts: &Facts, plan: &Plan, view: Option<&View>) -> States {
    let wanted = &facts.members;
    let states = States::default();
    let Some(view) = view else {
        let why = match &facts.view {
            Err(why) => format!("no monitor answers: {why}"),
            Ok(_) if seats::is_host(&cluster.spec) && !facts.has_addresses() => format!(
                "{} monitors need as many nodes, and only {} are ready: add nodes, or lower mon.count",
                wanted.len(),
                facts.seats.len()
            ),
            Ok(_) => "no monitor is up yet".to_owned(),
        };
        let after = "waiting for the monitors";
        return states
            .unmet(QUORUM, "NoQuorum", why)
            .unmet(MANAGED, "Waiting", after)
            .unmet(STORED, "Waiting", after);
    };
    let missing: Vec<&str> = wanted
        .iter()
        .map(String::as_str)
        .filter(|id| !view.status.quorum_names.iter().any(|name| name == id))
        .collect();
    let states = if missing.is_empty() {
        states.met(
            QUORUM,
            "InQuorum",
            format!("{} of {} monitors", wanted.len(), wanted.len()),
        )
    } else {
        states.unmet(
            QUORUM,
            "OutOfQuorum",
            out_of_quorum(&missing, facts.stuck.as_deref()),
        )
    };
    let states = if view.mgrs.available {
        states.met(MANAGED, "Available", "a manager is active")
    } else {
        states.unmet(MANAGED, "Unavailable", "no manager is active")
    };
    let down: Vec<String> = plan
        .disks
        .iter()
        .filter_map(|disk| {
            let found = disk.uuid.as_deref().and_then(|uuid| view.osd(uuid));
            match found {
                Some(osd) if osd.up == 1 => None,
                Some(osd) => Some(format!("osd.{} on {} is down", osd.osd, disk.claim)),
                None => Some(format!("the OSD on {} is being created", disk.claim)),
            }
        })
        .collect();
    if down.is_empty() {
        states.met(STORED, "AllUp", format!("{} OSDs are up", plan.disks.len()))
    } else {
        states.unmet(STORED, "SomeDown", down.join(", "))
    }
}

fn out_of_quorum(missing: &[&str], stuck: Option<&str>) -> String {
    let told = format!("mon {} is not in the quorum", missing.join(", "));
    match stuck {
        Some(id) => format!("{told}, and no other node is free for mon {id}: add a node"),
        None => told,
    }
}
