//! CephObjectStore: gateways of S3 and the pools behind them.

use std::time::Duration;

use c5c3_api::foreign::rook::{CephCluster, CephObjectStore, CephObjectStoreUser};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
    Wanted,
};
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{Pod, Secret, Service};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::commands::{self, Command, Orders};
use super::home::Home;
use super::keyring::{Mint, entry, key_in};
use super::view::{Account, OsdMap};
use super::{gateway, pool};
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::image::server_image;
use crate::objects::secret_value;

const READY: &str = "GatewaysUp";
const SOON: Duration = Duration::from_secs(2);
/// Buckets are data: a store that has some is kept for as long as a person may need to notice.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The controller.
pub struct CephObjectStores {
    client: Client,
}

impl CephObjectStores {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[derive(Debug)]
pub struct Facts {
    namespace: String,
    home: Home,
    world: Option<(ExecTarget, OsdMap, Option<Account>)>,
    key: Option<String>,
    mint: Mint,
    /// Gateways that serve.
    ready: i32,
    /// What stands against its deletion.
    left: Vec<String>,
}

impl Facts {
    fn key(&self, store: &str) -> String {
        self.key
            .clone()
            .unwrap_or_else(|| self.mint.key(&gateway::entity(store)))
    }
}

fn instances(store: &CephObjectStore) -> i32 {
    store.spec.gateway.instances.unwrap_or(1)
}

impl Controller for CephObjectStores {
    type Kind = CephObjectStore;
    type Facts = Facts;
    /// Why it is refused.
    type Plan = Option<Error>;
    type Action = Orders;
    type Error = Error;

    const NAME: &'static str = "stand-in-ceph-object-store";
    const PARTS: &'static [Part] = &[Part::required(READY)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "cephobjectstore.ceph.rook.io",
        within: PATIENCE,
    });

    fn owns() -> Vec<Kind> {
        vec![
            Kind::of::<Secret>(),
            Kind::of::<Service>(),
            Kind::of::<Deployment>(),
        ]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<CephCluster>()]
    }

    fn touches() -> Vec<Touch> {
        vec![
            exec::touched(),
            Touch::of::<Pod>(&["list"]),
            Touch::of::<CephObjectStoreUser>(&["list"]),
        ]
    }

    fn found(facts: &Facts) -> Vec<Reference> {
        facts.home.reference(&facts.namespace).into_iter().collect()
    }

    async fn observe(&self, object: &CephObjectStore, reader: &Reader) -> Result<Facts, Error> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let home = Home::find(reader, &namespace).await?;
        let account = Command::ask("auth get")
            .with("entity", gateway::entity(&name))
            .or_nothing();
        let world = match home
            .ask(&self.client, vec![Command::ask("osd dump"), account])
            .await?
        {
            None => None,
            Some((place, answers)) => {
                let [map, account] = answers.as_slice() else {
                    return Err(Error::Ceph("answers are missing".to_owned()));
                };
                let account: Option<Vec<Account>> = account.read()?;
                let account = account.and_then(|all| all.into_iter().next());
                Some((place, map.read()?.unwrap_or_default(), account))
            }
        };
        let keyring: Option<Secret> = reader.get(&namespace, &gateway::keyring_name(&name)).await?;
        let keyring = secret_value(keyring, "keyring");
        let running: Option<Deployment> = reader.get(&namespace, &format!("rook-ceph-rgw-{name}-a")).await?;
        let left = if object.metadata.deletion_timestamp.is_some() {
            self.left(reader, &namespace, &name).await?
        } else {
            Vec::new()
        };
        Ok(Facts {
            key: keyring.and_then(|text| key_in(&text, &gateway::entity(&name))),
            mint: Mint::new(rand::random()),
            ready: running
                .and_then(|deployment| deployment.status?.ready_replicas)
                .unwrap_or(0),
            namespace,
            home,
            world,
            left,
        })
    }

    fn plan(observed: &Observed<Self>) -> Option<Error> {
        let deleting = observed.deleting();
        check(&observed.object).err().filter(|_| !deleting)
    }

    fn refusal(plan: &Option<Error>) -> Option<&Error> {
        plan.as_ref()
    }

    fn decide(observed: &Observed<Self>, plan: &Option<Error>) -> Result<Decision<Orders>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        let Some((place, world, account)) = facts.world.as_ref().filter(|_| plan.is_none()) else {
            return Ok(Decision::hold());
        };
        let name = object.name_any();
        let orders = |commands: Vec<Command>, hidden: Vec<String>| {
            (!commands.is_empty()).then(|| Orders {
                place: place.clone(),
                commands,
                hidden,
            })
        };
        if observed.deleting() {
            if !facts.left.is_empty() {
                return Ok(Decision::hold());
            }
            let commands = ended(object, world, account.as_ref(), facts.ready);
            return Ok(Decision::want([]).act(orders(commands, Vec::new())));
        }
        let key = facts.key(&name);
        let mut commands = gateway::pool_commands(object, world);
        if account.as_ref().is_none_or(|account| account.key != key) {
            let text = entry(&gateway::entity(&name), &key, &gateway::rgw_caps());
            commands.push(Command::new("auth import").input(text));
        }
        let mut wanted = vec![
            Wanted::of(&gateway::keyring(&facts.namespace, &name, &key)),
            Wanted::of(&gateway::service(object)),
        ];
        // Gateways begin when their pools and their key are there: they would make others.
        if commands.is_empty() || facts.ready > 0 {
            let image = server_image("ceph", facts.home.image.as_deref())?;
            let fsid = facts.home.fsid.as_deref().unwrap_or_default();
            // The first one makes the zone; two at once would both try.
            let replicas = if facts.ready > 0 { instances(object) } else { 1 };
            wanted.push(Wanted::of(&gateway::deployment(object, &image, fsid, replicas)));
        }
        Ok(Decision::want(wanted).act(orders(commands, vec![key])))
    }

    async fn act(&self, orders: &Orders) -> Result<(), Error> {
        commands::execute(&self.client, orders).await.map(drop)
    }

    fn report(observed: &Observed<Self>, plan: &Option<Error>, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        let states = States::default();
        let url = gateway::endpoint(object);
        let said = |phase: &str| {
            json!({
                "phase": phase, "replicas": facts.ready,
                "selector": format!("app=rook-ceph-rgw,rook_object_store={}", object.name_any()),
                "info": {"endpoint": url}, "endpoints": {"insecure": [url], "secure": []},
            })
        };
        if observed.deleting() {
            let pools = facts.world.as_ref().is_some_and(|(_, world, _)| {
                object.spec.preserve_pools_on_delete != Some(true)
                    && pool::find(world, &last_pool(object)).is_some()
            });
            let pools = pools.then(|| "its pools".to_owned());
            let report = Report::new(states).status(&said("Deleting")).again_in(SOON);
            return report.left(facts.left.iter().cloned().chain(pools));
        }
        if let Some(refused) = plan {
            let states = states.unmet(READY, "Invalid", refused.to_string());
            return Report::new(states).status(&json!({"phase": "Failure"}));
        }
        if let Some(why) = facts.home.waits() {
            let states = states.unmet(READY, "Waiting", why);
            return Report::new(states)
                .status(&json!({"phase": "Progressing"}))
                .again_in(SOON);
        }
        let wanted = instances(object);
        let text = format!("{} of {wanted} gateways are up", facts.ready);
        if facts.ready >= wanted {
            return Report::new(states.met(READY, "Up", text)).status(&said("Ready"));
        }
        let report = Report::new(states.unmet(READY, "Starting", text)).status(&said("Progressing"));
        if applied.outcomes().is_empty() {
            report
        } else {
            report.again_in(SOON)
        }
    }
}

