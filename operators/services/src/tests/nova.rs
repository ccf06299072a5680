//! Nova: cells, each with a database, a bus and conductors of its own, and hypervisors that know the
//! least that they need.

use c5c3_api::conditions::service;
use c5c3_api::openstack::Nova;
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::testing::*;

fn seen() -> Observed<Services<Nova>> {
    observed(nova(json!({})), facts())
}

fn names(seen: &Observed<Services<Nova>>, kind: &str) -> Vec<String> {
    let all = objects(seen).into_iter().filter(|object| object["kind"] == kind);
    all.map(|object| object["metadata"]["name"].as_str().expect("a name").to_owned())
        .collect()
}

/// The values of the Secret whose name begins so.
fn variables(seen: &Observed<Services<Nova>>, prefix: &str) -> Vec<String> {
    let secret = objects(seen).into_iter().find(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        object["kind"] == "Secret" && name.starts_with(prefix)
    });
    let data = secret.unwrap_or_else(|| panic!("{prefix}"))["data"].clone();
    data.as_object().expect("data").keys().cloned().collect()
}

#[test]
fn workers_load_the_application_themselves() {
    let texts: Vec<String> = objects(&seen())
        .iter()
        .filter(|object| object["kind"] == "ConfigMap")
        .flat_map(|object| object["data"].as_object().cloned().unwrap_or_default())
        .filter(|(name, _)| name.ends_with("-uwsgi.ini"))
        .map(|(_, text)| text.as_str().unwrap_or_default().to_owned())
        .collect();
    assert_eq!(texts.len(), 2, "API and metadata");
    // Nova 33 starts its threads while it is loaded; forked workers had none of them and answered nothing.
    assert!(
        texts.iter().all(|text| text.contains("\nlazy-apps = true\n")),
        "{texts:?}"
    );
}

#[test]
fn conductors_are_up_before_what_calls_them() {
    let mut seen = seen();
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    assert_eq!(
        names(&seen, "StatefulSet"),
        ["nova-conductor-cell1", "nova-conductor-cell2"]
    );
    assert_eq!(names(&seen, "Deployment"), [""; 0]);
    assert_eq!(names(&seen, "DaemonSet"), ["nova-libvirt"]);
    assert_eq!(
        state(&seen, service::API_READY).1,
        "waiting until conductor-cell1 is up"
    );
    take_deployments(&mut seen);
    assert_eq!(names(&seen, "Deployment"), ["nova", "nova-metadata"]);
    assert_eq!(
        names(&seen, "DaemonSet"),
        ["nova-libvirt", "nova-compute-cell1", "nova-compute-cell2"]
    );
    take_deployments(&mut seen);
    assert_eq!(state(&seen, service::API_READY).0, "Ready");
    // One process that is not up is not hidden by another of the same condition.
    let metadata = seen.facts.deployments.get_mut("nova-metadata").expect("there");
    metadata.status = None;
    assert_eq!(state(&seen, service::API_READY).0, "Progressing");
    // A change begins with the conductors again; what runs stays.
    seen.object.spec.common.extra_config =
        serde_json::from_value(json!({"DEFAULT": {"cpu_allocation_ratio": "2"}})).expect("options");
    assert_eq!(names(&seen, "Deployment"), [""; 0]);
    assert_eq!(kept(&seen, "Deployment"), ["nova", "nova-metadata"]);
}

#[test]
fn a_hypervisor_knows_its_cells_bus_and_no_database() {
    let mut seen = seen();
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    assert!(
        variables(&seen, "nova-conductor-cell2-connections-") == ["OS_DATABASE__CONNECTION"],
        "a cell with a bus of its own knows no other database"
    );
    let known = variables(&seen, "nova-compute-cell2-credentials-");
    assert!(
        known.contains(&"OS_DEFAULT__TRANSPORT_URL".to_owned()),
        "{known:?}"
    );
    assert!(known.iter().all(|name| !name.contains("DATABASE")), "{known:?}");
    assert!(known.iter().all(|name| !name.contains("METADATA")), "{known:?}");
    let connected = names(&seen, "Secret");
    let of_compute = connected.iter().filter(|name| name.starts_with("nova-compute"));
    assert!(
        of_compute.clone().all(|name| name.contains("-credentials-")),
        "{connected:?}"
    );
    // The two cells have different passwords for their buses.
    let url = |prefix: &str| {
        let secret = objects(&seen).into_iter().find(|object| {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            name.starts_with(prefix)
        });
        secret.expect("there")["data"]["OS_DEFAULT__TRANSPORT_URL"].clone()
    };
    assert_ne!(
        url("nova-compute-cell1-credentials-"),
        url("nova-compute-cell2-credentials-")
    );
}

