//! The services, one file each: descriptor, and how its spec becomes configuration.

/// What services with the common blocks have alike.
macro_rules! common_blocks {
    () => {
        fn common(&self) -> std::borrow::Cow<'_, c5c3_api::common::ServiceCommon> {
            std::borrow::Cow::Borrowed(&self.spec.common)
        }

        fn service_status(&self) -> Option<&c5c3_api::common::ServiceStatus> {
            self.status.as_ref().map(|status| &status.common)
        }
    };
}
pub(crate) use common_blocks;

/// The same of services with one process.
macro_rules! one_process {
    () => {
        $crate::kinds::common_blocks!();

        fn replicas(&self, _process: &str) -> i32 {
            self.spec.replicas
        }
    };
}
pub(crate) use one_process;

pub mod glance;
pub mod keystone;
pub mod placement;

use crate::config::Ini;
use c5c3_api::common::{KeystoneAuth, LogFormat, LogLevel, ServiceCommon};

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
            config.set("DEFAULT", "default_log_levels", least);
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
pub(crate) fn authtoken(config: &mut Ini, service: &str, keystone: &KeystoneAuth, memcached: Option<&str>) {
    let group = "keystone_authtoken";
    if keystone.ca_secret_ref.is_some() {
        config.set(group, "cafile", format!("/etc/{service}/{CA_FILE}"));
    }
    config
        .set(group, "www_authenticate_uri", &keystone.auth_url)
        .set(group, "auth_url", &keystone.auth_url)
        .set(group, "auth_type", "v3applicationcredential")
        .set(group, "service_token_roles", "service")
        .set(group, "service_token_roles_required", "true");
    if let Some(servers) = memcached {
        config
            .set(group, "memcached_servers", servers)
            // A server that is gone costs a second, and is asked again soon.
            .set(group, "memcache_use_advanced_pool", "true")
            .set(group, "memcache_pool_socket_timeout", "1")
            .set(group, "memcache_pool_dead_retry", "10");
    }
}
