//! The calls on the real services.

use std::collections::{BTreeMap, BTreeSet};

use async_trait::async_trait;
use http::{HeaderName, Method};
use serde::Deserialize;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use super::{
    Aggregate, Fleet, Guest, HypervisorRecord, Move, MoveProgress, PRIORITY, Service, TestBed, TestDraft,
    placement,
};
use crate::compute::Compute;
use crate::error::{Class, Result, optional};
use crate::identity::{piece, query};
use crate::images::Images;
use crate::network::{NetworkKind, Networking};
use crate::placement::{Inventories, Placement};
use crate::session::{Asked, Destination, Session};

const NOVA: Destination = Destination::Service("compute");
/// The one whose answers the types here fit: ids of services are UUIDs, a host may be asked for.
const VERSION: (HeaderName, &str) = (HeaderName::from_static("openstack-api-version"), "compute 2.90");
/// Most entries of one page; Nova gives a thousand at most.
const PAGE: usize = 500;

#[derive(Deserialize)]
struct Services {
    services: Vec<Service>,
}

#[derive(Deserialize)]
struct Hypervisors {
    hypervisors: Vec<HypervisorAnswer>,
}

#[derive(Deserialize)]
struct HypervisorAnswer {
    id: String,
    hypervisor_hostname: String,
    service: OfService,
}

#[derive(Deserialize)]
struct OfService {
    id: String,
}

#[derive(Deserialize)]
struct Aggregates {
    aggregates: Vec<Aggregate>,
}

#[derive(Deserialize)]
struct Servers {
    servers: Vec<GuestAnswer>,
}

#[derive(Deserialize)]
struct OneServer {
    server: GuestAnswer,
}

#[derive(Deserialize)]
struct GuestAnswer {
    id: String,
    name: String,
    status: String,
    #[serde(rename = "OS-EXT-STS:task_state", default)]
    task: Option<String>,
    #[serde(rename = "OS-EXT-SRV-ATTR:host", default)]
    host: Option<String>,
    #[serde(default)]
    flavor: FlavourOf,
    #[serde(default)]
    fault: Option<FaultOf>,
    #[serde(default)]
    metadata: BTreeMap<String, String>,
}

#[derive(Default, Deserialize)]
struct FlavourOf {
    #[serde(default)]
    ram: i64,
}

#[derive(Deserialize)]
struct FaultOf {
    #[serde(default)]
    message: String,
}

impl From<GuestAnswer> for Guest {
    fn from(answer: GuestAnswer) -> Self {
        Guest {
            id: answer.id,
            name: answer.name,
            status: answer.status,
            task: answer.task,
            host: answer.host.unwrap_or_default(),
            ram_mb: answer.flavor.ram,
            // Users write it: what is no number is none.
            priority: answer
                .metadata
                .get(PRIORITY)
                .and_then(|text| text.trim().parse().ok())
                .unwrap_or_default(),
            fault: answer.fault.map(|fault| fault.message),
        }
    }
}

#[derive(Deserialize)]
struct Moves {
    migrations: Vec<Move>,
}

#[derive(Deserialize)]
struct Progress {
    migrations: Vec<MoveProgress>,
}

#[derive(Deserialize)]
struct Created {
    server: Id,
}

#[derive(Deserialize)]
struct Id {
    id: String,
}

fn one(id: &str) -> String {
    format!("/servers/{}", piece(id))
}

impl Session {
    async fn nova<T: DeserializeOwned>(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let asked = Asked::new(doing, method, path).body(body);
        self.read(NOVA, asked.headers(&[VERSION])).await
    }

    async fn nova_quietly(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<()> {
        let asked = Asked::new(doing, method, path).body(body);
        self.send(NOVA, asked.headers(&[VERSION])).await.map(drop)
    }

    async fn server_action(&self, doing: &str, id: &str, body: &Value) -> Result<()> {
        let path = format!("{}/action", one(id));
        self.nova_quietly(doing, Method::POST, &path, Some(body)).await
    }

    /// Every page of servers under this filter.
    async fn listed(&self, doing: &str, filter: &[(&str, &str)]) -> Result<Vec<Guest>> {
        let mut all: Vec<Guest> = Vec::new();
        let limit = PAGE.to_string();
        loop {
            let marker = all.last().map(|guest| guest.id.clone()).unwrap_or_default();
            let mut filter = filter.to_vec();
            filter.push(("limit", &limit));
            if !marker.is_empty() {
                filter.push(("marker", &marker));
            }
            let path = query("/servers/detail", &filter);
            let page: Servers = self.nova(doing, Method::GET, &path, None).await?;
            let last = page.servers.len() < PAGE;
            all.extend(page.servers.into_iter().map(Guest::from));
            if last {
                return Ok(all);
            }
        }
    }
}

#[async_trait]
impl Fleet for Session {
    async fn compute_hosts(&self) -> Result<Vec<Service>> {
        let path = query("/os-services", &[("binary", "nova-compute")]);
        let answer: Services = self
            .nova("list compute services", Method::GET, &path, None)
            .await?;
        Ok(answer.services)
    }

