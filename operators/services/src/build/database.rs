//! Database, User and Grant of a managed database.

use c5c3_api::common::Database;
use serde_json::{Value, json};

use crate::config;
use crate::error::Error;
use crate::facts::{Facts, readiness};
use crate::names::Names;
use crate::shape::{NamedDatabase, Service};

/// The account by which a managed database is used. Every password has one of its own: pods that
/// know the password before work on until they are replaced.
pub struct Account {
    /// Name of its User and Grant.
    pub object: String,
    pub username: String,
    password: String,
}

impl Account {
    pub fn of(names: &Names, group: &str, database: &Database, facts: &Facts) -> Result<Self, Error> {
        let value = |key| super::secrets::value(facts, &database.secret_ref.name, key);
        let (username, password) = (value("username")?, value("password")?);
        let mark = config::hash(&[&facts.naming, &names.namespace, &names.name, group, &password]);
        Ok(Self {
            object: format!("{}-{mark}", names.database_object(group)),
            username: format!("{username}-{mark}"),
            password,
        })
    }

    fn secret(&self, names: &Names) -> Value {
        let name = format!("{}-account", self.object);
        super::configuration::immutable(names, &name, [("password", self.password.as_str())])
    }
}

/// The operator's own limit of ten is less than the pools of one pod. What counts is the server's
/// `max_connections`.
const CONNECTIONS: i32 = 10_000;

/// None for a host that somebody else runs.
pub fn database_objects(service: &Service, facts: &Facts) -> Result<Vec<Value>, Error> {
    let names = &service.names;
    let mut objects = Vec::new();
    for NamedDatabase { name, database } in &service.databases {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let account = Account::of(names, name, database, facts)?;
        let server = json!({"name": cluster.name});
        let object = |kind: &str, name: &str, spec: Value| json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": kind, "metadata": names.metadata(name), "spec": spec});
        objects.push(object("Database", &names.database_object(name), json!({
            "mariaDbRef": server, "name": database.database, "characterSet": "utf8mb3", "collate": "utf8mb3_general_ci",
            // The data outlives the object: a person drops it.
            "cleanupPolicy": "Skip",
        })));
        let secret = account.secret(names);
        objects.push(object(
            "User",
            &account.object,
            json!({
                "mariaDbRef": server, "name": account.username, "host": "%", "cleanupPolicy": "Delete",
                "passwordSecretKeyRef": {"name": secret["metadata"]["name"], "key": "password"},
                "maxUserConnections": CONNECTIONS,
            }),
        ));
        objects.push(secret);
        objects.push(object("Grant", &account.object, json!({
            "mariaDbRef": server, "username": account.username, "host": "%", "database": database.database, "table": "*",
            "privileges": ["ALL PRIVILEGES"], "cleanupPolicy": "Delete",
        })));
    }
    Ok(objects)
}

/// Why the databases cannot be used yet.
pub fn database_ready(service: &Service, facts: &Facts) -> Result<(), String> {
    let names = &service.names;
    for NamedDatabase { name, database } in &service.databases {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let server = facts
            .databases
            .get(&cluster.name)
            .ok_or_else(|| format!("MariaDB {} is missing", cluster.name))?;
        let status = server.status.as_ref().map(|status| status.common.clone());
        readiness(status, "Ready").map_err(|why| format!("MariaDB {}: {why}", cluster.name))?;
        let account = Account::of(names, name, database, facts).map_err(|error| error.to_string())?;
        let own = names.database_object(name);
        for (kind, name) in [
            ("Database", &own),
            ("User", &account.object),
            ("Grant", &account.object),
        ] {
            if let Some(Err(why)) = facts.backend_objects.get(&(kind, name.clone())) {
                return Err(format!("{kind} {name}: {why}"));
            }
        }
    }
    Ok(())
}
