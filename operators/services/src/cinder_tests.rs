//! Backends that users name, each with its own keyring, fit the one descriptor: Cinder as it will be,
//! for the decisions alone.

use c5c3_api::common::{Database, KeystoneAuth, Messaging, ObjectRef};
use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, service};
use c5c3_api::openstack::{Cinder, port};
use c5c3_kit::{Observed, Part};
use serde_json::json;

use crate::build::Servers;
use crate::config::Ini;
use crate::descriptor::{Descriptor, Format, Port, Process, Runs, Step};
use crate::kinds::common_blocks;
use crate::reconcile::Services;
use crate::subject::{ExtraVolume, Extras, Subject, VolumeSource};
use crate::testing::*;

const DESCRIPTOR: Descriptor = Descriptor {
    name: "cinder",
    endpoint_path: "/v3",
    config_file: "cinder.conf",
    format: Format::Oslo,
    environment: &[],
    defaults: &[],
    schema: &[Step::new("db-sync", &["cinder-manage", "db", "sync"])],
    expand: &[],
    contract: &[Step::new(
        "data-migrations",
        &["cinder-manage", "db", "online_data_migrations"],
    )],
    starts_early: false,
    processes: &[
        program("scheduler", &["cinder-scheduler"], service::SCHEDULER_READY),
        // It forks a process for each backend.
        program("volume", &["cinder-volume"], CEPH_CONNECTED),
        Process {
            after: &["scheduler", "volume"],
            runs: Runs::Wsgi {
                module: "cinder.wsgi.api:application",
                port: Port {
                    number: port::CINDER,
                    path: Some("/"),
                },
                processes: 2,
                threads: 1,
                extra: &[],
            },
            ..program("api", &[], service::API_READY)
        },
    ],
    parts: &[
        Part::required(DATABASE_READY),
        Part::required(MESSAGING_READY),
        Part::required(CEPH_CONNECTED),
        Part::required(service::SCHEDULER_READY),
        Part::required(service::API_READY),
    ],
};

impl Subject for Cinder {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const CONTROLLER: &'static str = "cinder";
    const MESSAGING: bool = true;
    const CEPH: bool = true;

    common_blocks!();

    fn replicas(&self, process: &str) -> i32 {
        match process {
            "scheduler" => self.spec.scheduler.replicas,
            "volume" => self.spec.volume.replicas,
            _ => self.spec.api.replicas,
        }
    }

    fn databases(&self) -> Vec<(String, Database)> {
        vec![("database".to_owned(), self.spec.database.clone())]
    }

    fn messaging(&self) -> Option<&Messaging> {
        Some(&self.spec.messaging)
    }

    fn keystone(&self) -> Option<&KeystoneAuth> {
        Some(&self.spec.keystone)
    }

    fn configure(&self, config: &mut Ini, _cache: Option<&Servers>) {
        let names: Vec<&str> = self.free_groups();
        config.set("DEFAULT", "enabled_backends", names.join(","));
        for backend in &self.spec.backends {
            config.set(&backend.name, "volume_driver", &backend.driver);
            if let Some(rbd) = &backend.rbd {
                config.set(&backend.name, "rbd_pool", &rbd.pool).set(
                    &backend.name,
                    "rbd_ceph_conf",
                    format!("/etc/ceph/{}/ceph.conf", backend.name),
                );
            }
        }
    }

    fn free_groups(&self) -> Vec<&str> {
        self.spec
            .backends
            .iter()
            .map(|backend| backend.name.as_str())
            .collect()
    }

    fn extras(&self) -> Extras {
        let keyring = |backend: &c5c3_api::openstack::CinderBackend| {
            let rbd = backend.rbd.as_ref()?;
            Some(ExtraVolume {
                name: format!("ceph-{}", backend.name).into(),
                path: format!("/etc/ceph/{}", backend.name).into(),
                part: CEPH_CONNECTED,
                source: VolumeSource::Secret {
                    name: rbd.ceph_secret_ref.name.clone(),
                    files: vec![
                        ("ceph.conf", "ceph.conf".to_owned()),
                        ("keyring", "keyring".to_owned()),
                    ],
                    ceph_client: rbd.ceph_client_ref.clone(),
                },
            })
        };
        Extras {
            volumes: self.spec.backends.iter().filter_map(keyring).collect(),
            ..Extras::default()
        }
    }
}

fn cinder() -> Observed<Services<Cinder>> {
    let backend = |name: &str| {
        json!({"name": name, "driver": "cinder.volume.drivers.rbd.RBDDriver",
            "rbd": {"pool": name, "cephSecretRef": {"name": "ceph"}, "cephClientRef": {"name": name}}})
    };
    let cinder = json!({
        "apiVersion": "cinder.openstack.c5c3.io/v1alpha1", "kind": "Cinder",
        "metadata": {"namespace": "openstack", "name": "cinder", "uid": "c"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/cinder", "tag": "27.0.0"},
            "database": {"host": "db", "database": "cinder", "secretRef": {"name": "service-db"}},
            "messaging": {"hosts": ["rabbit:5672"], "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "backends": [backend("fast"), backend("large")],
        },
    });
    let mut seen = observed(serde_json::from_value(cinder).expect("a Cinder"), facts());
    for name in ["fast", "large"] {
        client(&mut seen, name, "Ready");
    }
    seen
}

fn client(seen: &mut Observed<Services<Cinder>>, name: &str, phase: &str) {
    let reference = ObjectRef {
        name: name.to_owned(),
        namespace: None,
    };
    let client = json!({"metadata": {"name": name}, "spec": {"caps": {}}, "status": {"phase": phase}});
    let client = serde_json::from_value(client).expect("a CephClient");
    seen.facts.ceph_clients.insert(reference, client);
}

#[test]
fn every_backend_has_its_group_and_its_keyring() {
    let mut seen = cinder();
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    let config = object(&seen, "ConfigMap").expect("configured");
    let text = config["data"]["cinder.conf"].as_str().expect("a file");
    for line in [
        "enabled_backends = fast,large",
        "[fast]",
        "[large]",
        "rbd_pool = large",
    ] {
        assert!(text.contains(line), "{text}");
    }
    let pod = object(&seen, "Deployment").expect("wanted")["spec"]["template"]["spec"].to_string();
    for path in ["/etc/ceph/fast", "/etc/ceph/large"] {
        assert!(pod.contains(path), "{pod}");
    }
}

#[test]
fn the_backend_that_is_not_well_speaks() {
    let mut seen = cinder();
    take_job(&mut seen, "cinder-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    assert_eq!(state(&seen, CEPH_CONNECTED).0, "Ready");
    client(&mut seen, "fast", "Failure");
    assert_eq!(state(&seen, CEPH_CONNECTED).1, "CephClient fast is Failure");
}
