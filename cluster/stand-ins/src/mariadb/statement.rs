//! Kinds whose objects become SQL statements: databases, users and grants.

use c5c3_api::foreign::mariadb::{Database, Grant, User};
use c5c3_kit::controller::Object;
use k8s_openapi::NamespaceResourceScope;
use kube::{Resource, ResourceExt};

use super::statements;
use crate::error::Error;

/// What mariadb-operator's definition puts where a user asks for no number.
const MOST_CONNECTIONS: i32 = 10;

/// An object that is a few statements.
pub trait Statement: Object + Resource<Scope = NamespaceResourceScope> {
    const CONTROLLER: &'static str;
    const FINALIZER: &'static str;
    fn server(&self) -> &str;
    /// The Secret and key of a password that the statement needs.
    fn secret(&self) -> Option<(&str, &str)> {
        None
    }
    /// The user that must be there first.
    fn user(&self) -> Option<&str> {
        None
    }
    fn cleanup_policy(&self) -> Option<&str>;
    fn sql(&self, password: &str) -> Result<String, Error>;
    fn drop_sql(&self) -> String;
}

fn own(name: Option<&String>, object: &impl ResourceExt) -> String {
    name.cloned().unwrap_or_else(|| object.name_any())
}

impl Statement for Database {
    const CONTROLLER: &'static str = "stand-in-database";
    const FINALIZER: &'static str = "database.k8s.mariadb.com/finalizer";
    fn server(&self) -> &str {
        &self.spec.maria_db_ref.name
    }
    fn cleanup_policy(&self) -> Option<&str> {
        self.spec.cleanup_policy.as_deref()
    }
    fn sql(&self, _password: &str) -> Result<String, Error> {
        Ok(statements::database(
            &own(self.spec.name.as_ref(), self),
            self.spec.character_set.as_deref(),
            self.spec.collate.as_deref(),
        ))
    }
    fn drop_sql(&self) -> String {
        statements::drop_database(&own(self.spec.name.as_ref(), self))
    }
}

impl Statement for User {
    const CONTROLLER: &'static str = "stand-in-user";
    const FINALIZER: &'static str = "user.k8s.mariadb.com/finalizer";
    fn server(&self) -> &str {
        &self.spec.maria_db_ref.name
    }
    fn secret(&self) -> Option<(&str, &str)> {
        self.spec
            .password_secret_key_ref
            .as_ref()
            .map(|reference| (reference.name.as_str(), reference.key.as_str()))
    }
    fn cleanup_policy(&self) -> Option<&str> {
        self.spec.cleanup_policy.as_deref()
    }
    fn sql(&self, password: &str) -> Result<String, Error> {
        Ok(statements::user(
            &own(self.spec.name.as_ref(), self),
            self.spec.host.as_deref().unwrap_or("%"),
            password,
            self.spec.max_user_connections.unwrap_or(MOST_CONNECTIONS),
        ))
    }
    fn drop_sql(&self) -> String {
        statements::drop_user(
            &own(self.spec.name.as_ref(), self),
            self.spec.host.as_deref().unwrap_or("%"),
        )
    }
}

/// A database or table that is not named means all.
fn target(grant: &Grant) -> statements::Target<'_> {
    let spec = &grant.spec;
    statements::Target {
        privileges: &spec.privileges,
        database: spec.database.as_deref().unwrap_or("*"),
        table: spec.table.as_deref().unwrap_or("*"),
        user: &spec.username,
        host: spec.host.as_deref().unwrap_or("%"),
    }
}

impl Statement for Grant {
    const CONTROLLER: &'static str = "stand-in-grant";
    const FINALIZER: &'static str = "grant.k8s.mariadb.com/finalizer";
    fn server(&self) -> &str {
        &self.spec.maria_db_ref.name
    }
    fn user(&self) -> Option<&str> {
        Some(&self.spec.username)
    }
    fn cleanup_policy(&self) -> Option<&str> {
        self.spec.cleanup_policy.as_deref()
    }
    fn sql(&self, _password: &str) -> Result<String, Error> {
        if let Some(wrong) = self.spec.privileges.iter().find(|p| !statements::is_privilege(p)) {
            return Err(Error::Invalid {
                field: "spec.privileges",
                reason: format!("{wrong:?} is not a privilege: name one like SELECT or ALL PRIVILEGES"),
            });
        }
        Ok(statements::grant(
            &target(self),
            self.spec.grant_option.unwrap_or(false),
        ))
    }
    fn drop_sql(&self) -> String {
        statements::revoke(&target(self))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_user_who_asks_for_no_number_of_connections_gets_that_of_the_operator() {
        let user = |fields: serde_json::Value| -> User {
            let mut spec =
                json!({"mariaDbRef": {"name": "mariadb"}, "passwordSecretKeyRef": {"name": "s", "key": "k"}});
            if let (Some(spec), Some(fields)) = (spec.as_object_mut(), fields.as_object()) {
                spec.extend(fields.clone());
            }
            serde_json::from_value(json!({"metadata": {"name": "glance"}, "spec": spec})).expect("a User")
        };
        for (fields, expected) in [
            (json!({}), "MAX_USER_CONNECTIONS 10;"),
            (json!({"maxUserConnections": 0}), "MAX_USER_CONNECTIONS 0;"),
            (json!({"maxUserConnections": 90}), "MAX_USER_CONNECTIONS 90;"),
        ] {
            let sql = user(fields).sql("pw").expect("SQL");
            assert!(sql.contains(expected), "{sql}");
        }
    }
}
