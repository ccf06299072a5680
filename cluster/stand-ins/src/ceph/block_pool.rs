//! CephBlockPool: a pool for disks.

use std::time::Duration;

use c5c3_api::foreign::rook::{CephBlockPool, CephCluster};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
};
use k8s_openapi::api::core::v1::Pod;
use kube::{Client, ResourceExt};
use serde_json::json;

use super::commands::{self, Answer, Command, Orders};
use super::home::Home;
use super::pool;
use super::view::OsdMap;
use crate::error::Error;
use crate::exec::{self, ExecTarget};

const READY: &str = "PoolReady";
const SOON: Duration = Duration::from_secs(2);
/// Disks are data: a pool that has some is kept for as long as a person may need to notice.
const PATIENCE: Duration = Duration::from_secs(365 * 24 * 3600);

/// The controller.
pub struct CephBlockPools {
    client: Client,
}

impl CephBlockPools {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[derive(Debug)]
pub struct Facts {
    namespace: String,
    home: Home,
    world: Option<(ExecTarget, OsdMap)>,
    /// Disks in it; asked only when it shall go.
    disks: Vec<String>,
}

impl Controller for CephBlockPools {
    type Kind = CephBlockPool;
    type Facts = Facts;
    /// Why it is refused.
    type Plan = Option<Error>;
    type Action = Orders;
    type Error = Error;

    const NAME: &'static str = "stand-in-ceph-block-pool";
    const PARTS: &'static [Part] = &[Part::required(READY)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "cephblockpool.ceph.rook.io",
        within: PATIENCE,
    });

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<CephCluster>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched(), Touch::of::<Pod>(&["list"])]
    }

    fn found(facts: &Facts) -> Vec<Reference> {
        facts.home.reference(&facts.namespace).into_iter().collect()
    }

    async fn observe(&self, object: &CephBlockPool, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let home = Home::find(reader, &namespace).await?;
        let world = match home.ask(&self.client, vec![Command::ask("osd dump")]).await? {
            None => None,
            Some((place, answers)) => {
                let map = answers.first().map(Answer::read::<OsdMap>).transpose()?.flatten();
                Some((place, map.unwrap_or_default()))
            }
        };
        let name = object.pool();
        let there = world
            .as_ref()
            .is_some_and(|(_, map)| pool::find(map, &name).is_some());
        let mut disks = Vec::new();
        if object.metadata.deletion_timestamp.is_some() && there {
            let ask = Command::ask("rbd ls").with("pool", name);
            let answers = home.ask(&self.client, vec![ask]).await?;
            let first = answers.and_then(|(_, answers)| answers.into_iter().next());
            disks = first
                .map(|answer| answer.read())
                .transpose()?
                .flatten()
                .unwrap_or_default();
        }
        Ok(Facts {
            namespace,
            home,
            world,
            disks,
        })
    }

    fn plan(observed: &Observed<Self>) -> Option<Error> {
        let deleting = observed.deleting();
        pool::check(&observed.object.spec.pool)
            .err()
            .filter(|_| !deleting)
    }

    fn refusal(plan: &Option<Error>) -> Option<&Error> {
        plan.as_ref()
    }

    fn decide(observed: &Observed<Self>, plan: &Option<Error>) -> Result<Decision<Orders>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        let Some((place, world)) = facts.world.as_ref().filter(|_| plan.is_none()) else {
            return Ok(Decision::hold());
        };
        let name = object.pool();
        let commands = match (observed.deleting(), facts.disks.is_empty()) {
            (false, _) => pool::commands(&name, &object.spec.pool, "rbd", world),
            (true, true) if pool::find(world, &name).is_some() => pool::remove(&name),
            (true, _) => Vec::new(),
        };
        Ok(Decision::hold().act((!commands.is_empty()).then(|| Orders {
            place: place.clone(),
            commands,
            hidden: Vec::new(),
        })))
    }

    async fn act(&self, orders: &Orders) -> Result<(), Error> {
        commands::execute(&self.client, orders).await.map(drop)
    }

    fn report(observed: &Observed<Self>, plan: &Option<Error>, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        let states = States::default();
        let phase = |phase: &str| json!({"phase": phase});
        if observed.deleting() {
            let left = facts.disks.iter().map(|disk| format!("disk {disk}"));
            return Report::new(states).status(&phase("Deleting")).left(left);
        }
        if let Some(refused) = plan {
            let states = states.unmet(READY, "Invalid", refused.to_string());
            return Report::new(states).status(&phase("Failure"));
        }
        if let Some(why) = facts.home.waits() {
            let states = states.unmet(READY, "Waiting", why);
            return Report::new(states).status(&phase("Progressing")).again_in(SOON);
        }
        if applied.outcomes().iter().any(|outcome| outcome.result.is_err()) {
            let states = states.unmet(READY, "Refused", "Ceph rejected it");
            return Report::new(states).status(&phase("Failure"));
        }
        let spec = &object.spec.pool;
        let info =
            json!({"type": "Replicated", "failureDomain": spec.failure_domain.as_deref().unwrap_or("host")});
        let states = states.met(
            READY,
            "Ready",
            format!("pool {} keeps {} copies", object.pool(), pool::copies(spec)),
        );
        Report::new(states).status(&json!({"phase": "Ready", "info": info}))
    }
}
