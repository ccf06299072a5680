//! Pure: what the spec asks for and nobody does is said, and never silently ignored.

use c5c3_api::conditions::hypervisor::{
    AGGREGATES_UPDATED, OPERATING_SYSTEM_UPDATE, TAINTED, TLS_CERTIFICATE_INSTALLED,
};
use c5c3_api::conditions::reason;
use c5c3_kit::States;

use super::view::View;

pub(crate) fn report(view: &View, states: States) -> States {
    let spec = &view.spec;
    let asks = |fields: &[(&'static str, bool)]| {
        let asked = fields.iter().filter(|(_, asked)| *asked);
        asked.map(|(field, _)| *field).collect::<Vec<_>>().join(", ")
    };
    let (version, reboot) = (spec.version.is_some(), spec.reboot);
    let update = asks(&[
        ("spec.version", version),
        ("spec.reboot", reboot),
        (
            "spec.evacuateOnReboot",
            (version || reboot) && spec.evacuate_on_reboot,
        ),
    ]);
    let states = part(
        states,
        OPERATING_SYSTEM_UPDATE,
        &update,
        "operating systems are not updated and hosts are not rebooted; drain the host and do it by hand",
    );
    let certificate = asks(&[
        (
            "spec.createCertManagerCertificate",
            spec.create_cert_manager_certificate,
        ),
        (
            "spec.installCertificate",
            spec.create_cert_manager_certificate && spec.install_certificate,
        ),
    ]);
    let states = part(
        states,
        TLS_CERTIFICATE_INSTALLED,
        &certificate,
        "libvirt has its certificates from Nova's `compute.liveMigration: tls`",
    );
    // Servers of others could land on the host: that is no small thing to ignore.
    let states = if spec.allowed_projects.is_empty() || !spec.lifecycle_enabled || view.leaving() {
        states
    } else {
        states.unmet(
            AGGREGATES_UPDATED,
            reason::NOT_SUPPORTED,
            "spec.allowedProjects is not supported: every project may use the host; give an aggregate of \
             spec.aggregates a filter_tenant_id instead",
        )
    };
    match view.taints.as_slice() {
        [] => states.unmet(TAINTED, reason::IN_SERVICE, ""),
        taints => states.met(
            TAINTED,
            reason::TAINTED,
            format!("taints of the Node: {}", taints.join(", ")),
        ),
    }
}

fn part(states: States, part: &'static str, fields: &str, instead: &str) -> States {
    if fields.is_empty() {
        states.unmet(part, reason::NOT_REQUIRED, "")
    } else {
        states.unmet(
            part,
            reason::NOT_SUPPORTED,
            format!("{fields}: not supported; {instead}"),
        )
    }
}
