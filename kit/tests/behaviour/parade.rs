//! A Parade wants ConfigMaps, one per float, and has a band outside Kubernetes.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use c5c3_kit::stop::Stopper;
use c5c3_kit::{
    Applied, ClusterError, Clusters, Controller, Decision, Fault, Finalizer, Kind, Loop, Metrics, Observed,
    Part, Reader, Report, States, Stop, Wanted,
};
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::api::{Api, DeleteParams, DynamicObject, ListParams, ObjectMeta, Patch, PatchParams};
use kube::core::{ApiResource, GroupVersionKind};
use kube::{Client, Config, CustomResource, CustomResourceExt, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use test_harness::{TestCluster, eventually};
use tokio::task::JoinHandle;

/// The schema accepts anything, so that the API server can hold what the type cannot.
#[derive(CustomResource, Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "test.c5c3.io",
    version = "v1",
    kind = "Parade",
    namespaced,
    status = "ParadeStatus",
    schema = "disabled"
)]
pub(crate) struct ParadeSpec {
    pub floats: Vec<String>,
    #[serde(default)]
    pub band: String,
}

#[derive(Clone, Debug, Default, Deserialize, Serialize, JsonSchema)]
pub(crate) struct ParadeStatus {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub floats: Option<usize>,
    /// How often a band began to play.
    #[serde(default)]
    pub begun: usize,
    #[serde(default)]
    pub conditions: Vec<Condition>,
}

/// Another cluster, to which some floats go.
pub(crate) const AWAY: &str = "away";

/// The bands that play, and those that will not stop.
#[derive(Clone, Default)]
pub(crate) struct Street(pub Arc<Mutex<BTreeSet<String>>>);

impl Street {
    pub(crate) fn playing(&self) -> BTreeSet<String> {
        self.0.lock().expect("no test panics in here").clone()
    }
}

pub(crate) struct Parades {
    pub street: Street,
}

#[derive(Debug)]
pub(crate) enum Move {
    Play(String),
    Hush(String),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum Trouble {
    #[error("the band {0} is drunk")]
    DrunkBand(String),
}

impl Fault for Trouble {
    fn part(&self) -> Option<&'static str> {
        Some("BandPlaying")
    }
}

impl Controller for Parades {
    type Kind = Parade;
    type Facts = BTreeSet<String>;
    type Plan = ();
    type Action = Move;
    type Error = Trouble;

    const NAME: &'static str = "parade";
    const PARTS: &'static [Part] = &[Part::required("FloatsReady"), Part::required("BandPlaying")];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "test.c5c3.io/parade",
        within: Duration::from_secs(3),
    });

    fn owns() -> Vec<Kind> {
        // Of balloons this cluster knows nothing; that holds up nobody.
        let balloons = GroupVersionKind::gvk("test.c5c3.io", "v1", "Balloon");
        vec![
            Kind::of::<ConfigMap>(),
            Kind::of::<ConfigMap>().in_cluster(AWAY),
            Kind::from(ApiResource::from_gvk(&balloons)),
        ]
    }

    async fn observe(&self, _: &Parade, _: &Reader) -> Result<BTreeSet<String>, Trouble> {
        Ok(self.street.playing())
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Move>, Trouble> {
        let Observed { object, facts, .. } = observed;
        assert!(object.spec.band != "panic", "the drum major fell");
        let band = &object.spec.band;
        if observed.deleting() {
            let hush = facts.contains(band).then(|| Move::Hush(band.clone()));
            return Ok(Decision::want([]).act(hush));
        }
        let floats = object.spec.floats.iter().map(|float| {
            let wanted = Wanted::of(&ConfigMap {
                metadata: ObjectMeta {
                    name: Some(float.clone()),
                    namespace: object.namespace(),
                    ..ObjectMeta::default()
                },
                data: Some(BTreeMap::from([("float".to_owned(), float.clone())])),
                ..ConfigMap::default()
            });
            match float.split_once('-').map_or(float.as_str(), |(first, _)| first) {
                // Monuments are forever.
                "monument" => wanted.lasting(),
                AWAY => wanted.in_cluster(AWAY),
                _ => wanted,
            }
        });
        let play = (!band.is_empty() && !facts.contains(band)).then(|| Move::Play(band.clone()));
        Ok(Decision::want(floats).act(play))
    }

    async fn act(&self, action: &Move) -> Result<(), Trouble> {
        let change = |change: &dyn Fn(&mut BTreeSet<String>)| {
            change(&mut self.street.0.lock().expect("no test panics in here"));
        };
        match action {
            Move::Play(band) if band == "drunk" => return Err(Trouble::DrunkBand(band.clone())),
            Move::Play(band) => {
                if band == "late" {
                    change(&|street| {
                        street.insert("on its way".to_owned());
                    });
                    tokio::time::sleep(Duration::from_secs(2)).await;
                }
                change(&|street| {
                    street.insert(band.clone());
                });
            }
            // A stubborn band plays on.
            Move::Hush(band) if band == "stubborn" => {}
            Move::Hush(band) => change(&|street| {
                street.remove(band);
            }),
        }
        Ok(())
    }

    fn report(observed: &Observed<Self>, (): &(), applied: &Applied<Self>) -> Report {
        let states = States::default().met("FloatsReady", "Built", "");
        let band = &observed.object.spec.band;
        let states = if band.is_empty() {
            states.not_required("BandPlaying", "no band was asked for")
        } else {
            states.met("BandPlaying", "Playing", "")
        };
        let left = observed.deleting() && band == "stubborn";
        let before = observed.object.status.as_ref().map_or(0, |status| status.begun);
        let done = applied.outcomes().iter().filter(|outcome| outcome.result.is_ok());
        let begun = done
            .filter(|outcome| matches!(outcome.action, Move::Play(_)))
            .count();
        Report::new(states)
            .status(&json!({"floats": applied.objects().len(), "begun": before + begun}))
            .left(left.then(|| format!("band {band}")))
            .again_in(Duration::from_millis(500))
    }
}

