//! Nova for those who run a cloud: where servers are, and what is done to them.

use std::fmt::Debug;

use async_trait::async_trait;
use http::{HeaderName, Method};
use serde::Deserialize;
use serde_json::{Value, json};

use crate::compute::{Created, NOVA, Server, ServerDraft, draft_body, one};
use crate::error::{Result, optional};
use crate::identity::query;
use crate::session::{Asked, Session};

/// The version that these calls are written for: live migration that finds out by itself what to copy,
/// servers on a host of one's choice.
const VERSION: (HeaderName, &str) = (HeaderName::from_static("openstack-api-version"), "compute 2.79");
/// Nova gives no more at a time.
const PAGE: &str = "1000";

/// A server with what only its operators see.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct PlacedServer {
    #[serde(flatten)]
    pub server: Server,
    #[serde(rename = "OS-EXT-SRV-ATTR:host", default)]
    pub host: Option<String>,
    /// What is being done to it at the moment.
    #[serde(rename = "OS-EXT-STS:task_state", default)]
    pub task: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Hypervisor {
    #[serde(rename = "hypervisor_hostname")]
    pub name: String,
    /// `up` or `down`.
    pub state: String,
    /// `enabled` or `disabled`.
    pub status: String,
}

/// What is done to a server. Nova answers at once and does it afterwards.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Action {
    Start,
    Stop,
    /// Moves it while it runs, to that host or to one that Nova finds.
    LiveMigrate {
        host: Option<String>,
    },
    /// Stops it, moves it and starts it there; it waits for [`Action::ConfirmResize`].
    Migrate {
        host: Option<String>,
    },
    /// It waits for [`Action::ConfirmResize`].
    Resize {
        flavour: String,
    },
    ConfirmResize,
    RevertResize,
    /// Restarts it with the content of an image.
    Rebuild {
        image: String,
    },
    /// Keeps its disk as an image of that name.
    Snapshot {
        name: String,
    },
}

impl Action {
    fn body(&self) -> Value {
        match self {
            Self::Start => json!({"os-start": null}),
            Self::Stop => json!({"os-stop": null}),
            Self::LiveMigrate { host } => {
                json!({"os-migrateLive": {"host": host, "block_migration": "auto"}})
            }
            Self::Migrate { host: None } => json!({"migrate": null}),
            Self::Migrate { host } => json!({"migrate": {"host": host}}),
            Self::Resize { flavour } => json!({"resize": {"flavorRef": flavour}}),
            Self::ConfirmResize => json!({"confirmResize": null}),
            Self::RevertResize => json!({"revertResize": null}),
            Self::Rebuild { image } => json!({"rebuild": {"imageRef": image}}),
            Self::Snapshot { name } => json!({"createImage": {"name": name}}),
        }
    }

    /// For people.
    fn words(&self) -> &'static str {
        match self {
            Self::Start => "start",
            Self::Stop => "stop",
            Self::LiveMigrate { .. } => "move",
            Self::Migrate { .. } => "migrate",
            Self::Resize { .. } => "resize",
            Self::ConfirmResize => "confirm the resize of",
            Self::RevertResize => "revert the resize of",
            Self::Rebuild { .. } => "rebuild",
            Self::Snapshot { .. } => "take a snapshot of",
        }
    }
}

#[async_trait]
pub trait Operating: Debug + Send + Sync {
    /// The servers of all projects.
    async fn all_servers(&self) -> Result<Vec<PlacedServer>>;
    async fn placed_server(&self, id: &str) -> Result<Option<PlacedServer>>;
    /// Gives its id; it is not there yet.
    async fn create_server_on(&self, draft: &ServerDraft, host: &str) -> Result<String>;
    async fn act(&self, server: &str, action: &Action) -> Result<()>;
    /// One that is gone already is as good as deleted.
    async fn delete_server(&self, id: &str) -> Result<()>;
    /// The address at which a browser shows its screen, good for a while and for whoever has it.
    async fn screen(&self, server: &str) -> Result<String>;
    async fn hypervisors(&self) -> Result<Vec<Hypervisor>>;
}

#[derive(Deserialize)]
struct Servers {
    servers: Vec<PlacedServer>,
}

#[derive(Deserialize)]
struct OneServer {
    server: PlacedServer,
}

#[derive(Deserialize)]
struct Consoles {
    remote_console: Console,
}

#[derive(Deserialize)]
struct Console {
    url: String,
}

#[derive(Deserialize)]
struct Hypervisors {
    hypervisors: Vec<Hypervisor>,
}

#[async_trait]
impl Operating for Session {
    async fn all_servers(&self) -> Result<Vec<PlacedServer>> {
        let mut all: Vec<PlacedServer> = Vec::new();
        loop {
            let mut filter = vec![("all_tenants", "1"), ("limit", PAGE)];
            if let Some(last) = all.last() {
                filter.push(("marker", last.server.id.as_str()));
            }
            let path = query("/servers/detail", &filter);
            let asked = Asked::new("list the servers of all projects", Method::GET, &path);
            let answer: Servers = self.read(NOVA, asked).await?;
            let more = answer.servers.len().to_string() == PAGE;
            all.extend(answer.servers);
            if !more {
                return Ok(all);
            }
        }
    }

    async fn placed_server(&self, id: &str) -> Result<Option<PlacedServer>> {
        let (doing, path) = (format!("read server {id}"), one(id));
        let answer: Option<OneServer> =
            optional(self.read(NOVA, Asked::new(&doing, Method::GET, &path)).await)?;
        Ok(answer.map(|answer| answer.server))
    }

