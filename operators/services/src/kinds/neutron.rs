//! Neutron: networks, made by OVN.

use std::collections::BTreeMap;

use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY, MESSAGING_READY, service};
use c5c3_api::openstack::{Neutron, NeutronMetadata, NeutronSpec, port};
use c5c3_kit::Part;

use crate::error::Error;
use crate::shape::{
    Fact, OVN_AUTHORITY, OVN_CERTIFICATE, OVN_KEY, Ovn, OvnCaller, OvnPlace, Process, Rights, Runs, Schema,
    SecretOption, Service, Settings, Step, Subject, Volume, VolumeSource, Worker, Workload,
};

const CONFIG: &str = "/etc/neutron/neutron.conf";
/// With what it logs in to OVN.
const CERTIFICATES: &str = "/etc/ovn-tls";
/// The settings of what runs on hypervisors.
const AGENT: &str = "agent";
/// Processes of the API: Neutron counts on knowing their number.
const WORKERS: u32 = 2;
const DATABASE: u16 = 3306;
const NORTHBOUND: u16 = 6641;
const SOUTHBOUND: u16 = 6642;

/// Drivers that come with Neutron. One that it does not find ends it at its start.
const TYPES: &[&str] = &["flat", "geneve", "gre", "local", "vlan", "vxlan"];
const MECHANISMS: &[&str] = &["l2population", "macvtap", "openvswitch", "ovn", "sriovnicswitch"];
const EXTENSIONS: &[&str] = &[
    "data_plane_status",
    "dns",
    "dns_domain_keywords",
    "dns_domain_ports",
    "port_device_profile",
    "port_hardware_offload_type",
    "port_hint_ovs_tx_steering",
    "port_hints",
    "port_numa_affinity_policy",
    "port_security",
    "port_trusted",
    "qos",
    "subnet_dns_publish_fixed_ip",
    "tag_ports_during_bulk_creation",
    "uplink_status_propagation",
    "uplink_status_propagation_updatable",
];

fn known_drivers(field: &'static str, given: &[String], known: &[&str]) -> Result<(), Error> {
    match given.iter().find(|driver| !known.contains(&driver.as_str())) {
        Some(driver) => Err(Error::UnknownDriver {
            field,
            value: driver.clone(),
            known: known.join(", "),
        }),
        None => Ok(()),
    }
}

impl Subject for Neutron {
    const SERVICE: &'static str = "neutron";
    const PARTS: &'static [Part] = &[
        Part::required(DATABASE_READY),
        Part::required(MESSAGING_READY),
        Part::required(service::OVN_CONNECTED),
        Part::required(DEPLOYMENT_READY),
    ];
    const MESSAGING: bool = true;
    const ON_NODES: bool = true;
    const OVN: bool = true;

    fn check(&self) -> Result<(), Error> {
        if !self.spec.ovn.enabled {
            return Err(Error::NotSupported {
                field: "ovn.enabled",
                value: "false",
                way_out: "set it to true; OVN is the only supported backend",
            });
        }
        let ml2 = &self.spec.ml2;
        known_drivers("ml2.typeDrivers", &ml2.type_drivers, TYPES)?;
        known_drivers("ml2.mechanismDrivers", &ml2.mechanism_drivers, MECHANISMS)?;
        known_drivers("ml2.extensionDrivers", &ml2.extension_drivers, EXTENSIONS)
    }

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let mut settings = vec![settings(self)];
        let mut processes = control_plane(self);
        if let Some(metadata) = &spec.metadata {
            settings.push(agent_settings(metadata));
            let cluster = metadata.compute_ref.as_ref().map(|cluster| cluster.name.clone());
            processes.push(agent(self).in_cluster(cluster));
        }
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            environment: vec![
                variable("OS_NEUTRON_CONFIG_DIR", "/etc/neutron"),
                variable("OS_NEUTRON_CONFIG_FILES", "neutron.conf"),
            ],
            settings,
            databases: vec![super::database("database", &spec.database)],
            buses: vec![super::bus("", &spec.messaging)],
            cache: spec.cache.clone(),
            keystone: Some(spec.keystone.clone()),
            ovn: place(self),
            schema: Schema {
                steps: vec![manage("db-sync", &["upgrade", "heads"])],
                expand: vec![manage("db-expand", &["upgrade", "--expand"])],
                contract: vec![manage("db-contract", &["upgrade", "--contract"])],
                ..Schema::default()
            },
            processes,
            ..Service::new(self, spec.common.clone())
        }
    }
}

