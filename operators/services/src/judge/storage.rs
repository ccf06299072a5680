//! Whether a service reaches its data in Ceph or in an object store. A mounted key proves nothing: each pod opens its
//! pool or asks for its bucket with its own key before its program starts, so a pod that is up has been let in.

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
        tried,
        ..
    } = &key.source
    else {
        return states;
    };
    if let Some(why) = ceph_client.as_ref().and_then(|client| unready(facts, client)) {
        return states.unmet(CEPH_CONNECTED, reason::WAITING, why);
    }
    let user = ceph::user(facts, login);
    let what = match opens {
        Some(pool) => format!("opened pool {pool} as client.{user}"),
        None if *tried => format!("logged in to Ceph as client.{user}"),
        // Handed on to guests: another process tries it.
        None => return states,
    };
    let check = if *tried {
        build::KEYS_CHECK
    } else {
        build::CEPH_CHECK
    };
    let processes = service.processes.iter();
    let mounts = |process: &&Process| process.volumes.iter().any(|volume| volume.name == key.name);
    let processes: Vec<&Process> = processes.filter(mounts).collect();
    if processes.is_empty() {
        return states.unmet(CEPH_CONNECTED, reason::WAITING, mounted);
    }
    passed(states, hidden, facts, &processes, (CEPH_CONNECTED, check, &what))
}

/// What the pods of a service try with credentials that are not those of Ceph.
pub(crate) fn tried(mut states: States, service: &Service, hidden: &Mask, facts: &Facts) -> States {
    for process in &service.processes {
        if let Some(tries) = &process.tries {
            let check = (tries.part, tries.name, tries.what.as_str());
            states = passed(states, hidden, facts, &[process], check);
        }
    }
    states
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

/// Of each process at least one pod passed, and none was refused.
fn passed(
    states: States,
    hidden: &Mask,
    facts: &Facts,
    processes: &[&Process],
    (part, check, what): (&'static str, &str, &str),
) -> States {
    let mut at_work = Vec::new();
    for process in processes {
        let name = &process.name;
        let (passed, refused) = checks(facts, process, check);
        if let Some(words) = refused {
            let words = hidden.hide(&words);
            return states.unmet(part, reason::FAILED, format!("{name}: {words}"));
        }
        // Where there is no hypervisor nobody has to.
        if passed == 0 && process.is_on_nodes() && !facts.pods.iter().any(|pod| is_of(pod, process)) {
            continue;
        }
        if passed == 0 {
            return states.unmet(part, reason::PROGRESSING, format!("{name} has not {what} yet"));
        }
        at_work.push(name.as_str());
    }
    match at_work.as_slice() {
        [] => states.not_required(part, "there is no hypervisor"),
        names => states.met(part, reason::READY, format!("{} {what}", names.join(", "))),
    }
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
