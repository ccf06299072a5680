//! The life of CustomResourceDefinitions: served while established, removed with their objects.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use serde_json::Value;

use crate::{
    cluster::Cluster,
    controllers::Requests,
    registry::{Kind, Registry, Schema, custom_kinds},
    store::{Action, Collection, Expect, Stored, Write, draft},
    strategy::{CRD_FINALIZER, ESTABLISHED, condition, judge_names, set_condition},
};

const GROUP: &str = "apiextensions.k8s.io";
const RESOURCE: &str = "customresourcedefinitions";
/// How long a removal waits before it looks again for objects that others hold.
const RECHECK: Duration = Duration::from_secs(5);

/// Makes the registry serve the CRDs that are stored now. Kinds whose CRD did not change are kept.
pub fn refresh(cluster: &Cluster) {
    let before = cluster.registry();
    let mut known: BTreeMap<&str, Vec<&Arc<Kind>>> = BTreeMap::new();
    for kind in before.kinds() {
        if let Schema::Custom(schema) = &kind.schema {
            known.entry(&schema.crd).or_default().push(kind);
        }
    }
    let listing = cluster.list(GROUP, RESOURCE, None);
    let mut kinds: Vec<Arc<Kind>> = Registry::builtin().kinds().to_vec();
    for stored in &listing.objects {
        let old = known
            .get(&*stored.key.name)
            .map(Vec::as_slice)
            .unwrap_or_default();
        if old
            .first()
            .is_some_and(|kind| agreed(kind).load(Ordering::Relaxed) == stored.revision)
        {
            kinds.extend(old.iter().copied().cloned());
            continue;
        }
        let crd = stored.value();
        if condition(&crd, ESTABLISHED) != Some("True") {
            continue;
        }
        let fresh = custom_kinds(&crd, listing.revision);
        let serving: Vec<Arc<Kind>> = if same(old, &fresh) {
            old.iter().copied().cloned().collect()
        } else {
            fresh.into_iter().map(Arc::new).collect()
        };
        for kind in &serving {
            agreed(kind).store(stored.revision, Ordering::Relaxed);
        }
        kinds.extend(serving);
    }
    cluster.set_registry(Registry::new(kinds, before.generation + 1));
}

/// The revision of the CRD that a custom kind is known to agree with.
fn agreed(kind: &Kind) -> &AtomicU64 {
    static NONE: AtomicU64 = AtomicU64::new(0);
    match &kind.schema {
        Schema::Custom(schema) => &schema.crd_revision,
        Schema::Builtin(_) => &NONE,
    }
}

/// The same versions with the same schemas and names: what is compiled already serves on.
fn same(old: &[&Arc<Kind>], fresh: &[Kind]) -> bool {
    let key = |kind: &Kind| match &kind.schema {
        Schema::Custom(schema) => Some((
            kind.api_version(),
            kind.storage_version.clone(),
            kind.short_names.clone(),
            kind.categories.clone(),
            kind.columns.clone(),
            kind.subresources.clone(),
            kind.selectable.clone(),
            (
                kind.deprecated.clone(),
                schema.scale.clone(),
                schema.openapi.clone(),
            ),
            (kind.kind.clone(), kind.list_kind.clone(), kind.singular.clone()),
        )),
        Schema::Builtin(_) => None,
    };
    old.len() == fresh.len() && old.iter().zip(fresh).all(|(old, fresh)| key(old) == key(fresh))
}

/// Looks after the CRDs of one cluster until the server stops.
pub(crate) async fn run(requests: Requests) {
    let cluster = requests.cluster.clone();
    let collection = cluster.collection(GROUP, RESOURCE);
    let mut changes = cluster.store.changes(&collection);
    let stopping = requests.stopping();
    loop {
        changes.borrow_and_update();
        let waiting = step(&requests, &cluster, &collection).await;
        tokio::select! {
            () = stopping.cancelled() => return,
            changed = changes.changed() => if changed.is_err() { return },
            () = tokio::time::sleep(RECHECK), if waiting => {}
        }
    }
}

