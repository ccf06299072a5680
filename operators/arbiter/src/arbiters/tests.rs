//! The table of worlds and what follows from each, in one snapshot to read.

use std::fmt::Write;
use std::time::Duration;

use c5c3_api::ceph::{RemoteArbiter, RemoteClusterSpec};
use c5c3_kit::conditions::Part;
use serde_json::{Map, Value, json};

use super::facts::{Facts, Live};
use super::plan::{Action, Plan, plan};
use super::{Arbiters, NAME, endpoints, report};
use crate::remote::{Kind, Way};
use c5c3_kit::Controller;

struct World {
    arbiter: Value,
    ceph: Value,
    facts: Facts,
    leaving: Option<u64>,
}

impl World {
    /// Nothing is made yet; all that is needed is there.
    fn fresh() -> Self {
        let spec: RemoteClusterSpec =
            serde_json::from_value(json!({"namespace": "arbiters", "accesskeyRef": {"name": "key"}}))
                .expect("a spec");
        World {
            arbiter: json!({
                "apiVersion": "ceph.c5c3.io/v1alpha1", "kind": "RemoteArbiter",
                "metadata": {"namespace": "rook-ceph", "name": "third", "uid": "u1"},
                "spec": {"remoteCluster": {"name": "site"}, "cephCluster": {"name": "ceph"}},
            }),
            ceph: json!({
                "apiVersion": "ceph.rook.io/v1", "kind": "CephCluster",
                "metadata": {"namespace": "rook-ceph", "name": "ceph", "resourceVersion": "7"},
                "spec": {"mon": {"count": 3}},
                "status": {"state": "Created", "ceph": {"fsid": "f"}, "version": {"image": "ceph:18"}},
            }),
            facts: Facts {
                way: Some(Way::of("rook-ceph", &spec)),
                live: Some(Live::default()),
                keyring: Some("[mon.]\nkey = K\n".to_owned()),
                mons: endpoints::read("a=10.0.0.1:6789,b=10.0.0.2:6789"),
                ..Facts::default()
            },
            leaving: None,
        }
    }

    /// It has its name, and told it.
    fn named() -> Self {
        let mut world = World::fresh();
        world.ceph["metadata"]["annotations"] = json!({"mon.ceph.c5c3.io/ext-a": "u1 rook-ceph/third"});
        world.ceph["spec"]["mon"]["externalMonIDs"] = json!(["ext-a"]);
        world.arbiter["status"] = json!({"monId": "ext-a"});
        world
    }

    /// All objects are there, and the Service has an address.
    fn applied() -> Self {
        World::named().carried_out().carried_out()
    }

    /// The same, and the monitor is in the quorum.
    fn joined() -> Self {
        let mut world = World::applied();
        world.pod(json!({"conditions": [{"type": "Ready", "status": "True"}],
            "containerStatuses": [running()]}));
        world
    }

    fn pod(&mut self, status: Value) {
        let pod = json!({"metadata": {"name": "third-mon-x"}, "status": status});
        let live = self.live();
        live.pods = vec![serde_json::from_value(pod).expect("a pod")];
        let deployment = live.objects.get_mut(&Kind::Deployment).expect("applied");
        deployment["metadata"]["generation"] = json!(1);
        deployment["status"] = json!({"observedGeneration": 1, "updatedReplicas": 1});
    }

    fn live(&mut self) -> &mut Live {
        self.facts.live.as_mut().expect("it can be read")
    }

    fn object(&mut self, kind: Kind) -> &mut Value {
        self.live().objects.get_mut(&kind).expect("applied")
    }

    fn with(mut self, change: impl FnOnce(&mut Self)) -> Self {
        change(&mut self);
        self
    }

    /// What the plan applies is there as a server would have it.
    fn carried_out(mut self) -> Self {
        for action in self.plan().actions {
            let Action::Apply { kind, mut object, .. } = action else {
                continue;
            };
            let version = object["apiVersion"].clone();
            let fields = owned(&object, true);
            object["metadata"]["uid"] = json!(format!("uid-{kind}"));
            object["metadata"]["managedFields"] = json!([{"manager": NAME, "operation": "Apply",
                "apiVersion": version, "fieldsV1": fields}]);
            if kind == Kind::Service {
                object["spec"]["clusterIP"] = json!("10.1.0.9");
            }
            self.live().objects.insert(kind, object);
        }
        self
    }

