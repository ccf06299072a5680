use std::{collections::BTreeMap, time::Duration};

use apiserver::{Config, store::History};
use bytes::Bytes;
use futures::StreamExt;
use http::{Method, Request};
use http_body_util::BodyExt;
use kube::Client;
use serde_json::{Value, json};

use crate::support::*;

/// A watch as raw frames.
struct Frames {
    body: kube::client::Body,
    rest: Vec<u8>,
}

impl Frames {
    async fn open(client: &Client, query: &str) -> Self {
        let request = Request::get(format!("{MAPS}?watch=true&{query}"))
            .body(kube::client::Body::empty())
            .unwrap();
        let response = client.send(request).await.unwrap();
        assert_eq!(response.status(), 200);
        Self {
            body: response.into_body(),
            rest: Vec::new(),
        }
    }

    /// The next frame; `None` at the end of the stream.
    async fn next(&mut self) -> Option<Value> {
        loop {
            if let Some(at) = self.rest.iter().position(|&b| b == b'\n') {
                let line: Vec<u8> = self.rest.drain(..=at).collect();
                return Some(serde_json::from_slice(&line).unwrap());
            }
            let frame = tokio::time::timeout(Duration::from_secs(60), self.body.frame())
                .await
                .expect("a frame in time")?;
            let data: Bytes = frame.unwrap().into_data().unwrap();
            self.rest.extend_from_slice(&data);
        }
    }

    async fn expect(&mut self, kind: &str, name: &str) -> Value {
        let frame = self.next().await.expect("a frame");
        let found = (
            frame["type"].as_str().unwrap(),
            frame["object"]["metadata"]["name"].as_str().unwrap_or_default(),
        );
        assert_eq!(found, (kind, name), "{frame}");
        frame["object"].clone()
    }
}

fn labelled(name: &str, value: &str) -> Value {
    let mut map = config_map(name, json!({}));
    map["metadata"]["labels"] = json!({"l": value});
    map
}

async fn relabel(c: &Client, name: &str, value: &str) {
    let body = json!({"metadata": {"labels": {"l": value}}}).to_string();
    let (code, _) = call_as(
        c,
        Method::PATCH,
        &format!("{MAPS}/{name}"),
        "application/merge-patch+json",
        body,
    )
    .await;
    assert_eq!(code, 200);
}

#[tokio::test]
async fn events_come_in_order() {
    let run = start().await;
    let c = &run.client;
    post(c, MAPS, labelled("a", "x")).await;
    let (_, list) = get(c, MAPS).await;
    let version = list["metadata"]["resourceVersion"].as_str().unwrap();
    let mut from_list = Frames::open(c, &format!("resourceVersion={version}")).await;
    let mut from_start = Frames::open(c, "fieldSelector=metadata.name%3Da").await;
    from_start.expect("ADDED", "a").await;
    post(c, MAPS, labelled("b", "x")).await;
    relabel(c, "a", "y").await;
    delete(c, &format!("{MAPS}/a")).await;
    from_list.expect("ADDED", "b").await;
    let modified = from_list.expect("MODIFIED", "a").await;
    let deleted = from_list.expect("DELETED", "a").await;
    let revision = |object: &Value| {
        object["metadata"]["resourceVersion"]
            .as_str()
            .unwrap()
            .parse::<u64>()
            .unwrap()
    };
    assert!(revision(&deleted) > revision(&modified));
    from_start.expect("MODIFIED", "a").await;
    from_start.expect("DELETED", "a").await;
}

#[tokio::test]
async fn selectors_make_objects_come_and_go() {
    let run = start().await;
    let c = &run.client;
    let mut watch = Frames::open(c, "labelSelector=l%3Dx").await;
    post(c, MAPS, labelled("a", "y")).await;
    relabel(c, "a", "x").await;
    let added = watch.expect("ADDED", "a").await;
    relabel(c, "a", "z").await;
    let gone = watch.expect("DELETED", "a").await;
    // It is shown as it last matched, at the revision at which it left.
    assert_eq!(gone["metadata"]["labels"]["l"], "x");
    assert_ne!(
        gone["metadata"]["resourceVersion"],
        added["metadata"]["resourceVersion"]
    );
}

