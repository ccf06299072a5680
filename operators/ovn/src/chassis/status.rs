//! OVNChassis: what the southbound database says of one hypervisor.

use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::common::Time;
use c5c3_api::conditions::ovn::OVS_CONNECTED;
use c5c3_api::conditions::reason;
use c5c3_api::ovn::{OvnChassis, OvnChassisStatus};
use c5c3_kit::kinds::Key;
use c5c3_kit::ownership::OWNER;
use c5c3_kit::{Applied, Controller, Decision, Observed, Part, Reader, Report, States};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use crate::error::Error;
use crate::view::{Registered, Sessions, View};

/// A later answer is written only when it is so much later: an idle cloud is to be silent.
const WRITE: SignedDuration = SignedDuration::from_mins(5);
/// For silence there is no news.
const LOOK: Duration = Duration::from_secs(6 * 60);

/// The controller.
#[derive(Clone, Debug)]
pub struct ChassisStatus {
    pub sessions: Sessions,
}

impl Controller for ChassisStatus {
    type Kind = OvnChassis;
    /// Of the OVNCluster that it belongs to; `None` before anything was asked.
    type Facts = Option<View>;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "ovn-chassis";
    const PARTS: &'static [Part] = &[Part::required(OVS_CONNECTED)];

    async fn observe(&self, object: &OvnChassis, _: &Reader) -> Result<Option<View>, Error> {
        let owner = object.annotations().get(OWNER).map(|text| Key::parse(text));
        Ok(owner.and_then(|key| self.sessions.seen(&key)))
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        Ok(Decision::hold())
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        report(&observed.object, observed.facts.as_ref(), observed.now)
    }
}

/// Pure.
fn report(object: &OvnChassis, view: Option<&View>, now: Timestamp) -> Report {
    let before = object.status.clone().unwrap_or_default();
    let chassis = view.and_then(|view| view.chassis.as_ref());
    let registered = chassis.and_then(|all| all.get(&object.spec.system_id));
    let states = States::default();
    let states = match (chassis, registered) {
        (None, _) => {
            let trouble = view.and_then(|view| view.trouble.clone());
            let why = trouble.map(|why| format!(": {why}")).unwrap_or_default();
            let said = format!("the southbound database is not reached{why}");
            states.unknown(OVS_CONNECTED, reason::UNREACHABLE, said)
        }
        (Some(_), None) => {
            let said = "ovn-controller of this node has not joined: is its pod ready?";
            states.unmet(OVS_CONNECTED, reason::WAITING, said)
        }
        (Some(_), Some(found)) if !found.lives(now) => {
            let at = found.answered.map(|at| at.to_string()).unwrap_or_default();
            let said = format!("ovn-controller of this node answered last at {at}");
            states.unmet(OVS_CONNECTED, reason::TIMEOUT, said)
        }
        (Some(_), Some(_)) => states.met(OVS_CONNECTED, reason::READY, "ovn-controller has joined"),
    };
    let status = OvnChassisStatus {
        registered_at: match (chassis, registered) {
            (Some(_), None) => None,
            (_, Some(_)) => before.registered_at.or(Some(Time(now))),
            (None, None) => before.registered_at,
        },
        last_heartbeat: heartbeat(before.last_heartbeat, registered),
        ..OvnChassisStatus::default()
    };
    Report::new(states).status(&status).again_in(LOOK)
}

fn heartbeat(before: Option<Time>, registered: Option<&Registered>) -> Option<Time> {
    let answered = registered.and_then(|found| found.answered);
    match (before, answered) {
        (Some(before), Some(at)) if at.duration_since(before.0) < WRITE => Some(before),
        (before, at) => at.map(Time).or(before),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeMap;

    fn at(minute: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + minute * 60).expect("a time")
    }

    fn view(answered: Option<Option<i64>>) -> View {
        let chassis = answered.map(|minute| {
            let answered = minute.map(at);
            ("node-2".to_owned(), Registered { answered })
        });
        View {
            chassis: Some(chassis.into_iter().collect::<BTreeMap<_, _>>()),
            ..View::default()
        }
    }

    fn object() -> OvnChassis {
        let mut object = OvnChassis::new("node-2", c5c3_api::ovn::OvnChassisSpec::default());
        object.spec.system_id = "node-2".into();
        object
    }

    fn state(report: &Report) -> (&str, &str) {
        let state = report.states().get(OVS_CONNECTED).expect("told");
        (state.truth.as_str(), state.reason.as_str())
    }

    #[test]
    fn a_chassis_is_what_the_database_says() {
        for (seen, expected) in [
            (None, ("Unknown", "Unreachable")),
            (Some(view(None)), ("False", "Waiting")),
            (Some(view(Some(None))), ("True", "Ready")),
            (Some(view(Some(Some(95)))), ("True", "Ready")),
            (Some(view(Some(Some(80)))), ("False", "Timeout")),
        ] {
            assert_eq!(state(&report(&object(), seen.as_ref(), at(100))), expected);
        }
    }

    #[test]
    fn answers_are_written_every_five_minutes_at_most() {
        let mut object = object();
        let told = |object: &OvnChassis, minute| report(object, Some(&view(Some(Some(minute)))), at(minute));
        let first = told(&object, 10);
        let status: OvnChassisStatus =
            serde_json::from_value(first.status_fields().clone()).expect("a status");
        assert_eq!(status.last_heartbeat, Some(Time(at(10))));
        object.status = Some(status.clone());
        let soon: OvnChassisStatus =
            serde_json::from_value(told(&object, 14).status_fields().clone()).expect("a status");
        assert_eq!(soon, status);
        let later: OvnChassisStatus =
            serde_json::from_value(told(&object, 15).status_fields().clone()).expect("a status");
        assert_eq!(later.last_heartbeat, Some(Time(at(15))));
        assert_eq!(later.registered_at, status.registered_at);
    }
}
