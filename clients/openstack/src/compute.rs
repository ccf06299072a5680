//! Nova: flavours, keys, servers and what their consoles said.

use std::collections::BTreeMap;
use std::fmt::Debug;
use std::net::IpAddr;

use async_trait::async_trait;
use http::Method;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Result, optional};
use crate::identity::{piece, query};
use crate::session::{Asked, Destination, Session};

pub(crate) const NOVA: Destination = Destination::Service("compute");

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct Flavour {
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub id: String,
    pub name: String,
    pub vcpus: u32,
    /// In MiB.
    pub ram: u32,
    /// In GiB.
    pub disk: u32,
}

/// The public half of a key, under a name.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub struct KeyPair {
    pub name: String,
    pub public_key: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Server {
    pub id: String,
    pub name: String,
    /// `BUILD`, `ACTIVE`, `SHUTOFF`, `ERROR` and others.
    pub status: String,
    #[serde(default)]
    pub addresses: BTreeMap<String, Vec<Address>>,
    #[serde(default)]
    pub key_name: Option<String>,
    /// Why it is in the status `ERROR`.
    #[serde(default)]
    pub fault: Option<Fault>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Address {
    pub addr: IpAddr,
    #[serde(rename = "OS-EXT-IPS:type", default)]
    pub kind: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Fault {
    #[serde(default)]
    pub message: String,
}

impl Server {
    /// The first address that is reached from outside.
    pub fn floating(&self) -> Option<IpAddr> {
        let mut all = self.addresses.values().flatten();
        all.find(|address| address.kind == "floating")
            .map(|address| address.addr)
    }
}

/// A server to be made, with one port on one network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerDraft {
    pub name: String,
    pub flavour: String,
    pub image: String,
    pub network: String,
    pub key: String,
    pub security_group: String,
}

/// A process of Nova on some host.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct ComputeService {
    pub host: String,
    /// `up` or `down`.
    pub state: String,
}

#[async_trait]
pub trait Compute: Debug + Send + Sync {
    async fn flavours(&self) -> Result<Vec<Flavour>>;
    async fn create_flavour(&self, flavour: &Flavour) -> Result<Flavour>;
    async fn key_pair(&self, name: &str) -> Result<Option<KeyPair>>;
    async fn create_key_pair(&self, pair: &KeyPair) -> Result<()>;
    /// Processes of Nova with this name, such as `nova-compute`.
    async fn compute_services(&self, binary: &str) -> Result<Vec<ComputeService>>;
    /// Servers of exactly that name.
    async fn servers(&self, name: &str) -> Result<Vec<Server>>;
    async fn server(&self, id: &str) -> Result<Option<Server>>;
    /// Gives its id; it is not there yet.
    async fn create_server(&self, draft: &ServerDraft) -> Result<String>;
    /// What its console has said so far.
    async fn console(&self, id: &str) -> Result<String>;
}

#[derive(Deserialize)]
struct Flavours {
    flavors: Vec<Flavour>,
}

#[derive(Deserialize)]
struct OneFlavour {
    flavor: Flavour,
}

#[derive(Deserialize)]
struct OneKeyPair {
    keypair: KeyPair,
}

#[derive(Deserialize)]
struct Services {
    services: Vec<ComputeService>,
}

#[derive(Deserialize)]
struct Servers {
    servers: Vec<Server>,
}

#[derive(Deserialize)]
struct OneServer {
    server: Server,
}

#[derive(Deserialize)]
pub(crate) struct Created {
    pub server: Id,
}

#[derive(Deserialize)]
pub(crate) struct Id {
    pub id: String,
}

#[derive(Deserialize)]
struct Console {
    output: String,
}

#[async_trait]
impl Compute for Session {
    async fn flavours(&self) -> Result<Vec<Flavour>> {
        let asked = Asked::new("list flavours", Method::GET, "/flavors/detail");
        let answer: Flavours = self.read(NOVA, asked).await?;
        Ok(answer.flavors)
    }

    async fn create_flavour(&self, flavour: &Flavour) -> Result<Flavour> {
        let doing = format!("create flavour {}", flavour.name);
        let body = json!({"flavor": flavour});
        let asked = Asked::new(&doing, Method::POST, "/flavors").body(&body);
        let answer: OneFlavour = self.read(NOVA, asked).await?;
        Ok(answer.flavor)
    }

    async fn key_pair(&self, name: &str) -> Result<Option<KeyPair>> {
        let (doing, path) = (
            format!("read key {name}"),
            format!("/os-keypairs/{}", piece(name)),
        );
        let answer: Option<OneKeyPair> =
            optional(self.read(NOVA, Asked::new(&doing, Method::GET, &path)).await)?;
        Ok(answer.map(|answer| answer.keypair))
    }

    async fn create_key_pair(&self, pair: &KeyPair) -> Result<()> {
        let doing = format!("create key {}", pair.name);
        let body = json!({"keypair": pair});
        let asked = Asked::new(&doing, Method::POST, "/os-keypairs").body(&body);
        self.send(NOVA, asked).await.map(drop)
    }

    async fn compute_services(&self, binary: &str) -> Result<Vec<ComputeService>> {
        let doing = format!("list services {binary}");
        let path = query("/os-services", &[("binary", binary)]);
        let answer: Services = self.read(NOVA, Asked::new(&doing, Method::GET, &path)).await?;
        Ok(answer.services)
    }