impl CephObjectStores {
    /// Users that name it, and buckets.
    async fn left(&self, reader: &Reader, namespace: &str, store: &str) -> Result<Vec<String>, Error> {
        let users: Vec<CephObjectStoreUser> = reader.list(namespace, "").await?;
        let own = users.iter().filter(|user| user.spec.store == store);
        let mut left: Vec<String> = own
            .map(|user| format!("CephObjectStoreUser {}", user.name_any()))
            .collect();
        if let Some(place) = gateway::place(reader, namespace, store).await? {
            let buckets: Option<Vec<String>> =
                gateway::ask(&self.client, &place, &["bucket", "list"]).await?;
            left.extend(
                buckets
                    .unwrap_or_default()
                    .into_iter()
                    .map(|name| format!("bucket {name}")),
            );
        }
        Ok(left)
    }
}

fn last_pool(store: &CephObjectStore) -> String {
    format!("{}.rgw.buckets.data", store.name_any())
}

/// Pools and key go after the gateways: a gateway would recreate its pools.
fn ended(store: &CephObjectStore, world: &OsdMap, account: Option<&Account>, running: i32) -> Vec<Command> {
    if running > 0 {
        return Vec::new();
    }
    let name = store.name_any();
    let mut commands = Vec::new();
    if store.spec.preserve_pools_on_delete != Some(true) {
        let there = gateway::pools(&name)
            .into_iter()
            .filter(|pool| pool::find(world, pool).is_some());
        commands.extend(there.flat_map(|pool| pool::remove(&pool)));
    }
    let remove = Command::new("auth rm")
        .with("entity", gateway::entity(&name))
        .or_nothing();
    commands.extend(account.map(|_| remove));
    commands
}

