//! How fields of a ControlPlane become fields of its services.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlaneSpec, LibvirtFrom};
use c5c3_api::common::{ExtraConfig, LocalRef, ObjectRef, SecretKeyRef};
use c5c3_api::cortex::{CortexPipelines, PipelineToggle};
use c5c3_api::openstack::{
    Bootstrap, CephUser, ExternalScheduler, GlanceBackend, GlanceStorage, LiveMigration, NeutronMetadata,
    NeutronOvn, NeutronOvnTls, NovaCell, NovaCompute, NovaMetadata, NovaScheduler, Process,
};
use c5c3_api::services::{self, SERVICES, Service};
use c5c3_catalogue::Release;
use serde::Serialize;
use serde_json::{Map, Value, json};

use super::{infrastructure, ovn, projection, release, secrets};

/// What the fields of a service follow from.
pub(crate) struct Ground<'a> {
    pub spec: &'a ControlPlaneSpec,
    pub namespace: &'a str,
    /// The release of what comes with the service's image; none while that stays.
    pub release: Option<&'a Release>,
    /// What runs beside the service's image, by field.
    pub images: &'a BTreeMap<String, Value>,
}

/// Fields of a service's spec, as a cloud decides them.
#[derive(Default)]
pub(crate) struct Fields(pub Map<String, Value>);

impl Fields {
    /// Our types have string keys alone: none of them fails to become JSON.
    pub(crate) fn put(&mut self, name: &str, value: impl Serialize) {
        let value = serde_json::to_value(value).unwrap_or_default();
        self.0.insert(name.to_owned(), value);
    }

    pub(crate) fn put_some(&mut self, name: &str, value: Option<impl Serialize>) {
        if let Some(value) = value {
            self.put(name, value);
        }
    }

    fn with(mut self, name: &str, value: impl Serialize) -> Self {
        self.put(name, value);
        self
    }
}

/// The fields of a service that only it has.
pub(crate) fn own_fields(service: &Service, ground: &Ground<'_>) -> Fields {
    match service.name {
        "keystone" => keystone_fields(ground),
        "glance" => glance_fields(ground),
        "nova" => nova_fields(ground),
        "neutron" => neutron_fields(ground),
        "cinder" => cinder_fields(ground),
        "cortex" => cortex_fields(ground),
        "tempest" => tempest_fields(ground),
        _ => {
            let replicas = (service.replicas)(ground.spec).unwrap_or(REPLICAS);
            Fields::default().with("replicas", replicas)
        }
    }
}

/// How many pods of a service speak with the database.
pub(crate) fn pods(service: &Service, spec: &ControlPlaneSpec) -> i32 {
    match service.name {
        "glance" => glance_replicas(spec),
        "nova" => nova_pods(spec),
        "cinder" => cinder_pods(spec),
        _ if !service.keeps => 0,
        _ => (service.replicas)(spec).unwrap_or(REPLICAS),
    }
}

/// Replicas of which nothing is said.
const REPLICAS: i32 = 3;

fn processes(replicas: Option<i32>) -> Process {
    Process {
        replicas: replicas.unwrap_or(REPLICAS),
    }
}

fn keystone_fields(ground: &Ground<'_>) -> Fields {
    let spec = ground.spec;
    let service = &spec.services.keystone;
    let bootstrap = Bootstrap {
        admin_user: "admin".to_owned(),
        admin_password_secret_ref: SecretKeyRef {
            name: secrets::ADMIN.to_owned(),
            key: "password".to_owned(),
        },
        region: spec.region.clone(),
    };
    let mut fields = Fields::default()
        .with("replicas", service.replicas.unwrap_or(REPLICAS))
        .with("bootstrap", bootstrap);
    if let Some(fernet) = &service.fernet {
        // Untyped: of the two, one may be left to Keystone's object.
        let mut keys = Fields::default();
        keys.put_some("maxActiveKeys", fernet.max_active_keys);
        // Admission lets no other interval through.
        let schedule = fernet.rotation_interval.as_deref().and_then(projection::cron);
        keys.put_some("rotationSchedule", schedule);
        if !keys.0.is_empty() {
            fields.put("fernet", keys.0);
        }
    }
    fields
}

/// On a volume that only one node can use there is one, unless somebody says that more can share it.
fn glance_replicas(spec: &ControlPlaneSpec) -> i32 {
    let service = &spec.services.glance;
    let storage = service.storage.as_ref();
    let file = storage.is_none_or(|storage| storage.backend == GlanceBackend::File);
    let shared = storage.and_then(|storage| storage.file.as_ref()?.shared) == Some(true);
    let usual = if file && !shared { 1 } else { REPLICAS };
    service.replicas.unwrap_or(usual)
}

