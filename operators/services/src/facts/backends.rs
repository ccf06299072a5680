//! Databases, brokers and caches that are managed in the same cluster.

use c5c3_api::foreign::{mariadb, rabbitmq};
use c5c3_kit::{ReadError, Reader};

use super::Account;
use super::{Facts, readiness};
use crate::shape::Service;

/// What the operators of RabbitMQ call ready.
pub(crate) const BROKERS_READY: &str = "AllReplicasReady";

macro_rules! note {
    ($facts:ident, $reader:ident, $namespace:expr, $name:expr, $label:literal, $kind:ty, $status:expr) => {
        let found = $reader.get::<$kind>($namespace, $name).await?;
        let status = found.and_then(|object| object.status).map($status);
        $facts
            .backend_objects
            .insert(($label, $name.to_owned()), readiness(status, "Ready"));
    };
}

pub(super) async fn read(service: &Service, reader: &Reader, facts: &mut Facts) -> Result<(), ReadError> {
    let names = &service.names;
    let namespace = names.namespace.as_str();
    for named in &service.databases {
        let Some(cluster) = &named.database.cluster_ref else {
            continue;
        };
        if let Some(server) = reader.get(namespace, &cluster.name).await? {
            facts.databases.insert(cluster.name.clone(), server);
        }
        let name = names.database_object(&named.name);
        let name = name.as_str();
        note!(
            facts,
            reader,
            namespace,
            name,
            "Database",
            mariadb::Database,
            |s| s
        );
        // Without its Secret an account has no name yet.
        if let Ok(account) = Account::of(names, &named.name, &named.database, facts) {
            let name = account.object.as_str();
            note!(facts, reader, namespace, name, "User", mariadb::User, |s| s);
            note!(facts, reader, namespace, name, "Grant", mariadb::Grant, |s| s);
        }
    }
    for named in &service.buses {
        let Some(cluster) = &named.bus.cluster_ref else {
            continue;
        };
        if let Some(broker) = reader.get(namespace, &cluster.name).await? {
            facts.brokers.insert(cluster.name.clone(), broker);
        }
        let name = names.bus_object(&named.name);
        let name = name.as_str();
        note!(facts, reader, namespace, name, "Vhost", rabbitmq::Vhost, |s| s);
        // "User" is taken by the one of the database.
        note!(
            facts,
            reader,
            namespace,
            name,
            "broker User",
            rabbitmq::User,
            |s| s.common
        );
        note!(
            facts,
            reader,
            namespace,
            name,
            "Permission",
            rabbitmq::Permission,
            |s| s
        );
    }
    if let Some(cluster) = service
        .cache
        .as_ref()
        .and_then(|cache| cache.cluster_ref.as_ref())
        && let Some(cache) = reader.get(namespace, &cluster.name).await?
    {
        facts.caches.insert(cluster.name.clone(), cache);
    }
    Ok(())
}
