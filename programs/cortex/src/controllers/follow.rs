//! Watches the objects that make up Cortex's view of the cloud: every change is in the next snapshot,
//! deletions too.

use std::collections::BTreeSet;

use c5c3_api::cortex::{Kpi, Pipeline, Reservation};
use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::Stop;
use futures::{Stream, StreamExt, TryStreamExt};
use jiff::Timestamp;
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};

use super::Shared;
use crate::service::Source;
use crate::sources::kubernetes;

/// Follows a kind; `changed` sees all objects after each change.
async fn kind<K, F>(client: Client, changed: F)
where
    K: kube::Resource<DynamicType = ()>
        + Clone
        + std::fmt::Debug
        + serde::de::DeserializeOwned
        + Send
        + Sync
        + 'static,
    F: Fn(Vec<std::sync::Arc<K>>),
{
    let (reader, writer) = reflector::store::<K>();
    let events = watcher(Api::<K>::all(client), watcher::Config::default())
        .default_backoff()
        .reflect(writer);
    let mut events = std::pin::pin!(whole(events));
    while let Some(event) = events.next().await {
        match event {
            Ok(()) => changed(reader.state()),
            Err(error) => tracing::warn!("cannot follow {}: {error}", K::plural(&())),
        }
    }
}

/// Events after which the store is whole.
fn whole<K>(
    events: impl Stream<Item = watcher::Result<watcher::Event<K>>>,
) -> impl Stream<Item = watcher::Result<()>> {
    events.try_filter_map(|event| async move {
        let whole = !matches!(event, watcher::Event::Init | watcher::Event::InitApply(_));
        Ok(whole.then_some(()))
    })
}

pub(crate) async fn all(client: Client, shared: Shared, stop: Stop) {
    let world = || &shared.scheduler.world;
    let work = async {
        tokio::join!(
            kind::<Pipeline, _>(client.clone(), |all| pipelines(&shared, &all)),
            kind::<Reservation, _>(client.clone(), |all| {
                let now = Timestamp::now();
                let of = |one: &std::sync::Arc<Reservation>| {
                    Some((one.name_any(), kubernetes::reservation(one, now)?))
                };
                world().tell(Source::Reservations(all.iter().filter_map(of).collect()));
            }),
            kind::<Hypervisor, _>(client.clone(), |all| {
                let hosts = all.iter().map(|one| kubernetes::host(one));
                world().tell(Source::Hypervisors(hosts.collect()));
            }),
            kind::<Kpi, _>(client.clone(), |all| {
                let names: BTreeSet<String> = all.iter().map(|one| one.spec.impl_.clone()).collect();
                world().set_kpis(names);
            }),
        )
    };
    tokio::select! {
        _ = work => {}
        () = stop.requested() => {}
    }
}

/// Those that serve, and those that are only compared.
fn pipelines(shared: &Shared, all: &[std::sync::Arc<Pipeline>]) {
    let (mut serving, mut shadows) = (Vec::new(), Vec::new());
    for object in all {
        let Some(draft) = kubernetes::pipeline(object) else {
            continue;
        };
        let domain = object.spec.scheduling_domain;
        if object.annotations().contains_key(kubernetes::SHADOW) {
            shadows.push((domain, draft));
        } else {
            serving.push((domain, draft));
        }
    }
    shared.scheduler.world.set_pipelines(serving, shadows);
}