fn nova_pods(spec: &ControlPlaneSpec) -> i32 {
    let replicas = spec.services.nova.replicas.clone().unwrap_or_default();
    let usual = |number: Option<i32>| number.unwrap_or(REPLICAS);
    let cells = i32::try_from(cells(spec).len()).unwrap_or(1);
    // The API serves twice, with metadata; every cell has conductors of its own.
    2 * usual(replicas.api) + usual(replicas.scheduler) + (1 + cells) * usual(replicas.conductor)
}

fn cinder_pods(spec: &ControlPlaneSpec) -> i32 {
    let replicas = spec.services.cinder.replicas.clone().unwrap_or_default();
    let backends = i32::try_from(spec.services.cinder.backends.len()).unwrap_or(1);
    replicas.api.unwrap_or(REPLICAS)
        + replicas.scheduler.unwrap_or(REPLICAS)
        + backends * replicas.volume.unwrap_or(1)
}

fn glance_fields(ground: &Ground<'_>) -> Fields {
    let spec = ground.spec;
    let storage = spec.services.glance.storage.clone();
    let storage = storage.unwrap_or(GlanceStorage {
        backend: GlanceBackend::File,
        rbd: None,
        file: None,
        s3: None,
    });
    Fields::default()
        .with("replicas", glance_replicas(spec))
        .with("storage", storage)
}

/// The cells of a Nova, by name.
pub(super) fn cells(spec: &ControlPlaneSpec) -> Vec<String> {
    match spec.services.nova.cells.as_slice() {
        [] => vec!["cell1".to_owned()],
        cells => cells.to_vec(),
    }
}

fn nova_fields(ground: &Ground<'_>) -> Fields {
    let spec = ground.spec;
    let service = &spec.services.nova;
    let replicas = service.replicas.clone().unwrap_or_default();
    // Brokers of others have one virtual host: the one cell that there may be then shares it.
    let managed = spec.infrastructure.messaging.hosts.is_empty();
    let compute = service.compute.clone().unwrap_or_default();
    let cell = |name: String| NovaCell {
        compute_ref: compute.cluster_ref.clone(),
        database: None,
        messaging: managed.then(|| infrastructure::messaging(spec, &secrets::cell_messaging(&name))),
        console_endpoint: service.consoles.get(&name).cloned(),
        name,
    };
    let libvirt_image = || {
        let of_release = ground
            .release
            .and_then(|release| release::image(release, "libvirt").ok());
        let there = || serde_json::from_value(ground.images.get("libvirtImage")?.clone()).ok();
        of_release.or_else(there)
    };
    let cells: Vec<NovaCell> = cells(spec).into_iter().map(cell).collect();
    let hypervisors = NovaCompute {
        enabled: compute.enabled,
        virt_type: compute.virt_type,
        libvirt_image: (compute.libvirt == LibvirtFrom::Pod)
            .then(libvirt_image)
            .flatten(),
        live_migration: compute.live_migration,
        migration_secret_ref: Some(LocalRef::new(secrets::MIGRATION)),
        volume_claims: volume_claims(spec),
        volume_users: volume_users(spec),
        rbd: compute.rbd.clone(),
    };
    let scheduler = NovaScheduler {
        replicas: processes(replicas.scheduler).replicas,
        external_scheduler: cortex(ground).map(|endpoint| ExternalScheduler {
            enabled: true,
            endpoint: Some(endpoint),
        }),
    };
    Fields::default()
        .with("api", processes(replicas.api))
        .with("scheduler", scheduler)
        .with("conductor", processes(replicas.conductor))
        .with("cells", cells)
        .with(
            "metadata",
            NovaMetadata {
                secret_ref: LocalRef::new(secrets::METADATA),
            },
        )
        .with("compute", hypervisors)
}

/// The cluster of the hypervisors, where it is another one.
pub fn hypervisors(spec: &ControlPlaneSpec) -> Option<&LocalRef> {
    let nova = &spec.services.nova;
    let compute = nova.compute.as_ref().filter(|_| nova.common.enabled)?;
    compute.cluster_ref.as_ref().filter(|_| compute.enabled)
}

/// Where Cinder keeps volumes as files: hypervisors mount it.
fn volume_claims(spec: &ControlPlaneSpec) -> Vec<LocalRef> {
    let cinder = &spec.services.cinder;
    let backends = cinder.backends.iter();
    backends
        .filter(|backend| cinder.common.enabled && backend.file.is_some())
        .map(|backend| LocalRef::new(backend.claim("cinder")))
        .collect()
}

