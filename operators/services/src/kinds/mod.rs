//! The services, one file each: how a spec becomes a shape.

pub(crate) mod ceph;
pub(crate) mod cinder;
pub(crate) mod cortex;
pub(crate) mod glance;
pub(crate) mod keystone;
pub(crate) mod neutron;
pub(crate) mod nova;
pub(crate) mod placement;
mod shares;
pub(crate) mod tempest;

use c5c3_api::common::{Database, KeystoneAuth, LogFormat, LogLevel, Messaging, ServiceCommon};

use crate::config::Ini;
use crate::shape::{Fact, Login, NamedBus, NamedDatabase, Settings};

/// A database under the name of its group of options.
fn database(name: &str, database: &Database) -> NamedDatabase {
    NamedDatabase {
        name: name.to_owned(),
        database: database.clone(),
    }
}

fn bus(name: &str, bus: &Messaging) -> NamedBus {
    NamedBus {
        name: name.to_owned(),
        bus: bus.clone(),
    }
}

/// The ports of a message bus.
fn bus_ports(bus: &Messaging) -> Vec<u16> {
    let port = |host: &String| host.rsplit_once(':')?.1.parse().ok();
    let ports: Vec<u16> = bus.hosts.iter().filter_map(port).collect();
    if ports.is_empty() {
        vec![crate::shape::BUS_PORT]
    } else {
        ports
    }
}

/// Pools that fit a server which many services share, and connections that are no older than what a
/// balancer before it bears.
pub(crate) fn pool(options: &mut Ini, group: &str) {
    options
        .set(group, "max_pool_size", "5")
        .set(group, "connection_recycle_time", "280")
        .set(group, "retry_interval", "1");
}

/// Keystone says of its keys, with every token, that everybody may read them. A volume of the kubelet is open like
/// that; the files in it are not.
pub(crate) const SILENT: &str = "keystone.common.fernet_utils=ERROR";

/// Options that every service shares.
pub(crate) fn shared(config: &mut Ini, common: &ServiceCommon) {
    config
        .set("DEFAULT", "use_stderr", "true")
        .set("DEFAULT", "log_dir", "");
    if let Some(logging) = &common.logging {
        config
            .set("DEFAULT", "debug", (logging.level == LogLevel::Debug).to_string())
            .set(
                "DEFAULT",
                "use_json",
                (logging.format == LogFormat::Json).to_string(),
            );
        // `debug` knows two levels; the root logger knows all.
        let least = match logging.level {
            LogLevel::Debug | LogLevel::Info => None,
            LogLevel::Warning => Some("root=WARNING"),
            LogLevel::Error => Some("root=ERROR"),
        };
        if let Some(least) = least {
            config.set("DEFAULT", "default_log_levels", format!("{least},{SILENT}"));
        }
    }
    if common.policy_overrides.is_some() {
        config.set("oslo_policy", "policy_file", "policy.yaml");
    }
}

/// Queues that outlive a broker: replicated, and found again after a failover.
pub(crate) fn messaging(config: &mut Ini) {
    let group = "oslo_messaging_rabbit";
    config
        .set(group, "rabbit_quorum_queue", "true")
        .set(group, "rabbit_transient_quorum_queue", "true")
        .set(group, "use_queue_manager", "true")
        .set(group, "heartbeat_in_pthread", "false")
        .set("oslo_messaging_notifications", "driver", "noop");
}

/// Certificates that vouch for Keystone, beside the configuration.
pub(crate) const CA_FILE: &str = "keystone-ca.crt";

/// How a service checks tokens: it logs in with its application credential.
pub(crate) fn authtoken(settings: &mut Settings, service: &str, keystone: &KeystoneAuth, cached: bool) {
    let group = "keystone_authtoken";
    login(settings, service, keystone, group);
    settings
        .options
        .set(group, "www_authenticate_uri", &keystone.auth_url)
        .set(group, "service_token_roles", "service")
        .set(group, "service_token_roles_required", "true");
    if cached {
        settings
            .facts
            .push((group, "memcached_servers", Fact::CacheServers));
        settings
            .options
            // Whoever reaches the cache can neither read a token nor forge the answer about one.
            .set(group, CACHE_STRATEGY, "ENCRYPT")
            // A server that is gone costs a second, and is asked again soon.
            .set(group, "memcache_use_advanced_pool", "true")
            .set(group, "memcache_pool_socket_timeout", "1")
            .set(group, "memcache_pool_dead_retry", "10");
    }
}

/// The option beside which the key of the token cache is needed.
pub(crate) const CACHE_STRATEGY: &str = "memcache_security_strategy";

/// How a group of options logs in to another service: with the service's own application credential.
pub(crate) fn login(settings: &mut Settings, service: &str, keystone: &KeystoneAuth, group: &'static str) {
    if keystone.ca_secret_ref.is_some() {
        settings
            .options
            .set(group, "cafile", format!("/etc/{service}/{CA_FILE}"));
    }
    settings.options.set(group, "auth_url", &keystone.auth_url).set(
        group,
        "auth_type",
        "v3applicationcredential",
    );
    settings.logins.push(Login {
        group,
        secret: keystone.app_credential_ref.secret_name.clone(),
    });
}
