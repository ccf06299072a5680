//! Keystone: identity.

use c5c3_api::common::{Cache, Database};
use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY, service};
use c5c3_api::openstack::{Keystone, RotatedKeys, port};
use c5c3_kit::Part;

use crate::build::Servers;
use crate::config::Ini;
use crate::descriptor::{Descriptor, Format, Port, Process, Runs, Step};
use crate::error::Error;
use crate::subject::{Extras, KeySet, Subject, Task};

pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "keystone",
    endpoint_path: "/v3",
    config_file: "keystone.conf",
    format: Format::Oslo,
    environment: &[("OS_KEYSTONE_CONFIG_FILES", "/etc/keystone/keystone.conf")],
    defaults: &[
        ("token", "provider", "fernet"),
        ("fernet_tokens", "key_repository", FERNET_PATH),
        ("fernet_receipts", "key_repository", FERNET_PATH),
        ("credential", "key_repository", CREDENTIAL_PATH),
        ("oslo_policy", "enforce_scope", "true"),
        ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
        ("database", "max_pool_size", "5"),
        ("database", "connection_recycle_time", "280"),
        ("database", "retry_interval", "1"),
    ],
    schema: &[Step::new("db-sync", &[MANAGE, CONFIG[0], CONFIG[1], "db_sync"])],
    expand: &[
        Step::new(
            "db-expand",
            &[MANAGE, CONFIG[0], CONFIG[1], "db_sync", "--expand"],
        ),
        Step::new(
            "db-migrate",
            &[MANAGE, CONFIG[0], CONFIG[1], "db_sync", "--migrate"],
        ),
    ],
    contract: &[Step::new(
        "db-contract",
        &[MANAGE, CONFIG[0], CONFIG[1], "db_sync", "--contract"],
    )],
    starts_early: true,
    processes: &[Process {
        name: "api",
        runs: Runs::Wsgi {
            module: "keystone.wsgi.api:application",
            port: Port {
                number: port::KEYSTONE,
                path: Some("/v3"),
            },
            processes: 2,
            threads: 1,
            extra: &[],
        },
        after: &[],
        grace: 60,
        part: DEPLOYMENT_READY,
    }],
    parts: &[
        Part::required(DATABASE_READY),
        Part::required(service::FERNET_KEYS_READY),
        Part::required(service::CREDENTIAL_KEYS_READY),
        Part::required(service::BOOTSTRAP_READY),
        Part::required(DEPLOYMENT_READY),
    ],
};

const MANAGE: &str = "keystone-manage";
const CONFIG: [&str; 2] = ["--config-file", "/etc/keystone/keystone.conf"];
const FERNET_PATH: &str = "/var/lib/keystone/fernet-keys";
const CREDENTIAL_PATH: &str = "/var/lib/keystone/credential-keys";

fn key_set(name: &'static str, path: &'static str, part: &'static str, keys: &RotatedKeys) -> KeySet {
    let most = usize::try_from(keys.max_active_keys).unwrap_or(3);
    KeySet {
        name,
        path,
        part,
        schedule: keys.rotation_schedule.clone(),
        most,
        readable: None,
        lingers: 0,
        status: None,
        migrate: None,
    }
}

/// Keystone reads stored credentials with three keys at the most; with a fourth rotation those of
/// the first key would be lost, were they not brought under the newest key before.
const CREDENTIAL_MIGRATE: Step = Step::new(
    "credential-migrate",
    &[MANAGE, CONFIG[0], CONFIG[1], "credential_migrate"],
);

/// Keystone adds the version to its links itself.
fn root(url: &str) -> &str {
    url.trim_end_matches('/').trim_end_matches("/v3")
}

/// Keystone's own default, in seconds.
const EXPIRATION: u64 = 3600;

/// For so many seconds more a service may have an expired token read, to end what was begun with it:
/// Keystone's own default.
const EXPIRED_WINDOW: u64 = 172_800;

