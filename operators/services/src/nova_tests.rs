//! A service with several processes, databases and a message bus fits the one descriptor: Nova as it
//! will be, for the decisions alone.

use c5c3_api::common::{Cache, Database, KeystoneAuth, Messaging};
use c5c3_api::conditions::{DATABASE_READY, MESSAGING_READY, service};
use c5c3_api::openstack::{Nova, port};
use c5c3_kit::{Observed, Part};
use serde_json::{Value, json};

use crate::descriptor::{Descriptor, Format, Port, Process, Runs, Step};
use crate::kinds::common_blocks;
use crate::reconcile::Services;
use crate::subject::Subject;
use crate::testing::*;

const CONDUCTOR_FIRST: &[&str] = &["conductor"];

const fn wsgi(name: &'static str, module: &'static str, number: u16) -> Process {
    Process {
        name,
        runs: Runs::Wsgi {
            module,
            port: Port {
                number,
                path: Some("/"),
            },
            processes: 2,
            threads: 1,
            extra: &[],
        },
        after: CONDUCTOR_FIRST,
        grace: 60,
        part: service::API_READY,
    }
}

const DESCRIPTOR: Descriptor = Descriptor {
    name: "nova",
    endpoint_path: "/v2.1",
    config_file: "nova.conf",
    format: Format::Oslo,
    environment: &[],
    defaults: &[],
    schema: &[
        Step::new("api-db-sync", &["nova-manage", "api_db", "sync"]),
        Step::new("map-cell0", &["nova-manage", "cell_v2", "map_cell0"]),
        Step::new("db-sync", &["nova-manage", "db", "sync"]),
        Step {
            name: "create-cell",
            command: &["nova-manage", "cell_v2", "create_cell", "--name", "cell1"],
            // The address of the message bus becomes part of the cell.
            credentials: true,
        },
    ],
    expand: &[],
    contract: &[Step::new(
        "data-migrations",
        &["nova-manage", "db", "online_data_migrations"],
    )],
    starts_early: false,
    processes: &[
        program("conductor", &["nova-conductor"], service::CONDUCTOR_READY),
        Process {
            after: CONDUCTOR_FIRST,
            ..program("scheduler", &["nova-scheduler"], service::SCHEDULER_READY)
        },
        wsgi("api", "nova.wsgi.osapi_compute:application", port::NOVA),
        wsgi("metadata", "nova.wsgi.metadata:application", 8775),
        Process {
            runs: Runs::Program {
                command: &["nova-novncproxy"],
                port: Some(Port {
                    number: 6080,
                    path: None,
                }),
            },
            ..program("console", &[], service::API_READY)
        },
    ],
    parts: &[
        Part::required(DATABASE_READY),
        Part::required(MESSAGING_READY),
        Part::required(service::CONDUCTOR_READY),
        Part::required(service::SCHEDULER_READY),
        Part::required(service::API_READY),
    ],
};

impl Subject for Nova {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const CONTROLLER: &'static str = "nova";
    const MESSAGING: bool = true;

    common_blocks!();

    fn replicas(&self, process: &str) -> i32 {
        match process {
            "conductor" => self.spec.conductor.replicas,
            "scheduler" => self.spec.scheduler.replicas,
            _ => self.spec.api.replicas,
        }
    }

    /// That of each cell bears the cell's name.
    fn databases(&self) -> Vec<(String, Database)> {
        let server = &self.spec.database.server;
        let named = |group: &str, name: &str| {
            let database = Database {
                database: name.to_owned(),
                ..server.clone()
            };
            (group.to_owned(), database)
        };
        let cells = self
            .spec
            .cells
            .iter()
            .map(|cell| named(&format!("{}_database", cell.name), &format!("nova_{}", cell.name)));
        [
            named("database", &server.database),
            named("api_database", &self.spec.database.api_database),
            named("cell0_database", &self.spec.database.cell_database),
        ]
        .into_iter()
        .chain(cells)
        .collect()
    }

    fn cache(&self) -> Option<&Cache> {
        self.spec.cache.as_ref()
    }

    fn messaging(&self) -> Option<&Messaging> {
        Some(&self.spec.messaging)
    }

