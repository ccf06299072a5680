//! Nova: servers. One API, one scheduler, and cells: groups of hypervisors with a database, a message
//! bus and conductors of their own.

mod cells;
mod compute;
mod consoles;
mod cortex;
mod disks;
mod migration;

use c5c3_api::common::Messaging;
use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, MESSAGING_READY, service};
use c5c3_api::openstack::{Nova, port};
use c5c3_kit::Part;

use crate::error::Error;
use crate::shape::{
    Fact, Process, Recurring, Runs, Schema, SecretOption, Service, Settings, Step, Subject, Worker,
};
use cells::Cell;

const API_DATABASE: &str = "api_database";
/// Servers that found no hypervisor are kept here.
const CELL0_DATABASE: &str = "cell0_database";
/// The settings of the steps: they know every database and every bus.
const SETUP: &str = "setup";

impl Subject for Nova {
    const SERVICE: &'static str = "nova";
    const PARTS: &'static [Part] = &[
        Part::required(DATABASE_READY),
        Part::required(MESSAGING_READY),
        Part::required(CEPH_CONNECTED),
        Part::required(service::CONDUCTOR_READY),
        Part::required(service::SCHEDULER_READY),
        Part::required(service::API_READY),
        Part::required(service::CELLS_READY),
    ];
    const MESSAGING: bool = true;
    const ON_NODES: bool = true;
    const CEPH: bool = true;
    const CERTIFIES: bool = true;
    const RECURRING: bool = true;

    fn check(&self) -> Result<(), Error> {
        if self.spec.service_auth.is_some() {
            return Err(Error::NotSupported {
                field: "serviceAuth",
                value: "a user for each service",
                way_out: "leave it out; Nova calls the others with its own application credential",
            });
        }
        let elsewhere = self.spec.cells.iter().any(|cell| cell.compute_ref.is_some());
        if elsewhere && !self.spec.compute.volume_claims.is_empty() {
            return Err(Error::NotSupported {
                field: "compute.volumeClaims",
                value: "volumes as files for hypervisors in another cluster (cells.computeRef)",
                way_out: "keep hypervisors in this cluster, or volumes in Ceph",
            });
        }
        Ok(())
    }

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let cells = Cell::all(self);
        let mut settings = vec![main_settings(self)];
        settings.push(setup_settings(&cells));
        settings.extend(cells.iter().map(|cell| conductor_settings(self, cell)));
        let mut buses = vec![super::bus("", &spec.messaging)];
        buses.extend(cells.iter().filter_map(Cell::own_bus));
        let mut service = Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            environment: vec![
                // The first file is the one of the pipelines.
                (
                    "OS_NOVA_CONFIG_FILES".into(),
                    "/var/lib/openstack/etc/nova/api-paste.ini;nova.conf".into(),
                ),
            ],
            settings,
            databases: databases(self, &cells),
            buses,
            cache: spec.cache.clone(),
            keystone: Some(spec.keystone.clone()),
            schema: schema(&cells),
            processes: processes(self, &cells),
            recurring: vec![purge(&cells)],
            ..Service::new(self, spec.common.clone())
        };
        cortex::add(self, &mut service);
        if !compute::is_in_ceph(self) {
            let text = "no disk is in Ceph".to_owned();
            service.not_required.push((CEPH_CONNECTED, text));
        }
        if spec.compute.enabled {
            compute::add(self, &cells, &mut service);
        } else {
            let text = "no hypervisors in this cluster (compute.enabled)".to_owned();
            service.not_required.push((service::CELLS_READY, text));
        }
        service
    }
}

fn databases(nova: &Nova, cells: &[Cell]) -> Vec<crate::shape::NamedDatabase> {
    let databases = &nova.spec.database;
    let named = |group: &str, name: &str| {
        let mut database = databases.server.clone();
        name.clone_into(&mut database.database);
        super::database(group, &database)
    };
    let fixed = [
        named(API_DATABASE, &databases.api_database),
        named(CELL0_DATABASE, &databases.cell_database),
    ];
    let cells = cells.iter();
    let cells = cells.map(|cell| super::database(&cell.database_name(), &cell.database));
    fixed.into_iter().chain(cells).collect()
}