    fn plan(&self) -> Plan {
        let arbiter: RemoteArbiter = serde_json::from_value(self.arbiter.clone()).expect("an arbiter");
        let facts = Facts {
            ceph: (!self.ceph.is_null())
                .then(|| serde_json::from_value(self.ceph.clone()).expect("a cluster")),
            ..self.facts.clone()
        };
        plan(&arbiter, &facts, self.leaving.map(Duration::from_secs))
    }
}

fn running() -> Value {
    json!({"name": "mon", "image": "i", "imageID": "", "ready": true, "restartCount": 0,
        "state": {"running": {}}})
}

/// The set of fields that an apply of this object owns.
fn owned(value: &Value, top: bool) -> Value {
    let Some(fields) = value.as_object() else {
        return json!({});
    };
    let kept = fields.iter().filter(|(key, _)| {
        !["apiVersion", "kind", "name", "namespace"].contains(&key.as_str())
            || !top && !fields.contains_key("labels")
    });
    let kept: Map<String, Value> = kept
        .map(|(key, value)| {
            // An ordinary list of the tests is atomic.
            (format!("f:{key}"), owned(value, key == "metadata"))
        })
        .collect();
    Value::Object(kept)
}

fn worlds() -> Vec<(&'static str, World)> {
    [made(), changed(), refused(), deleted()]
        .into_iter()
        .flatten()
        .collect()
}

/// From nothing to a monitor in the quorum.
fn made() -> Vec<(&'static str, World)> {
    let marks = "mon.ceph.c5c3.io/ext-a";
    vec![
        ("nothing is made: a name is taken first", World::fresh()),
        (
            "a name of another arbiter is passed over",
            World::fresh().with(|w| {
                w.ceph["metadata"]["annotations"] = json!({marks: "u2 rook-ceph/other"});
                w.ceph["spec"]["mon"]["externalMonIDs"] = json!(["ext-a"]);
            }),
        ),
        (
            "a monitor of that name is in Ceph already",
            World::fresh().with(|w| w.facts.mons = endpoints::read("ext-a=10.0.0.9:6789")),
        ),
        (
            "somebody took the name off the list: it is put back",
            World::joined().with(|w| w.ceph["spec"]["mon"] = json!({"count": 3})),
        ),
        (
            "the name is told before anything bears it",
            World::named().with(|w| w.arbiter["status"] = json!({})),
        ),
        ("named: what needs no address is made", World::named()),
        ("the Service has an address", World::named().carried_out()),
        ("all is applied, the pod is not there", World::applied()),
        (
            "the image cannot be had",
            World::applied().with(|w| {
                let waiting = json!({"waiting": {"reason": "ImagePullBackOff", "message": "no such image"}});
                let mut container = running();
                container["state"] = waiting;
                w.pod(json!({"containerStatuses": [container]}));
            }),
        ),
        (
            "no node fits",
            World::applied().with(|w| {
                w.pod(json!({"conditions": [{"type": "PodScheduled", "status": "False", "message": "0 nodes fit"}]}));
            }),
        ),
        (
            "it runs and is not in the quorum",
            World::applied().with(|w| w.pod(json!({"containerStatuses": [running()]}))),
        ),
        ("it is in the quorum: nothing is done", World::joined()),
        (
            "the others miss it all the same",
            World::joined().with(|w| w.facts.out_of_quorum = vec!["ext-a".to_owned()]),
        ),
    ]
}

/// What changes around a monitor that runs.
fn changed() -> Vec<(&'static str, World)> {
    vec![
        (
            "only the status of the Deployment changes: nothing is done",
            World::joined()
                .with(|w| w.object(Kind::Deployment)["status"]["conditions"] = json!([{"type": "X"}])),
        ),
        (
            "another monitor at home: the map is followed, the pod stays",
            World::joined().with(|w| w.facts.mons = endpoints::read("a=10.0.0.1:6789,c=10.0.0.3:6789")),
        ),
        (
            "it is in Rook's list itself: no news",
            World::joined().with(|w| {
                w.facts.mons = endpoints::read("a=10.0.0.1:6789,b=10.0.0.2:6789,ext-a=10.1.0.9:6789");
            }),
        ),
        (
            "a new key: Secret and pod follow",
            World::joined().with(|w| w.facts.keyring = Some("[mon.]\nkey = NEW\n".to_owned())),
        ),
        (
            "a new image: the pod follows",
            World::joined().with(|w| w.ceph["status"]["version"]["image"] = json!("ceph:19")),
        ),
        (
            "the Service got another address: another monitor takes its place",
            World::joined().with(|w| w.object(Kind::Service)["spec"]["clusterIP"] = json!("10.1.0.10")),
        ),
        (
            "Ceph has troubles: the arbiter goes on",
            World::joined().with(|w| w.ceph["status"]["state"] = json!("Progressing")),
        ),
    ]
}