#[test]
fn every_cell_has_its_database_and_its_bus() {
    let seen = seen();
    let databases = [
        "nova-api-database",
        "nova-cell0-database",
        "nova-cell1-cell-database",
        "nova-cell2-cell-database",
    ];
    assert_eq!(names(&seen, "Database"), databases);
    assert_eq!(names(&seen, "Vhost"), ["nova", "nova-cell2"]);
    let known = variables(&seen, "nova-setup-connections-");
    for variable in [
        "DATABASE",
        "API_DATABASE",
        "CELL1_CELL_DATABASE",
        "CELL2_CELL_DATABASE",
    ] {
        assert!(known.contains(&format!("OS_{variable}__CONNECTION")), "{known:?}");
    }
    let known = variables(&seen, "nova-setup-credentials-");
    for variable in ["OS_CELL1_CELL__TRANSPORT_URL", "OS_CELL2_CELL__TRANSPORT_URL"] {
        assert!(known.contains(&variable.to_owned()), "{known:?}");
    }
    let api = variables(&seen, "nova-connections-");
    assert_eq!(api, ["OS_API_DATABASE__CONNECTION", "OS_DATABASE__CONNECTION"]);
}

#[test]
fn cells_that_share_no_bus_with_the_api_leave_it_conductors_of_its_own() {
    let own = |name: &str| json!({"name": name, "messaging": {"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "cell2-bus"}}});
    let cells = json!({"cells": [own("cell1"), own("cell2")]});
    let mut seen = observed(nova(cells), facts());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    let all = ["nova-conductor-cell1", "nova-conductor-cell2", "nova-conductor"];
    assert_eq!(names(&seen, "StatefulSet"), all);
}

#[test]
fn a_new_password_reaches_the_list_of_cells_and_what_reads_it() {
    let mut seen = seen();
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    take_deployments(&mut seen);
    let config = |seen: &Observed<Services<Nova>>| {
        let api = objects(seen)
            .into_iter()
            .find(|object| object["metadata"]["name"] == "nova" && object["kind"] == "Deployment");
        api.map(|api| api["spec"]["template"]["metadata"]["annotations"]["c5c3.io/config"].clone())
    };
    let before = config(&seen).expect("there");
    seen.facts.secrets.insert(
        "cell2-bus".to_owned(),
        secret(&[("username", "cell2"), ("password", "another")]),
    );
    assert_eq!(count(&seen, "Job"), 1, "the cells are written anew");
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    take_deployments(&mut seen);
    assert_ne!(config(&seen).expect("there"), before);
}

#[test]
fn hypervisors_are_mapped_when_they_appear() {
    let mut seen = seen();
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    take_deployments(&mut seen);
    assert_eq!(count(&seen, "Job"), 0, "no hypervisor yet");
    let pod = |node: &str, ready: &str| {
        serde_json::from_value(json!({
            "metadata": {"name": format!("c-{node}"), "labels": {"app.kubernetes.io/component": "compute-cell1"},
                "annotations": {"c5c3.io/image": "ghcr.io/c5c3/nova:32.2.1"}},
            "spec": {"nodeName": node, "containers": []},
            "status": {"conditions": [{"type": "Ready", "status": ready}]},
        }))
        .expect("a Pod")
    };
    seen.facts.pods = vec![
        pod("node-2", "True"),
        pod("node-1", "True"),
        pod("node-3", "False"),
    ];
    let job = object(&seen, "Job").expect("wanted");
    let command = job
        .pointer("/spec/template/spec/containers/0/command")
        .expect("a command");
    let last: Vec<&Value> = command.as_array().expect("words").iter().rev().take(4).collect();
    assert_eq!(last, ["node-2", "node-1", "60", "/etc/nova/hosts.py"]);
    assert_eq!(
        status(&seen, "cells"),
        json!([{"name": "cell1", "status": "Ready", "computeNodes": 2}, {"name": "cell2", "status": "Ready", "computeNodes": 0}])
    );
    take_job(&mut seen, "nova-discover-hosts", Some("Complete"));
    assert_eq!((count(&seen, "Job"), kept(&seen, "Job").len()), (0, 2));
}

#[test]
fn data_is_migrated_when_all_run_the_new_version() {
    let mut seen = seen();
    seen.object.status = serde_json::from_value(json!({"installedRelease": "31.0.0"})).expect("a status");
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    assert_eq!(
        (count(&seen, "Job"), status(&seen, "upgradePhase")),
        (0, json!("RollingOut"))
    );
    take_deployments(&mut seen);
    let noted = json!({"installedRelease": "31.0.0", "contracting": status(&seen, "contracting")});
    seen.object.status = serde_json::from_value(noted).expect("a status");
    let job = object(&seen, "Job").expect("wanted").to_string();
    assert!(job.contains("online_data_migrations"), "{job}");
    take_job(&mut seen, "nova-data-migrations", Some("Complete"));
    assert_eq!(status(&seen, "installedRelease"), Value::from("32.2.1"));
}

#[test]
fn a_node_of_a_cell_that_there_is_not_is_told() {
    let mut seen = seen();
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    take_deployments(&mut seen);
    take_deployments(&mut seen);
    let before = objects(&seen);
    seen.facts.strays = vec![crate::facts::Stray {
        node: "node-7".to_owned(),
        label: "nova.openstack.c5c3.io/cell",
        value: "cell9".to_owned(),
        known: vec!["cell1".to_owned(), "cell2".to_owned()],
        part: service::CELLS_READY,
    }];
    assert_eq!(
        state(&seen, service::CELLS_READY),
        (
            "Invalid".to_owned(),
            "node node-7 is labelled nova.openstack.c5c3.io/cell=cell9, and there is no such cell: label it with one \
             of cell1, cell2, or add the cell"
                .to_owned()
        )
    );
    assert_eq!(objects(&seen), before, "what runs goes on");
}

/// With a Nova that says what it was asked, and how it went.
#[test]
fn a_purge_keeps_a_month_and_tells_a_failure_from_nothing_to_do() {
    const MANAGE: &str = "\
import os
class DbCommands:
    def archive_deleted_rows(self, before, until_complete, verbose):
        print(f'archive {before} {until_complete}')
        return int(os.environ['ARCHIVE'])
    def purge(self, before, verbose):
        print(f'purge {before}')
        return int(os.environ['PURGE'])
";
    let folder = tempfile::tempdir().expect("a directory");
    let nova = folder.path().join("nova");
    std::fs::create_dir_all(nova.join("cmd")).expect("made");
    for (name, text) in [
        ("__init__.py", ""),
        ("cmd/__init__.py", ""),
        ("cmd/manage.py", MANAGE),
        ("config.py", "def parse_args(words): pass\n"),
        ("objects.py", "def register_all(): pass\n"),
    ] {
        std::fs::write(nova.join(name), text).expect("written");
    }
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kinds/nova/purge.py");
    for (archive, purge, succeeds) in [
        ("0", "3", true),
        ("1", "0", true),
        ("3", "0", false),
        ("1", "4", false),
    ] {
        let ran = std::process::Command::new("python3")
            .args(["-B", script, "30"])
            .env("PYTHONPATH", folder.path())
            .env("ARCHIVE", archive)
            .env("PURGE", purge)
            .output();
        let Ok(output) = ran else {
            use std::io::Write;
            let _ = writeln!(std::io::stderr(), "skipped: there is no python3 on this machine");
            return;
        };
        let said = String::from_utf8_lossy(&output.stdout);
        assert_eq!(output.status.success(), succeeds, "{archive} {purge}: {said}");
        let asked = jiff::Timestamp::now().to_zoned(jiff::tz::TimeZone::UTC);
        let days = [30, 31].map(|days| jiff::Span::new().days(days));
        let before = days.map(|span| asked.checked_sub(span).expect("a time").date().to_string());
        assert!(
            before
                .iter()
                .any(|day| said.contains(&format!("archive {day} True"))),
            "{said}"
        );
    }
}
