//! Cinder: volumes, with a process for each backend.

use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, service};
use c5c3_api::openstack::{Cinder, CinderBackend, Rbd, port};
use c5c3_kit::Part;

use crate::error::Error;
use crate::shape::{
    Group, Groups, Process, Runs, Schema, Service, Settings, Step, Subject, Update, Volume, VolumeSource,
    Worker, Workload,
};

impl Subject for Cinder {
    const SERVICE: &'static str = "cinder";
    const PARTS: &'static [Part] = &[
        Part::required(DATABASE_READY),
        Part::required(MESSAGING_READY),
        Part::required(CEPH_CONNECTED),
        Part::required(service::SCHEDULER_READY),
        Part::required(service::API_READY),
    ];
    const MESSAGING: bool = true;
    const CEPH: bool = true;

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
        Ok(())
    }

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let mut all = vec![Settings::new("cinder.conf")];
        all.extend(spec.backends.iter().map(backend_settings));
        let all = all.into_iter().map(|settings| shared(self, settings)).collect();
        let no_ceph = spec.backends.iter().all(|backend| backend.rbd.is_none());
        let no_ceph = no_ceph.then(|| (CEPH_CONNECTED, "no backend is in Ceph".to_owned()));
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            endpoint_path: "/v3",
            settings: all,
            databases: vec![super::database("database", &spec.database)],
            buses: vec![super::bus("", &spec.messaging)],
            cache: spec.cache.clone(),
            keystone: Some(spec.keystone.clone()),
            schema: Schema {
                steps: vec![manage("db-sync", &["db", "sync"])],
                contract: vec![manage("data-migrations", &["db", "online_data_migrations"])],
                ..Schema::default()
            },
            processes: processes(self),
            groups: Some(Groups {
                field: "backends",
                count: None,
                all: spec.backends.iter().map(group).collect(),
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

fn group(backend: &CinderBackend) -> Group {
    Group {
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
fn backend_settings(backend: &CinderBackend) -> Settings {
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
            (name, "rbd_user", ceph_user(rbd)),
            (name, "rbd_ceph_conf", "/etc/ceph/ceph.conf"),
            (name, "rbd_flatten_volume_from_snapshot", "false"),
        ]);
    }
    Settings {
        name: volume_name(backend),
        ..settings
    }
}

/// Rook names the user after its CephClient.
fn ceph_user(rbd: &Rbd) -> &str {
    let client = rbd.ceph_client_ref.as_ref();
    client.map_or("cinder", |client| client.name.as_str())
}

fn keyring(backend: &CinderBackend) -> Option<Volume> {
    let rbd = backend.rbd.as_ref()?;
    Some(Volume {
        name: format!("ceph-{}", backend.name),
        path: "/etc/ceph".to_owned(),
        part: Some(CEPH_CONNECTED),
        source: VolumeSource::Secret {
            name: rbd.ceph_secret_ref.name.clone(),
            files: vec![
                ("ceph.conf", "ceph.conf".to_owned()),
                ("keyring", format!("ceph.client.{}.keyring", ceph_user(rbd))),
            ],
            ceph_client: rbd.ceph_client_ref.clone(),
        },
    })
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
            volumes: keyring(backend).into_iter().collect(),
            // Two at once would work on the same volumes.
            workload: Workload::Deployment {
                replicas: 1,
                update: Update::Recreate,
            },
            ..Process::new(&volume_name(backend), runs, CEPH_CONNECTED)
        });
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