/// What keeps it from being made.
fn refused() -> Vec<(&'static str, World)> {
    vec![
        (
            "Ceph is not ready at first",
            World::fresh()
                .with(|w| w.ceph["status"] = json!({"state": "Creating", "message": "no monitor is up"})),
        ),
        ("there is no Ceph", World::fresh().with(|w| w.ceph = Value::Null)),
        ("there is no key", World::fresh().with(|w| w.facts.keyring = None)),
        (
            "another namespace is not let in",
            World::fresh().with(|w| {
                w.arbiter["metadata"]["namespace"] = json!("tenant");
                w.arbiter["spec"]["cephCluster"]["namespace"] = json!("rook-ceph");
            }),
        ),
        (
            "another namespace is let in",
            World::fresh().with(|w| {
                w.arbiter["metadata"]["namespace"] = json!("tenant");
                w.arbiter["spec"]["cephCluster"]["namespace"] = json!("rook-ceph");
                w.ceph["metadata"]["annotations"] = json!({super::plan::LETS_IN: "others, tenant"});
            }),
        ),
        (
            "the other cluster is away",
            World::joined().with(|w| {
                w.facts.away = Some("RemoteCluster site is not ready: no answer".to_owned());
                w.facts.live = None;
            }),
        ),
        (
            "an object of somebody else is in the way",
            World::applied().with(|w| w.object(Kind::Service)["metadata"]["labels"] = json!({})),
        ),
        (
            "NodePort without an address of a node",
            World::named().with(|w| w.arbiter["spec"]["service"] = json!({"type": "NodePort"})),
        ),
        (
            "a name that no Service can have",
            World::fresh().with(|w| w.arbiter["metadata"]["name"] = json!("third.site")),
        ),
    ]
}

/// The monitor goes.
fn deleted() -> Vec<(&'static str, World)> {
    vec![
        (
            "deleted: the name goes back, the monitor stays for the others",
            World::joined().with(|w| w.leaving = Some(1)),
        ),
        (
            "deleted: released, and still in the quorum",
            World::joined().with(|w| {
                w.leaving = Some(3);
                w.ceph = World::fresh().ceph;
            }),
        ),
        (
            "deleted: a pod that may just have been made",
            World::applied().with(|w| {
                w.pod(json!({"containerStatuses": [running()]}));
                w.leaving = Some(3);
                w.ceph = World::fresh().ceph;
            }),
        ),
        (
            "deleted: a pod that is out of the quorum",
            World::applied().with(|w| {
                w.pod(json!({"containerStatuses": [running()]}));
                w.leaving = Some(15);
                w.ceph = World::fresh().ceph;
            }),
        ),
        (
            "deleted: out of the quorum, all goes",
            World::applied().with(|w| {
                w.leaving = Some(3);
                w.ceph = World::fresh().ceph;
            }),
        ),
        (
            "deleted: the others do not let it go in time",
            World::joined().with(|w| w.leaving = Some(120)),
        ),
        (
            "deleted: Ceph is gone",
            World::joined().with(|w| {
                w.leaving = Some(1);
                w.ceph = Value::Null;
            }),
        ),
        (
            "deleted: the other cluster is away",
            World::joined().with(|w| {
                w.leaving = Some(1);
                w.facts.live = None;
                w.facts.away = Some("no answer".to_owned());
            }),
        ),
        (
            "deleted: the name went back, and the other cluster is still away",
            World::joined().with(|w| {
                w.leaving = Some(9);
                w.ceph = World::fresh().ceph;
                w.facts.live = None;
                w.facts.away = Some("no answer".to_owned());
            }),
        ),
        (
            "deleted before anything was made, with the other cluster away",
            World::fresh().with(|w| {
                w.leaving = Some(1);
                w.facts.live = None;
                w.facts.away = Some("no answer".to_owned());
            }),
        ),
        (
            "deleted: an object of somebody else stays",
            World::applied().with(|w| {
                w.leaving = Some(3);
                w.ceph = World::fresh().ceph;
                w.object(Kind::Service)["metadata"]["labels"] = json!({});
            }),
        ),
    ]
}

