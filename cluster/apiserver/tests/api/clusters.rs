use apiserver::{Config, Server};
use serde_json::json;

use crate::support::*;

#[tokio::test]
async fn logical_clusters_do_not_see_each_other() {
    let run = start_with(|config| Config {
        clusters: vec!["default".into(), "storage".into()],
        ..config
    })
    .await;
    let (a, b) = (run.client.clone(), run.server.client("storage"));
    assert_eq!(post(&a, MAPS, config_map("only-a", json!({}))).await.0, 201);
    assert_eq!(get(&b, &format!("{MAPS}/only-a")).await.0, 404);
    assert_eq!(post(&b, CRDS, example_crd()).await.0, 201);
    assert_eq!((get(&a, EXAMPLES).await.0, get(&b, EXAMPLES).await.0), (404, 200));
    assert_eq!(get(&a, "/version").await.0, 200);
}

#[tokio::test]
async fn bad_configurations_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let good = Config {
        state_dir: directory.path().into(),
        ..Config::default()
    };
    for (config, part) in [
        (Config::default(), "state_dir"),
        (
            Config {
                clusters: vec![],
                ..good.clone()
            },
            "clusters",
        ),
        (
            Config {
                clusters: vec!["A b".into()],
                ..good.clone()
            },
            "clusters[0]",
        ),
        (
            Config {
                clusters: vec!["a".into(), "a".into()],
                ..good.clone()
            },
            "twice",
        ),
    ] {
        let error = Server::start(config).await.err().unwrap().to_string();
        assert!(error.contains(part), "{error}");
    }
    let first = Server::start(good.clone()).await.unwrap();
    let error = Server::start(good.clone()).await.err().unwrap().to_string();
    assert!(error.contains("another process has this store open"), "{error}");
    first.shutdown().await;
    Server::start(good).await.unwrap().shutdown().await;
}
