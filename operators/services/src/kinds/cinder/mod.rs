//! Cinder: volumes, with a process for each backend.

mod backup;

use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, service};
use c5c3_api::openstack::{CINDER_FILE_SIZE, Cinder, CinderBackend, port};
use c5c3_kit::Part;

use super::{ceph, shares};
use crate::error::Error;
use crate::names::Names;
use crate::shape::{
    Group, Groups, Process, Recurring, Runs, Schema, Service, Settings, Sharing, Step, Subject, Update,
    Volume, VolumeSource, Worker, Workload,
};

const CAPACITY: &str = "capacity";
const CAPACITY_HOURLY: &str = "capacity-hourly";

impl Subject for Cinder {
    const SERVICE: &'static str = "cinder";
    const PARTS: &'static [Part] = &[
        Part::required(DATABASE_READY),
        Part::required(MESSAGING_READY),
        Part::required(CEPH_CONNECTED),
        Part::required(service::BACKENDS_READY),
        Part::required(service::SCHEDULER_READY),
        Part::required(service::API_READY),
    ];
    const MESSAGING: bool = true;
    const CEPH: bool = true;
    const RECURRING: bool = true;

    fn check(&self) -> Result<(), Error> {
        // A backend's name is a group of options.
        let taken = shared(self, Settings::new("cinder.conf"));
        let taken: Vec<&String> = taken.options.iter().map(|(group, _)| group).collect();
        if self
            .spec
            .backends
            .iter()
            .any(|backend| taken.contains(&&backend.name))
        {
            return Err(Error::NotSupported {
                field: "backends.name",
                value: "the name of a group of Cinder's own options",
                way_out: "name the backend after what it is, such as fast or archive",
            });
        }
        if self.spec.volume.replicas > 1 {
            return Err(Error::NotSupported {
                field: "volume.replicas",
                value: "more than one",
                way_out: "set it to 1; only one process may manage the volumes of a backend",
            });
        }
        Ok(())
    }

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let mut all = vec![Settings {
            files: vec![
                ("capacity.py".to_owned(), include_str!("capacity.py").to_owned()),
                ("check.py".to_owned(), include_str!("check.py").to_owned()),
                ("types.py".to_owned(), include_str!("types.py").to_owned()),
            ],
            ..Settings::new("cinder.conf")
        }];
        all.extend(
            spec.backends
                .iter()
                .map(|backend| backend_settings(self, backend)),
        );
        all.extend(spec.backup.as_ref().map(backup::settings));
        let all: Vec<Settings> = all.into_iter().map(|settings| shared(self, settings)).collect();
        let no_ceph = spec.backends.iter().all(|backend| backend.rbd.is_none());
        let no_ceph = no_ceph.then(|| (CEPH_CONNECTED, "no backend is in Ceph".to_owned()));
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            settings: all,
            databases: vec![super::database("database", &spec.database)],
            buses: vec![super::bus("", &spec.messaging)],
            cache: spec.cache.clone(),
            keystone: Some(spec.keystone.clone()),
            schema: Schema {
                steps: vec![manage("db-sync", &["db", "sync"]), volume_types(self)],
                expand: vec![
                    Step::new("upgrade-check", &["/etc/cinder/check.py", "upgrade", "check"]),
                    manage("db-sync", &["db", "sync"]),
                    volume_types(self),
                ],
                contract: vec![manage("data-migrations", &["db", "online_data_migrations"])],
                ..Schema::default()
            },
            processes: processes(self),
            recurring: vec![purge(), capacity(self, false), capacity(self, true)],
            groups: Some(Groups {
                field: "backends",
                count: None,
                told_by: vec![CAPACITY, CAPACITY_HOURLY],
                all: (spec.backends.iter())
                    .map(|backend| group(self, backend))
                    .collect(),
            }),
            free_groups: spec.backends.iter().map(|backend| backend.name.clone()).collect(),
            not_required: no_ceph.into_iter().collect(),
            ..Service::new(self, spec.common.clone())
        }
    }
}

fn manage(name: &str, arguments: &[&str]) -> Step {
    let fixed = ["cinder-manage", "--config-file", "/etc/cinder/cinder.conf"];
    Step::new(name, &[&fixed, arguments].concat())
}