#[test]
fn every_world() {
    let mut text = String::new();
    for (name, world) in worlds() {
        let plan = world.plan();
        let arbiter = serde_json::from_value(world.arbiter.clone()).expect("an arbiter");
        let report = report::report(&arbiter, &plan, world.leaving.is_some());
        let _ = writeln!(text, "{name}");
        for action in &plan.actions {
            let _ = writeln!(text, "  do     {action:?}");
        }
        if let Some(error) = &plan.refused {
            let _ = writeln!(text, "  refuse {error}");
        }
        let _ = writeln!(
            text,
            "  is     {}",
            report.status_fields()["state"].as_str().unwrap_or_default()
        );
        if world.leaving.is_none() {
            for Part { name, .. } in Arbiters::PARTS {
                if let Some(state) = report.states().get(name) {
                    let truth = state.truth.as_str();
                    let _ = writeln!(text, "  {name:<22} {truth:<7} {} {}", state.reason, state.message);
                }
            }
        }
        for left in &plan.left {
            let _ = writeln!(text, "  left   {left}");
        }
        text.push('\n');
    }
    insta::assert_snapshot!(text);
}

#[test]
fn no_action_shows_a_key() {
    let shown = format!("{:?}", World::named().plan());
    assert!(
        shown.contains("apply Secret third-mon") && !shown.contains("key ="),
        "{shown}"
    );
}

#[test]
fn the_deployment_in_full() {
    let world = World::applied();
    let live = world.facts.live.expect("applied");
    let mut deployment = live.objects[&Kind::Deployment].clone();
    deployment["metadata"]["managedFields"] = Value::Null;
    insta::assert_yaml_snapshot!(deployment);
}

/// All that follows from a spec: from nothing to a monitor in the quorum, or why it is refused.
fn digest(spec: &Value) -> String {
    let mut fresh = World::fresh();
    fresh.arbiter["spec"] = spec.clone();
    let arbiter: RemoteArbiter = serde_json::from_value(fresh.arbiter.clone()).expect("an arbiter");
    // As it is observed.
    if let Some(inline) = &arbiter.spec.remote_cluster.spec {
        fresh.facts.way = Some(Way::of("rook-ceph", inline));
    }
    let way = format!("{:?}", fresh.facts.way);
    let first = format!("{:?}", fresh.plan());
    let mut world = World::named();
    world.arbiter["spec"] = spec.clone();
    world.facts = fresh.facts;
    let world = world.carried_out().with(|w| {
        if let Some(service) = w.live().objects.get_mut(&Kind::Service) {
            service["spec"]["ports"] =
                json!([{"port": 3300, "nodePort": 30300}, {"port": 6789, "nodePort": 30789}]);
        }
    });
    let world = world.carried_out();
    let settled = world.plan();
    let objects = &world.facts.live.as_ref().expect("applied").objects;
    let objects: Vec<String> = objects.values().map(Value::to_string).collect();
    let decided = format!("{settled:?}");
    let quiet = Plan {
        actions: Vec::new(),
        waits: None,
        ..settled
    };
    format!(
        "{way} {first} {objects:?} {decided} {:?} {:?}",
        report::report(&arbiter, &quiet, false),
        Arbiters::references(&arbiter)
    )
}

#[test]
fn every_field_of_an_arbiter_acts_or_is_refused() {
    let base = World::fresh().arbiter["spec"].clone();
    let mut inline = base.clone();
    inline["remoteCluster"] = json!({"spec": {"namespace": "arbiters", "accesskeyRef": {"name": "key"}}});
    let mut on_node = base.clone();
    on_node["service"] = json!({"type": "NodePort", "nodeIp": "192.0.2.9"});
    let ignored = c5c3_api::fields::ignored("RemoteArbiter", &[base, inline, on_node], digest);
    assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
}
