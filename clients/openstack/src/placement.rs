//! Placement: what there is of each resource, and who has taken how much.

use std::collections::BTreeMap;
use std::fmt::Debug;

use async_trait::async_trait;
use http::{HeaderName, Method};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use crate::error::{Result, optional};
use crate::identity::{piece, query};
use crate::session::{Asked, Destination, Session};

const PLACEMENT: Destination = Destination::Service("placement");
/// The one whose answers the types here fit: consumer generations and types.
const VERSION: (HeaderName, &str) = (HeaderName::from_static("openstack-api-version"), "placement 1.39");

#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
pub struct ResourceProvider {
    pub uuid: String,
    pub name: String,
    pub generation: i64,
    #[serde(default)]
    pub parent_provider_uuid: Option<String>,
}

/// Of one resource class.
#[derive(Clone, Debug, PartialEq, Deserialize, Serialize)]
pub struct Inventory {
    pub total: i64,
    #[serde(default)]
    pub reserved: i64,
    #[serde(default = "unit")]
    pub min_unit: i64,
    #[serde(default = "most")]
    pub max_unit: i64,
    #[serde(default = "unit")]
    pub step_size: i64,
    #[serde(default = "ratio")]
    pub allocation_ratio: f64,
}

fn unit() -> i64 {
    1
}

fn most() -> i64 {
    i64::from(i32::MAX)
}

fn ratio() -> f64 {
    1.0
}

impl Inventory {
    pub fn of(total: i64) -> Self {
        Self {
            total,
            reserved: 0,
            min_unit: unit(),
            max_unit: total.max(1),
            step_size: unit(),
            allocation_ratio: ratio(),
        }
    }
}

/// What one consumer holds: amounts by provider and resource class.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Allocation {
    pub resources: BTreeMap<String, BTreeMap<String, i64>>,
    pub project: String,
    pub user: String,
    /// `None` for a consumer that holds nothing yet.
    pub generation: Option<i64>,
}

pub type Inventories = BTreeMap<String, Inventory>;
pub type Usages = BTreeMap<String, i64>;

#[async_trait]
pub trait Placement: Debug + Send + Sync {
    /// Providers of that name, or all.
    async fn resource_providers(&self, name: Option<&str>) -> Result<Vec<ResourceProvider>>;
    async fn create_resource_provider(&self, name: &str) -> Result<ResourceProvider>;
    /// One that is gone already is as good as deleted.
    async fn delete_resource_provider(&self, uuid: &str) -> Result<()>;
    /// The provider's generation and what it has.
    async fn inventories(&self, provider: &str) -> Result<(i64, Inventories)>;
    /// Replaces all of it. A conflict: somebody else changed the provider since that generation.
    async fn set_inventories(&self, provider: &str, generation: i64, inventories: &Inventories)
    -> Result<()>;
    async fn usages(&self, provider: &str) -> Result<Usages>;
    async fn allocation(&self, consumer: &str) -> Result<Allocation>;
    async fn set_allocation(&self, consumer: &str, allocation: &Allocation) -> Result<()>;
    async fn delete_allocation(&self, consumer: &str) -> Result<()>;
}

#[derive(Deserialize)]
struct Providers {
    resource_providers: Vec<ResourceProvider>,
}

#[derive(Deserialize)]
struct InventoryAnswer {
    resource_provider_generation: i64,
    inventories: Inventories,
}

#[derive(Deserialize)]
struct UsageAnswer {
    usages: Usages,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct AllocationAnswer {
    allocations: BTreeMap<String, Held>,
    project_id: String,
    user_id: String,
    consumer_generation: Option<i64>,
}

#[derive(Deserialize)]
struct Held {
    resources: BTreeMap<String, i64>,
}

fn provider(uuid: &str) -> String {
    format!("/resource_providers/{}", piece(uuid))
}

impl Session {
    pub(crate) async fn placed<T: serde::de::DeserializeOwned>(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<T> {
        let asked = Asked::new(doing, method, path).body(body);
        self.read(PLACEMENT, asked.headers(&[VERSION])).await
    }

    pub(crate) async fn placed_quietly(
        &self,
        doing: &str,
        method: Method,
        path: &str,
        body: Option<&Value>,
    ) -> Result<()> {
        let asked = Asked::new(doing, method, path).body(body);
        self.send(PLACEMENT, asked.headers(&[VERSION])).await.map(drop)
    }
}

#[async_trait]
impl Placement for Session {
    async fn resource_providers(&self, name: Option<&str>) -> Result<Vec<ResourceProvider>> {
        let filter: Vec<(&str, &str)> = name.iter().map(|name| ("name", *name)).collect();
        let path = query("/resource_providers", &filter);
        let answer: Providers = self
            .placed("list resource providers", Method::GET, &path, None)
            .await?;
        Ok(answer.resource_providers)
    }

