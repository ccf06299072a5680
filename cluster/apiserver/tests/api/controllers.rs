//! kube-rs as controllers use it.

use std::{sync::Arc, time::Duration};

use futures::StreamExt;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::{
    Api, ResourceExt,
    api::{ObjectMeta, Patch, PatchParams, PostParams},
    runtime::{Controller, WatchStreamExt, controller::Action, reflector, watcher},
};

use crate::support::*;

#[tokio::test]
async fn a_controller_reconciles_what_it_watches_and_owns() {
    let run = start().await;
    let client = run.client.clone();
    let maps: Api<ConfigMap> = Api::namespaced(client.clone(), "default");
    let secrets: Api<Secret> = Api::namespaced(client.clone(), "default");
    let controller = Controller::new(maps.clone(), watcher::Config::default())
        .owns(secrets.clone(), watcher::Config::default())
        .run(
            |map: Arc<ConfigMap>, client: Arc<kube::Client>| async move {
                let secret = serde_json::json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": map.name_any(),
                    "ownerReferences": [{"apiVersion": "v1", "kind": "ConfigMap", "name": map.name_any(), "uid": map.uid().unwrap(), "controller": true}]},
                    "stringData": {"copy": map.data.clone().unwrap_or_default().get("k").cloned().unwrap_or_default()}});
                let secrets: Api<Secret> = Api::namespaced((*client).clone(), "default");
                secrets.patch(&map.name_any(), &PatchParams::apply("test").force(), &Patch::Apply(secret)).await?;
                Ok::<_, kube::Error>(Action::await_change())
            },
            |_, _, _| Action::requeue(Duration::from_millis(200)),
            Arc::new(client.clone()),
        )
        .for_each(|_| futures::future::ready(()));
    let task = tokio::spawn(controller);
    let map = ConfigMap {
        metadata: ObjectMeta {
            name: Some("a".into()),
            ..Default::default()
        },
        data: Some([("k".to_owned(), "1".to_owned())].into()),
        ..Default::default()
    };
    maps.create(&PostParams::default(), &map).await.unwrap();
    let copy = || async {
        secrets
            .get_opt("a")
            .await
            .unwrap()
            .and_then(|s| Some(s.data?.get("copy")?.0.clone()))
    };
    eventually("the secret is there", || async {
        copy().await == Some(b"1".to_vec())
    })
    .await;
    let patch = serde_json::json!({"data": {"k": "2"}});
    maps.patch("a", &PatchParams::default(), &Patch::Merge(patch))
        .await
        .unwrap();
    eventually("the secret follows", || async {
        copy().await == Some(b"2".to_vec())
    })
    .await;
    secrets.delete("a", &Default::default()).await.unwrap();
    eventually("the secret comes back", || async {
        copy().await == Some(b"2".to_vec())
    })
    .await;
    task.abort();
}

#[tokio::test]
async fn a_reflector_holds_what_is_there() {
    let run = start().await;
    let maps: Api<ConfigMap> = Api::all(run.client.clone());
    let (reader, writer) = reflector::store();
    let stream = watcher(
        maps.clone(),
        watcher::Config::default().labels("app=x").streaming_lists(),
    );
    let task = tokio::spawn(
        reflector(writer, stream)
            .applied_objects()
            .for_each(|_| futures::future::ready(())),
    );
    let own: Api<ConfigMap> = Api::namespaced(run.client.clone(), "default");
    for (name, app) in [("a", "x"), ("b", "y"), ("c", "x")] {
        let map = ConfigMap {
            metadata: ObjectMeta {
                name: Some(name.into()),
                labels: Some([("app".to_owned(), app.to_owned())].into()),
                ..Default::default()
            },
            ..Default::default()
        };
        own.create(&PostParams::default(), &map).await.unwrap();
    }
    eventually("two are held", || async { reader.state().len() == 2 }).await;
    own.delete("a", &Default::default()).await.unwrap();
    eventually("one is held", || async { reader.state().len() == 1 }).await;
    task.abort();
}