pub(crate) struct World {
    pub cluster: TestCluster,
    pub away: TestCluster,
    pub namespace: String,
    pub street: Street,
    pub metrics: Metrics,
    pub parades: Api<DynamicObject>,
    pub maps: Api<ConfigMap>,
    stopper: Stopper,
    running: JoinHandle<Result<(), ClusterError>>,
}

/// What a world may lack.
pub(crate) struct Lacks {
    /// The kind that the controller looks after.
    pub kind: bool,
    /// The way to the other cluster.
    pub away: bool,
}

impl World {
    pub(crate) async fn start() -> Self {
        World::lacking(Lacks {
            kind: false,
            away: false,
        })
        .await
    }

    pub(crate) async fn lacking(lacks: Lacks) -> Self {
        World::through(lacks, |client| client).await
    }

    /// The controller reaches its cluster through another client than the test.
    pub(crate) async fn through(lacks: Lacks, client: impl FnOnce(Client) -> Client) -> Self {
        let cluster = TestCluster::start().await;
        let mut crd = Parade::crd();
        for version in &mut crd.spec.versions {
            version.schema = serde_json::from_value(json!({"openAPIV3Schema": {
                "type": "object", "x-kubernetes-preserve-unknown-fields": true,
                "properties": {"status": {"type": "object", "x-kubernetes-preserve-unknown-fields": true,
                    "properties": {"conditions": {"type": "array", "x-kubernetes-list-type": "map",
                        "x-kubernetes-list-map-keys": ["type"],
                        "items": {"type": "object", "required": ["type"],
                            "x-kubernetes-preserve-unknown-fields": true,
                            "properties": {"type": {"type": "string"}}}}}}}}}))
            .expect("a schema");
        }
        if !lacks.kind {
            cluster.install(&crd).await;
        }
        let namespace = cluster.namespace("parade").await;
        let away = TestCluster::another().await;
        away.make_namespace(&namespace).await;
        let other = if lacks.away { nowhere() } else { away.client() };
        let clusters = Clusters::of(client(cluster.client())).with(AWAY, other);
        let (stopper, stop) = Stop::channel();
        let (street, metrics) = (Street::default(), Metrics::default());
        let controller = Parades {
            street: street.clone(),
        };
        let parade = Loop::new(controller, clusters, metrics.clone());
        let running = tokio::spawn(parade.in_namespace(Some(namespace.clone())).run(stop));
        let resource = ApiResource::erase::<Parade>(&());
        World {
            parades: Api::namespaced_with(cluster.client(), &namespace, &resource),
            maps: Api::namespaced(cluster.client(), &namespace),
            cluster,
            away,
            namespace,
            street,
            metrics,
            stopper,
            running,
        }
    }

    /// Stops the controller and waits until it has ended.
    pub(crate) async fn stop(self) {
        self.stopper.stop();
        let ended = tokio::time::timeout(Duration::from_secs(60), self.running).await;
        ended.expect("in time").expect("no panic").expect("no error");
    }

    pub(crate) async fn parade(&self, name: &str, spec: Value) {
        let object = json!({"apiVersion": "test.c5c3.io/v1", "kind": "Parade",
            "metadata": {"name": name}, "spec": spec});
        let params = PatchParams::apply("test").force();
        self.parades
            .patch(name, &params, &Patch::Apply(&object))
            .await
            .expect("accepted");
    }

    pub(crate) async fn condition(&self, name: &str, condition: &str, reason: &str) -> Condition {
        eventually(&format!("{name} has {condition} {reason}"), async || {
            let object = self.parades.get(name).await.ok()?;
            let list = object.data.pointer("/status/conditions")?.as_array()?.clone();
            let found = list
                .into_iter()
                .find(|c| c["type"] == condition && c["reason"] == reason)?;
            serde_json::from_value(found).ok()
        })
        .await
    }

    /// Deletes it and waits until it is gone.
    pub(crate) async fn delete(&self, name: &str) {
        let deleted = self.parades.delete(name, &DeleteParams::default()).await;
        deleted.expect("deleted");
        eventually(&format!("{name} is gone"), async || {
            let object = self.parades.get_opt(name).await.expect("readable");
            object.is_none().then_some(())
        })
        .await;
    }

    pub(crate) async fn floats(&self) -> Vec<String> {
        floats(&self.maps).await
    }

    /// The ConfigMaps of the other cluster.
    pub(crate) fn away(&self) -> Api<ConfigMap> {
        Api::namespaced(self.away.client(), &self.namespace)
    }

    pub(crate) async fn until_floats(&self, names: &[&str]) {
        eventually(&format!("the floats are {names:?}"), async || {
            (self.floats().await == names).then_some(())
        })
        .await;
    }
}

/// Leads to a port of loopback where nobody listens.
fn nowhere() -> Client {
    let free = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = free.local_addr().expect("an address");
    let url = format!("http://{address}").parse().expect("a URL");
    Client::try_from(Config::new(url)).expect("a client")
}

/// Names of what the controller made.
pub(crate) async fn floats(maps: &Api<ConfigMap>) -> Vec<String> {
    let ours = ListParams::default().labels("c5c3.io/controller=parade");
    let list = maps.list(&ours).await.expect("readable");
    let mut names: Vec<String> = list.items.iter().map(ResourceExt::name_any).collect();
    names.sort();
    names
}