    async fn create_resource_provider(&self, name: &str) -> Result<ResourceProvider> {
        let doing = format!("create resource provider {name}");
        let body = json!({"name": name});
        self.placed(&doing, Method::POST, "/resource_providers", Some(&body))
            .await
    }

    async fn delete_resource_provider(&self, uuid: &str) -> Result<()> {
        let doing = format!("delete resource provider {uuid}");
        let done = self
            .placed_quietly(&doing, Method::DELETE, &provider(uuid), None)
            .await;
        optional(done).map(drop)
    }

    async fn inventories(&self, uuid: &str) -> Result<(i64, Inventories)> {
        let doing = format!("read inventories of {uuid}");
        let path = format!("{}/inventories", provider(uuid));
        let answer: InventoryAnswer = self.placed(&doing, Method::GET, &path, None).await?;
        Ok((answer.resource_provider_generation, answer.inventories))
    }

    async fn set_inventories(&self, uuid: &str, generation: i64, inventories: &Inventories) -> Result<()> {
        let doing = format!("set inventories of {uuid}");
        let path = format!("{}/inventories", provider(uuid));
        let body = json!({"resource_provider_generation": generation, "inventories": inventories});
        self.placed_quietly(&doing, Method::PUT, &path, Some(&body)).await
    }

    async fn usages(&self, uuid: &str) -> Result<Usages> {
        let doing = format!("read usages of {uuid}");
        let path = format!("{}/usages", provider(uuid));
        let answer: UsageAnswer = self.placed(&doing, Method::GET, &path, None).await?;
        Ok(answer.usages)
    }

    async fn allocation(&self, consumer: &str) -> Result<Allocation> {
        let doing = format!("read allocation of {consumer}");
        let path = format!("/allocations/{}", piece(consumer));
        let answer: AllocationAnswer = self.placed(&doing, Method::GET, &path, None).await?;
        let held = answer.allocations.into_iter();
        Ok(Allocation {
            resources: held.map(|(provider, held)| (provider, held.resources)).collect(),
            project: answer.project_id,
            user: answer.user_id,
            generation: answer.consumer_generation,
        })
    }

    async fn set_allocation(&self, consumer: &str, allocation: &Allocation) -> Result<()> {
        let doing = format!("set allocation of {consumer}");
        let path = format!("/allocations/{}", piece(consumer));
        let held = allocation.resources.iter();
        let held: BTreeMap<&String, Value> = held
            .map(|(provider, resources)| (provider, json!({"resources": resources})))
            .collect();
        let body = json!({
            "allocations": held, "project_id": allocation.project, "user_id": allocation.user,
            "consumer_generation": allocation.generation, "consumer_type": "INSTANCE",
        });
        self.placed_quietly(&doing, Method::PUT, &path, Some(&body)).await
    }

    async fn delete_allocation(&self, consumer: &str) -> Result<()> {
        let doing = format!("delete allocation of {consumer}");
        let path = format!("/allocations/{}", piece(consumer));
        let done = self.placed_quietly(&doing, Method::DELETE, &path, None).await;
        optional(done).map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_short_inventory_has_defaults() {
        let inventory: Inventory = serde_json::from_value(json!({"total": 8})).expect("an inventory");
        assert_eq!(
            (inventory.total, inventory.reserved, inventory.min_unit),
            (8, 0, 1)
        );
        assert_eq!(Inventory::of(8).max_unit, 8);
    }
}