    fn keystone(&self) -> Option<&KeystoneAuth> {
        Some(&self.spec.keystone)
    }
}

fn nova() -> Observed<Services<Nova>> {
    let nova = json!({
        "apiVersion": "nova.openstack.c5c3.io/v1alpha1", "kind": "Nova",
        "metadata": {"namespace": "openstack", "name": "nova", "uid": "n"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/nova", "tag": "32.2.1"},
            "database": {"clusterRef": {"name": "mariadb"}, "database": "nova", "secretRef": {"name": "service-db"}},
            "messaging": {"clusterRef": {"name": "rabbitmq"}, "secretRef": {"name": "service-db"}},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "cells": [{"name": "cell2"}],
        },
    });
    let broker = json!({"metadata": {"name": "rabbitmq"}, "spec": {},
        "status": {"conditions": [{"type": "AllReplicasReady", "status": "True"}],
            "defaultUser": {"serviceReference": {"name": "rabbitmq", "namespace": "openstack"}}}});
    let mut facts = facts();
    facts.brokers.insert(
        "rabbitmq".into(),
        serde_json::from_value(broker).expect("a broker"),
    );
    observed(serde_json::from_value(nova).expect("a Nova"), facts)
}

fn names(seen: &Observed<Services<Nova>>, kind: &str) -> Vec<String> {
    let all = objects(seen).into_iter().filter(|object| object["kind"] == kind);
    all.map(|object| object["metadata"]["name"].as_str().expect("a name").to_owned())
        .collect()
}

#[test]
fn conductors_are_up_before_what_calls_them() {
    let mut seen = nova();
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    assert_eq!(names(&seen, "Deployment"), ["nova-conductor", "nova-console"]);
    assert_eq!(state(&seen, service::API_READY).1, "waits until conductor is up");
    take_deployments(&mut seen);
    let all = [
        "nova-conductor",
        "nova-scheduler",
        "nova",
        "nova-metadata",
        "nova-console",
    ];
    assert_eq!(names(&seen, "Deployment"), all);
    take_deployments(&mut seen);
    assert_eq!(state(&seen, service::API_READY).0, "Ready");
    // One process that is not up is not hidden by another of the same condition.
    let metadata = seen.facts.deployments.get_mut("nova-metadata").expect("there");
    metadata.status = None;
    assert_eq!(state(&seen, service::API_READY).0, "Progressing");
    // A change begins with the conductors again; what runs stays.
    seen.object.spec.common.extra_config =
        serde_json::from_value(json!({"DEFAULT": {"cpu_allocation_ratio": "2"}})).expect("options");
    assert_eq!(names(&seen, "Deployment"), ["nova-conductor", "nova-console"]);
    assert_eq!(
        kept(&seen, "Deployment"),
        ["nova", "nova-metadata", "nova-scheduler"]
    );
}

#[test]
fn every_port_has_its_service_and_every_database_its_objects() {
    let seen = nova();
    assert_eq!(names(&seen, "Service"), ["nova", "nova-metadata", "nova-console"]);
    let databases = [
        "nova",
        "nova-api-database",
        "nova-cell0-database",
        "nova-cell2-database",
    ];
    assert_eq!(names(&seen, "Database"), databases);
    let connections = objects(&seen).into_iter().find(|object| {
        let name = object["metadata"]["name"].as_str().unwrap_or_default();
        name.starts_with("nova-connections")
    });
    let connections = connections.expect("there")["data"].clone();
    for variable in ["DATABASE", "API_DATABASE", "CELL0_DATABASE", "CELL2_DATABASE"] {
        assert!(connections.get(format!("OS_{variable}__CONNECTION")).is_some());
    }
}

#[test]
fn a_step_that_needs_the_bus_waits_for_its_credentials() {
    let mut seen = nova();
    let job = object(&seen, "Job").expect("wanted").to_string();
    assert!(job.contains("nova-credentials-"), "{job}");
    seen.facts.brokers.clear();
    assert_eq!(count(&seen, "Job"), 0);
}

#[test]
fn data_is_migrated_when_all_run_the_new_version() {
    let mut seen = nova();
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
