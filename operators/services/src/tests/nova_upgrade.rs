//! Nova from one version to another: who goes first, and who starts anew when the last one has moved.

use c5c3_api::openstack::Nova;
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

type Seen = Observed<Services<Nova>>;

const OLD: &str = "32.2.1";
const NEW: &str = "33.0.0";
const NOTE: &str = "/spec/template/metadata/annotations/c5c3.io~1keeps-to";

/// All runs, in the old version.
fn running() -> Seen {
    let mut seen = observed(nova(json!({})), facts());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    take_deployments(&mut seen);
    seen.object.status = serde_json::from_value(json!({"installedRelease": OLD})).expect("a status");
    seen
}

/// Its workloads that are wanted as they are to be now, with the version that each keeps to.
fn wanted(seen: &Seen, prefix: &str) -> Vec<(String, Option<String>)> {
    let workloads = ["Deployment", "StatefulSet", "DaemonSet"];
    let all = objects(seen).into_iter().filter(|object| {
        let kind = object["kind"].as_str().unwrap_or_default();
        workloads.contains(&kind)
    });
    let named = all.filter_map(|object| {
        let name = object["metadata"]["name"].as_str()?.to_owned();
        let note = object.pointer(NOTE).and_then(Value::as_str).map(str::to_owned);
        name.starts_with(prefix).then_some((name, note))
    });
    named.collect()
}

fn names(found: &[(String, Option<String>)]) -> Vec<&str> {
    found.iter().map(|(name, _)| name.as_str()).collect()
}

/// On so many nodes the set runs its newest pods.
fn updated(seen: &mut Seen, set: &str, nodes: i32) {
    let set = seen.facts.daemon_sets.get_mut(set).expect("there");
    set.status.as_mut().expect("a status").updated_number_scheduled = Some(nodes);
}

#[test]
fn computes_are_upgraded_last_and_do_not_wait_at_first() {
    let mut seen = running();
    seen.object.spec.common.image.tag = Some(NEW.to_owned());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    let conductors = ["nova-conductor-cell1", "nova-conductor-cell2"];
    assert_eq!(names(&wanted(&seen, "nova-conductor")), conductors);
    assert_eq!(names(&wanted(&seen, "nova-scheduler")), [""; 0]);
    assert_eq!(names(&wanted(&seen, "nova-compute")), [""; 0]);
    take_deployments(&mut seen);
    assert_eq!(names(&wanted(&seen, "nova-scheduler")), ["nova-scheduler"]);
    assert_eq!(
        names(&wanted(&seen, "nova-compute")),
        [""; 0],
        "scheduler and API are not up yet"
    );
    take_deployments(&mut seen);
    assert_eq!(
        names(&wanted(&seen, "nova-compute")),
        ["nova-compute-cell1", "nova-compute-cell2"]
    );
}

#[test]
fn what_speaks_to_computes_starts_anew_when_the_last_one_has_moved() {
    let mut seen = running();
    let speakers = [
        "nova-conductor-cell1",
        "nova-conductor-cell2",
        "nova",
        "nova-scheduler",
    ];
    let notes = |seen: &Seen| -> Vec<Option<String>> {
        let all = wanted(seen, "nova");
        let found = speakers.iter().map(|speaker| {
            let of_it = all.iter().find(|(name, _)| name == speaker);
            of_it.unwrap_or_else(|| panic!("{speaker}: {all:?}")).1.clone()
        });
        found.collect()
    };
    let keeping = |version: &str| vec![Some(version.to_owned()); speakers.len()];
    assert_eq!(notes(&seen), keeping(OLD));
    let silent = |seen: &Seen| {
        let all = wanted(seen, "nova");
        all.into_iter()
            .filter(|(name, _)| !speakers.contains(&name.as_str()))
            .all(|(_, note)| note.is_none())
    };
    assert!(
        silent(&seen),
        "nova-compute, metadata and libvirt keep to nothing"
    );

    seen.object.spec.common.image.tag = Some(NEW.to_owned());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    take_deployments(&mut seen);
    assert_eq!(
        notes(&seen),
        keeping(OLD),
        "the computes are of the old version still"
    );

    // One cell has moved, the other has not: what speaks to that one alone starts anew.
    take_deployments(&mut seen);
    let (old, new) = (Some(OLD.to_owned()), Some(NEW.to_owned()));
    updated(&mut seen, "nova-compute-cell2", 0);
    assert_eq!(notes(&seen), [old.clone(), old.clone(), old.clone(), old.clone()]);
    updated(&mut seen, "nova-compute-cell2", 1);
    updated(&mut seen, "nova-compute-cell1", 0);
    assert_eq!(notes(&seen), [old.clone(), new, old.clone(), old]);
    updated(&mut seen, "nova-compute-cell1", 1);
    assert_eq!(notes(&seen), keeping(NEW));
    take_deployments(&mut seen);
    // A node is away for a moment: nothing starts anew for that.
    let first = seen
        .facts
        .daemon_sets
        .get_mut("nova-compute-cell1")
        .expect("there");
    first.status.as_mut().expect("a status").number_available = Some(0);
    assert_eq!(notes(&seen), keeping(NEW));
}
