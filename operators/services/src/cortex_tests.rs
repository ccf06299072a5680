//! A program that is no OpenStack service fits the one shape: Cortex as it will be, for the
//! decisions alone.

use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY};
use c5c3_api::cortex::Cortex;
use c5c3_api::openstack::port;
use c5c3_kit::{Observed, Part};
use serde_json::{Value, json};

use crate::reconcile::Services;
use crate::shape::{Format, Login, NamedDatabase, Port, Process, Runs, Service, Settings, Subject};
use crate::testing::*;

impl Subject for Cortex {
    const SERVICE: &'static str = "cortex";
    const PARTS: &'static [Part] = &[Part::required(DATABASE_READY), Part::required(DEPLOYMENT_READY)];

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let mut settings = Settings::new("cortex.yaml").with(&[
            ("api", "listen", "0.0.0.0:8080"),
            ("keystone", "authUrl", &spec.keystone.auth_url),
        ]);
        settings.logins.push(Login {
            group: "keystone",
            secret: spec.keystone.app_credential_ref.secret_name.clone(),
        });
        let database = spec.database.clone().map(|database| NamedDatabase {
            name: "database".to_owned(),
            database,
        });
        if database.is_some() {
            settings = settings.database("database", "database");
        }
        let memory = (DATABASE_READY, "features are kept in memory".to_owned());
        let runs = Runs::Program {
            command: ["c5c3", "cortex", "--config", "/etc/cortex/cortex.yaml"]
                .map(str::to_owned)
                .into(),
            port: Some(Port {
                number: port::CORTEX,
                path: Some("/healthz"),
            }),
        };
        Service {
            format: Format::Yaml,
            status: self.status.as_ref().map(|status| status.common.clone()),
            settings: vec![settings],
            not_required: database.is_none().then_some(memory).into_iter().collect(),
            databases: database.into_iter().collect(),
            keystone: Some(spec.keystone.clone()),
            processes: vec![Process {
                grace: 30,
                ..Process::new("api", runs, DEPLOYMENT_READY).replicas(spec.replicas)
            }],
            ..Service::new(self, spec.common.clone())
        }
    }
}

fn cortex(database: Option<Value>) -> Observed<Services<Cortex>> {
    let mut cortex = json!({
        "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Cortex",
        "metadata": {"namespace": "openstack", "name": "cortex", "uid": "x"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/c5c3", "tag": "0.1.0"}, "replicas": 2,
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
        },
    });
    if let Some(database) = database {
        cortex["spec"]["database"] = database;
    }
    observed(serde_json::from_value(cortex).expect("a Cortex"), facts())
}

fn managed() -> Option<Value> {
    Some(
        json!({"clusterRef": {"name": "mariadb"}, "database": "cortex", "secretRef": {"name": "service-db"}}),
    )
}

#[test]
fn its_file_is_yaml_and_has_only_its_own_options() {
    let seen = cortex(None);
    let config = object(&seen, "ConfigMap").expect("configured");
    let expected = "\"api\":\n  \"listen\": \"0.0.0.0:8080\"\n\"keystone\":\n  \"authUrl\": \"http://keystone:5000/v3\"\n";
    assert_eq!(config["data"], json!({"cortex.yaml": expected}));
}

#[test]
fn without_a_database_it_needs_none_and_no_step() {
    let mut seen = cortex(None);
    assert_eq!((count(&seen, "Job"), count(&seen, "Database")), (0, 0));
    assert_eq!(
        count(&seen, "Secret"),
        2,
        "that of its credentials, and the key of its name"
    );
    assert_eq!(state(&seen, DATABASE_READY).0, "NotRequired");
    assert_eq!(status(&seen, "installedRelease"), Value::Null);
    take_deployments(&mut seen);
    assert_eq!(state(&seen, DEPLOYMENT_READY).0, "Ready");
    assert_eq!(status(&seen, "installedRelease"), "0.1.0");
}

#[test]
fn with_a_database_it_starts_when_that_is_there() {
    let mut seen = cortex(managed());
    let server = seen.facts.databases.remove("mariadb").expect("there");
    assert_eq!(count(&seen, "Deployment"), 0);
    assert_eq!(state(&seen, DATABASE_READY).1, "MariaDB mariadb is missing");
    assert_eq!(state(&seen, DEPLOYMENT_READY).1, "waits for the database");
    seen.facts.databases.insert("mariadb".to_owned(), server);
    assert_eq!((count(&seen, "Deployment"), count(&seen, "Job")), (1, 0));
    assert_eq!(state(&seen, DATABASE_READY).0, "Ready");
    // What runs goes on when the database is away.
    take_deployments(&mut seen);
    seen.object.status = serde_json::from_value(json!({"installedRelease": "0.1.0"})).expect("a status");
    seen.facts.databases.clear();
    assert_eq!(count(&seen, "Deployment"), 1);
    assert_eq!(state(&seen, DATABASE_READY).0, "Waiting");
}
