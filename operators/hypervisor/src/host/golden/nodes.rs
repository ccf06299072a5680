//! Worlds in which the Node says more than that it is ready, and of specs that ask for more than there is.

use c5c3_api::hypervisor::OnboardingPhase;

use super::base::{fresh, service, set, with, world};
use crate::host::view::View;

pub(crate) fn worlds() -> Vec<(&'static str, View)> {
    use OnboardingPhase::Succeeded;
    vec![
        (
            "the Node is short of disk",
            with(world(Succeeded), |v| v.pressure = vec!["DiskPressure".into()]),
        ),
        (
            "the Node is short of disk, and takes no servers",
            with(world(Succeeded), |v| {
                v.pressure = vec!["DiskPressure".into()];
                set(v, service("disabled", Some("c5c3: node pressure: DiskPressure")));
            }),
        ),
        (
            "the Node has room on its disk again",
            with(world(Succeeded), |v| {
                set(v, service("disabled", Some("c5c3: node pressure: DiskPressure")));
            }),
        ),
        (
            "the Node is short of memory, and a person disabled the host",
            with(world(Succeeded), |v| {
                v.pressure = vec!["MemoryPressure".into()];
                set(v, service("disabled", Some("rack 7 smells")));
            }),
        ),
        (
            "the Node has taints, and the spec asks for what is not supported",
            with(world(Succeeded), |v| {
                v.taints = vec!["node.kubernetes.io/unschedulable:NoSchedule".into()];
                v.spec.version = Some("1877.3".into());
                v.spec.create_cert_manager_certificate = true;
                v.spec.allowed_projects = vec!["7d2b1c0e-9f7c-4a53-8f3a-0d9b4b1e2f11".into()];
            }),
        ),
        (
            "new: the Node is short of disk",
            with(fresh(), |v| v.pressure = vec!["DiskPressure".into()]),
        ),
    ]
}
