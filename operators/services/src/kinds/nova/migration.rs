//! How guests move between hypervisors while they run: libvirtd of one commands that of the other, and the
//! guest's memory goes from QEMU to QEMU.

use c5c3_api::openstack::{LiveMigration, Nova};

use crate::shape::{Settings, Variable, Volume, VolumeSource};

/// What a certificate is good for. QEMU has one of its own: who breaks out of a guest may read it, and
/// commands nobody with it.
const TITLES: &[&str] = &["libvirt", "qemu"];

const VOLUME: &str = "libvirt-tls";
/// As libvirtd.sh reads it.
const PATH: &str = "/etc/libvirt-tls";

/// What libvirtd.sh is told.
pub(super) fn environment(nova: &Nova) -> Vec<(String, Variable)> {
    let listens = match nova.spec.compute.live_migration {
        LiveMigration::Off => "off",
        LiveMigration::Plaintext => "plaintext",
        LiveMigration::Tls => "tls",
    };
    vec![
        ("LISTEN".to_owned(), Variable::Text(listens.to_owned())),
        ("NODE".to_owned(), Variable::Field("spec.nodeName")),
    ]
}

/// The certificates, which libvirtd's pod alone has.
pub(super) fn certificates(nova: &Nova) -> Option<Volume> {
    (nova.spec.compute.live_migration == LiveMigration::Tls).then(|| Volume {
        name: VOLUME.to_owned(),
        path: PATH.to_owned(),
        part: None,
        source: VolumeSource::NodeCertificates { titles: TITLES },
    })
}

/// A guest that writes faster than its memory can be sent is slowed down, and one that still does not arrive is
/// paused for the rest of its way. Post-copy stays off: it needs userfaultfd rights that our QEMU does not have, and
/// a guest whose connection breaks meanwhile is lost.
const CONVERGENCE: &[(&str, &str, &str)] = &[
    ("libvirt", "live_migration_permit_auto_converge", "true"),
    // Seconds for each GiB.
    ("libvirt", "live_migration_completion_timeout", "300"),
    ("libvirt", "live_migration_timeout_action", "force_complete"),
];

pub(super) fn on_hypervisors(nova: &Nova, settings: Settings) -> Settings {
    let settings = settings.with(CONVERGENCE);
    match nova.spec.compute.live_migration {
        LiveMigration::Tls => settings.with(&[
            ("libvirt", "live_migration_scheme", "tls"),
            ("libvirt", "live_migration_with_native_tls", "true"),
        ]),
        LiveMigration::Plaintext | LiveMigration::Off => {
            settings.with(&[("libvirt", "live_migration_scheme", "tcp")])
        }
    }
}