    async fn create_server_on(&self, draft: &ServerDraft, host: &str) -> Result<String> {
        let doing = format!("create server {} on {host}", draft.name);
        let mut body = draft_body(draft);
        body["server"]["host"] = host.into();
        let headers = [VERSION];
        let asked = Asked::new(&doing, Method::POST, "/servers")
            .headers(&headers)
            .body(&body);
        let answer: Created = self.read(NOVA, asked).await?;
        Ok(answer.server.id)
    }

    async fn act(&self, server: &str, action: &Action) -> Result<()> {
        let doing = format!("{} server {server}", action.words());
        let (path, body, headers) = (format!("{}/action", one(server)), action.body(), [VERSION]);
        let asked = Asked::new(&doing, Method::POST, &path)
            .headers(&headers)
            .body(&body);
        self.send(NOVA, asked).await.map(drop)
    }

    async fn delete_server(&self, id: &str) -> Result<()> {
        let (doing, path) = (format!("delete server {id}"), one(id));
        let asked = Asked::new(&doing, Method::DELETE, &path);
        optional(self.send(NOVA, asked).await).map(drop)
    }

    async fn screen(&self, server: &str) -> Result<String> {
        let doing = format!("open the console of {server}");
        let path = format!("{}/remote-consoles", one(server));
        let body = json!({"remote_console": {"protocol": "vnc", "type": "novnc"}});
        let headers = [VERSION];
        let asked = Asked::new(&doing, Method::POST, &path)
            .headers(&headers)
            .body(&body);
        let answer: Consoles = self.read(NOVA, asked).await?;
        Ok(answer.remote_console.url)
    }

    async fn hypervisors(&self) -> Result<Vec<Hypervisor>> {
        let headers = [VERSION];
        let asked = Asked::new("list hypervisors", Method::GET, "/os-hypervisors/detail").headers(&headers);
        let answer: Hypervisors = self.read(NOVA, asked).await?;
        Ok(answer.hypervisors)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{Server as TestServer, answer, logged_in};

    fn row(id: usize) -> Value {
        json!({"id": format!("s{id}"), "name": "n", "status": "ACTIVE",
            "OS-EXT-SRV-ATTR:host": "node-2", "OS-EXT-STS:task_state": null})
    }

    #[tokio::test]
    async fn servers_of_all_projects_come_page_by_page() {
        let server = TestServer::start(logged_in(|q| match q.path.as_str() {
            "/servers/detail?all_tenants=1&limit=1000" => {
                answer(200, &json!({"servers": (0..1000).map(row).collect::<Vec<_>>()}))
            }
            "/servers/detail?all_tenants=1&limit=1000&marker=s999" => {
                answer(200, &json!({"servers": [row(1000)]}))
            }
            _ => answer(500, &json!({})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        let all = session.all_servers().await.expect("a list");
        assert_eq!(all.len(), 1001);
        assert_eq!(all[1000].host.as_deref(), Some("node-2"));
        assert_eq!((all[1000].server.id.as_str(), &all[1000].task), ("s1000", &None));
    }

    #[tokio::test]
    async fn what_is_done_to_a_server_is_said_in_novas_words() {
        let server = TestServer::start(logged_in(|q| match (q.method.as_str(), q.path.as_str()) {
            ("POST", "/servers/s1/action") => answer(202, &json!({})),
            ("POST", "/servers") => answer(202, &json!({"server": {"id": "s2"}})),
            ("POST", "/servers/s1/remote-consoles") => {
                answer(200, &json!({"remote_console": {"url": "http://c/vnc_lite.html?path=x"}}))
            }
            ("GET", "/os-hypervisors/detail") => answer(
                200,
                &json!({"hypervisors": [{"hypervisor_hostname": "node-2", "state": "up", "status": "enabled"}]}),
            ),
            _ => answer(404, &json!({"itemNotFound": {"message": "gone"}})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        let host = || Some("node-3".to_owned());
        for (action, said) in [
            (Action::Start, json!({"os-start": null})),
            (Action::Stop, json!({"os-stop": null})),
            (
                Action::LiveMigrate { host: host() },
                json!({"os-migrateLive": {"host": "node-3", "block_migration": "auto"}}),
            ),
            (Action::Migrate { host: None }, json!({"migrate": null})),
            (
                Action::Migrate { host: host() },
                json!({"migrate": {"host": "node-3"}}),
            ),
            (
                Action::Resize { flavour: "f".into() },
                json!({"resize": {"flavorRef": "f"}}),
            ),
            (Action::ConfirmResize, json!({"confirmResize": null})),
            (Action::RevertResize, json!({"revertResize": null})),
            (
                Action::Rebuild { image: "i".into() },
                json!({"rebuild": {"imageRef": "i"}}),
            ),
            (
                Action::Snapshot { name: "x".into() },
                json!({"createImage": {"name": "x"}}),
            ),
        ] {
            session.act("s1", &action).await.expect("taken");
            let sent = server.asked().pop().expect("a request");
            assert_eq!(sent.json(), said);
        }
        let draft = ServerDraft {
            name: "n".into(),
            flavour: "f".into(),
            image: "i".into(),
            network: "w".into(),
            key: "k".into(),
            security_group: "g".into(),
        };
        let made = session.create_server_on(&draft, "node-2").await.expect("made");
        assert_eq!(made, "s2");
        assert_eq!(
            server.asked().pop().expect("a request").json()["server"]["host"],
            "node-2"
        );
        assert!(session.screen("s1").await.expect("a url").contains("vnc_lite"));
        let found = session.hypervisors().await.expect("a list").remove(0);
        assert_eq!((found.name.as_str(), found.state.as_str()), ("node-2", "up"));
        session.delete_server("gone").await.expect("as good as deleted");
        assert_eq!(session.placed_server("gone").await.expect("an answer"), None);
    }
}
