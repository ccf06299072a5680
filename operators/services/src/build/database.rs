//! Database, User and Grant of a managed database.

use c5c3_api::foreign::{ConditionsStatus, NameRef, SecretKey, mariadb};
use c5c3_kit::{Fault, Kind, Wanted};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use crate::error::Error;
use crate::facts::{Account, Facts, Trouble, readiness};
use crate::names::Names;
use crate::shape::{NamedDatabase, Service};

fn account_secret(account: &Account, names: &Names) -> Secret {
    let name = format!("{}-account", account.object);
    super::configuration::immutable(names, &name, [("password", account.password.as_str())])
}

/// The operator's own limit of ten is less than the pools of one pod. What counts is the server's
/// `max_connections`.
const CONNECTIONS: i32 = 10_000;

/// None for a host that somebody else runs.
pub fn database_objects(service: &Service, facts: &Facts) -> Result<Vec<Wanted>, Error> {
    let names = &service.names;
    let mut objects = Vec::new();
    for NamedDatabase { name, database } in &service.databases {
        let Some(cluster) = &database.cluster_ref else {
            continue;
        };
        let account = Account::of(names, name, database, facts)?;
        let server = NameRef::new(&cluster.name);
        let secret = account_secret(&account, names);
        let host = Some("%".to_owned());
        objects.push(Wanted::of(&mariadb::Database {
            metadata: names.metadata(&names.database_object(name)),
            spec: mariadb::DatabaseSpec {
                maria_db_ref: server.clone(),
                name: Some(database.database.clone()),
                character_set: Some("utf8mb3".to_owned()),
                collate: Some("utf8mb3_general_ci".to_owned()),
                // The data outlives the object: a person drops it.
                cleanup_policy: Some("Skip".to_owned()),
            },
            status: None,
        }));
        objects.push(Wanted::of(&mariadb::User {
            metadata: names.metadata(&account.object),
            spec: mariadb::UserSpec {
                maria_db_ref: server.clone(),
                name: Some(account.username.clone()),
                host: host.clone(),
                password_secret_key_ref: Some(SecretKey {
                    name: secret.name_any(),
                    key: "password".to_owned(),
                }),
                max_user_connections: Some(CONNECTIONS),
                cleanup_policy: Some("Delete".to_owned()),
            },
            status: None,
        }));
        objects.push(Wanted::of(&secret));
        objects.push(Wanted::of(&mariadb::Grant {
            metadata: names.metadata(&account.object),
            spec: mariadb::GrantSpec {
                maria_db_ref: server,
                privileges: vec!["ALL PRIVILEGES".to_owned()],
                database: Some(database.database.clone()),
                table: Some("*".to_owned()),
                username: account.username,
                host,
                cleanup_policy: Some("Delete".to_owned()),
                ..mariadb::GrantSpec::default()
            },
            status: None,
        }));
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
    use serde_json::json;

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