fn manage(name: &str, arguments: &[&str]) -> Step {
    let fixed = ["neutron-db-manage", "--config-file", CONFIG];
    Step::new(name, &[&fixed, arguments].concat())
}

/// Where OVN is: its object tells, or the spec does. The schema refuses what has neither.
fn place(neutron: &Neutron) -> Option<Ovn> {
    let ovn = &neutron.spec.ovn;
    let given = ovn.nb_connection.clone().zip(ovn.sb_connection.clone());
    let given = given.map(|(northbound, southbound)| OvnPlace::Given(northbound, southbound));
    let place = given.or_else(|| ovn.cluster_ref.clone().map(OvnPlace::Cluster))?;
    let tls = ovn.tls.clone();
    Some(Ovn { place, tls })
}

fn ovn(settings: Settings) -> Settings {
    let file = |name| Fact::OvnFile(CERTIFICATES, name);
    settings
        .fact("ovn", "ovn_nb_connection", Fact::OvnNorthbound)
        .fact("ovn", "ovn_sb_connection", Fact::OvnSouthbound)
        .fact("ovn", "ovn_sb_private_key", file(OVN_KEY))
        .fact("ovn", "ovn_sb_certificate", file(OVN_CERTIFICATE))
        .fact("ovn", "ovn_sb_ca_cert", file(OVN_AUTHORITY))
}

/// Python's OVS has one certificate for all that a process connects to: what is good for both databases.
fn northbound(settings: Settings) -> Settings {
    let file = |name| Fact::OvnFile(CERTIFICATES, name);
    settings
        .fact("ovn", "ovn_nb_private_key", file(OVN_KEY))
        .fact("ovn", "ovn_nb_certificate", file(OVN_CERTIFICATE))
        .fact("ovn", "ovn_nb_ca_cert", file(OVN_AUTHORITY))
}

fn certificates(caller: OvnCaller) -> Volume {
    Volume {
        name: "ovn-tls".to_owned(),
        path: CERTIFICATES.to_owned(),
        part: None,
        source: VolumeSource::OvnCertificates(caller),
    }
}

fn settings(neutron: &Neutron) -> Settings {
    let spec = &neutron.spec;
    let ml2 = &spec.ml2;
    let workers = WORKERS.to_string();
    let metadata = spec.metadata.is_some().to_string();
    let mut settings = Settings::new("neutron.conf")
        .with(&[
            ("DEFAULT", "core_plugin", "ml2"),
            ("DEFAULT", "service_plugins", "ovn-router"),
            ("DEFAULT", "auth_strategy", "keystone"),
            ("DEFAULT", "state_path", "/tmp"),
            (
                "DEFAULT",
                "api_paste_config",
                "/var/lib/openstack/etc/neutron/api-paste.ini",
            ),
            ("DEFAULT", "api_workers", &workers),
            // Agents talk to OVN, not to Neutron.
            ("DEFAULT", "rpc_workers", "0"),
            ("DEFAULT", "notify_nova_on_port_status_changes", "true"),
            ("DEFAULT", "notify_nova_on_port_data_changes", "true"),
            ("oslo_concurrency", "lock_path", "/tmp"),
            ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
            ("ml2", "type_drivers", &ml2.type_drivers.join(",")),
            ("ml2", "tenant_network_types", &ml2.tenant_network_types.join(",")),
            ("ml2", "mechanism_drivers", &ml2.mechanism_drivers.join(",")),
            ("ml2", "extension_drivers", &ml2.extension_drivers.join(",")),
            ("ml2", "overlay_ip_version", "4"),
            ("ml2_type_geneve", "vni_ranges", "1:65536"),
            // What OVN puts into the header of each packet.
            ("ml2_type_geneve", "max_header_size", "38"),
            ("ml2_type_flat", "flat_networks", "*"),
            ("securitygroup", "enable_security_group", "true"),
            ("ovn", "ovn_metadata_enabled", &metadata),
            ("ovn", "enable_distributed_floating_ip", "false"),
        ])
        .database("database", "database")
        .bus("DEFAULT", "");
    super::pool(&mut settings.options, "database");
    super::authtoken(&mut settings, "neutron", &spec.keystone, spec.cache.is_some());
    for group in ["nova", "placement"] {
        super::login(&mut settings, "neutron", &spec.keystone, group);
        settings.options.set(group, "endpoint_type", "internal");
    }
    northbound(ovn(settings))
}