fn check(store: &CephObjectStore) -> Result<(), Error> {
    let wrong = |field, reason: &str| {
        Err(Error::Invalid {
            field,
            reason: reason.to_owned(),
        })
    };
    let spec = &store.spec;
    if spec.zone.as_ref().is_some_and(|zone| !zone.name.is_empty()) {
        return wrong("spec.zone", "several sites are not supported here: leave it out");
    }
    if spec.gateway.secure_port.is_some() || spec.gateway.ssl_certificate_ref.is_some() {
        return wrong(
            "spec.gateway.securePort",
            "TLS is not supported here: use gateway.port",
        );
    }
    if !(1..=8).contains(&instances(store)) {
        return wrong("spec.gateway.instances", "use 1 to 8");
    }
    for pool in [&spec.metadata_pool, &spec.data_pool] {
        pool::check(&pool.clone().unwrap_or_default())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn store(spec: Value) -> CephObjectStore {
        let mut store = CephObjectStore::new("objects", serde_json::from_value(spec).expect("a spec"));
        store.metadata.namespace = Some("n".to_owned());
        store
    }

    fn two() -> Value {
        json!({"metadataPool": {"replicated": {"size": 2}}, "dataPool": {"replicated": {"size": 2}}, "gateway": {"port": 80, "instances": 2}})
    }

    fn observed(world: OsdMap, account: Option<Account>, ready: i32) -> Observed<CephObjectStores> {
        let place = ExecTarget {
            namespace: "n".to_owned(),
            pod: "mon".to_owned(),
            container: "mon",
        };
        Observed {
            object: store(two()),
            facts: Facts {
                namespace: "n".to_owned(),
                home: Home {
                    name: Some("c".to_owned()),
                    ready: true,
                    image: Some("ceph:18.2".to_owned()),
                    places: vec![place.clone()],
                    ..Home::default()
                },
                world: Some((place, world, account)),
                key: Some("KEY".to_owned()),
                mint: Mint {
                    seed: [1; 32],
                    seconds: 1,
                },
                ready,
                left: Vec::new(),
            },
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn made() -> OsdMap {
        let names = gateway::pools("objects")
            .into_iter()
            .chain([".rgw.root".to_owned()]);
        let pools: Vec<Value> = names
            .map(|name| json!({"pool_name": name, "size": 2, "application_metadata": {"rgw": {}}}))
            .collect();
        serde_json::from_value(json!({"pools": pools})).expect("a map")
    }

    fn account() -> Option<Account> {
        Some(Account {
            key: "KEY".to_owned(),
            ..Account::default()
        })
    }

    fn replicas(seen: &Observed<CephObjectStores>) -> Option<i64> {
        let decision = seen.decide().expect("a decision");
        let found = decision
            .wanted()
            .iter()
            .find(|wanted| wanted.object()["kind"] == "Deployment");
        found.and_then(|wanted| wanted.object()["spec"]["replicas"].as_i64())
    }

    #[test]
    fn gateways_follow_their_pools_and_begin_with_one() {
        assert_eq!(replicas(&observed(OsdMap::default(), None, 0)), None);
        assert_eq!(replicas(&observed(made(), None, 0)), None);
        assert_eq!(replicas(&observed(made(), account(), 0)), Some(1));
        assert_eq!(replicas(&observed(made(), account(), 1)), Some(2));
        let settled = observed(made(), account(), 2).decide().expect("a decision");
        assert_eq!(settled.actions().len(), 0);
        assert!(!format!("{settled:?}").contains("KEY"));
    }

    #[test]
    fn pools_go_after_the_gateways() {
        let store = store(two());
        assert_eq!(ended(&store, &made(), account().as_ref(), 1).len(), 0);
        assert_eq!(ended(&store, &made(), account().as_ref(), 0).len(), 15);
        assert_eq!(ended(&store, &OsdMap::default(), None, 0).len(), 0);
    }

    #[test]
    fn wrong_stores_are_refused_by_field() {
        let with = |more: Value| {
            let mut spec = two();
            let fields = more.as_object().expect("fields").clone();
            spec.as_object_mut().expect("a spec").extend(fields);
            spec
        };
        for (spec, field) in [
            (json!({}), "spec.replicated.size"),
            (with(json!({"zone": {"name": "z"}})), "spec.zone"),
            (
                with(json!({"gateway": {"securePort": 443}})),
                "spec.gateway.securePort",
            ),
            (
                with(json!({"gateway": {"instances": 0}})),
                "spec.gateway.instances",
            ),
        ] {
            let said = check(&store(spec.clone())).expect_err("refused").to_string();
            assert!(said.starts_with(field), "{spec}: {said}");
        }
    }
}
