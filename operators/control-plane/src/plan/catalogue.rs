//! How fields of a ControlPlane become fields of its services.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlaneSpec, LibvirtFrom};
use c5c3_api::common::{ExtraConfig, LocalRef};
use c5c3_api::openstack::{CephUser, GlanceBackend, LiveMigration};
use c5c3_api::services::{SERVICES, Service};
use c5c3_catalogue::Release;
use serde_json::{Map, Value, json};

use super::{infrastructure, projection, release, secrets};

/// What the fields of a service follow from.
pub struct Ground<'a> {
    pub spec: &'a ControlPlaneSpec,
    pub namespace: &'a str,
    /// The release of what comes with the service's image; none while that stays.
    pub release: Option<&'a Release>,
    /// What runs beside the service's image, by field.
    pub images: &'a BTreeMap<String, Value>,
}

/// The fields of a service that only it has.
pub fn own_fields(service: &Service, ground: &Ground<'_>) -> Value {
    match service.name {
        "keystone" => keystone_fields(ground),
        "glance" => glance_fields(ground),
        "nova" => nova_fields(ground),
        "neutron" => neutron_fields(ground),
        "cinder" => cinder_fields(ground),
        "tempest" => tempest_fields(ground),
        _ => json!({"replicas": (service.replicas)(ground.spec).unwrap_or(REPLICAS)}),
    }
}