    async fn servers(&self, name: &str) -> Result<Vec<Server>> {
        let doing = format!("list servers {name}");
        // Nova takes an expression, which finds more than one name.
        let plain = |c: char| {
            if c.is_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '.'
            }
        };
        let expression: String = name.chars().map(plain).collect();
        let path = query("/servers/detail", &[("name", &expression)]);
        let answer: Servers = self.read(NOVA, Asked::new(&doing, Method::GET, &path)).await?;
        let exact = answer.servers.into_iter().filter(|server| server.name == name);
        Ok(exact.collect())
    }

    async fn server(&self, id: &str) -> Result<Option<Server>> {
        let (doing, path) = (format!("read server {id}"), one(id));
        let answer: Option<OneServer> =
            optional(self.read(NOVA, Asked::new(&doing, Method::GET, &path)).await)?;
        Ok(answer.map(|answer| answer.server))
    }

    async fn create_server(&self, draft: &ServerDraft) -> Result<String> {
        let doing = format!("create server {}", draft.name);
        let body = draft_body(draft);
        let asked = Asked::new(&doing, Method::POST, "/servers").body(&body);
        let answer: Created = self.read(NOVA, asked).await?;
        Ok(answer.server.id)
    }

    async fn console(&self, id: &str) -> Result<String> {
        let (doing, path) = (format!("read the console of {id}"), format!("{}/action", one(id)));
        let body = json!({"os-getConsoleOutput": {}});
        let asked = Asked::new(&doing, Method::POST, &path).body(&body);
        let answer: Console = self.read(NOVA, asked).await?;
        Ok(answer.output)
    }
}

pub(crate) fn draft_body(draft: &ServerDraft) -> Value {
    json!({"server": {
        "name": draft.name, "flavorRef": draft.flavour, "imageRef": draft.image,
        "key_name": draft.key, "networks": [{"uuid": draft.network}],
        "security_groups": [{"name": draft.security_group}],
    }})
}

pub(crate) fn one(id: &str) -> String {
    format!("/servers/{}", piece(id))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{Server as TestServer, answer, logged_in};

    fn draft() -> ServerDraft {
        ServerDraft {
            name: "demo".into(),
            flavour: "f1".into(),
            image: "i1".into(),
            network: "n1".into(),
            key: "k".into(),
            security_group: "sg1".into(),
        }
    }

    #[tokio::test]
    async fn a_server_is_made_and_found_by_its_exact_name() {
        let server = TestServer::start(logged_in(|q| match (q.method.as_str(), q.path.as_str()) {
            ("POST", "/servers") => answer(202, &json!({"server": {"id": "s1"}})),
            ("GET", "/servers/detail?name=demo") => answer(
                200,
                &json!({"servers": [
                    {"id": "s0", "name": "demo-2", "status": "ACTIVE"},
                    {"id": "s1", "name": "demo", "status": "ACTIVE", "key_name": "k", "addresses": {"demo": [
                        {"addr": "10.0.0.4", "OS-EXT-IPS:type": "fixed"},
                        {"addr": "10.194.0.120", "OS-EXT-IPS:type": "floating"}]}},
                ]}),
            ),
            ("GET", "/servers/gone") => answer(404, &json!({"itemNotFound": {"message": "gone"}})),
            _ => answer(500, &json!({})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        assert_eq!(session.create_server(&draft()).await.expect("made"), "s1");
        let found = session.servers("demo").await.expect("a list");
        assert_eq!((found.len(), found[0].id.as_str()), (1, "s1"));
        assert_eq!(found[0].floating(), "10.194.0.120".parse().ok());
        assert_eq!(session.server("gone").await.expect("an answer"), None);
        let sent = server.asked()[1].json();
        assert_eq!(sent["server"]["networks"], json!([{"uuid": "n1"}]));
        assert_eq!(sent["server"]["key_name"], "k");
    }

    #[tokio::test]
    async fn flavours_keys_services_and_consoles_are_read() {
        let server = TestServer::start(logged_in(|q| match (q.method.as_str(), q.path.as_str()) {
            ("GET", "/flavors/detail") => answer(
                200,
                &json!({"flavors": [{"id": "1", "name": "tiny", "vcpus": 1, "ram": 128, "disk": 1, "swap": ""}]}),
            ),
            ("POST", "/flavors") => {
                let mut made = q.json();
                made["flavor"]["id"] = json!("2");
                answer(200, &made)
            }
            ("GET", "/os-keypairs/a%2Fb") => answer(404, &json!({})),
            ("GET", "/os-keypairs/k") => {
                answer(200, &json!({"keypair": {"name": "k", "public_key": "ssh-ed25519 A"}}))
            }
            ("GET", "/os-services?binary=nova-compute") => {
                answer(200, &json!({"services": [{"host": "node-2", "state": "up"}]}))
            }
            ("POST", "/servers/s1/action") if q.json()["os-getConsoleOutput"].is_object() => {
                answer(200, &json!({"output": "hello\n"}))
            }
            _ => answer(500, &json!({})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        let tiny = session.flavours().await.expect("a list").remove(0);
        assert_eq!((tiny.id.as_str(), tiny.ram), ("1", 128));
        let new = Flavour {
            id: String::new(),
            ..tiny
        };
        assert_eq!(session.create_flavour(&new).await.expect("made").id, "2");
        assert_eq!(session.key_pair("a/b").await.expect("an answer"), None);
        let key = session.key_pair("k").await.expect("an answer").expect("a key");
        assert_eq!(key.public_key, "ssh-ed25519 A");
        assert_eq!(
            session.compute_services("nova-compute").await.expect("a list")[0].state,
            "up"
        );
        assert_eq!(session.console("s1").await.expect("text"), "hello\n");
    }
}