    async fn hypervisors(&self) -> Result<Vec<HypervisorRecord>> {
        let mut all: Vec<HypervisorRecord> = Vec::new();
        let limit = PAGE.to_string();
        loop {
            let marker = all.last().map(|one| one.id.clone()).unwrap_or_default();
            let mut filter = vec![("limit", limit.as_str())];
            if !marker.is_empty() {
                filter.push(("marker", &marker));
            }
            let path = query("/os-hypervisors/detail", &filter);
            let page: Hypervisors = self.nova("list hypervisors", Method::GET, &path, None).await?;
            let last = page.hypervisors.len() < PAGE;
            all.extend(page.hypervisors.into_iter().map(|one| HypervisorRecord {
                id: one.id,
                hostname: one.hypervisor_hostname,
                service: one.service.id,
            }));
            if last {
                return Ok(all);
            }
        }
    }

    async fn aggregates(&self) -> Result<Vec<Aggregate>> {
        let answer: Aggregates = self
            .nova("list aggregates", Method::GET, "/os-aggregates", None)
            .await?;
        Ok(answer.aggregates)
    }

    async fn enable(&self, service: &str) -> Result<()> {
        let path = format!("/os-services/{}", piece(service));
        let body = json!({"status": "enabled"});
        let doing = format!("enable compute service {service}");
        self.nova_quietly(&doing, Method::PUT, &path, Some(&body)).await
    }

    async fn disable(&self, service: &str, reason: &str) -> Result<()> {
        let path = format!("/os-services/{}", piece(service));
        let body = json!({"status": "disabled", "disabled_reason": reason});
        let doing = format!("disable compute service {service}");
        self.nova_quietly(&doing, Method::PUT, &path, Some(&body)).await
    }

    async fn force_down(&self, service: &str, down: bool) -> Result<()> {
        let path = format!("/os-services/{}", piece(service));
        let body = json!({"forced_down": down});
        let doing = if down {
            format!("force compute service {service} down")
        } else {
            // Nova refuses until nova-compute has cleaned up after the servers that left.
            format!("let compute service {service} be up again")
        };
        self.nova_quietly(&doing, Method::PUT, &path, Some(&body)).await
    }

    async fn delete_service(&self, service: &str) -> Result<()> {
        let path = format!("/os-services/{}", piece(service));
        let doing = format!("delete compute service {service}");
        optional(self.nova_quietly(&doing, Method::DELETE, &path, None).await).map(drop)
    }

    async fn join_aggregate(&self, aggregate: i64, host: &str) -> Result<()> {
        let path = format!("/os-aggregates/{aggregate}/action");
        let body = json!({"add_host": {"host": host}});
        let doing = format!("add {host} to aggregate {aggregate}");
        self.nova_quietly(&doing, Method::POST, &path, Some(&body)).await
    }

    async fn leave_aggregate(&self, aggregate: i64, host: &str) -> Result<()> {
        let path = format!("/os-aggregates/{aggregate}/action");
        let body = json!({"remove_host": {"host": host}});
        let doing = format!("take {host} out of aggregate {aggregate}");
        optional(self.nova_quietly(&doing, Method::POST, &path, Some(&body)).await).map(drop)
    }

    async fn guests_on(&self, host: &str) -> Result<Vec<Guest>> {
        let filter = [("all_tenants", "1"), ("host", host)];
        let mut all = self.listed(&format!("list servers on {host}"), &filter).await?;
        // Whoever may not filter by host gets more than was asked for.
        all.retain(|guest| guest.host == host);
        Ok(all)
    }

    async fn guest(&self, id: &str) -> Result<Option<Guest>> {
        let doing = format!("read server {id}");
        let answer: Option<OneServer> = optional(self.nova(&doing, Method::GET, &one(id), None).await)?;
        Ok(answer.map(|answer| answer.server.into()))
    }

    async fn guests_named(&self, name: &str) -> Result<Vec<Guest>> {
        // Nova takes an expression, which finds more than one name.
        let plain = |c: char| {
            if c.is_alphanumeric() || c == '-' || c == '_' {
                c
            } else {
                '.'
            }
        };
        let expression: String = name.chars().map(plain).collect();
        let mut all = self
            .listed(&format!("list servers {name}"), &[("name", &expression)])
            .await?;
        all.retain(|guest| guest.name == name);
        Ok(all)
    }

    async fn moves_from(&self, host: &str) -> Result<Vec<Move>> {
        let limit = PAGE.to_string();
        let path = query("/os-migrations", &[("source_compute", host), ("limit", &limit)]);
        let doing = format!("list migrations from {host}");
        let answer: Moves = self.nova(&doing, Method::GET, &path, None).await?;
        Ok(answer.migrations)
    }

    async fn progress(&self, server: &str) -> Result<Vec<MoveProgress>> {
        let doing = format!("read migrations of {server}");
        let path = format!("{}/migrations", one(server));
        let answer: Option<Progress> = optional(self.nova(&doing, Method::GET, &path, None).await)?;
        Ok(answer.map(|answer| answer.migrations).unwrap_or_default())
    }