/// What all processes are told, on hypervisors too.
fn shared_options(nova: &Nova, settings: &mut Settings, cached: bool) {
    let spec = &nova.spec;
    let keystone = &spec.keystone;
    // Glance is called with the token of the user and that of the service.
    for group in ["placement", "neutron", "cinder", "service_user"] {
        super::login(settings, "nova", keystone, group);
    }
    for group in ["placement", "neutron", "glance"] {
        settings.options.set(group, "valid_interfaces", "internal");
    }
    settings
        .options
        .set("cinder", "catalog_info", "block-storage:cinder:internalURL")
        .set("service_user", "send_service_user_token", "true")
        .set("neutron", "service_metadata_proxy", "true")
        // Computes of two versions may run for as long as a fleet takes.
        .set("upgrade_levels", "compute", "auto")
        .set("vnc", "enabled", "false");
    if let Some(cache) = spec.cache.as_ref().filter(|_| cached) {
        settings
            .options
            .set("cache", "enabled", "true")
            .set("cache", "backend", &cache.backend)
            // A server that is gone costs a second, and is asked again soon.
            .set("cache", "memcache_socket_timeout", "1.0")
            .set("cache", "memcache_dead_retry", "10");
        settings
            .facts
            .push(("cache", "memcache_servers", Fact::CacheServers));
    }
}

fn ground() -> Settings {
    let mut settings = Settings::new("nova.conf").with(&[
        ("DEFAULT", "state_path", "/tmp"),
        ("oslo_concurrency", "lock_path", "/tmp"),
    ]);
    for group in ["database", "api_database"] {
        super::pool(&mut settings.options, group);
    }
    settings
}

fn control_plane(nova: &Nova) -> Settings {
    let mut settings = ground().with(&[
        (
            "wsgi",
            "api_paste_config",
            "/var/lib/openstack/etc/nova/api-paste.ini",
        ),
        ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
        ("DEFAULT", "allow_resize_to_same_host", "true"),
        ("conductor", "workers", "1"),
        ("scheduler", "workers", "1"),
        // A host is found when it appears; this is for those that were missed.
        ("scheduler", "discover_hosts_in_cells_interval", "300"),
    ]);
    super::authtoken(
        &mut settings,
        "nova",
        &nova.spec.keystone,
        nova.spec.cache.is_some(),
    );
    shared_options(nova, &mut settings, true);
    settings
}

/// Of what belongs to no cell.
fn main_settings(nova: &Nova) -> Settings {
    let settings = control_plane(nova)
        .database(API_DATABASE, API_DATABASE)
        .database("database", CELL0_DATABASE)
        .bus("DEFAULT", "");
    let metadata = nova.spec.metadata.iter().map(|metadata| SecretOption {
        group: "neutron",
        option: "metadata_proxy_shared_secret",
        secret: metadata.secret_ref.name.clone(),
        key: "secret",
    });
    Settings {
        follows: Some(SETUP.to_owned()),
        secret_options: metadata.collect(),
        ..settings
    }
}

/// Databases and buses, and nothing else: a new credential of a service is no reason to start over.
fn setup_settings(cells: &[Cell]) -> Settings {
    let mut settings = ground()
        // As all its processes have it: the checks before an upgrade ask.
        .with(&[("service_user", "send_service_user_token", "true")])
        .database(API_DATABASE, API_DATABASE)
        .database("database", CELL0_DATABASE)
        .bus("DEFAULT", "");
    for cell in cells {
        settings = settings
            .database(&cell.database_name(), &cell.database_name())
            .bus(&cell.bus_group(), &cell.bus_name());
    }
    Settings {
        name: SETUP.to_owned(),
        files: vec![
            ("cells.py".to_owned(), include_str!("cells.py").to_owned()),
            ("hosts.py".to_owned(), include_str!("hosts.py").to_owned()),
            ("checks.py".to_owned(), include_str!("checks.py").to_owned()),
            ("purge.py".to_owned(), include_str!("purge.py").to_owned()),
        ],
        ..settings
    }
}

fn conductor_settings(nova: &Nova, cell: &Cell) -> Settings {
    let settings = control_plane(nova)
        .database("database", &cell.database_name())
        .bus("DEFAULT", &cell.bus_name());
    let own = Settings {
        name: conductor_name(cell),
        ..settings
    };
    // Those that serve the API too know its database, and with it the other cells.
    match cell.own_bus() {
        Some(_) => own,
        None => Settings {
            follows: Some(SETUP.to_owned()),
            ..own.database(API_DATABASE, API_DATABASE)
        },
    }
}

