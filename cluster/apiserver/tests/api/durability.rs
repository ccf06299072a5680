//! kill -9 in the middle of writes: what was acknowledged is there.
//!
//! `C5C3_KILL_ROUNDS=100 cargo test -p apiserver --test api durability` runs the long form.

use std::{
    io::{BufRead, BufReader},
    process::{Command, Stdio},
    time::Duration,
};

use apiserver::{Config, Server};
use serde_json::json;

use crate::support::*;

const CHILD: &str = "C5C3_KILL_CHILD";
const WRITERS: usize = 8;

/// Not a test of its own: the process that gets killed. It prints what the server acknowledged.
#[test]
fn child() {
    let Ok(directory) = std::env::var(CHILD) else {
        return;
    };
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let server = Server::start(Config {
            state_dir: directory.into(),
            ..Config::default()
        })
        .await
        .unwrap();
        let client = server.client("default");
        let round = std::env::var("C5C3_KILL_ROUND").unwrap();
        let (_, list) = get(&client, MAPS).await;
        println!(
            "revision {}",
            list["metadata"]["resourceVersion"].as_str().unwrap()
        );
        let mut writers = tokio::task::JoinSet::new();
        for w in 0..WRITERS {
            let (client, round) = (client.clone(), round.clone());
            writers.spawn(async move {
                for i in 0.. {
                    let name = format!("r{round}-w{w}-{i}");
                    let (code, made) =
                        post(&client, MAPS, config_map(&name, json!({"i": i.to_string()}))).await;
                    assert_eq!(code, 201, "{made}");
                    println!(
                        "wrote {name} {}",
                        made["metadata"]["resourceVersion"].as_str().unwrap()
                    );
                    if i % 3 == 2 {
                        let gone = format!("r{round}-w{w}-{}", i - 1);
                        let (code, _) = delete(&client, &format!("{MAPS}/{gone}")).await;
                        assert_eq!(code, 200);
                        println!("deleted {gone} 0");
                    }
                }
            });
        }
        while let Some(done) = writers.join_next().await {
            done.unwrap();
        }
    });
}

#[test]
fn acknowledged_writes_survive_kill_9() {
    let rounds: usize = std::env::var("C5C3_KILL_ROUNDS")
        .ok()
        .and_then(|n| n.parse().ok())
        .unwrap_or(5);
    let directory = tempfile::tempdir().unwrap();
    let mut present = std::collections::BTreeMap::new();
    let mut newest = 0u64;
    for round in 0..rounds {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "durability::child", "--nocapture"])
            .env(CHILD, directory.path())
            .env("C5C3_KILL_ROUND", round.to_string())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut written = 0;
        let mut unanswered = std::collections::BTreeSet::new();
        // Kill after a number of answers that differs from round to round; then read what is left.
        let enough = 20 + round * 7 % 60;
        while let Some(Ok(line)) = lines.next() {
            let mut parts = line.split(' ');
            match (parts.next(), parts.next(), parts.next()) {
                (Some("revision"), Some(revision), None) => {
                    let revision: u64 = revision.parse().unwrap();
                    assert!(
                        revision >= newest,
                        "revisions never go back: {revision} after {newest}"
                    );
                }
                (Some("wrote"), Some(name), Some(revision)) => {
                    newest = newest.max(revision.parse().unwrap());
                    present.insert(name.to_owned(), revision.to_owned());
                    written += 1;
                }
                (Some("deleted"), Some(name), Some(_)) => {
                    present.remove(name);
                }
                _ => {}
            }
            if written == enough {
                child.kill().unwrap();
            }
        }
        child.wait().unwrap();
        // A delete that was on its way may have happened without its answer.
        for w in 0..WRITERS {
            let prefix = format!("r{round}-w{w}-");
            let last = present
                .keys()
                .filter_map(|n| n.strip_prefix(&prefix)?.parse::<u64>().ok())
                .max();
            if let Some(last) = last.filter(|last| last % 3 == 2) {
                unanswered.insert(format!("{prefix}{}", last - 1));
            }
        }
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .unwrap();
        runtime.block_on(async {
            let config = Config {
                state_dir: directory.path().into(),
                ..Config::default()
            };
            let server = Server::start(config).await.unwrap();
            let client = server.client("default");
            let (_, list) = get(&client, MAPS).await;
            let revision: u64 = list["metadata"]["resourceVersion"]
                .as_str()
                .unwrap()
                .parse()
                .unwrap();
            assert!(revision >= newest, "round {round}: {revision} after {newest}");
            let found: std::collections::BTreeMap<String, String> = list["items"]
                .as_array()
                .unwrap()
                .iter()
                .map(|o| {
                    (
                        o["metadata"]["name"].as_str().unwrap().to_owned(),
                        o["metadata"]["resourceVersion"].as_str().unwrap().to_owned(),
                    )
                })
                .collect();
            for (name, revision) in &present {
                assert!(
                    found.get(name) == Some(revision) || unanswered.contains(name),
                    "round {round}: {name} is lost"
                );
            }
            present = found;
            // A watch from before the crash is told to start over. What the server itself wrote after its
            // start is no measure: the crash may have left something to its controllers.
            let before = newest - 1;
            newest = revision;
            let watch = |from: u64| {
                get_text(
                    &client,
                    format!("{MAPS}?watch=true&timeoutSeconds=1&resourceVersion={from}"),
                )
            };
            let told = watch(before).await;
            assert!(
                told.contains("\"code\":410"),
                "round {round}: watch from {before}, now {revision}: {told}"
            );
            server.shutdown().await;
        });
        std::thread::sleep(Duration::from_millis(5));
    }
    assert!(present.len() > rounds * 10, "{}", present.len());
}

#[tokio::test]
async fn readyz_tells_when_nothing_can_be_written() {
    let run = start().await;
    let code = async |path: &str| get(&run.client, path).await.0;
    assert_eq!((code("/readyz").await, code("/livez").await), (200, 200));
    run.server.service().0.store.close();
    assert_eq!((code("/readyz").await, code("/livez").await), (503, 200));
}

async fn get_text(client: &kube::Client, path: String) -> String {
    client
        .request_text(http::Request::get(path).body(Vec::new()).unwrap())
        .await
        .unwrap()
}
