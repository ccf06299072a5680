//! Database, User and Grant of a managed database.

use c5c3_api::common::Database;
use c5c3_api::foreign::{ConditionsStatus, mariadb};
use c5c3_kit::{Fault, Kind};
use serde_json::{Value, json};

use crate::config;
use crate::error::Error;
use crate::facts::{Facts, Trouble, readiness};
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

/// A Galera cluster of which a member is away: it is not Ready, and serves. Nothing waits for that.
fn serves_with_fewer(status: Option<&ConditionsStatus>) -> bool {
    let find = |type_: &str| {
        let mut all = status.into_iter().flat_map(|status| &status.conditions);
        all.find(|condition| condition.type_ == type_)
    };
    let lacks_members =
        find("Ready").and_then(|ready| ready.reason.as_deref()) == Some("StatefulSetNotReady");
    lacks_members && find("GaleraReady").is_some_and(|galera| galera.status == "True")
}

/// Why the databases cannot be used yet.
pub fn database_ready(service: &Service, facts: &Facts) -> Result<(), Trouble> {
    let names = &service.names;
    for NamedDatabase { name, database } in &service.databases {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let server = facts.databases.get(&cluster.name).ok_or_else(|| {
            Trouble::with::<mariadb::MariaDb>(&cluster.name, format!("MariaDB {} is missing", cluster.name))
        })?;
        let status = server.status.as_ref().map(|status| status.common.clone());
        if !serves_with_fewer(status.as_ref()) {
            readiness(status, "Ready").map_err(|why| {
                Trouble::with::<mariadb::MariaDb>(&cluster.name, format!("MariaDB {}: {why}", cluster.name))
            })?;
        }
        let account = Account::of(names, name, database, facts).map_err(|error| Trouble {
            text: error.to_string(),
            blocker: error.blocker(),
        })?;
        let own = names.database_object(name);
        for (kind, resource, name) in [
            ("Database", Kind::of::<mariadb::Database>(), &own),
            ("User", Kind::of::<mariadb::User>(), &account.object),
            ("Grant", Kind::of::<mariadb::Grant>(), &account.object),
        ] {
            if let Some(Err(why)) = facts.backend_objects.get(&(kind, name.clone())) {
                return Err(Trouble {
                    text: format!("{kind} {name}: {why}"),
                    blocker: Some(resource.named(None, name)),
                });
            }
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cluster_that_lacks_a_member_serves() {
        let status = |reason: &str, galera: &str| -> ConditionsStatus {
            serde_json::from_value(json!({"conditions": [
                {"type": "Ready", "status": "False", "reason": reason, "message": "2 of 3"},
                {"type": "GaleraReady", "status": galera, "reason": "x", "message": ""},
            ]}))
            .expect("a status")
        };
        assert!(serves_with_fewer(Some(&status("StatefulSetNotReady", "True"))));
        assert!(!serves_with_fewer(Some(&status("StatefulSetNotReady", "False"))));
        assert!(!serves_with_fewer(Some(&status("RestoreNotComplete", "True"))));
        assert!(!serves_with_fewer(None));
    }
}
