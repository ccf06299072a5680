//! A namespace that is deleted takes everything in it along.

use std::{collections::BTreeMap, time::Duration};

use serde_json::{Value, json};

use super::{
    follow::{Follow, any_changed},
    requests::{Requests, path},
};
use crate::{cluster::Cluster, registry::Kind};

const FINALIZER: &str = "kubernetes";
/// How long what could not be removed waits for another try.
const RETRY: Duration = Duration::from_secs(1);

pub(super) async fn run(requests: Requests) {
    let cluster = requests.cluster.clone();
    let namespaces = cluster.collection("", "namespaces");
    let mut follows = vec![Follow::new(&cluster.store, namespaces.clone())];
    let stopping = requests.stopping();
    loop {
        // Marked as seen before looking: what changes meanwhile wakes us again.
        for follow in &mut follows {
            follow.news();
        }
        let mut waiting: BTreeMap<String, Follow> = BTreeMap::new();
        let mut open = false;
        for stored in cluster.store.list(&namespaces, None).objects {
            let namespace = stored.value();
            if !is_held(&namespace) {
                continue;
            }
            // Followed before the content is counted, so that no removal is missed.
            let mut collections = follow_content(&cluster);
            if let Some(remaining) = empty(&requests, &namespace).await {
                open = true;
                collections.retain(|name, _| remaining.contains_key(name));
                waiting.append(&mut collections);
            }
        }
        follows.truncate(1);
        follows.extend(waiting.into_values());
        tokio::select! {
            () = stopping.cancelled() => return,
            () = any_changed(&mut follows) => {}
            // What failed changes nothing that would wake us.
            () = tokio::time::sleep(RETRY), if open => {}
        }
    }
}

fn is_held(namespace: &Value) -> bool {
    let finalizers = namespace["spec"]["finalizers"].as_array();
    !namespace["metadata"]["deletionTimestamp"].is_null()
        && finalizers.is_some_and(|names| names.iter().any(|name| name == FINALIZER))
}

fn follow_content(cluster: &Cluster) -> BTreeMap<String, Follow> {
    let registry = cluster.registry();
    let namespaced = registry.resources().filter(|kind| kind.namespaced);
    namespaced
        .map(|kind| {
            let mut follow = Follow::new(&cluster.store, cluster.collection_of(kind));
            follow.news();
            (name_of(kind), follow)
        })
        .collect()
}

fn name_of(kind: &Kind) -> String {
    crate::status::qualified(&kind.plural, &kind.group)
}

/// Deletes what is in the namespace. `None` once the namespace is let go, else what remains.
async fn empty(requests: &Requests, namespace: &Value) -> Option<BTreeMap<String, usize>> {
    let cluster = &requests.cluster;
    let name = namespace["metadata"]["name"].as_str().unwrap_or_default();
    let registry = cluster.registry();
    let kinds: Vec<_> = registry
        .resources()
        .filter(|kind| kind.namespaced)
        .cloned()
        .collect();
    let mut failures = Vec::new();
    // Pods first: what they use and what guards them, such as NetworkPolicies, goes after them.
    let (pods, others): (Vec<_>, Vec<_>) = kinds.iter().partition(|kind| kind.is("", "pods"));
    for (stage, last) in [(&pods, false), (&others, true)] {
        if last && pods.iter().any(|kind| !content(cluster, kind, name).is_empty()) {
            break;
        }
        for kind in stage {
            if content(cluster, kind, name).is_empty() {
                continue;
            }
            if let Err(error) = requests.delete(&path(kind, name, ""), None).await
                && !error.is_outdated()
            {
                failures.push(format!("{}: {}", name_of(kind), error.message));
            }
        }
    }
    let mut remaining = BTreeMap::new();
    let mut finalizers: BTreeMap<String, usize> = BTreeMap::new();
    for kind in &kinds {
        let objects = content(cluster, kind, name);
        if objects.is_empty() {
            continue;
        }
        remaining.insert(name_of(kind), objects.len());
        for finalizer in objects.iter().flat_map(finalizers_of) {
            *finalizers.entry(finalizer).or_default() += 1;
        }
    }
    if remaining.is_empty() && failures.is_empty() {
        let mut freed = namespace.clone();
        if let Some(names) = freed["spec"]["finalizers"].as_array_mut() {
            names.retain(|name| name != FINALIZER);
        }
        if let Err(error) = requests
            .replace(&format!("/api/v1/namespaces/{name}/finalize"), &freed)
            .await
            && !error.is_outdated()
        {
            tracing::warn!(%error, namespace = name, "cannot finalize a namespace");
            return Some(remaining);
        }
        return None;
    }
    report(requests, namespace, name, &remaining, &finalizers, &failures).await;
    Some(remaining)
}

