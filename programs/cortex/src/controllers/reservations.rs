//! Reservation: finds a host with enough capacity, and reports the phase of the reservation.

use std::sync::Arc;
use std::time::Duration;

use c5c3_api::cortex::{Reservation, ReservationPhase, ReservationStatus};
use c5c3_kit::{Applied, Controller, Decision, Observed, Part, Reader, Report, States};
use jiff::{SignedDuration, Timestamp};
use kube::ResourceExt;

use super::{Error, Shared};
use crate::engine::{self, Context, Explanation, compile, defaults};
use crate::fleet::names::NONE;
use crate::fleet::{self, Fleet};
use crate::request::{Flavor, Intent, Options, Request, Spec};
use crate::sources::kubernetes;

/// After this long a host is sought again.
const AGAIN: Duration = Duration::from_secs(60);

#[derive(Clone, Debug)]
pub(crate) struct Reservations(pub Shared);

#[derive(Debug)]
pub(crate) struct Plan {
    phase: ReservationPhase,
    host: Option<String>,
    why: String,
    again: Option<Duration>,
}

/// A host with room that none of the servers is on.
fn choose(fleet: &Fleet, reservation: &fleet::Reservation) -> Result<String, String> {
    let failover = reservation.kind == fleet::ReservationKind::Failover;
    let mut draft = if failover {
        defaults::failover()
    } else {
        defaults::general()
    };
    draft.ignore_preselection = true;
    let pipeline = compile(&draft).pipeline;
    let own = reservation
        .servers
        .iter()
        .filter_map(|id| fleet.server_host.get(id.as_str()));
    let spec = Spec {
        project: reservation.project.clone().unwrap_or_default(),
        zone: reservation.zone.clone(),
        num_instances: 1,
        intent: if failover {
            Intent::ReserveForFailover
        } else {
            Intent::ReserveForCommittedResource
        },
        resource_group: reservation.group.clone(),
        // Room on the host that is lost helps nobody.
        ignore_hosts: own.map(|host| fleet.hosts.name(*host).to_owned()).collect(),
        flavor: Flavor {
            vcpus: reservation.size.cpu,
            memory_mb: reservation.size.memory,
            ..Flavor::default()
        },
        ..Spec::default()
    };
    let request = Request {
        spec,
        options: Options {
            allow_other_hosts: true,
            ..Options::default()
        },
        ..Request::default()
    };
    let outcome = engine::run(
        &pipeline,
        Context {
            fleet,
            request: &request,
        },
    );
    let best = outcome.hosts().next().map(str::to_owned);
    best.ok_or_else(|| Explanation::of(&outcome).text)
}

fn until(time: Timestamp, now: Timestamp) -> Duration {
    let left: SignedDuration = time.duration_since(now);
    Duration::try_from(left)
        .unwrap_or_default()
        .max(Duration::from_secs(1))
}

fn plan(object: &Reservation, fleet: &Fleet, now: Timestamp) -> Plan {
    let spec = &object.spec;
    let of = |phase, host: Option<String>, why: String, again| Plan {
        phase,
        host,
        why,
        again,
    };
    if spec.end_time.as_ref().is_some_and(|end| end.0 <= now) {
        return of(
            ReservationPhase::Expired,
            None,
            "its endTime has passed".to_owned(),
            None,
        );
    }
    if let Some(start) = spec.start_time.as_ref().filter(|start| start.0 > now) {
        let why = format!("begins at {}", start.0);
        return of(ReservationPhase::Pending, None, why, Some(until(start.0, now)));
    }
    let ends = spec.end_time.as_ref().map(|end| until(end.0, now));
    if fleet.is_empty() {
        return of(
            ReservationPhase::Pending,
            None,
            "no host is known yet".to_owned(),
            Some(AGAIN),
        );
    }
    let known = |host: &&String| fleet.hosts.find(host) != NONE;
    if let Some(host) = &spec.target_host {
        return if known(&host) {
            of(
                ReservationPhase::Active,
                Some(host.clone()),
                format!("reserved on {host}"),
                ends,
            )
        } else {
            let why = format!("targetHost: there is no host {host}");
            of(ReservationPhase::Failed, None, why, Some(AGAIN))
        };
    }
    let held = object.status.as_ref().and_then(|status| status.host.as_ref());
    let fit = |host: &&String| fleet.unfit[fleet.hosts.find(host) as usize].is_none();
    if let Some(host) = held.filter(known).filter(fit) {
        return of(
            ReservationPhase::Active,
            Some(host.clone()),
            format!("reserved on {host}"),
            ends,
        );
    }
    // As if it kept nothing yet: times and phases are dealt with above.
    let mut fresh = object.clone();
    fresh.status = None;
    let Some(draft) = kubernetes::reservation(&fresh, now) else {
        return of(
            ReservationPhase::Pending,
            None,
            "reserves nothing at the moment".to_owned(),
            Some(AGAIN),
        );
    };
    match choose(fleet, &draft) {
        Ok(host) => of(
            ReservationPhase::Active,
            Some(host.clone()),
            format!("reserved on {host}"),
            ends,
        ),
        Err(why) => of(ReservationPhase::Failed, None, why, Some(AGAIN)),
    }
}

