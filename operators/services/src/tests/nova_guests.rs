//! What Nova brings for its guests: consoles, disks that move, and the checks before an upgrade.

use c5c3_api::openstack::Nova;
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::shape::{Process, Service, Subject, Variable, VolumeSource};
use crate::testing::*;

/// Consoles in the first of two cells, and a secret that the hypervisors share.
pub(crate) fn with_consoles() -> Nova {
    let bus = json!({"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "cell2-bus"}});
    nova(json!({
        "cells": [
            {"name": "cell1", "consoleEndpoint": "https://console.example/cell1/"},
            {"name": "cell2", "messaging": bus},
        ],
        "compute": {"enabled": true, "virtType": "qemu", "migrationSecretRef": {"name": "metadata"}},
    }))
}

fn up() -> Observed<Services<Nova>> {
    let mut seen = observed(with_consoles(), facts());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    seen
}

fn process<'a>(service: &'a Service, name: &str) -> &'a Process {
    let mut all = service.processes.iter();
    all.find(|process| process.name == name)
        .unwrap_or_else(|| panic!("{name}"))
}

fn named(seen: &Observed<Services<Nova>>, kind: &str, prefix: &str) -> Vec<Value> {
    let all = objects(seen).into_iter();
    all.filter(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object["kind"] == kind && name.starts_with(prefix)
    })
    .collect()
}

fn option<'a>(service: &'a Service, settings: &str, group: &str, option: &str) -> Option<&'a str> {
    let found = service.settings.iter().find(|own| own.name == settings);
    found.expect("settings").options.get(group, option)
}

#[test]
fn consoles_are_there_for_a_cell_whose_address_is_given() {
    let service = with_consoles().shape();
    let proxies = service
        .processes
        .iter()
        .filter(|process| process.name.starts_with("novnc"));
    let proxies: Vec<&str> = proxies.map(|process| process.name.as_str()).collect();
    assert_eq!(proxies, ["novncproxy-cell1"]);
    assert_eq!(service.api().map(|api| api.name.as_str()), Some("api"));
    let vnc = |settings: &str, name: &str| option(&service, settings, "vnc", name);
    assert_eq!(vnc("compute-cell1", "enabled"), Some("true"));
    assert_eq!(
        vnc("compute-cell1", "novncproxy_base_url"),
        Some("https://console.example/cell1/vnc_lite.html")
    );
    assert_eq!(vnc("compute-cell2", "enabled"), Some("false"));
    let listens = |name: &str| {
        let environment = &process(&service, name).environment;
        environment
            .iter()
            .any(|(name, _)| name == "OS_VNC__SERVER_LISTEN")
    };
    assert!(listens("compute-cell1") && !listens("compute-cell2"));
}

#[test]
fn a_proxy_of_consoles_knows_its_cell_and_logs_in_nowhere() {
    let seen = up();
    assert_eq!(named(&seen, "Deployment", "nova-novncproxy-cell1").len(), 1);
    assert_eq!(named(&seen, "Service", "nova-novncproxy-cell1").len(), 1);
    let keys = |prefix: &str| {
        let secret = named(&seen, "Secret", prefix).remove(0);
        let data = secret["data"].as_object().expect("data").clone();
        data.into_iter().map(|(key, _)| key).collect::<Vec<_>>()
    };
    assert_eq!(
        keys("nova-novncproxy-cell1-connections-"),
        ["OS_DATABASE__CONNECTION"]
    );
    assert_eq!(
        keys("nova-novncproxy-cell1-credentials-"),
        ["OS_DEFAULT__TRANSPORT_URL"]
    );
}

#[test]
fn disks_move_where_hypervisors_share_a_secret() {
    let seen = up();
    assert_eq!(named(&seen, "DaemonSet", "nova-disks").len(), 1);
    for prefix in ["nova-disks-credentials-", "nova-compute-cell2-credentials-"] {
        let secret = named(&seen, "Secret", prefix).remove(0);
        assert!(secret["data"]["OS_MIGRATION__SECRET"].is_string(), "{prefix}");
    }
    let starts = |nova: &Nova| {
        let service = nova.shape();
        format!("{:?}", process(&service, "compute-cell1").runs)
    };
    assert!(starts(&with_consoles()).contains("exec python3 /etc/nova/disks.py nova-compute"));
    // Without one nothing serves them, and nova-compute starts as ever.
    let without = nova(json!({}));
    assert!(starts(&without).contains("exec nova-compute"));
    assert!(
        without
            .shape()
            .processes
            .iter()
            .all(|process| process.name != "disks")
    );
}

#[test]
fn guests_move_by_tls_unless_somebody_says_otherwise() {
    let image = json!({"repository": "ghcr.io/c5c3/libvirt", "tag": "11.3"});
    for (given, listen, scheme, native) in [
        (None, "tls", "tls", Some("true")),
        (Some("off"), "off", "tcp", None),
        (Some("plaintext"), "plaintext", "tcp", None),
    ] {
        let mut compute = json!({"enabled": true, "libvirtImage": image});
        if let Some(given) = given {
            compute["liveMigration"] = given.into();
        }
        let service = nova(json!({"compute": compute})).shape();
        let libvirt = process(&service, "libvirt");
        let told = libvirt.environment.iter().find(|(name, _)| name == "LISTEN");
        assert_eq!(
            told.map(|(_, value)| value),
            Some(&Variable::Text(listen.to_owned()))
        );
        let of_nodes = |process: &Process| {
            let mut volumes = process.volumes.iter();
            volumes.any(|volume| matches!(volume.source, VolumeSource::NodeCertificates { .. }))
        };
        assert_eq!(of_nodes(libvirt), listen == "tls");
        assert!(
            !of_nodes(process(&service, "compute-cell1")),
            "libvirtd speaks for it"
        );
        let libvirt = |name: &str| option(&service, "compute-cell1", "libvirt", name);
        assert_eq!(libvirt("live_migration_scheme"), Some(scheme));
        assert_eq!(libvirt("live_migration_with_native_tls"), native);
        assert_eq!(libvirt("live_migration_permit_auto_converge"), Some("true"));
        assert_eq!(libvirt("live_migration_timeout_action"), Some("force_complete"));
    }
}

#[test]
fn an_upgrade_is_checked_before_anything_changes() {
    let schema = with_consoles().shape().schema;
    assert_eq!(schema.expand[0].command, ["/etc/nova/checks.py"]);
    assert_eq!(schema.expand[1..], schema.steps);
    assert!(schema.steps.iter().all(|step| step.name != "upgrade-check"));
}
