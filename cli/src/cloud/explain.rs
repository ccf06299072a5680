//! Finds the root cause: follows an unhealthy object down to what it is waiting for, and says what to
//! do about it. Pure.

use c5c3_api::common::Blocker;
use c5c3_api::conditions::reason::{KEY_MISSING, KIND_MISSING, NOT_REPORTED, SECRET_MISSING};
use serde::Serialize;
use serde_json::Value;

use super::health::{Trouble, group, health, is_owned, kind, name, text};
use super::snapshot::{CLUSTER, Snapshot};

/// Longer chains do not occur; a ring of waiting objects ends here.
const DEEPEST: usize = 8;

/// One object on the way down.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Link {
    pub kind: String,
    pub name: String,
    /// The other cluster that it is in.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster: Option<String>,
    pub reason: String,
    pub message: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub(crate) struct Explanation {
    /// From what was asked about to what blocks it; empty when all is healthy.
    pub chain: Vec<Link>,
    /// What to do, most useful first.
    pub advice: Vec<String>,
}

/// Where to begin: the named object, or the ControlPlane that is not well, or anything that is not.
pub(crate) fn start<'a>(
    snapshot: &'a Snapshot,
    named: Option<(&str, &str)>,
) -> Result<Option<&'a Value>, String> {
    if let Some((wanted, called)) = named {
        let found = snapshot
            .objects
            .iter()
            .filter(|object| name(object) == called && is_kind(object, wanted))
            // Of two kinds with one name, such as the Service of K-ORC and that of Kubernetes, the
            // one that can be well or not.
            .min_by_key(|object| health(object).is_none());
        return found
            .map(Some)
            .ok_or_else(|| format!("there is no {wanted} {called} in this namespace"));
    }
    let planes = snapshot.of_kind("c5c3.io", "ControlPlane");
    // Groups of Kubernetes' own workloads have no dot.
    let others = snapshot
        .objects
        .iter()
        .filter(|object| group(object).contains('.'));
    let pods = snapshot.of_kind("", "Pod");
    Ok(planes
        .chain(others)
        .chain(pods)
        .find(|object| ill(object).is_some()))
}

/// `keystone`, `keystones` and `Keystone` all mean the kind; a group may follow after a dot.
fn is_kind(object: &Value, wanted: &str) -> bool {
    let (own, wanted) = (kind(object).to_lowercase(), wanted.to_lowercase());
    let (wanted, of) = wanted
        .split_once('.')
        .map_or((wanted.as_str(), None), |(kind, group)| (kind, Some(group)));
    let named = own == wanted || format!("{own}s") == wanted || (wanted == "cp" && own == "controlplane");
    named && of.is_none_or(|of| of == group(object))
}

/// The kind as kubectl takes it for no other: several groups have a User or a Service.
fn full_kind(object: &Value) -> String {
    match (kind(object).to_lowercase(), group(object)) {
        (kind, "") => kind,
        (kind, group) => format!("{kind}.{group}"),
    }
}

fn ill(object: &Value) -> Option<Trouble> {
    health(object)?.trouble().cloned()
}

pub(crate) fn explain(snapshot: &Snapshot, start: &Value) -> Explanation {
    let mut chain: Vec<(&Value, Trouble)> = Vec::new();
    let mut next = Some(start);
    while let Some(object) = next {
        let Some(trouble) = ill(object).filter(|_| chain.len() < DEEPEST) else {
            break;
        };
        // What waits below waits for the kind, too.
        next = match trouble.reason.as_str() {
            KIND_MISSING => None,
            _ => below(snapshot, object, trouble.blocker.as_ref(), &chain),
        };
        chain.push((object, trouble));
    }
    let advice = chain
        .last()
        .map(|(object, trouble)| advice(object, trouble))
        .unwrap_or_default();
    let links = chain.iter().map(|(object, trouble)| Link {
        kind: kind(object).to_owned(),
        name: name(object).to_owned(),
        cluster: object[CLUSTER].as_str().map(str::to_owned),
        reason: trouble.reason.clone(),
        message: trouble.message.clone(),
    });
    Explanation {
        chain: links.collect(),
        advice,
    }
}