    async fn live_migrate(&self, server: &str) -> Result<()> {
        let body = json!({"os-migrateLive": {"host": null, "block_migration": "auto"}});
        self.server_action(&format!("move server {server}"), server, &body)
            .await
    }

    async fn cold_migrate(&self, server: &str) -> Result<()> {
        let body = json!({"migrate": null});
        self.server_action(&format!("move stopped server {server}"), server, &body)
            .await
    }

    async fn hard_reboot(&self, server: &str) -> Result<()> {
        let body = json!({"reboot": {"type": "HARD"}});
        self.server_action(&format!("restart server {server}"), server, &body)
            .await
    }

    async fn confirm_migration(&self, server: &str) -> Result<()> {
        let body = json!({"confirmResize": null});
        self.server_action(&format!("confirm the move of server {server}"), server, &body)
            .await
    }

    async fn abort_migration(&self, server: &str, id: i64) -> Result<()> {
        let path = format!("{}/migrations/{id}", one(server));
        let doing = format!("abort migration {id} of server {server}");
        optional(self.nova_quietly(&doing, Method::DELETE, &path, None).await).map(drop)
    }

    async fn force_complete(&self, server: &str, id: i64) -> Result<()> {
        let path = format!("{}/migrations/{id}/action", one(server));
        let body = json!({"force_complete": null});
        let doing = format!("complete migration {id} of server {server}");
        // One that is over is complete.
        optional(self.nova_quietly(&doing, Method::POST, &path, Some(&body)).await).map(drop)
    }

    async fn evacuate(&self, server: &str) -> Result<()> {
        // Up to 2.94 a server that ran is started again; later versions leave it stopped.
        let body = json!({"evacuate": {}});
        self.server_action(&format!("restart server {server} elsewhere"), server, &body)
            .await
    }

    async fn test_bed(&self, name: &str) -> Result<TestBed> {
        let image = self.images(Some(name)).await?.into_iter().next();
        let flavour = self.flavours().await?.into_iter().find(|one| one.name == name);
        // A cloud without Neutron has no network for it.
        let network = match self.found(NetworkKind::Network, &[("name", name)]).await {
            Ok(found) => found.into_iter().next().map(|network| network.id),
            Err(error) if error.class() == Class::Unavailable && !error.unreachable() => None,
            Err(error) => return Err(error),
        };
        Ok(TestBed {
            image: image.map(|image| image.id),
            flavour: flavour.map(|flavour| flavour.id),
            network,
        })
    }

    async fn create_test_server(&self, draft: &TestDraft) -> Result<String> {
        let networks = match &draft.network {
            Some(id) => json!([{"uuid": id}]),
            None => json!("none"),
        };
        let body = json!({"server": {"name": draft.name, "flavorRef": draft.flavour, "imageRef": draft.image,
            "networks": networks, "host": draft.host}});
        let doing = format!("create test server {}", draft.name);
        let answer: Created = self.nova(&doing, Method::POST, "/servers", Some(&body)).await?;
        Ok(answer.server.id)
    }

    async fn console_of(&self, server: &str) -> Result<String> {
        self.console(server).await
    }

    async fn delete_server(&self, server: &str) -> Result<()> {
        let doing = format!("delete server {server}");
        optional(
            self.nova_quietly(&doing, Method::DELETE, &one(server), None)
                .await,
        )
        .map(drop)
    }

    async fn provider_traits(&self, provider: &str) -> Result<Option<(i64, BTreeSet<String>)>> {
        placement::traits(self, provider).await
    }

    async fn set_provider_traits(
        &self,
        provider: &str,
        generation: i64,
        traits: &BTreeSet<String>,
    ) -> Result<()> {
        placement::set_traits(self, provider, generation, traits).await
    }

    async fn provider_inventories(&self, provider: &str) -> Result<Option<(i64, Inventories)>> {
        optional(self.inventories(provider).await)
    }

    async fn set_provider_inventories(
        &self,
        provider: &str,
        generation: i64,
        inventories: &Inventories,
    ) -> Result<()> {
        self.set_inventories(provider, generation, inventories).await
    }

    async fn consumers(&self, provider: &str) -> Result<BTreeMap<String, BTreeMap<String, i64>>> {
        placement::consumers(self, provider).await
    }

    async fn release(&self, consumer: &str, provider: &str) -> Result<()> {
        let mut allocation = self.allocation(consumer).await?;
        if allocation.resources.remove(provider).is_none() {
            return Ok(());
        }
        if allocation.resources.is_empty() {
            self.delete_allocation(consumer).await
        } else {
            self.set_allocation(consumer, &allocation).await
        }
    }

    async fn delete_provider(&self, provider: &str) -> Result<()> {
        self.delete_resource_provider(provider).await
    }

    async fn candidates(&self, resources: &BTreeMap<String, i64>) -> Result<BTreeSet<String>> {
        placement::candidates(self, resources).await
    }
}

#[cfg(test)]
#[path = "nova_tests.rs"]
mod tests;
