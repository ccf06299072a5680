//! The address of the cache.

use crate::error::Error;
use crate::facts::Facts;
use crate::shape::Service;

/// The servers of a cache, as they appear in configuration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Servers {
    /// host:port, with commas between.
    pub list: String,
    /// A name leads to one server alone, so all clients find a value at the same one.
    pub each_named: bool,
}

/// A Memcached has one headless Service: its status tells no address and its pods have no lasting
/// names, so several servers share the one name.
pub(super) fn cache_servers(service: &Service, facts: &Facts) -> Result<Option<Servers>, Error> {
    let Some(cache) = &service.cache else {
        return Ok(None);
    };
    let Some(cluster) = &cache.cluster_ref else {
        return Ok(Some(Servers {
            list: cache.servers.join(","),
            each_named: true,
        }));
    };
    let namespace = &service.names.namespace;
    let found = facts.caches.get(&cluster.name);
    let found = found.ok_or_else(|| Error::CacheMissing(cluster.name.clone()))?;
    let replicas = found.spec.replicas.unwrap_or(1);
    let told = found.status.as_ref().map(|status| status.server_list.as_slice());
    // The operator tells one name for all of them, or each by its own.
    if let Some(told) = told.filter(|told| i32::try_from(told.len()) == Ok(replicas) && replicas > 1) {
        return Ok(Some(Servers {
            list: told.join(","),
            each_named: true,
        }));
    }
    Ok(Some(Servers {
        list: format!("{}.{namespace}.svc:11211", cluster.name),
        each_named: replicas <= 1,
    }))
}
