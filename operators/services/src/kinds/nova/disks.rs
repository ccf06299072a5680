//! How a disk gets from one hypervisor to another when a server is resized or migrated: by ssh, which is
//! what Nova's libvirt driver calls. Every hypervisor runs a server for that, which sees Nova's disks and
//! nothing else of its node.

use c5c3_api::conditions::service;
use c5c3_api::openstack::Nova;

use crate::shape::{Process, Rights, Runs, SecretOption, Settings, Variable, Volume, Worker};

pub(super) const NAME: &str = "disks";
/// A port of its own: the nodes have a server for people.
const PORT: &str = "8022";
const SCRIPT: &str = "/etc/nova/disks.py";

fn secret(nova: &Nova) -> Option<SecretOption> {
    let secret = nova.spec.compute.migration_secret_ref.as_ref()?;
    Some(SecretOption {
        group: "migration",
        option: "secret",
        secret: secret.name.clone(),
        key: "secret",
    })
}

fn file() -> (String, String) {
    ("disks.py".to_owned(), include_str!("disks.py").to_owned())
}

/// The server; none where hypervisors share no secret.
pub(super) fn server(nova: &Nova) -> Option<(Process, Settings)> {
    let settings = Settings {
        name: NAME.to_owned(),
        files: vec![file()],
        secret_options: vec![secret(nova)?],
        ..Settings::default()
    };
    // It greets whoever connects.
    let greets =
        format!("exec 3<>/dev/tcp/$NODE_ADDRESS/{PORT} && read -t 5 -u 3 line && [[ $line == SSH-* ]]");
    let greets = ["bash", "-c", &greets].map(str::to_owned);
    let runs = Runs::worker(&["python3", SCRIPT], Worker::Answers(greets.into()));
    let process = Process {
        workload: super::compute::on_all_hypervisors(),
        settings: NAME.to_owned(),
        grace: 10,
        environment: vec![("NODE_ADDRESS".to_owned(), Variable::Field("status.hostIP"))],
        volumes: vec![
            Volume::host("/var/lib/nova"),
            Volume::scratch("sshd", "/run/sshd"),
        ],
        rights: Rights::Host {
            capabilities: vec![
                "CHOWN",
                "DAC_OVERRIDE",
                "FOWNER",
                "SETGID",
                "SETUID",
                "SYS_CHROOT",
            ],
        },
        ..Process::new(NAME, runs, service::CELLS_READY)
    };
    Some((process, settings))
}

/// What nova-compute needs to log in to the others, and the command that then becomes nova-compute.
pub(super) fn client(nova: &Nova, settings: &mut Settings) {
    if let Some(secret) = secret(nova) {
        settings.files.push(file());
        settings.secret_options.push(secret);
    }
}

pub(super) fn command(nova: &Nova) -> String {
    match secret(nova) {
        Some(_) => format!("python3 {SCRIPT} nova-compute"),
        None => "nova-compute".to_owned(),
    }
}
