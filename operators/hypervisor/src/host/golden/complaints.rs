//! Worlds of a host on its way into service whose agents or pods complain.

use c5c3_api::hypervisor::OnboardingPhase;
use jiff::SignedDuration;
use openstack_client::Service;

use super::base::{fresh, now, service, set, with, world};
use crate::host::checks::Complaint;
use crate::host::view::View;
use crate::nova::Host;

fn complaint(why: &str, seconds: i64) -> Vec<Complaint> {
    vec![Complaint {
        why: why.into(),
        since: Some(now() - SignedDuration::from_secs(seconds)),
    }]
}

fn refused() -> Vec<Complaint> {
    vec![Complaint {
        why: "Ceph cannot be used: client.nova has another key".into(),
        since: None,
    }]
}

fn unknown(mut view: View) -> View {
    view.nova = Host::default();
    view
}

pub(crate) fn worlds() -> Vec<(&'static str, View)> {
    use OnboardingPhase::{Aborted, Initial, Succeeded, Testing};
    let down = || Service {
        state: "down".into(),
        ..service("enabled", None)
    };
    let aborted = || {
        with(world(Aborted), |v| {
            v.before.onboarding.as_mut().expect("set").message = Some("Ceph cannot be used".into());
        })
    };
    vec![
        (
            "complaint: libvirt is away for a moment",
            with(fresh(), |v| {
                v.complaints = complaint("libvirt does not answer", 5);
            }),
        ),
        (
            "complaint: libvirt is away for a minute",
            with(world(Initial), |v| {
                v.complaints = complaint("libvirt does not answer", 60);
            }),
        ),
        (
            "complaint: no bridge, before the test server is made",
            with(world(Testing), |v| {
                v.complaints = complaint("Open vSwitch has no bridge br-int", 20);
            }),
        ),
        (
            "complaint: no bridge for a minute",
            with(world(Testing), |v| {
                v.complaints = complaint("Open vSwitch has no bridge br-int", 61);
            }),
        ),
        (
            "complaint: of a host whose tests are skipped",
            with(world(Initial), |v| {
                v.complaints = complaint("libvirt does not answer", 600);
                v.spec.skip_tests = true;
            }),
        ),
        (
            "complaint: Ceph refuses the key, nova-compute never came up",
            with(unknown(fresh()), |v| v.complaints = refused()),
        ),
        (
            "complaint: Nova does not know the host, and libvirt is away for a moment",
            with(unknown(fresh()), |v| {
                v.complaints = complaint("libvirt does not answer", 5);
            }),
        ),
        (
            "complaint: Ceph refuses the key, nova-compute went down",
            with(world(Initial), |v| {
                set(v, down());
                v.complaints = refused();
            }),
        ),
        (
            "complaint: aborted, and Nova does not know the host",
            unknown(aborted()),
        ),
        (
            "complaint: aborted, mended, retry asked",
            with(unknown(aborted()), |v| v.retry = Some("2".into())),
        ),
        (
            "complaint: of a host in service",
            with(world(Succeeded), |v| {
                v.complaints = complaint("libvirt does not answer", 600);
            }),
        ),
    ]
}
