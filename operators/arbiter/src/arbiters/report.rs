//! The conditions of a RemoteArbiter, from the plan. Pure.

use std::time::Duration;

use c5c3_api::ceph::{RemoteArbiter, RemoteArbiterStatus, RemoteState};
use c5c3_api::common::parse_duration;
use c5c3_api::conditions::ceph::{
    ARBITER_DEPLOYMENT_READY, CEPH_CLUSTER_READY, IN_QUORUM, REMOTE_CLUSTER_READY,
};
use c5c3_api::conditions::reason;
use c5c3_kit::{Report, States};

use super::plan::{Plan, Waits};

/// The other cluster is not watched: between looks while something is waited for.
const SOON: Duration = Duration::from_secs(2);

pub(super) fn report(arbiter: &RemoteArbiter, plan: &Plan, deleting: bool) -> Report {
    let refused = plan.refused.as_ref().map(ToString::to_string);
    let waits = plan.waits.as_ref();
    let (state, message) = match (deleting, &refused, waits) {
        (true, ..) => (RemoteState::Deleting, "it is being removed".to_owned()),
        (false, Some(why), _) => (RemoteState::Error, why.clone()),
        (false, None, Some(Waits::Remote(why))) => (RemoteState::Error, why.clone()),
        (false, None, Some(waits)) => (RemoteState::Progressing, words(waits)),
        (false, None, None) => (RemoteState::Ready, in_quorum(plan)),
    };
    let status = RemoteArbiterStatus {
        state: Some(state),
        message: Some(message),
        mon_id: plan.mon_id.clone(),
        ..RemoteArbiterStatus::default()
    };
    let report = Report::new(states(plan)).status(&status);
    if deleting {
        return report.left(plan.left.iter().cloned()).again_in(SOON);
    }
    // Nobody else looks at a cluster that is written here.
    let inline = arbiter.spec.remote_cluster.spec.as_ref();
    let intervals = inline.map(|cluster| &cluster.check_interval);
    let intervals = intervals.into_iter().chain([&arbiter.spec.check_interval]);
    let interval = intervals.filter_map(|text| parse_duration(text).ok()).min();
    let interval = interval.unwrap_or(Duration::from_secs(60));
    let settled = waits.is_none() && plan.actions.is_empty() && refused.is_none();
    report.again_in(if settled { interval } else { interval.min(SOON) })
}

fn in_quorum(plan: &Plan) -> String {
    let id = plan.mon_id.as_deref().unwrap_or_default();
    format!("mon.{id} is in the quorum")
}

fn words(waits: &Waits) -> String {
    match waits {
        Waits::Remote(why)
        | Waits::Ceph(why)
        | Waits::Address(why)
        | Waits::Pod(why)
        | Waits::Quorum(why) => why.clone(),
        Waits::Name => "the name of the monitor is being reserved".to_owned(),
    }
}

/// What comes after the thing that is waited for is not known, or waits too.
fn states(plan: &Plan) -> States {
    let states = States::default();
    let reached = "the other cluster is usable";
    let waits = match (&plan.waits, &plan.refused) {
        (Some(waits), _) => waits,
        // Each error belongs to a condition and makes that false.
        (None, Some(_)) => return states,
        (None, None) => {
            return states
                .met(REMOTE_CLUSTER_READY, reason::READY, reached)
                .met(
                    CEPH_CLUSTER_READY,
                    reason::READY,
                    "keys and addresses are in place",
                )
                .met(ARBITER_DEPLOYMENT_READY, reason::READY, "its pod is running")
                .met(IN_QUORUM, reason::READY, in_quorum(plan));
        }
    };
    let said = words(waits);
    let after = "waiting for the steps before it";
    match waits {
        Waits::Remote(_) => states
            .unmet(REMOTE_CLUSTER_READY, reason::UNREACHABLE, said)
            .unknown(CEPH_CLUSTER_READY, reason::UNREACHABLE, after)
            .unknown(ARBITER_DEPLOYMENT_READY, reason::UNREACHABLE, after)
            .unknown(
                IN_QUORUM,
                reason::UNREACHABLE,
                "it cannot be checked while the other cluster is unreachable",
            ),
        Waits::Ceph(_) => states
            .met(REMOTE_CLUSTER_READY, reason::READY, reached)
            .unmet(CEPH_CLUSTER_READY, reason::DEPENDENCY_NOT_READY, said)
            .unmet(ARBITER_DEPLOYMENT_READY, reason::WAITING, after)
            .unmet(IN_QUORUM, reason::WAITING, after),
        Waits::Name | Waits::Address(_) | Waits::Pod(_) => states
            .met(REMOTE_CLUSTER_READY, reason::READY, reached)
            .met(
                CEPH_CLUSTER_READY,
                reason::READY,
                "keys and addresses are in place",
            )
            .unmet(ARBITER_DEPLOYMENT_READY, reason::PROGRESSING, said)
            .unmet(IN_QUORUM, reason::WAITING, after),
        Waits::Quorum(_) => states
            .met(REMOTE_CLUSTER_READY, reason::READY, reached)
            .met(
                CEPH_CLUSTER_READY,
                reason::READY,
                "keys and addresses are in place",
            )
            .met(ARBITER_DEPLOYMENT_READY, reason::READY, "its pod is running")
            .unmet(IN_QUORUM, "OutOfQuorum", said),
    }
}
