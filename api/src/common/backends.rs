use super::LocalRef;
use crate::schema::{self, rules};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;

/// The database of a service: a cluster that we manage, or a host that somebody else runs.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "has(self.clusterRef) != has(self.host)",
        "database: set exactly one of clusterRef (managed) and host (external)",
    ),
    (
        "!has(self.port) || has(self.host)",
        "database.port: only goes with host; the port of clusterRef is found automatically",
    ),
    (
        "has(self.clusterRef) == has(oldSelf.clusterRef)",
        "database: clusterRef and host cannot replace each other, the data would stay behind; restore it into a new object",
    ),
])))]
pub struct Database {
    /// A database cluster CR in the same namespace.
    pub cluster_ref: Option<LocalRef>,
    /// Host of an external database.
    #[serde(default)]
    #[schemars(schema_with = "schema::host")]
    pub host: Option<String>,
    /// Port of that host; 3306 when left out.
    #[schemars(range(min = 1, max = 65535))]
    pub port: Option<i32>,
    /// Name of the database.
    #[schemars(
        regex(pattern = r"^[A-Za-z0-9_]+$"),
        length(max = 64),
        extend("x-kubernetes-validations" = rules(&[(
            "self == oldSelf",
            "database.database: cannot change, the data would stay behind; restore it into a new object",
        )]))
    )]
    pub database: String,
    /// Secret with username and password.
    pub secret_ref: LocalRef,
}

/// The cache of a service.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.clusterRef) != has(self.servers)",
    "cache: set exactly one of clusterRef (managed) and servers (external)",
)])))]
pub struct Cache {
    /// A Memcached CR in the same namespace.
    pub cluster_ref: Option<LocalRef>,
    /// External servers, host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::host_ports")]
    pub servers: Vec<String>,
    /// oslo.cache backend.
    #[serde(default = "Cache::pool")]
    #[schemars(regex(pattern = r"^[A-Za-z0-9_.]+$"), length(max = 128))]
    pub backend: String,
}

impl Cache {
    /// The backend of which nothing is said. `dogpile.cache.pymemcache` has no timeout: a server that is
    /// silent would hold a request for minutes, here it costs the second of `memcache_socket_timeout`.
    pub fn pool() -> String {
        "oslo_cache.memcache_pool".to_owned()
    }
}

/// The message bus of a service.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
#[schemars(extend("x-kubernetes-validations" = rules(&[(
    "has(self.clusterRef) != has(self.hosts)",
    "messaging: set exactly one of clusterRef (managed) and hosts (external)",
)])))]
pub struct Messaging {
    /// A RabbitmqCluster CR in the same namespace.
    pub cluster_ref: Option<LocalRef>,
    /// External brokers, host:port.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::host_ports")]
    pub hosts: Vec<String>,
    /// Secret with username and password.
    pub secret_ref: LocalRef,
}

/// How a service proves who it is to Keystone.
#[skip_serializing_none]
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct KeystoneAuth {
    /// Address of Keystone, with /v3.
    #[schemars(schema_with = "schema::url")]
    pub auth_url: String,
    /// Where the application credential is.
    pub app_credential_ref: AppCredentialRef,
    /// CA certificates of Keystone, if those in the image do not include them.
    pub ca_secret_ref: Option<CaRef>,
}

/// One key of a Secret, with certificates in PEM.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct CaRef {
    /// Name of the Secret.
    #[schemars(schema_with = "schema::name")]
    pub name: String,
    /// Key in the Secret.
    #[serde(default = "CaRef::ca_crt")]
    #[schemars(schema_with = "schema::data_key")]
    pub key: String,
}

impl CaRef {
    fn ca_crt() -> String {
        "ca.crt".to_owned()
    }
}

/// The Secret of an application credential.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct AppCredentialRef {
    /// Secret with application_credential_id and application_credential_secret.
    #[schemars(schema_with = "schema::name")]
    pub secret_name: String,
}