/// The room is kept at once, before the next pass looks for some.
#[derive(Clone, Debug)]
pub(crate) struct Keep {
    name: String,
    reservation: fleet::Reservation,
}

impl Controller for Reservations {
    type Kind = Reservation;
    type Facts = Arc<Fleet>;
    type Plan = Plan;
    type Action = Keep;
    type Error = Error;

    const NAME: &'static str = "cortex-reservations";
    const PARTS: &'static [Part] = &[];

    async fn observe(&self, _: &Reservation, _: &Reader) -> Result<Arc<Fleet>, Error> {
        Ok(self.0.scheduler.world.fleet())
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        plan(&observed.object, &observed.facts, observed.now)
    }

    fn decide(observed: &Observed<Self>, plan: &Plan) -> Result<Decision<Keep>, Error> {
        let mut object = observed.object.clone();
        object.status = Some(ReservationStatus {
            host: plan.host.clone(),
            phase: Some(plan.phase),
            ..ReservationStatus::default()
        });
        let kept = kubernetes::reservation(&object, observed.now).filter(|_| plan.host.is_some());
        Ok(Decision::hold().act(kept.map(|reservation| Keep {
            name: object.name_any(),
            reservation,
        })))
    }

    async fn act(&self, action: &Keep) -> Result<(), Error> {
        self.0.scheduler.world.keep(&action.name, &action.reservation);
        Ok(())
    }

    fn report(_: &Observed<Self>, plan: &Plan, _: &Applied<Self>) -> Report {
        let mut states = States::default();
        if plan.phase != ReservationPhase::Active {
            states = states.blocked_by(&format!("{:?}", plan.phase), plan.why.clone());
        }
        let status = ReservationStatus {
            host: plan.host.clone(),
            phase: Some(plan.phase),
            ..ReservationStatus::default()
        };
        let report =
            Report::new(states).status(&serde_json::json!({"host": status.host, "phase": status.phase}));
        match plan.again {
            Some(again) => report.again_in(again),
            None => report,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::testing::{host, server, world};
    use serde_json::json;

    fn of(spec: serde_json::Value, status: serde_json::Value) -> Reservation {
        let mut object = json!({"apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Reservation",
            "metadata": {"name": "r"}, "spec": {"type": "Failover", "resources": {"cpu": "8", "memory": "8Gi"},
            "failover": {"servers": ["vm"]}}});
        for (key, value) in spec.as_object().expect("an object") {
            object["spec"][key] = value.clone();
        }
        if !status.is_null() {
            object["status"] = status;
        }
        serde_json::from_value(object).expect("a Reservation")
    }

    fn planned(object: &Reservation, fleet: &Fleet) -> (ReservationPhase, Option<String>) {
        let plan = plan(object, fleet, "2027-06-01T00:00:00Z".parse().expect("a time"));
        (plan.phase, plan.host)
    }

    #[test]
    fn a_failover_is_never_on_the_host_that_it_is_for() {
        let mut draft = world(&[("a", host()), ("b", host())]);
        draft.servers.insert("vm".into(), server("a", "p", 1, 1));
        let fleet = Fleet::pack(draft.clone());
        assert_eq!(
            planned(&of(json!({}), json!(null)), &fleet),
            (ReservationPhase::Active, Some("b".into()))
        );
        // With room nowhere else it says so.
        draft.servers.insert("big".into(), server("b", "p", 12, 1));
        let fleet = Fleet::pack(draft);
        let full = plan(&of(json!({}), json!(null)), &fleet, Timestamp::UNIX_EPOCH);
        assert_eq!(full.phase, ReservationPhase::Failed);
        assert!(full.why.contains("b has only 4 of 8 CPUs free"), "{}", full.why);
    }

    #[test]
    fn it_lives_between_its_times_and_stays_where_it_is() {
        let fleet = Fleet::pack(world(&[("a", host()), ("b", host())]));
        for (spec, status, phase, on) in [
            (
                json!({"startTime": "2027-07-01T00:00:00Z"}),
                json!(null),
                ReservationPhase::Pending,
                None,
            ),
            (
                json!({"endTime": "2027-05-01T00:00:00Z"}),
                json!(null),
                ReservationPhase::Expired,
                None,
            ),
            (
                json!({}),
                json!({"host": "b", "phase": "Active"}),
                ReservationPhase::Active,
                Some("b"),
            ),
            (
                json!({}),
                json!({"host": "gone", "phase": "Active"}),
                ReservationPhase::Active,
                Some("a"),
            ),
            (
                json!({"targetHost": "b"}),
                json!(null),
                ReservationPhase::Active,
                Some("b"),
            ),
            (
                json!({"targetHost": "z"}),
                json!(null),
                ReservationPhase::Failed,
                None,
            ),
        ] {
            let found = planned(&of(spec.clone(), status), &fleet);
            assert_eq!(found, (phase, on.map(str::to_owned)), "{spec}");
        }
        let none = Fleet::default();
        assert_eq!(
            planned(&of(json!({}), json!(null)), &none).0,
            ReservationPhase::Pending
        );
    }
}
