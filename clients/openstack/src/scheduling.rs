//! Nova for those who choose hosts: servers with their sizes, and where they have been.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;
use http::{HeaderName, Method};
use serde::Deserialize;

use crate::compute::NOVA;
use crate::error::Result;
use crate::fleet::Move;
use crate::identity::query;
use crate::session::{Asked, Session};

/// A server tells its flavour itself, with extra specs.
const VERSION: (HeaderName, &str) = (HeaderName::from_static("openstack-api-version"), "compute 2.79");
/// Nova gives no more at a time.
const PAGE: usize = 1000;

/// A server with what it takes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SizedServer {
    pub id: String,
    pub name: String,
    pub project: String,
    pub status: String,
    pub host: Option<String>,
    pub vcpus: i64,
    pub ram_mb: i64,
    pub extra_specs: BTreeMap<String, String>,
}

#[async_trait]
pub trait Scheduling: Debug + Send + Sync {
    /// The servers of all projects.
    async fn sized_servers(&self) -> Result<Vec<SizedServer>>;
    /// All moves of a server, past ones too.
    async fn moves_of(&self, server: &str) -> Result<Vec<Move>>;
}

#[derive(Deserialize)]
struct Answer {
    servers: Vec<Row>,
}

#[derive(Deserialize)]
struct Row {
    id: String,
    name: String,
    status: String,
    tenant_id: String,
    #[serde(rename = "OS-EXT-SRV-ATTR:host", default)]
    host: Option<String>,
    #[serde(default)]
    flavor: Flavor,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Flavor {
    vcpus: i64,
    ram: i64,
    extra_specs: BTreeMap<String, String>,
}

#[derive(Deserialize)]
struct Moves {
    migrations: Vec<Move>,
}

impl From<Row> for SizedServer {
    fn from(row: Row) -> Self {
        SizedServer {
            id: row.id,
            name: row.name,
            project: row.tenant_id,
            status: row.status,
            host: row.host,
            vcpus: row.flavor.vcpus,
            ram_mb: row.flavor.ram,
            extra_specs: row.flavor.extra_specs,
        }
    }
}

#[async_trait]
impl Scheduling for Session {
    async fn sized_servers(&self) -> Result<Vec<SizedServer>> {
        let (page, headers) = (PAGE.to_string(), [VERSION]);
        let mut all: Vec<SizedServer> = Vec::new();
        loop {
            let mut filter = vec![("all_tenants", "1"), ("limit", page.as_str())];
            if let Some(last) = all.last() {
                filter.push(("marker", last.id.as_str()));
            }
            let path = query("/servers/detail", &filter);
            let doing = "list the servers of all projects with their sizes";
            let asked = Asked::new(doing, Method::GET, &path).headers(&headers);
            let answer: Answer = self.read(NOVA, asked).await?;
            let more = answer.servers.len() >= PAGE;
            all.extend(answer.servers.into_iter().map(SizedServer::from));
            if !more {
                return Ok(all);
            }
        }
    }

    async fn moves_of(&self, server: &str) -> Result<Vec<Move>> {
        let (doing, headers) = (format!("list the moves of server {server}"), [VERSION]);
        let path = query("/os-migrations", &[("instance_uuid", server)]);
        let asked = Asked::new(&doing, Method::GET, &path).headers(&headers);
        let answer: Moves = self.read(NOVA, asked).await?;
        Ok(answer.migrations)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{Server, answer, logged_in};
    use serde_json::json;

    #[tokio::test]
    async fn servers_tell_their_sizes_and_their_moves() {
        let server = Server::start(logged_in(|q| match q.path.as_str() {
            "/servers/detail?all_tenants=1&limit=1000" => answer(
                200,
                &json!({"servers": [{"id": "s", "name": "n", "status": "ACTIVE", "tenant_id": "p",
                    "OS-EXT-SRV-ATTR:host": "h", "flavor": {"vcpus": 2, "ram": 4096, "original_name": "f",
                    "extra_specs": {"trait:X": "required"}}}, {"id": "t", "name": "m", "status": "ERROR",
                    "tenant_id": "p", "OS-EXT-SRV-ATTR:host": null, "flavor": {"vcpus": 1, "ram": 1}}]}),
            ),
            "/os-migrations?instance_uuid=s" => answer(
                200,
                &json!({"migrations": [{"id": 1, "instance_uuid": "s", "status": "completed",
                    "migration_type": "live-migration", "source_compute": "a", "dest_compute": "b"}]}),
            ),
            _ => answer(500, &json!({})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        let all = session.sized_servers().await.expect("a list");
        assert_eq!(
            (all[0].vcpus, all[0].ram_mb, all[0].host.as_deref()),
            (2, 4096, Some("h"))
        );
        assert_eq!(
            (all[0].extra_specs["trait:X"].as_str(), &all[1].host),
            ("required", &None)
        );
        let moves = session.moves_of("s").await.expect("a list");
        assert_eq!(moves[0].destination.as_deref(), Some("b"));
    }
}
