//! Placement in memory: generations, capacity, usages.

use std::collections::BTreeMap;

use async_trait::async_trait;
use uuid::Uuid;

use super::{Act, Simulator, World};
use crate::error::Result;
use crate::placement::{Allocation, Inventories, Placement, ResourceProvider, Usages};

type Refused = (u16, String);

fn missing(uuid: &str) -> Refused {
    (404, format!("No resource provider with uuid {uuid} found"))
}

fn usage(world: &World, provider: &str) -> Usages {
    let mut all: Usages = match world.providers.get(provider) {
        Some((_, inventories)) => inventories.keys().map(|class| (class.clone(), 0)).collect(),
        None => Usages::new(),
    };
    for held in world
        .allocations
        .values()
        .filter_map(|a| a.resources.get(provider))
    {
        for (class, amount) in held {
            *all.entry(class.clone()).or_default() += amount;
        }
    }
    all
}

/// Is there room for it beside what the others hold?
fn fits(world: &World, consumer: &str, allocation: &Allocation) -> std::result::Result<(), Refused> {
    for (provider, wanted) in &allocation.resources {
        let (_, inventories) = world.providers.get(provider).ok_or_else(|| missing(provider))?;
        let used = usage(world, provider);
        let own = world
            .allocations
            .get(consumer)
            .and_then(|a| a.resources.get(provider));
        for (class, amount) in wanted {
            let short = || {
                (
                    409,
                    format!("Unable to allocate inventory: {class} on {provider}"),
                )
            };
            let inventory = inventories.get(class).ok_or_else(short)?;
            #[allow(clippy::cast_precision_loss, clippy::cast_possible_truncation)] // as Placement does
            let room = ((inventory.total - inventory.reserved) as f64 * inventory.allocation_ratio) as i64;
            let before = own.and_then(|own| own.get(class)).copied().unwrap_or(0);
            let taken = used.get(class).copied().unwrap_or(0) - before;
            if *amount > inventory.max_unit || taken + amount > room {
                return Err(short());
            }
        }
    }
    Ok(())
}

#[async_trait]
impl Placement for Simulator {
    async fn resource_providers(&self, name: Option<&str>) -> Result<Vec<ResourceProvider>> {
        self.call("list resource providers".to_owned(), Act::Read, |world| {
            let all = world.providers.values().map(|(provider, _)| provider);
            let wanted = all.filter(|provider| name.is_none_or(|name| provider.name == name));
            Ok(wanted.cloned().collect())
        })
        .await
    }

    async fn create_resource_provider(&self, name: &str) -> Result<ResourceProvider> {
        self.call(format!("create resource provider {name}"), Act::Write, |world| {
            if world
                .providers
                .values()
                .any(|(provider, _)| provider.name == name)
            {
                return Err((
                    409,
                    format!("Conflicting resource provider name: {name} already exists."),
                ));
            }
            let provider = ResourceProvider {
                uuid: Uuid::new_v4().to_string(),
                name: name.to_owned(),
                ..ResourceProvider::default()
            };
            let entry = (provider.clone(), Inventories::new());
            world.providers.insert(provider.uuid.clone(), entry);
            Ok(provider)
        })
        .await
    }

    async fn delete_resource_provider(&self, uuid: &str) -> Result<()> {
        self.call(format!("delete resource provider {uuid}"), Act::Write, |world| {
            if usage(world, uuid).values().any(|used| *used > 0) {
                return Err((
                    409,
                    "Unable to delete resource provider: it has allocations".to_owned(),
                ));
            }
            world.providers.remove(uuid);
            Ok(())
        })
        .await
    }

    async fn inventories(&self, uuid: &str) -> Result<(i64, Inventories)> {
        self.call(format!("read inventories of {uuid}"), Act::Read, |world| {
            let (provider, inventories) = world.providers.get(uuid).ok_or_else(|| missing(uuid))?;
            Ok((provider.generation, inventories.clone()))
        })
        .await
    }

    async fn set_inventories(&self, uuid: &str, generation: i64, inventories: &Inventories) -> Result<()> {
        self.call(format!("set inventories of {uuid}"), Act::Write, |world| {
            let (provider, own) = world.providers.get_mut(uuid).ok_or_else(|| missing(uuid))?;
            if provider.generation != generation {
                return Err((409, "resource provider generation conflict".to_owned()));
            }
            provider.generation += 1;
            own.clone_from(inventories);
            Ok(())
        })
        .await
    }

    async fn usages(&self, uuid: &str) -> Result<Usages> {
        self.call(format!("read usages of {uuid}"), Act::Read, |world| {
            world.providers.get(uuid).ok_or_else(|| missing(uuid))?;
            Ok(usage(world, uuid))
        })
        .await
    }

    async fn allocation(&self, consumer: &str) -> Result<Allocation> {
        self.call(format!("read allocation of {consumer}"), Act::Read, |world| {
            Ok(world.allocations.get(consumer).cloned().unwrap_or_default())
        })
        .await
    }

    async fn set_allocation(&self, consumer: &str, allocation: &Allocation) -> Result<()> {
        self.call(format!("set allocation of {consumer}"), Act::Write, |world| {
            let before = world.allocations.get(consumer).and_then(|own| own.generation);
            if before != allocation.generation {
                return Err((409, "consumer generation conflict".to_owned()));
            }
            fits(world, consumer, allocation)?;
            let mut stored = allocation.clone();
            stored.generation = Some(before.unwrap_or(0) + 1);
            world.allocations.insert(consumer.to_owned(), stored);
            Ok(())
        })
        .await
    }

    async fn delete_allocation(&self, consumer: &str) -> Result<()> {
        self.call(format!("delete allocation of {consumer}"), Act::Write, |world| {
            world.allocations.remove(consumer);
            Ok(())
        })
        .await
    }
}

/// Providers with what they have, by uuid.
pub(super) type Providers = BTreeMap<String, (ResourceProvider, Inventories)>;
