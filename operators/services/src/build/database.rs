//! Database, User and Grant of a managed database.

use serde_json::{Value, json};

use crate::error::Error;
use crate::facts::{Facts, readiness};
use crate::names::Names;
use crate::subject::Subject;

/// None for a host that somebody else runs.
pub fn database_objects<S: Subject>(subject: &S, facts: &Facts) -> Result<Vec<Value>, Error> {
    let names = Names::of(subject);
    let mut objects = Vec::new();
    for (group, database) in subject.databases() {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let username = super::secrets::value(facts, &database.secret_ref.name, "username")?;
        let name = names.database_object(&group);
        let server = json!({"name": cluster.name});
        let object = |kind: &str, spec: Value| json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": kind, "metadata": names.metadata(&name), "spec": spec});
        objects.push(object("Database", json!({
            "mariaDbRef": server, "name": database.database, "characterSet": "utf8mb3", "collate": "utf8mb3_general_ci",
            // The data outlives the object: a person drops it.
            "cleanupPolicy": "Skip",
        })));
        objects.push(object(
            "User",
            json!({
                "mariaDbRef": server, "name": username, "host": "%", "cleanupPolicy": "Delete",
                "passwordSecretKeyRef": {"name": database.secret_ref.name, "key": "password"},
            }),
        ));
        objects.push(object("Grant", json!({
            "mariaDbRef": server, "username": username, "host": "%", "database": database.database, "table": "*",
            "privileges": ["ALL PRIVILEGES"], "cleanupPolicy": "Delete",
        })));
    }
    Ok(objects)
}

/// Why the databases cannot be used yet.
pub fn database_ready<S: Subject>(subject: &S, facts: &Facts) -> Result<(), String> {
    let names = Names::of(subject);
    for (group, database) in subject.databases() {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let server = facts
            .databases
            .get(&cluster.name)
            .ok_or_else(|| format!("MariaDB {} is missing", cluster.name))?;
        let status = server.status.as_ref().map(|status| status.common.clone());
        readiness(status, "Ready").map_err(|why| format!("MariaDB {}: {why}", cluster.name))?;
        for kind in ["Database", "User", "Grant"] {
            let name = names.database_object(&group);
            if let Some(Err(why)) = facts.backend_objects.get(&(kind, name.clone())) {
                return Err(format!("{kind} {name}: {why}"));
            }
        }
    }
    Ok(())
}