fn content(cluster: &Cluster, kind: &Kind, namespace: &str) -> Vec<Value> {
    let listing = cluster.store.list(&cluster.collection_of(kind), Some(namespace));
    listing.objects.iter().map(|stored| stored.value()).collect()
}

fn finalizers_of(object: &Value) -> Vec<String> {
    let names = object["metadata"]["finalizers"].as_array().into_iter().flatten();
    names
        .filter_map(|name| name.as_str().map(str::to_owned))
        .collect()
}

/// Tells in the namespace's status what it waits for.
async fn report(
    requests: &Requests,
    namespace: &Value,
    name: &str,
    remaining: &BTreeMap<String, usize>,
    finalizers: &BTreeMap<String, usize>,
    failures: &[String],
) {
    let conditions = conditions(
        &namespace["status"]["conditions"],
        remaining,
        finalizers,
        failures,
    );
    if namespace["status"]["conditions"] == conditions {
        return;
    }
    let patch = json!({"status": {"phase": "Terminating", "conditions": conditions}});
    if let Err(error) = requests
        .merge(&format!("/api/v1/namespaces/{name}/status"), &patch)
        .await
        && !error.is_outdated()
    {
        tracing::warn!(%error, namespace = name, "cannot report on a namespace");
    }
}

fn conditions(
    old: &Value,
    remaining: &BTreeMap<String, usize>,
    finalizers: &BTreeMap<String, usize>,
    failures: &[String],
) -> Value {
    let list = |counts: &BTreeMap<String, usize>, what: &str| {
        let texts: Vec<_> = counts
            .iter()
            .map(|(name, count)| format!("{name} {what} {count} resource instances"))
            .collect();
        texts.join(", ")
    };
    let found = [
        (
            "NamespaceDeletionContentFailure",
            !failures.is_empty(),
            ("ContentDeletionFailed", "ContentDeleted"),
            failures.join(", "),
            "All content successfully deleted, may be waiting on finalization",
        ),
        (
            "NamespaceContentRemaining",
            !remaining.is_empty(),
            ("SomeResourcesRemain", "ContentRemoved"),
            format!("Some resources are remaining: {}", list(remaining, "has")),
            "All content successfully removed",
        ),
        (
            "NamespaceFinalizersRemaining",
            !finalizers.is_empty(),
            ("SomeFinalizersRemain", "ContentHasNoFinalizers"),
            format!(
                "Some content in the namespace has finalizers remaining: {}",
                list(finalizers, "in")
            ),
            "All content-preserving finalizers finished",
        ),
    ];
    let conditions = found.into_iter().map(|(kind, bad, reasons, message, fine)| {
        let status = if bad { "True" } else { "False" };
        let before = old.as_array().into_iter().flatten().find(|c| c["type"] == kind);
        let since = before
            .filter(|before| before["status"] == status)
            .and_then(|before| before["lastTransitionTime"].as_str())
            .map_or_else(crate::resource::now, str::to_owned);
        json!({
            "type": kind,
            "status": status,
            "reason": if bad { reasons.0 } else { reasons.1 },
            "message": if bad { message } else { fine.to_owned() },
            "lastTransitionTime": since,
        })
    });
    conditions.collect()
}