/// Schemas of all databases, and the cells' entries in that of the API.
fn schema(cells: &[Cell]) -> Schema {
    let sync = ["nova-manage", "db", "sync", "--local_cell"];
    let migrate = ["nova-manage", "db", "online_data_migrations"];
    let mut steps = vec![
        Step::new("api-db-sync", &["nova-manage", "api_db", "sync"]),
        Step::new("cell0-db-sync", &sync),
    ];
    let mut contract = vec![Step::new("data-migrations", &migrate)];
    for cell in cells {
        steps.push(of_cell(cell, "db-sync", &sync));
        contract.push(of_cell(cell, "data-migrations", &migrate));
    }
    let names: Vec<&str> = cells.iter().map(|cell| cell.name.as_str()).collect();
    steps.push(Step::new("cells", &[&["/etc/nova/cells.py"], names.as_slice()].concat()).with_credentials());
    let check = Step::new("upgrade-check", &["/etc/nova/checks.py"]);
    Schema {
        settings: SETUP.to_owned(),
        expand: std::iter::once(check).chain(steps.clone()).collect(),
        steps,
        contract,
        ..Schema::default()
    }
}

/// A step on the database of a cell.
fn of_cell(cell: &Cell, name: &str, command: &[&str]) -> Step {
    let connection = format!("OS_{}__CONNECTION", cell.database_name().to_uppercase());
    Step::new(&format!("{}-{name}", cell.name), command).taking("OS_DATABASE__CONNECTION", &connection)
}

/// Rows of what was deleted a month ago; they are kept for those who look back. That of cell0, the last, names the
/// job: it is always there.
fn purge(cells: &[Cell]) -> Recurring {
    let command = ["/etc/nova/purge.py", "30"];
    let of_cells = cells.iter().map(|cell| of_cell(cell, "db-purge", &command));
    Recurring {
        steps: of_cells.chain([Step::new("db-purge", &command)]).collect(),
        schedule: Some("43 3 * * 0".to_owned()),
        ..Recurring::default()
    }
}

fn conductor_name(cell: &Cell) -> String {
    format!("conductor-{}", cell.name)
}

fn processes(nova: &Nova, cells: &[Cell]) -> Vec<Process> {
    let spec = &nova.spec;
    let conductor = |name: &str, bus: &Messaging| {
        let runs = Runs::worker(&["nova-conductor"], Worker::Connected(super::bus_ports(bus)));
        Process::new(name, runs, service::CONDUCTOR_READY).with_lasting_names(spec.conductor.replicas)
    };
    let mut processes: Vec<Process> = cells
        .iter()
        .map(|cell| {
            let name = conductor_name(cell);
            conductor(&name, cell.bus(nova)).with_settings(&name)
        })
        .collect();
    // Where a cell shares the bus of the API, its conductors serve both.
    let shares = cells.iter().find(|cell| cell.own_bus().is_none());
    if shares.is_none() {
        processes.push(conductor("conductor", &spec.messaging));
    }
    // A cell whose bus or database is away does not hold up the others.
    let of_api = shares.map_or_else(|| "conductor".to_owned(), conductor_name);
    let conductors = [of_api.as_str()];
    let ports = super::bus_ports(&spec.messaging);
    let scheduler = Runs::worker(&["nova-scheduler"], Worker::Connected(ports));
    // From 2026.1 on both ask the cells by threads, and ask them once while they are loaded.
    let api = Runs::wsgi("nova.wsgi.osapi_compute:application", port::NOVA, "/").loaded_by_workers();
    let metadata = Runs::wsgi("nova.wsgi.metadata:application", port::NOVA_METADATA, "/").loaded_by_workers();
    processes.extend([
        Process::new("scheduler", scheduler, service::SCHEDULER_READY)
            .with_lasting_names(spec.scheduler.replicas)
            .after(&conductors),
        Process::new("api", api, service::API_READY)
            .replicas(spec.api.replicas)
            .after(&conductors),
        Process::new("metadata", metadata, service::API_READY)
            .replicas(spec.api.replicas)
            .after(&conductors),
    ]);
    processes
}