/// As whom Cinder keeps volumes in Ceph: guests open them with the same keys.
fn volume_users(spec: &ControlPlaneSpec) -> Vec<CephUser> {
    let cinder = &spec.services.cinder;
    let pools = cinder.backends.iter().filter_map(|backend| backend.rbd.as_ref());
    let mut users: Vec<CephUser> = Vec::new();
    for rbd in pools.filter(|_| cinder.common.enabled) {
        let user = CephUser {
            ceph_secret_ref: rbd.ceph_secret_ref.clone(),
            ceph_client_ref: rbd.ceph_client_ref.clone(),
        };
        if !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

fn neutron_fields(ground: &Ground<'_>) -> Fields {
    let spec = ground.spec;
    let wanted = &spec.infrastructure.ovn;
    let given = wanted.northbound.clone().zip(wanted.southbound.clone());
    let (northbound, southbound) = given.unzip();
    // An OVNCluster tells what its clients log in with.
    let tls = wanted.tls.as_ref();
    let tls = tls.filter(|tls| northbound.is_some() && tls.enabled);
    let tls = tls.and_then(|tls| {
        Some(NeutronOvnTls {
            cert_secret_ref: tls.cert_secret_ref.clone()?,
            hypervisor_secret_ref: tls.hypervisor_secret_ref.clone(),
        })
    });
    let ovn = NeutronOvn {
        enabled: true,
        cluster_ref: northbound.is_none().then(|| ObjectRef {
            name: ovn::OVN.to_owned(),
            namespace: None,
        }),
        nb_connection: northbound,
        sb_connection: southbound,
        tls,
    };
    let metadata = NeutronMetadata {
        host: format!("nova-metadata.{}.svc", ground.namespace),
        secret_ref: LocalRef::new(secrets::METADATA),
        compute_ref: hypervisors(spec).cloned(),
    };
    let mut fields = Fields::default()
        .with("api", processes(spec.services.neutron.replicas))
        .with("ovn", ovn);
    fields.put_some(
        "metadata",
        Some(metadata).filter(|_| spec.services.nova.common.enabled),
    );
    fields
}

fn cinder_fields(ground: &Ground<'_>) -> Fields {
    let service = &ground.spec.services.cinder;
    let replicas = service.replicas.clone().unwrap_or_default();
    let mut fields = Fields::default()
        .with("api", processes(replicas.api))
        .with("scheduler", processes(replicas.scheduler))
        .with("volume", processes(replicas.volume.or(Some(1))))
        .with("backends", &service.backends);
    fields.put_some("defaultVolumeType", service.default_volume_type.as_ref());
    fields.put_some("backup", service.backup.as_ref());
    fields
}

/// Where Nova asks Cortex.
fn cortex(ground: &Ground<'_>) -> Option<String> {
    let cortex = services::named("cortex").filter(|cortex| cortex.runs(ground.spec))?;
    Some(format!(
        "http://{}.{}.svc:{}",
        cortex.name, ground.namespace, cortex.port
    ))
}

fn cortex_fields(ground: &Ground<'_>) -> Fields {
    let pipelines = CortexPipelines {
        nova: Some(PipelineToggle {
            enabled: true,
            ..PipelineToggle::default()
        }),
        // Volumes are placed by Cinder, which does not ask.
        cinder: None,
    };
    Fields::default()
        .with("replicas", ground.spec.cortex.replicas.unwrap_or(REPLICAS))
        .with("pipelines", pipelines)
}

/// The smoke tests, unless something else is said.
const SMOKE: &str = "smoke";

fn tempest_fields(ground: &Ground<'_>) -> Fields {
    let tempest = &ground.spec.tempest;
    let others = SERVICES.iter().filter(|service| !service.judges);
    let others: Vec<_> = others
        .filter(|service| service.runs(ground.spec))
        // Untyped: the type always names a condition, and Ready is the default.
        .map(|service| json!({"kind": service.kind, "name": service.name}))
        .collect();
    let mut fields = Fields::default()
        .with("extraConfig", capabilities(ground.spec))
        // It tests what is there, not what is on its way.
        .with("dependsOn", others);
    match &tempest.tests {
        Some(tests) => fields.put("tests", tests),
        // Untyped: all but the choice is left to Tempest's object.
        None => fields.put("tests", json!({"includeRegex": SMOKE})),
    }
    fields.put_some("schedule", tempest.schedule.as_ref());
    fields
}

/// What no API reports about the cloud, and its spec does; what the user says wins.
fn capabilities(spec: &ControlPlaneSpec) -> ExtraConfig {
    let nova = &spec.services.nova;
    let compute = nova.compute.clone().unwrap_or_default();
    let shared = compute.rbd.is_some();
    let moves = compute.live_migration != LiveMigration::Off;
    let mut found = ExtraConfig::new();
    let mut say = |group: &str, option: &str, value: bool| {
        let options = found.entry(group.to_owned()).or_default();
        options.insert(option.to_owned(), value.to_string());
    };
    if nova.common.enabled {
        let group = "compute-feature-enabled";
        say(group, "vnc_console", !nova.consoles.is_empty());
        // Disks that are not shared are copied.
        say(group, "block_migration_for_live_migration", !shared);
        if !moves {
            say(group, "live_migration", false);
        }
    }
    for (group, options) in &spec.tempest.extra_config {
        let known = found.entry(group.clone()).or_default();
        known.extend(options.clone());
    }
    found
}