/// The room in each backend, asked when its process comes up, and every hour.
fn capacity(cinder: &Cinder, hourly: bool) -> Recurring {
    let backends = &cinder.spec.backends;
    let names: Vec<&str> = backends.iter().map(|backend| backend.name.as_str()).collect();
    let name = if hourly { CAPACITY_HOURLY } else { CAPACITY };
    let nodes_of = backends.iter().map(volume_name).collect();
    Recurring {
        steps: vec![Step::new(name, &["/etc/cinder/capacity.py", &names.join(",")]).with_credentials()],
        schedule: hourly.then(|| "7 * * * *".to_owned()),
        nodes_of: if hourly { Vec::new() } else { nodes_of },
        ..Recurring::default()
    }
}

/// Rows of what was deleted a month ago; they are kept for those who look back.
fn purge() -> Recurring {
    Recurring {
        steps: vec![manage("db-purge", &["db", "purge", "30"])],
        schedule: Some("23 3 * * 0".to_owned()),
        ..Recurring::default()
    }
}

/// A type for each backend, of its name: people choose by types.
fn volume_types(cinder: &Cinder) -> Step {
    let names = cinder.spec.backends.iter().map(|backend| backend.name.as_str());
    let command: Vec<&str> = ["/etc/cinder/types.py"].into_iter().chain(names).collect();
    Step::new("volume-types", &command)
}

fn group(cinder: &Cinder, backend: &CinderBackend) -> Group {
    let status = cinder.status.as_ref();
    let mut known = status.into_iter().flat_map(|status| &status.backends);
    let known = known.find(|known| known.name == backend.name);
    let known = known.map(|known| {
        [
            ("availableCapacityGb", known.available_capacity_gb),
            ("totalCapacityGb", known.total_capacity_gb),
        ]
    });
    let known = known.into_iter().flatten();
    let known = known.filter_map(|(field, room)| Some((field.to_owned(), room?.into())));
    Group {
        known: known.collect(),
        name: backend.name.clone(),
        processes: vec![volume_name(backend)],
        counted: None,
    }
}

fn volume_name(backend: &CinderBackend) -> String {
    format!("volume-{}", backend.name)
}

/// What all processes are told.
fn shared(cinder: &Cinder, settings: Settings) -> Settings {
    let spec = &cinder.spec;
    let helper = "privsep-helper --config-file /etc/cinder/cinder.conf";
    let names: Vec<&str> = spec
        .backends
        .iter()
        .map(|backend| backend.name.as_str())
        .collect();
    let mut settings = settings
        .with(&[
            ("DEFAULT", "state_path", "/tmp"),
            (
                "DEFAULT",
                "api_paste_config",
                "/var/lib/openstack/etc/cinder/api-paste.ini",
            ),
            ("DEFAULT", "auth_strategy", "keystone"),
            ("DEFAULT", "glance_catalog_info", "image:glance:internalURL"),
            // Pods come and go; what they look after stays.
            ("DEFAULT", "host", "cinder"),
            ("oslo_concurrency", "lock_path", "/tmp"),
            ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
            // Without capabilities it needs no root.
            ("privsep_osbrick", "helper_command", helper),
            ("privsep_osbrick", "capabilities", ""),
            ("cinder_sys_admin", "helper_command", helper),
            ("cinder_sys_admin", "capabilities", ""),
        ])
        .database("database", "database")
        .bus("DEFAULT", "");
    if settings.name.is_empty() {
        settings
            .options
            .set("DEFAULT", "enabled_backends", names.join(","));
    }
    if let Some(default) = &spec.default_volume_type {
        settings.options.set("DEFAULT", "default_volume_type", default);
    }
    super::pool(&mut settings.options, "database");
    super::authtoken(&mut settings, "cinder", &spec.keystone, spec.cache.is_some());
    for group in ["nova", "service_user"] {
        super::login(&mut settings, "cinder", &spec.keystone, group);
    }
    settings.options.set("nova", "interface", "internal").set(
        "service_user",
        "send_service_user_token",
        "true",
    );
    settings
}