fn control_plane(neutron: &Neutron) -> Vec<Process> {
    let api = Runs::Wsgi {
        module: "neutron.wsgi.api:application",
        port: crate::shape::Port {
            number: port::NEUTRON,
            path: Some("/"),
        },
        processes: WORKERS,
        threads: 1,
        // By the time of the start workers find each other.
        extra: vec![("start-time", "%t")],
    };
    // Each worker has connections of its own to OVN.
    let api = api.loaded_by_workers();
    let spec = &neutron.spec;
    let worker = |name: &str, command: &str, ports: Vec<u16>| {
        let runs = Runs::worker(&[command, "--config-file", CONFIG], Worker::Connected(ports));
        Process::new(name, runs, DEPLOYMENT_READY)
    };
    let all = vec![
        Process::new("api", api, DEPLOYMENT_READY).replicas(neutron.spec.api.replicas),
        worker(
            "periodic-workers",
            "neutron-periodic-workers",
            database_ports(spec),
        ),
        worker(
            "ovn-maintenance",
            "neutron-ovn-maintenance-worker",
            ports(spec.ovn.nb_connection.as_deref(), NORTHBOUND),
        ),
    ];
    let certified = |process: Process| Process {
        volumes: vec![certificates(OvnCaller::ControlPlane)],
        ..process
    };
    all.into_iter().map(certified).collect()
}

fn database_ports(spec: &NeutronSpec) -> Vec<u16> {
    let given = spec.database.port.and_then(|port| u16::try_from(port).ok());
    vec![given.unwrap_or(DATABASE)]
}

/// The ports of databases such as tcp:192.0.2.1:6641,tcp:192.0.2.2:6641.
fn ports(connection: Option<&str>, usual: u16) -> Vec<u16> {
    let given = connection.unwrap_or_default().split(',');
    let given: Vec<u16> = given
        .filter_map(|one| one.rsplit_once(':')?.1.parse().ok())
        .collect();
    if given.is_empty() { vec![usual] } else { given }
}

/// Answers the metadata requests of the guests on its hypervisor.
fn agent(neutron: &Neutron) -> Process {
    let southbound = ports(neutron.spec.ovn.sb_connection.as_deref(), SOUTHBOUND);
    let runs = Runs::worker(
        &["neutron-ovn-agent", "--config-file", CONFIG],
        Worker::Connected(southbound),
    );
    let hypervisors = BTreeMap::from([("node-role.kubernetes.io/hypervisor".to_owned(), String::new())]);
    Process {
        workload: Workload::DaemonSet {
            nodes: hypervisors,
            unless: None,
        },
        settings: AGENT.to_owned(),
        grace: 10,
        volumes: vec![
            Volume::host("/run/openvswitch"),
            Volume::host("/var/lib/neutron"),
            // Namespaces that it makes are the node's.
            Volume::shared_host("/run/netns"),
            certificates(OvnCaller::Hypervisor),
        ],
        rights: Rights::Privileged { host_pid: false },
        ..Process::new("ovn-agent", runs, DEPLOYMENT_READY)
    }
}

fn agent_settings(metadata: &NeutronMetadata) -> Settings {
    let settings = Settings::new("neutron.conf").with(&[
        ("DEFAULT", "state_path", "/var/lib/neutron"),
        ("DEFAULT", "nova_metadata_host", &metadata.host),
        ("DEFAULT", "nova_metadata_port", &port::NOVA_METADATA.to_string()),
        ("DEFAULT", "metadata_workers", "1"),
        ("oslo_concurrency", "lock_path", "/var/lib/neutron/lock"),
        ("agent", "extensions", "metadata"),
        // It is root already; without a word here it would ask for sudo.
        ("agent", "root_helper", "env"),
        ("ovs", "ovsdb_connection", "unix:/run/openvswitch/db.sock"),
    ]);
    let helper = format!("privsep-helper --config-file {CONFIG}");
    let helpers = [
        "privsep",
        "privsep_dhcp_release",
        "privsep_ovs_vsctl",
        "privsep_namespace",
        "privsep_conntrack",
        "privsep_link",
    ];
    let settings = helpers.iter().fold(settings, |settings, group| {
        settings.with(&[(group, "helper_command", &helper)])
    });
    Settings {
        name: AGENT.to_owned(),
        ..ovn(settings).secret(SecretOption {
            group: "DEFAULT",
            option: "metadata_proxy_shared_secret",
            secret: metadata.secret_ref.name.clone(),
            key: "secret",
        })
    }
}