/// How many pods of a service speak with the database.
pub fn pods(service: &Service, spec: &ControlPlaneSpec) -> i32 {
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

fn keystone_fields(ground: &Ground<'_>) -> Value {
    let spec = ground.spec;
    let service = &spec.services.keystone;
    let mut fields = json!({
        "replicas": service.replicas.unwrap_or(REPLICAS),
        "bootstrap": {
            "adminUser": "admin",
            "adminPasswordSecretRef": {"name": secrets::ADMIN, "key": "password"},
            "region": spec.region,
        },
    });
    if let Some(fernet) = &service.fernet {
        let mut keys = Map::new();
        if let Some(most) = fernet.max_active_keys {
            keys.insert("maxActiveKeys".to_owned(), json!(most));
        }
        // Admission lets no other interval through.
        if let Some(cron) = fernet.rotation_interval.as_deref().and_then(projection::cron) {
            keys.insert("rotationSchedule".to_owned(), json!(cron));
        }
        if !keys.is_empty() {
            fields["fernet"] = Value::Object(keys);
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

fn glance_fields(ground: &Ground<'_>) -> Value {
    let spec = ground.spec;
    let service = &spec.services.glance;
    let storage = service.storage.as_ref().map(|storage| json!(storage));
    json!({
        "replicas": glance_replicas(spec),
        "storage": storage.unwrap_or_else(|| json!({"backend": "file"})),
    })
}

/// The cells of a Nova, by name.
pub(super) fn cells(spec: &ControlPlaneSpec) -> Vec<String> {
    match spec.services.nova.cells.as_slice() {
        [] => vec!["cell1".to_owned()],
        cells => cells.to_vec(),
    }
}

fn nova_fields(ground: &Ground<'_>) -> Value {
    let spec = ground.spec;
    let service = &spec.services.nova;
    let replicas = service.replicas.clone().unwrap_or_default();
    let three = |number: Option<i32>| json!({"replicas": number.unwrap_or(REPLICAS)});
    // Brokers of others have one virtual host: the one cell that there may be then shares it.
    let managed = spec.infrastructure.messaging.hosts.is_empty();
    let compute = service.compute.clone().unwrap_or_default();
    let cell = |name: &String| {
        let messaging = infrastructure::messaging(spec, &secrets::cell_messaging(name));
        let mut cell = json!({"name": name});
        if managed {
            cell["messaging"] = messaging;
        }
        if let Some(url) = service.consoles.get(name) {
            cell["consoleEndpoint"] = json!(url);
        }
        if let Some(cluster) = &compute.cluster_ref {
            cell["computeRef"] = json!(cluster);
        }
        cell
    };
    let mut hypervisors = json!({
        "enabled": compute.enabled, "virtType": compute.virt_type, "liveMigration": compute.live_migration,
        "migrationSecretRef": {"name": secrets::MIGRATION},
    });
    if compute.libvirt == LibvirtFrom::Pod {
        let image = ground
            .release
            .and_then(|release| release::image(release, "libvirt").ok())
            .or_else(|| ground.images.get("libvirtImage").cloned());
        if let Some(image) = image {
            hypervisors["libvirtImage"] = image;
        }
    }
    let (claims, users) = (volume_claims(spec), volume_users(spec));
    if !claims.is_empty() {
        hypervisors["volumeClaims"] = claims.into();
    }
    if !users.is_empty() {
        hypervisors["volumeUsers"] = users.into();
    }
    if let Some(rbd) = &compute.rbd {
        hypervisors["rbd"] = json!(rbd);
    }
    json!({
        "api": three(replicas.api),
        "scheduler": three(replicas.scheduler),
        "conductor": three(replicas.conductor),
        "cells": cells(spec).iter().map(cell).collect::<Vec<_>>(),
        "metadata": {"secretRef": {"name": secrets::METADATA}},
        "compute": hypervisors,
    })
}

/// The cluster of the hypervisors, where it is another one.
pub fn hypervisors(spec: &ControlPlaneSpec) -> Option<&LocalRef> {
    let nova = &spec.services.nova;
    let compute = nova.compute.as_ref().filter(|_| nova.common.enabled)?;
    compute.cluster_ref.as_ref().filter(|_| compute.enabled)
}

/// Where Cinder keeps volumes as files: hypervisors mount it.
fn volume_claims(spec: &ControlPlaneSpec) -> Vec<Value> {
    let cinder = &spec.services.cinder;
    let backends = cinder.backends.iter();
    backends
        .filter(|backend| cinder.common.enabled && backend.file.is_some())
        .map(|backend| json!({"name": backend.claim("cinder")}))
        .collect()
}

/// As whom Cinder keeps volumes in Ceph: guests open them with the same keys.
fn volume_users(spec: &ControlPlaneSpec) -> Vec<Value> {
    let cinder = &spec.services.cinder;
    let pools = cinder.backends.iter().filter_map(|backend| backend.rbd.as_ref());
    let mut users: Vec<Value> = Vec::new();
    for rbd in pools.filter(|_| cinder.common.enabled) {
        let user = json!(CephUser {
            ceph_secret_ref: rbd.ceph_secret_ref.clone(),
            ceph_client_ref: rbd.ceph_client_ref.clone(),
        });
        if !users.contains(&user) {
            users.push(user);
        }
    }
    users
}

fn neutron_fields(ground: &Ground<'_>) -> Value {
    let spec = ground.spec;
    let ovn = &spec.infrastructure.ovn;
    let ovn = match (&ovn.northbound, &ovn.southbound) {
        (Some(northbound), Some(southbound)) => {
            json!({"enabled": true, "nbConnection": northbound, "sbConnection": southbound})
        }
        _ => json!({"enabled": true, "clusterRef": {"name": infrastructure::OVN}}),
    };
    let mut fields = json!({
        "api": {"replicas": spec.services.neutron.replicas.unwrap_or(REPLICAS)},
        "ovn": ovn,
    });
    if spec.services.nova.common.enabled {
        fields["metadata"] = json!({
            "host": format!("nova-metadata.{}.svc", ground.namespace),
            "secretRef": {"name": secrets::METADATA},
        });
        if let Some(cluster) = hypervisors(spec) {
            fields["metadata"]["computeRef"] = json!(cluster);
        }
    }
    fields
}

fn cinder_fields(ground: &Ground<'_>) -> Value {
    let service = &ground.spec.services.cinder;
    let replicas = service.replicas.clone().unwrap_or_default();
    let mut fields = json!({
        "api": {"replicas": replicas.api.unwrap_or(REPLICAS)},
        "scheduler": {"replicas": replicas.scheduler.unwrap_or(REPLICAS)},
        "volume": {"replicas": replicas.volume.unwrap_or(1)},
        "backends": service.backends,
    });
    if let Some(default) = &service.default_volume_type {
        fields["defaultVolumeType"] = json!(default);
    }
    fields
}

/// The smoke tests, unless something else is said.
const SMOKE: &str = "smoke";

fn tempest_fields(ground: &Ground<'_>) -> Value {
    let tempest = &ground.spec.tempest;
    let tests = tempest.tests.as_ref();
    let mut fields = json!({
        "tests": tests.map_or_else(|| json!({"includeRegex": SMOKE}), |tests| json!(tests)),
        "extraConfig": capabilities(ground.spec),
        // It tests what is there, not what is on its way.
        "dependsOn": SERVICES
            .iter()
            .filter(|service| !service.judges && service.runs(ground.spec))
            .map(|service| json!({"kind": service.kind, "name": service.name}))
            .collect::<Vec<_>>(),
    });
    if let Some(schedule) = &tempest.schedule {
        fields["schedule"] = json!(schedule);
    }
    fields
}

/// What no API tells of the cloud, and its spec does; what the user says wins.
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