/// Only the backend's own process knows how it is reached.
fn backend_settings(cinder: &Cinder, backend: &CinderBackend) -> Settings {
    let name = backend.name.as_str();
    let mut settings = Settings::new("cinder.conf").with(&[
        ("DEFAULT", "enabled_backends", name),
        (name, "volume_driver", &backend.driver),
        (name, "volume_backend_name", name),
        (name, "backend_host", name),
    ]);
    if let Some(rbd) = &backend.rbd {
        settings = settings.with(&[
            (name, "rbd_pool", &rbd.pool),
            (name, "rbd_ceph_conf", ceph::CONFIGURATION),
            (name, "rbd_flatten_volume_from_snapshot", "false"),
        ]);
        settings.ceph = vec![
            ceph::user_option(name, "rbd_user", rbd, "cinder"),
            ceph::uuid_option(name, rbd, "cinder"),
        ];
    }
    if backend.file.is_some() {
        let claim = backend.claim(&Names::of(cinder).name);
        settings = settings.with(&[
            (name, "nas_host", shares::HOST),
            (name, "nas_share_path", &shares::path(&claim)),
            (name, "nfs_mount_point_base", shares::BASE),
            (name, "nfs_snapshot_support", "true"),
            // What a snapshot adds is qcow2 anyway; the driver spoils it when it extends a raw volume.
            (name, "nfs_qcow2_volumes", "true"),
            // "As root" is as the user of the pod: the image's sudo changes nobody.
            (name, "nas_secure_file_operations", "false"),
            (name, "nas_secure_file_permissions", "true"),
        ]);
    }
    Settings {
        name: volume_name(backend),
        ..settings
    }
}

/// What a backend's process is given: the way to Ceph, or the claim with the files.
fn volumes(cinder: &Cinder, backend: &CinderBackend) -> Vec<Volume> {
    keyring(backend)
        .into_iter()
        .chain(files(cinder, backend))
        .collect()
}

fn files(cinder: &Cinder, backend: &CinderBackend) -> Option<Volume> {
    let file = backend.file.clone()?;
    Some(Volume {
        name: backend.claim_suffix(),
        path: shares::mounted_at(&backend.claim(&Names::of(cinder).name)),
        part: Some(service::BACKENDS_READY),
        source: VolumeSource::Claim {
            size: file.size.unwrap_or_else(|| CINDER_FILE_SIZE.to_owned()),
            class: file.storage_class,
            sharing: Sharing::Now,
        },
    })
}

fn keyring(backend: &CinderBackend) -> Option<Volume> {
    let rbd = backend.rbd.as_ref()?;
    Some(ceph::keyring(format!("ceph-{}", backend.name), rbd, "cinder"))
}

fn processes(cinder: &Cinder) -> Vec<Process> {
    let spec = &cinder.spec;
    let on_bus = Worker::Connected(super::bus_ports(&spec.messaging));
    let config = ["--config-file", "/etc/cinder/cinder.conf"];
    let scheduler = Runs::worker(&[&["cinder-scheduler"], &config[..]].concat(), on_bus.clone());
    let api = Runs::wsgi("cinder.wsgi.api:application", port::CINDER, "/");
    let mut processes = vec![
        Process::new("scheduler", scheduler, service::SCHEDULER_READY).replicas(spec.scheduler.replicas),
    ];
    for backend in &spec.backends {
        let runs = Runs::worker(&[&["cinder-volume"], &config[..]].concat(), on_bus.clone());
        processes.push(Process {
            settings: volume_name(backend),
            volumes: volumes(cinder, backend),
            // Two at once would work on the same volumes.
            workload: Workload::Deployment {
                replicas: 1,
                update: Update::Recreate,
            },
            ..Process::new(&volume_name(backend), runs, service::BACKENDS_READY)
        });
    }
    if let Some(process) = backup::process(cinder, on_bus) {
        // It has the key of a new user before a backend tells it to be that user.
        for backend in processes.iter_mut().filter(|process| process.name != "scheduler") {
            backend.after.push(process.name.clone());
        }
        processes.push(process);
    }
    let before: Vec<String> = processes.iter().map(|process| process.name.clone()).collect();
    let before: Vec<&str> = before.iter().map(String::as_str).collect();
    processes.push(
        Process::new("api", api, service::API_READY)
            .replicas(spec.api.replicas)
            .after(&before),
    );
    processes
}