/// An option of tokens: how long one is valid, and how long it is read after that.
fn token(keystone: &Keystone, option: &str, default: u64) -> u64 {
    let token = keystone.spec.common.extra_config.get("token");
    let chosen = token.and_then(|options| options.get(option));
    chosen.and_then(|text| text.parse().ok()).unwrap_or(default)
}

impl Subject for Keystone {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const CONTROLLER: &'static str = "keystone";

    super::one_process!();

    fn databases(&self) -> Vec<(String, Database)> {
        vec![("database".to_owned(), self.spec.database.clone())]
    }

    fn cache(&self) -> Option<&Cache> {
        Some(&self.spec.cache)
    }

    fn check(&self) -> Result<(), Error> {
        if self.spec.federation.enabled {
            return Err(Error::NotSupported {
                field: "federation.enabled",
                value: "true",
                way_out: "set it to false; users of other providers cannot log in yet",
            });
        }
        Ok(())
    }

    fn configure(&self, config: &mut Ini, cache: Option<&Servers>) {
        config.set(
            "fernet_tokens",
            "max_active_keys",
            self.spec.fernet.max_active_keys.to_string(),
        );
        config
            .set("cache", "enabled", "true")
            .set("cache", "backend", &self.spec.cache.backend)
            // A server that is gone costs a second, and is asked again soon.
            .set("cache", "memcache_socket_timeout", "1.0")
            .set("cache", "memcache_dead_retry", "10");
        if let Some(servers) = cache {
            config.set("cache", "memcache_servers", &servers.list);
            if !servers.each_named {
                // Two workers may ask two servers: what must hold at once is not cached.
                config.set("revoke", "caching", "false");
            }
        }
        if let Some(url) = &self.spec.common.public_endpoint {
            config.set("DEFAULT", "public_endpoint", root(url));
        }
    }

    fn extras(&self) -> Extras {
        let bootstrap = &self.spec.bootstrap;
        let internal = format!(
            "http://{}.{}.svc:{}/v3",
            self.metadata.name.as_deref().unwrap_or_default(),
            self.metadata.namespace.as_deref().unwrap_or_default(),
            port::KEYSTONE
        );
        let public = self
            .spec
            .common
            .public_endpoint
            .clone()
            .unwrap_or_else(|| internal.clone());
        let variable = |name: &str, value: &str| (format!("OS_BOOTSTRAP_{name}"), value.to_owned());
        Extras {
            key_sets: vec![
                KeySet {
                    readable: Some(token(self, "expiration", EXPIRATION)),
                    lingers: token(self, "allow_expired_window", EXPIRED_WINDOW),
                    status: Some("lastFernetRotation"),
                    ..key_set(
                        "fernet-keys",
                        FERNET_PATH,
                        service::FERNET_KEYS_READY,
                        &self.spec.fernet,
                    )
                },
                KeySet {
                    migrate: Some(CREDENTIAL_MIGRATE),
                    ..key_set(
                        "credential-keys",
                        CREDENTIAL_PATH,
                        service::CREDENTIAL_KEYS_READY,
                        &self.spec.credential_keys,
                    )
                },
            ],
            after_schema: Some(Task {
                step: Step::new("bootstrap", &[MANAGE, CONFIG[0], CONFIG[1], "bootstrap"]),
                part: service::BOOTSTRAP_READY,
                environment: vec![
                    variable("USERNAME", &bootstrap.admin_user),
                    variable("REGION_ID", &bootstrap.region),
                    variable("SERVICE_NAME", "keystone"),
                    variable("ADMIN_URL", &internal),
                    variable("INTERNAL_URL", &internal),
                    variable("PUBLIC_URL", &public),
                ],
                secrets: vec![(
                    "OS_BOOTSTRAP_PASSWORD".to_owned(),
                    bootstrap.admin_password_secret_ref.name.clone(),
                    bootstrap.admin_password_secret_ref.key.clone(),
                )],
            }),
            ..Extras::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::root;

    #[test]
    fn links_have_the_version_once() {
        for url in [
            "https://id.example.org",
            "https://id.example.org/",
            "https://id.example.org/v3",
            "https://id.example.org/v3/",
        ] {
            assert_eq!(root(url), "https://id.example.org");
        }
    }
}
