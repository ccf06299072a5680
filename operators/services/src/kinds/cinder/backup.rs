//! Backups of volumes: a process that copies them into a pool of their own.

use c5c3_api::conditions::service;
use c5c3_api::openstack::{Cinder, CinderBackup};

use super::super::ceph;
use crate::shape::{CephLogin, Process, Runs, Settings, Update, Worker, Workload};

const NAME: &str = "backup";
/// Its user in Ceph as long as nothing else is known.
const USER: &str = "cinder-backup";
/// A backup that is under way may take as long before its process ends.
const GRACE: u32 = 600;

pub(super) fn settings(backup: &CinderBackup) -> Settings {
    let mut settings = Settings::new("cinder.conf").with(&[
        (
            "DEFAULT",
            "backup_driver",
            "cinder.backup.drivers.ceph.CephBackupDriver",
        ),
        ("DEFAULT", "backup_ceph_conf", ceph::CONFIGURATION),
        ("DEFAULT", "backup_ceph_pool", &backup.rbd.pool),
        // Striping is the pool's business.
        ("DEFAULT", "backup_ceph_stripe_unit", "0"),
        ("DEFAULT", "backup_ceph_stripe_count", "0"),
        ("DEFAULT", "graceful_shutdown_timeout", &GRACE.to_string()),
        // Until it has reported after its start, backups are refused.
        ("DEFAULT", "backup_driver_stats_polling_interval", "10"),
        ("DEFAULT", "periodic_interval", "10"),
        ("DEFAULT", "periodic_fuzzy_delay", "5"),
    ]);
    settings.ceph = vec![ceph::user_option(
        "DEFAULT",
        "backup_ceph_user",
        &backup.rbd,
        USER,
    )];
    Settings {
        name: NAME.to_owned(),
        ..settings
    }
}

/// It reads volumes as the user of their backend, and writes backups as its own.
pub(super) fn process(cinder: &Cinder, well: Worker) -> Option<Process> {
    let backup = cinder.spec.backup.as_ref()?;
    let command = ["cinder-backup", "--config-file", "/etc/cinder/cinder.conf"];
    let mut others: Vec<CephLogin> = Vec::new();
    for rbd in cinder
        .spec
        .backends
        .iter()
        .filter_map(|backend| backend.rbd.as_ref())
    {
        let login = ceph::of_rbd(rbd, "cinder");
        if !others.contains(&login) {
            others.push(login);
        }
    }
    Some(Process {
        settings: NAME.to_owned(),
        grace: GRACE,
        volumes: vec![ceph::keyrings(
            "ceph-backup".to_owned(),
            &backup.rbd,
            USER,
            others,
        )],
        // Another one of the same name would take what is under way for left over.
        workload: Workload::Deployment {
            replicas: 1,
            update: Update::Recreate,
        },
        ..Process::new(NAME, Runs::worker(&command, well), service::BACKENDS_READY)
    })
}
