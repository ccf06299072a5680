//! The accounts by which a service logs in to its databases.

use c5c3_api::common::Database;

use super::{Facts, SecretData};
use crate::config;
use crate::error::Error;
use crate::names::Names;

/// The account of a managed database. Each password has its own, so pods that know the previous
/// password keep working until they are replaced.
pub(crate) struct Account {
    /// Name of its User and Grant.
    pub object: String,
    pub username: String,
    pub password: String,
}

impl Account {
    pub(crate) fn of(names: &Names, group: &str, database: &Database, facts: &Facts) -> Result<Self, Error> {
        let value = |key| value(facts, &database.secret_ref.name, key);
        let (username, password) = (value("username")?, value("password")?);
        let mark = config::hash(&[&facts.naming, &names.namespace, &names.name, group, &password]);
        Ok(Self {
            object: format!("{}-{mark}", names.database_object(group)),
            username: format!("{username}-{mark}"),
            password,
        })
    }
}

/// One value of a Secret that the spec names.
pub(crate) fn value(facts: &Facts, secret: &str, key: &str) -> Result<String, Error> {
    let data: &SecretData = facts
        .secrets
        .get(secret)
        .ok_or_else(|| Error::SecretMissing(secret.to_owned()))?;
    let missing = || Error::KeyMissing {
        secret: secret.to_owned(),
        key: key.to_owned(),
    };
    let bytes = data
        .get(key)
        .filter(|bytes| !bytes.is_empty())
        .ok_or_else(missing)?;
    String::from_utf8(bytes.clone())
        .map(|text| text.trim_end_matches('\n').to_owned())
        .map_err(|_| missing())
}
