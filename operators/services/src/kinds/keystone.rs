//! Keystone: identity.

use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY, service};
use c5c3_api::openstack::{Keystone, RotatedKeys, port};
use c5c3_kit::Part;

use crate::error::Error;
use crate::shape::{Fact, KeySet, Process, Runs, Schema, Service, Settings, Step, Subject, Task};

const FERNET_PATH: &str = "/var/lib/keystone/fernet-keys";
const CREDENTIAL_PATH: &str = "/var/lib/keystone/credential-keys";

/// Keystone's own default, in seconds.
const EXPIRATION: u64 = 3600;

/// For so many seconds more a service may have an expired token read, to end what was begun with it:
/// Keystone's own default.
const EXPIRED_WINDOW: u64 = 172_800;

impl Subject for Keystone {
    const SERVICE: &'static str = "keystone";
    const PARTS: &'static [Part] = &[
        Part::required(DATABASE_READY),
        Part::required(service::FERNET_KEYS_READY),
        Part::required(service::CREDENTIAL_KEYS_READY),
        Part::required(service::BOOTSTRAP_READY),
        Part::required(DEPLOYMENT_READY),
    ];

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

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let api = Runs::wsgi("keystone.wsgi.api:application", port::KEYSTONE, "/v3");
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            environment: vec![(
                "OS_KEYSTONE_CONFIG_FILES".into(),
                "/etc/keystone/keystone.conf".into(),
            )],
            settings: vec![settings(self)],
            databases: vec![super::database("database", &spec.database)],
            cache: Some(spec.cache.clone()),
            schema: Schema {
                steps: vec![manage("db-sync", &["db_sync"])],
                expand: vec![
                    manage("db-expand", &["db_sync", "--expand"]),
                    manage("db-migrate", &["db_sync", "--migrate"]),
                ],
                contract: vec![manage("db-contract", &["db_sync", "--contract"])],
                task: Some(bootstrap(self)),
                starts_early: true,
                ..Schema::default()
            },
            processes: vec![Process::new("api", api, DEPLOYMENT_READY).replicas(spec.replicas)],
            key_sets: key_sets(self),
            ..Service::new(self, spec.common.clone())
        }
    }
}

fn manage(name: &str, arguments: &[&str]) -> Step {
    let fixed = ["keystone-manage", "--config-file", "/etc/keystone/keystone.conf"];
    Step::new(name, &[&fixed, arguments].concat())
}

fn settings(keystone: &Keystone) -> Settings {
    let spec = &keystone.spec;
    let mut settings = Settings::new("keystone.conf")
        .with(&[
            ("DEFAULT", "default_log_levels", &levels()),
            ("token", "provider", "fernet"),
            ("fernet_tokens", "key_repository", FERNET_PATH),
            ("fernet_receipts", "key_repository", FERNET_PATH),
            ("credential", "key_repository", CREDENTIAL_PATH),
            ("oslo_policy", "enforce_scope", "true"),
            ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
            ("cache", "enabled", "true"),
            ("cache", "backend", &spec.cache.backend),
            // A server that is gone costs a second, and is asked again soon.
            ("cache", "memcache_socket_timeout", "1.0"),
            ("cache", "memcache_dead_retry", "10"),
        ])
        .database("database", "database")
        .fact("cache", "memcache_servers", Fact::CacheServers)
        .fact("revoke", "caching", Fact::CachesAgree);
    super::pool(&mut settings.options, "database");
    let most = spec.fernet.max_active_keys.to_string();
    settings.options.set("fernet_tokens", "max_active_keys", most);
    if let Some(url) = &spec.common.public_endpoint {
        settings.options.set("DEFAULT", "public_endpoint", root(url));
    }
    settings
}

/// What oslo.log has by default, and what Keystone says too often: whoever sets the one loses the other.
fn levels() -> String {
    const WARN: [&str; 8] = [
        "amqp",
        "dogpile.core.dogpile",
        "iso8601",
        "keystoneauth",
        "routes.middleware",
        "sqlalchemy",
        "stevedore",
        "urllib3.connectionpool",
    ];
    let mut all = WARN.map(|logger| format!("{logger}=WARN")).to_vec();
    all.push(super::SILENT.to_owned());
    all.join(",")
}

/// Keystone adds the version to its links itself.
fn root(url: &str) -> &str {
    url.trim_end_matches('/').trim_end_matches("/v3")
}

/// An option of tokens: how long one is valid, and how long it is read after that.
fn token(keystone: &Keystone, option: &str, default: u64) -> u64 {
    let token = keystone.spec.common.extra_config.get("token");
    let chosen = token.and_then(|options| options.get(option));
    chosen.and_then(|text| text.parse().ok()).unwrap_or(default)
}

fn key_sets(keystone: &Keystone) -> Vec<KeySet> {
    let spec = &keystone.spec;
    vec![
        KeySet {
            readable: Some(token(keystone, "expiration", EXPIRATION)),
            lingers: token(keystone, "allow_expired_window", EXPIRED_WINDOW),
            status: Some("lastFernetRotation"),
            ..key_set(
                "fernet-keys",
                FERNET_PATH,
                service::FERNET_KEYS_READY,
                &spec.fernet,
            )
        },
        KeySet {
            // Keystone reads stored credentials with three keys at the most; with a fourth rotation
            // those of the first key would be lost, were they not brought under the newest key before.
            migrate: Some(manage("credential-migrate", &["credential_migrate"])),
            ..key_set(
                "credential-keys",
                CREDENTIAL_PATH,
                service::CREDENTIAL_KEYS_READY,
                &spec.credential_keys,
            )
        },
    ]
}

fn key_set(name: &'static str, path: &'static str, part: &'static str, keys: &RotatedKeys) -> KeySet {
    KeySet {
        name,
        path,
        part,
        schedule: keys.rotation_schedule.clone(),
        most: usize::try_from(keys.max_active_keys).unwrap_or(3),
        readable: None,
        lingers: 0,
        status: None,
        migrate: None,
    }
}

/// The first user, who may do everything.
fn bootstrap(keystone: &Keystone) -> Task {
    let bootstrap = &keystone.spec.bootstrap;
    let metadata = &keystone.metadata;
    let internal = format!(
        "http://{}.{}.svc:{}/v3",
        metadata.name.as_deref().unwrap_or_default(),
        metadata.namespace.as_deref().unwrap_or_default(),
        port::KEYSTONE
    );
    let public = keystone.spec.common.public_endpoint.as_ref().unwrap_or(&internal);
    let variable = |name: &str, value: &str| (format!("OS_BOOTSTRAP_{name}"), value.to_owned());
    Task {
        step: manage("bootstrap", &["bootstrap"]),
        part: service::BOOTSTRAP_READY,
        environment: vec![
            variable("USERNAME", &bootstrap.admin_user),
            variable("REGION_ID", &bootstrap.region),
            variable("SERVICE_NAME", "keystone"),
            variable("ADMIN_URL", &internal),
            variable("INTERNAL_URL", &internal),
            variable("PUBLIC_URL", public),
        ],
        secrets: vec![(
            "OS_BOOTSTRAP_PASSWORD".to_owned(),
            bootstrap.admin_password_secret_ref.name.clone(),
            bootstrap.admin_password_secret_ref.key.clone(),
        )],
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