#[tokio::test]
async fn initial_events_end_with_a_bookmark() {
    let run = start().await;
    let c = &run.client;
    for name in ["a", "b"] {
        post(c, MAPS, labelled(name, "x")).await;
    }
    let mut watch = Frames::open(
        c,
        "sendInitialEvents=true&resourceVersionMatch=NotOlderThan&allowWatchBookmarks=true&labelSelector=l",
    )
    .await;
    watch.expect("ADDED", "a").await;
    watch.expect("ADDED", "b").await;
    let bookmark = watch.expect("BOOKMARK", "").await;
    assert_eq!(
        bookmark["metadata"]["annotations"]["k8s.io/initial-events-end"],
        "true"
    );
    post(c, MAPS, labelled("c", "x")).await;
    watch.expect("ADDED", "c").await;
}

#[tokio::test]
async fn a_watch_ends_in_time_with_a_bookmark() {
    let run = start().await;
    let mut watch = Frames::open(
        &run.client,
        "timeoutSeconds=1&allowWatchBookmarks=true&resourceVersion=1",
    )
    .await;
    let mut last = None;
    while let Some(frame) = watch.next().await {
        last = Some(frame);
    }
    assert_eq!(last.unwrap()["type"], "BOOKMARK");
}

#[tokio::test]
async fn who_falls_behind_is_told() {
    let run = start_with(|config| Config {
        history: History {
            events: 8,
            bytes: 1 << 20,
        },
        ..config
    })
    .await;
    let c = &run.client;
    let (_, first) = post(c, MAPS, labelled("a", "0")).await;
    let version = first["metadata"]["resourceVersion"].as_str().unwrap();
    let mut slow = Frames::open(c, &format!("resourceVersion={version}")).await;
    for i in 0..20 {
        relabel(c, "a", &i.to_string()).await;
    }
    // It had not read yet: its place in the history is gone.
    let error = slow.next().await.unwrap();
    assert_eq!(
        (error["type"].as_str(), error["object"]["code"].as_i64()),
        (Some("ERROR"), Some(410)),
        "{error}"
    );
    assert_eq!(error["object"]["reason"], "Expired");
    assert!(slow.next().await.is_none());
    let (code, page) = get(c, &format!("{MAPS}?limit=1&resourceVersion={version}")).await;
    assert_eq!((code, page["reason"].as_str()), (410, Some("Expired")));
    let (_, metrics) = (
        0,
        c.request_text(Request::get("/metrics").body(Vec::new()).unwrap())
            .await
            .unwrap(),
    );
    assert!(metrics.contains("apiserver_watches_dropped_total 1"), "{metrics}");
    assert!(metrics.contains("apiserver_writes_total{cluster=\"default\",group=\"\",kind=\"ConfigMap\",verb=\"patch\",user=\"system:admin\"} 19"));
}

#[tokio::test]
async fn tables_and_metadata_are_watched_too() {
    let run = start().await;
    let c = &run.client;
    let table = "application/json;as=Table;v=v1;g=meta.k8s.io,application/json";
    let request = Request::get(format!("{MAPS}?watch=true&resourceVersion=1"))
        .header("accept", table)
        .body(kube::client::Body::empty())
        .unwrap();
    let response = c.send(request).await.unwrap();
    let mut watch = Frames {
        body: response.into_body(),
        rest: Vec::new(),
    };
    post(c, MAPS, labelled("a", "0")).await;
    relabel(c, "a", "1").await;
    let first = loop {
        let frame = watch.next().await.unwrap();
        if frame["object"]["rows"][0]["cells"][0] == "a" {
            break frame;
        }
    };
    assert_eq!(
        (first["type"].as_str(), first["object"]["kind"].as_str()),
        (Some("ADDED"), Some("Table"))
    );
    let second = watch.next().await.unwrap();
    assert_eq!(second["type"], "MODIFIED");
    let request = Request::get(MAPS)
        .header(
            "accept",
            "application/json;as=PartialObjectMetadataList;v=v1;g=meta.k8s.io",
        )
        .body(kube::client::Body::empty())
        .unwrap();
    let list: Value = serde_json::from_slice(
        &c.send(request)
            .await
            .unwrap()
            .into_body()
            .collect_bytes()
            .await
            .unwrap(),
    )
    .unwrap();
    assert_eq!(list["kind"], "PartialObjectMetadataList");
    assert!(list["items"][0]["data"].is_null());
}