/// One look at all CRDs; tells whether a removal waits for objects that others hold.
async fn step(requests: &Requests, cluster: &Arc<Cluster>, collection: &Collection) -> bool {
    let all: Vec<(Arc<Stored>, Value)> = cluster
        .list(GROUP, RESOURCE, None)
        .objects
        .into_iter()
        .map(|stored| (stored.clone(), stored.value()))
        .collect();
    let mut waiting = false;
    for (stored, crd) in &all {
        let name = &stored.key.name;
        if !crd["metadata"]["deletionTimestamp"].is_null() {
            waiting |= !remove(requests, cluster, collection, stored, crd).await;
        } else if condition(crd, ESTABLISHED) != Some("True") {
            let others: Vec<Value> = all
                .iter()
                .filter(|(other, _)| other.key.name != *name)
                .map(|(_, crd)| crd.clone())
                .collect();
            let mut judged = crd.clone();
            judge_names(&mut judged, &others);
            if condition(&judged, ESTABLISHED) == Some("True") {
                put(cluster, collection, stored, &judged).await;
            }
        }
    }
    waiting
}

/// Deletes a CRD's objects, then lets it go. True once it is gone.
async fn remove(
    requests: &Requests,
    cluster: &Arc<Cluster>,
    collection: &Collection,
    stored: &Arc<Stored>,
    crd: &Value,
) -> bool {
    let finalizers = crd["metadata"]["finalizers"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    if !finalizers.iter().any(|name| name == CRD_FINALIZER) {
        return true;
    }
    if condition(crd, "Terminating") != Some("True") {
        let mut marked = crd.clone();
        let message = "CustomResource deletion is in progress";
        set_condition(
            &mut marked,
            "Terminating",
            "True",
            "InstanceDeletionInProgress",
            message,
        );
        // The change wakes us again; the removal goes on then.
        return put(cluster, collection, stored, &marked).await;
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (group, plural) = (
        text(&crd["spec"]["group"]),
        text(&crd["status"]["acceptedNames"]["plural"]),
    );
    let instances = cluster.collection(&group, &plural);
    if cluster.store.count(&instances) > 0 {
        let registry = cluster.registry();
        if let Some(kind) = registry
            .kinds()
            .iter()
            .find(|kind| kind.group == group && kind.plural == plural)
        {
            let all = cluster.list(&group, &plural, None).objects;
            let namespaces: BTreeSet<&str> = all.iter().map(|object| &*object.key.namespace).collect();
            for namespace in namespaces {
                let below = match namespace {
                    "" => String::new(),
                    name => format!("/namespaces/{name}"),
                };
                let path = format!("/apis/{group}/{}{below}/{plural}", kind.version);
                if let Err(refused) = requests.delete(&path, None).await {
                    tracing::warn!(crd = %stored.key.name, "its objects are not deleted: {refused}");
                }
            }
        }
        if cluster.store.count(&instances) > 0 {
            return false;
        }
    }
    let _guard = cluster.crd_writes.lock().await;
    let Some(stored) = cluster.store.get(collection, &stored.key) else {
        return true;
    };
    let mut freed = stored.value();
    let rest: Vec<Value> = finalizers
        .into_iter()
        .filter(|name| name != CRD_FINALIZER)
        .collect();
    let last = rest.is_empty();
    freed["metadata"]["finalizers"] = rest.into();
    let write = Write {
        collection: collection.clone(),
        key: stored.key.clone(),
        expect: Expect::Revision(stored.revision),
        action: if last {
            Action::Delete(draft(&freed))
        } else {
            Action::Put(draft(&freed))
        },
    };
    let done = cluster.store.write(write).await.is_ok();
    refresh(cluster);
    done
}

async fn put(cluster: &Cluster, collection: &Collection, stored: &Stored, crd: &Value) -> bool {
    let _guard = cluster.crd_writes.lock().await;
    let write = Write {
        collection: collection.clone(),
        key: stored.key.clone(),
        expect: Expect::Revision(stored.revision),
        action: Action::Put(draft(crd)),
    };
    let done = cluster.store.write(write).await.is_ok();
    refresh(cluster);
    done
}