/// What this one waits for: the object that its status names, else one of its own that is not well.
fn below<'a>(
    snapshot: &'a Snapshot,
    object: &Value,
    blocker: Option<&Blocker>,
    seen: &[(&Value, Trouble)],
) -> Option<&'a Value> {
    let uid = text(object, "/metadata/uid");
    let candidates = snapshot.objects.iter().filter(|other| {
        let again =
            |(before, _): &(&Value, Trouble)| text(before, "/metadata/uid") == text(other, "/metadata/uid");
        text(other, "/metadata/uid") != uid && !seen.iter().any(again) && ill(other).is_some()
    });
    let mut named = candidates
        .clone()
        .filter(|other| blocker.is_some_and(|blocker| is(other, blocker)));
    let owned = candidates.filter(|other| is_owned(other, uid));
    named.next().or_else(|| owned.min_by_key(|other| name(other)))
}

/// Everything that was read is of one namespace.
fn is(object: &Value, blocker: &Blocker) -> bool {
    kind(object) == blocker.kind
        && name(object) == blocker.name
        && group(object) == blocker.group.as_deref().unwrap_or_default()
        && object[CLUSTER].as_str() == blocker.cluster.as_deref()
}

fn advice(object: &Value, trouble: &Trouble) -> Vec<String> {
    let (kind, name) = (full_kind(object), name(object));
    let namespace = text(object, "/metadata/namespace");
    let kubectl = match object[CLUSTER].as_str() {
        Some(cluster) => format!("kubectl --context {cluster} -n {namespace}"),
        None => format!("kubectl -n {namespace}"),
    };
    let mut lines = Vec::new();
    let mut say = |line: String| lines.push(line);
    match trouble.reason.as_str() {
        "ErrImagePull" | "ImagePullBackOff" | "ErrImageNeverPull" => {
            say("Build the image with `c5c3 image build`, or correct spec.image.".to_owned());
        }
        "CrashLoopBackOff" | "Error" | "OOMKilled" => {
            say(format!(
                "Read the end of its log: {kubectl} logs {name} --previous"
            ));
        }
        "Unschedulable" => {
            say("Free capacity: use fewer replicas or smaller requests, or add a node.".to_owned());
        }
        "Starting" | "Running" | "NotReady" => {
            say("It is in progress: wait a moment and try again.".to_owned());
        }
        KIND_MISSING => {
            say(
                "Install the operator named above; CobaltCore notices its CRDs without a restart.".to_owned(),
            );
            say("See what else the cluster lacks: c5c3 doctor".to_owned());
        }
        SECRET_MISSING => {
            let secret = trouble.blocker.as_ref().map_or("NAME", |blocker| &blocker.name);
            say(format!(
                "Create the Secret: {kubectl} create secret generic {secret} …"
            ));
        }
        KEY_MISSING => {
            let secret = trouble.blocker.as_ref().map_or("NAME", |blocker| &blocker.name);
            say(format!(
                "Add the key to the Secret: {kubectl} edit secret {secret}"
            ));
        }
        "InvalidConfig" => say(format!("Correct the option: {kubectl} edit {kind} {name}")),
        NOT_REPORTED => say("Check that the operator of this kind is running: c5c3 status".to_owned()),
        _ => {}
    }
    say(format!("Show all details: {kubectl} describe {kind} {name}"));
    if kind == "pod" {
        say(format!("Read its log: {kubectl} logs {name}"));
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(api: &str, kind: &str, name: &str, owner: &str, status: Value) -> Value {
        json!({"apiVersion": api, "kind": kind, "status": status,
            "metadata": {"name": name, "namespace": "openstack", "uid": format!("{kind}-{name}"),
                "ownerReferences": [{"uid": owner}]}})
    }

    fn not_ready(message: &str) -> Value {
        json!({"observedGeneration": 1, "conditions": [
            {"type": "Ready", "status": "False", "reason": "Waiting", "message": message}]})
    }

    fn blocked(message: &str, blocker: Value) -> Value {
        let mut status = not_ready(message);
        status["blockedBy"] = blocker;
        status
    }

    fn snapshot() -> Snapshot {
        let keystone = "keystone.openstack.c5c3.io/v1alpha1";
        Snapshot {
            objects: vec![
                object(
                    "c5c3.io/v1alpha1",
                    "ControlPlane",
                    "cloud",
                    "",
                    blocked(
                        "Keystone: waits for its database",
                        json!({"group": "keystone.openstack.c5c3.io", "kind": "Keystone", "name": "keystone"}),
                    ),
                ),
                object(
                    keystone,
                    "Keystone",
                    "keystone",
                    "ControlPlane-cloud",
                    blocked(
                        "the database is not ready",
                        json!({"group": "k8s.mariadb.com", "kind": "MariaDB", "name": "mariadb"}),
                    ),
                ),
                object(
                    "memcached.c5c3.io/v1beta1",
                    "Memcached",
                    "memcached",
                    "ControlPlane-cloud",
                    not_ready("starts"),
                ),
                object(
                    "k8s.mariadb.com/v1alpha1",
                    "MariaDB",
                    "mariadb",
                    "ControlPlane-cloud",
                    not_ready("0 of 1"),
                ),
                object("apps/v1", "StatefulSet", "mariadb", "MariaDB-mariadb", json!({})),
                object(
                    "v1",
                    "Pod",
                    "mariadb-0",
                    "StatefulSet-mariadb",
                    json!({"phase": "Pending", "containerStatuses": [
                    {"name": "server", "state": {"waiting": {"reason": "ErrImagePull", "message": "no such image"}}}]}),
                ),
            ],
        }
    }

    #[test]
    fn the_way_leads_from_the_cloud_to_the_pod() {
        let snapshot = snapshot();
        let from = start(&snapshot, None).expect("no name").expect("one is ill");
        let found = explain(&snapshot, from);
        let way: Vec<_> = found
            .chain
            .iter()
            .map(|link| format!("{}/{}", link.kind, link.name))
            .collect();
        assert_eq!(
            way,
            [
                "ControlPlane/cloud",
                "Keystone/keystone",
                "MariaDB/mariadb",
                "StatefulSet/mariadb",
                "Pod/mariadb-0"
            ]
        );
        assert!(found.advice[0].contains("c5c3 image build"), "{:?}", found.advice);
    }

    #[test]
    fn a_missing_secret_is_named_with_the_command_that_makes_it() {
        let mut snapshot = snapshot();
        let ready = json!({"type": "Ready", "status": "False", "reason": SECRET_MISSING, "message": "it lacks a Secret"});
        snapshot.objects[1]["status"] =
            json!({"conditions": [ready], "blockedBy": {"kind": "Secret", "name": "keystone-db"}});
        let mut only = snapshot.clone();
        only.objects.truncate(2);
        let found = explain(&only, &only.objects[0]);
        assert_eq!(found.chain.len(), 2);
        assert!(
            found.advice[0].contains("create secret generic keystone-db"),
            "{:?}",
            found.advice
        );
    }

    #[test]
    fn a_kind_that_is_missing_ends_the_way() {
        let mut snapshot = snapshot();
        let message =
            "this cluster has no kind RoleAssignment of openstack.k-orc.cloud: install a newer K-ORC";
        let ready = json!({"type": "Ready", "status": "False", "reason": KIND_MISSING, "message": message});
        snapshot.objects[0]["status"] = json!({"conditions": [ready]});
        let found = explain(&snapshot, &snapshot.objects[0]);
        assert_eq!(found.chain.len(), 1, "{:?}", found.chain);
        assert!(
            found.advice[0].contains("Install the operator"),
            "{:?}",
            found.advice
        );
    }

    #[test]
    fn a_named_object_is_found_by_any_form_of_its_kind() {
        let snapshot = snapshot();
        for kind in ["keystone", "Keystone", "keystones"] {
            let from = start(&snapshot, Some((kind, "keystone")))
                .expect("found")
                .expect("there");
            assert_eq!(name(from), "keystone");
        }
        let error = start(&snapshot, Some(("nova", "nova"))).expect_err("none");
        assert_eq!(error, "there is no nova nova in this namespace");
    }

    #[test]
    fn kinds_of_one_name_are_told_apart() {
        let seen = Snapshot {
            objects: vec![
                object("v1", "Service", "glance", "", json!({})),
                object(
                    "openstack.k-orc.cloud/v1alpha1",
                    "Service",
                    "glance",
                    "",
                    not_ready("no answer"),
                ),
            ],
        };
        let found = |kind| {
            start(&seen, Some((kind, "glance")))
                .expect("found")
                .expect("there")
        };
        assert_eq!(group(found("service")), "openstack.k-orc.cloud");
        assert_eq!(
            group(found("services.openstack.k-orc.cloud")),
            "openstack.k-orc.cloud"
        );
        assert!(start(&seen, Some(("service.x.io", "glance"))).is_err());
        let advice = explain(&seen, found("service")).advice.join("\n");
        assert!(
            advice.contains("describe service.openstack.k-orc.cloud glance"),
            "{advice}"
        );
    }

    #[test]
    fn the_way_down_leads_into_another_cluster() {
        let nova = "nova.openstack.c5c3.io/v1alpha1";
        let said = "compute-cell1: up on 0 of 2 nodes; ErrImagePull";
        let pod_there = json!({"kind": "Pod", "name": "nova-compute-cell1-x", "cluster": "hypervisor"});
        let mut set = object(
            "apps/v1",
            "DaemonSet",
            "nova-compute-cell1",
            "",
            json!({"desiredNumberScheduled": 2}),
        );
        set["metadata"]["labels"] = json!({"c5c3.io/owner-uid": "Nova-nova"});
        let waiting = json!({"waiting": {"reason": "ErrImagePull", "message": "no image"}});
        let status =
            json!({"phase": "Pending", "containerStatuses": [{"name": "compute", "state": waiting}]});
        let mut pod = object(
            "v1",
            "Pod",
            "nova-compute-cell1-x",
            "DaemonSet-nova-compute-cell1",
            status,
        );
        for object in [&mut set, &mut pod] {
            object[CLUSTER] = json!("hypervisor");
        }
        let mut seen = Snapshot {
            objects: vec![
                object(
                    "c5c3.io/v1alpha1",
                    "ControlPlane",
                    "cloud",
                    "",
                    not_ready("Nova: CellsReady"),
                ),
                object(
                    nova,
                    "Nova",
                    "nova",
                    "ControlPlane-cloud",
                    blocked(said, pod_there),
                ),
                set,
                pod,
            ],
        };
        let way = |seen: &Snapshot| -> Vec<String> {
            let found = explain(seen, &seen.objects[0]);
            let links = found.chain.iter();
            links
                .map(|link| format!("{} {}", link.kind, link.cluster.as_deref().unwrap_or("here")))
                .collect()
        };
        assert_eq!(way(&seen), ["ControlPlane here", "Nova here", "Pod hypervisor"]);
        let advice = explain(&seen, &seen.objects[0]).advice.join("\n");
        assert!(
            advice.contains("kubectl --context hypervisor -n openstack logs nova-compute-cell1-x"),
            "{advice}"
        );
        // A status that names no object: what the object made over there is known by its mark.
        seen.objects[1]["status"] = not_ready("not ready");
        assert_eq!(
            way(&seen),
            [
                "ControlPlane here",
                "Nova here",
                "DaemonSet hypervisor",
                "Pod hypervisor"
            ]
        );
    }

    #[test]
    fn waiting_in_a_ring_ends() {
        let ring = Snapshot {
            objects: vec![
                object(
                    "a.io/v1",
                    "A",
                    "a",
                    "",
                    blocked("waits", json!({"group": "a.io", "kind": "B", "name": "b"})),
                ),
                object(
                    "a.io/v1",
                    "B",
                    "b",
                    "",
                    blocked("waits", json!({"group": "a.io", "kind": "A", "name": "a"})),
                ),
            ],
        };
        assert_eq!(explain(&ring, &ring.objects[0]).chain.len(), 2);
    }
}