/// Many writers, many watchers that start at any time: each sees the list at its start plus its events.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_watch_is_the_list_plus_its_events() {
    let run = start().await;
    let mut writers = tokio::task::JoinSet::new();
    for w in 0..4 {
        let c = run.client.clone();
        writers.spawn(async move {
            for i in 0..40 {
                let name = format!("w{w}-{}", i % 5);
                match i % 3 {
                    0 => {
                        post(&c, MAPS, config_map(&name, json!({"i": i.to_string()}))).await;
                    }
                    1 => {
                        put(
                            &c,
                            &format!("{MAPS}/{name}"),
                            config_map(&name, json!({"i": i.to_string()})),
                        )
                        .await;
                    }
                    _ => {
                        delete(&c, &format!("{MAPS}/{name}")).await;
                    }
                }
            }
        });
    }
    let mut watchers = tokio::task::JoinSet::new();
    for _ in 0..8 {
        let c = run.client.clone();
        watchers.spawn(async move {
            let (_, list) = get(&c, MAPS).await;
            let revision = list["metadata"]["resourceVersion"].as_str().unwrap().to_owned();
            let mut state: BTreeMap<String, Value> = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|o| (o["metadata"]["name"].as_str().unwrap().to_owned(), o.clone()))
                .collect();
            let mut watch = Frames::open(&c, &format!("resourceVersion={revision}")).await;
            let mut last = 0;
            loop {
                let frame = watch.next().await.unwrap();
                let mut object = frame["object"].clone();
                // Lists leave out what events say of each object.
                assert_eq!(
                    object.as_object_mut().unwrap().remove("kind").unwrap(),
                    "ConfigMap"
                );
                object.as_object_mut().unwrap().remove("apiVersion").unwrap();
                let name = object["metadata"]["name"].as_str().unwrap().to_owned();
                let revision: u64 = object["metadata"]["resourceVersion"]
                    .as_str()
                    .unwrap()
                    .parse()
                    .unwrap();
                assert!(revision > last, "events come in order, once");
                last = revision;
                let known = state.contains_key(&name);
                match frame["type"].as_str().unwrap() {
                    "ADDED" => assert!(!known),
                    "MODIFIED" => assert!(known),
                    "DELETED" => {
                        assert!(state.remove(&name).is_some());
                    }
                    other => panic!("{other}"),
                }
                if name == "end" {
                    return state;
                }
                if frame["type"] != "DELETED" {
                    state.insert(name, object);
                }
            }
        });
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    while let Some(done) = writers.join_next().await {
        done.unwrap();
    }
    post(&run.client, MAPS, config_map("end", json!({}))).await;
    let (_, list) = get(&run.client, MAPS).await;
    let present: BTreeMap<String, Value> = list["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|o| (o["metadata"]["name"].as_str().unwrap().to_owned(), o.clone()))
        .filter(|(name, _)| name != "end")
        .collect();
    while let Some(state) = watchers.join_next().await {
        assert_eq!(state.unwrap(), present);
    }
    // The same through kube-rs, from the start.
    let maps: kube::Api<k8s_openapi::api::core::v1::ConfigMap> =
        kube::Api::namespaced(run.client.clone(), "default");
    let stream = kube::runtime::watcher(maps, kube::runtime::watcher::Config::default().streaming_lists());
    let mut stream = std::pin::pin!(stream);
    let mut seen = 0;
    loop {
        match stream.next().await.unwrap().unwrap() {
            kube::runtime::watcher::Event::InitApply(_) => seen += 1,
            kube::runtime::watcher::Event::InitDone => break,
            _ => {}
        }
    }
    assert_eq!(seen, present.len() + 1);
}
