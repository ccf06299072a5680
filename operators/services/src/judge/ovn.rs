//! Whether a service reaches OVN.

use c5c3_api::conditions::{reason, service};
use c5c3_api::ovn::OvnCluster;
use c5c3_kit::mask::Mask;
use c5c3_kit::{Kind, States};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::storage;
use crate::build;
use crate::facts::Facts;
use crate::shape::{Process, Service};

const OVN: &str = service::OVN_CONNECTED;

/// OVN is there when its own operator says so; its addresses are in the configuration by then.
pub(crate) fn told(states: States, cluster: &OvnCluster) -> States {
    let name = cluster.name_any();
    let conditions = cluster.status.as_ref().map(|status| status.conditions.as_slice());
    let ready = conditions.unwrap_or_default().iter().find(|c| c.type_ == "Ready");
    match ready {
        Some(ready) if ready.status == "True" => {
            let text = format!("OVNCluster {name} is Ready");
            states.met(OVN, reason::READY, text)
        }
        Some(ready) => {
            let text = format!("OVNCluster {name} is not Ready: {}", ready.message);
            states.unmet(OVN, reason::DEPENDENCY_NOT_READY, text)
        }
        None => {
            let text = format!("OVNCluster {name} reports no status yet");
            states.unmet(OVN, reason::DEPENDENCY_NOT_READY, text)
        }
    }
}

/// Whether OVN's databases accept the certificates of each process, as its pods try them before their programs start;
/// of databases that the spec names, whether they answer at all.
pub(crate) fn tried(states: States, service: &Service, hidden: &Mask, facts: &Facts) -> States {
    let Ok(known) = build::ovn(service, facts) else {
        return states;
    };
    let given = build::ovn_is_given(service);
    if known.secrets.is_none() && !given {
        return states;
    }
    let mut waits = None;
    for process in &service.processes {
        let Some(caller) = build::ovn_caller(process) else {
            continue;
        };
        let (passed, refused) = storage::checks(facts, process, build::OVN_CHECK);
        let secret = known.secrets.as_ref().map(|secrets| secrets.of(caller));
        if let Some(words) = refused {
            return unreached(states, process, &hidden.hide(&words), secret, given);
        }
        if passed == 0 && !process.is_on_nodes() {
            waits = waits.or(Some(&process.name));
        }
    }
    match waits {
        _ if !given => states,
        Some(name) => {
            let text = format!("{name} has not reached ovn.nbConnection and ovn.sbConnection yet");
            states.unmet(OVN, reason::PROGRESSING, text)
        }
        None => states.met(OVN, reason::READY, "ovn.nbConnection and ovn.sbConnection answer"),
    }
}

/// A process that OVN does not let in, and what is to be mended.
fn unreached(states: States, process: &Process, words: &str, secret: Option<&str>, given: bool) -> States {
    let fields = "correct ovn.nbConnection and ovn.sbConnection";
    let way_out = match (secret, given) {
        (Some(name), false) => format!("mend Secret {name}"),
        (Some(name), true) => format!("mend Secret {name}, or {fields}"),
        (None, _) => fields.to_owned(),
    };
    let why = if given {
        reason::UNREACHABLE
    } else {
        reason::CERTIFICATES_NOT_ACCEPTED
    };
    let text = format!("{}: {words}; {way_out}", process.name);
    let blocker = secret.map(|name| Kind::of::<Secret>().named(None, name));
    states.unmet(OVN, why, text).because_of(OVN, blocker)
}
