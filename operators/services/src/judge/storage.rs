//! Whether a service reaches its data in Ceph. A mounted keyring proves nothing: each pod opens its pool with
//! its own key before its program starts, so a pod that is up has been let in.

use c5c3_api::common::ObjectRef;
use c5c3_api::conditions::{CEPH_CONNECTED, reason};
use c5c3_kit::States;
use c5c3_kit::mask::Mask;
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};

use super::rollout::is_of;
use crate::build;
use crate::facts::Facts;
use crate::kinds::ceph;
use crate::shape::{Process, Service, Volume, VolumeSource};

pub(crate) fn ceph(
    states: States,
    service: &Service,
    facts: &Facts,
    key: &Volume,
    (hidden, mounted): (&Mask, &str),
) -> States {
    let VolumeSource::Keyring {
        login,
        ceph_client,
        opens,
        ..
    } = &key.source
    else {
        return states;
    };
    if let Some(why) = ceph_client.as_ref().and_then(|client| unready(facts, client)) {
        return states.unmet(CEPH_CONNECTED, reason::WAITING, why);
    }
    let Some(pool) = opens else {
        // Handed on to a program that opens disks later.
        return states.met(CEPH_CONNECTED, reason::READY, mounted);
    };
    let mut processes = service.processes.iter();
    let mounts = |process: &&Process| process.volumes.iter().any(|volume| volume.name == key.name);
    match processes.find(mounts) {
        Some(process) => opened(states, hidden, facts, process, (pool, ceph::user(facts, login))),
        None => states.unmet(CEPH_CONNECTED, reason::WAITING, mounted),
    }
}

/// What Rook says of the user, where it is in this cluster and the spec names it.
fn unready(facts: &Facts, client: &ObjectRef) -> Option<String> {
    let name = &client.name;
    let Some(found) = facts.ceph_clients.get(client) else {
        return Some(format!("CephClient {name} is missing"));
    };
    let phase = found.status.as_ref().and_then(|status| status.phase.as_deref());
    let phase = phase.unwrap_or("not ready yet");
    (phase != "Ready").then(|| format!("CephClient {name} is {phase}"))
}

fn opened(
    states: States,
    hidden: &Mask,
    facts: &Facts,
    process: &Process,
    (pool, user): (&str, &str),
) -> States {
    let (passed, refused) = checks(facts, process, build::CEPH_CHECK);
    if let Some(words) = refused {
        let words = hidden.hide(&words);
        return states.unmet(
            CEPH_CONNECTED,
            reason::FAILED,
            format!("{}: {words}", process.name),
        );
    }
    if passed == 0 {
        let text = format!("{} has not opened pool {pool} as client.{user} yet", process.name);
        return states.unmet(CEPH_CONNECTED, reason::PROGRESSING, text);
    }
    let text = format!("{} opened pool {pool} as client.{user}", process.name);
    states.met(CEPH_CONNECTED, reason::READY, text)
}

/// How the tries of a process's pods went: so many passed, and the words of one that did not.
pub(crate) fn checks(facts: &Facts, process: &Process, name: &str) -> (usize, Option<String>) {
    let staying = |pod: &&Pod| pod.metadata.deletion_timestamp.is_none() && is_of(pod, process);
    let pods = facts.pods.iter().filter(staying);
    let tries = pods.filter_map(|pod| of_check(pod, name));
    let (passed, failed): (Vec<_>, Vec<_>) = tries.partition(|check| check.ready);
    let refused = failed.iter().find_map(|check| build::last_words(check));
    (passed.len(), refused.map(|(_, words)| words))
}

fn of_check<'p>(pod: &'p Pod, name: &str) -> Option<&'p ContainerStatus> {
    let mut first = pod.status.as_ref()?.init_container_statuses.iter().flatten();
    first.find(|container| container.name == name)
}
