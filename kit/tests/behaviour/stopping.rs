//! A stop ends the loop, and cuts nothing off.

use c5c3_kit::{ClusterError, Clusters, Loop, Metrics, Stop};
use futures::stream;
use serde_json::json;
use test_harness::{TestCluster, eventually};

use crate::parade::{AWAY, Lacks, Parades, Street, World};

#[tokio::test(flavor = "multi_thread")]
async fn a_pass_under_way_is_finished() {
    let world = World::start().await;
    world
        .parade("spring", json!({"floats": [], "band": "late"}))
        .await;
    eventually("the band is on its way", async || {
        world.street.playing().contains("on its way").then_some(())
    })
    .await;
    let street = world.street.clone();
    assert!(!street.playing().contains("late"));
    world.stop().await;
    assert!(street.playing().contains("late"));
}

#[tokio::test(flavor = "multi_thread")]
async fn it_ends_even_where_its_kind_was_never_listed() {
    let world = World::lacking(Lacks {
        kind: true,
        away: false,
    })
    .await;
    if !world.cluster.is_embedded() {
        // On a server that others use as well the kind is there.
        return world.stop().await;
    }
    eventually("the watch has failed", async || {
        let text = world.metrics.render();
        text.contains("watch_errors_total{controller=\"parade\",kind=\"Parade\"}")
            .then_some(())
    })
    .await;
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watch_that_panics_ends_it_with_an_error() {
    let cluster = TestCluster::start().await;
    let clusters = Clusters::of(cluster.client()).with(AWAY, cluster.client());
    let controller = Parades {
        street: Street::default(),
    };
    let parade = Loop::new(controller, clusters, Metrics::default());
    let parade = parade.triggered_by(stream::poll_fn(|_| panic!("no news from here any more")));
    let (_never, stop) = Stop::channel();
    let ended = tokio::time::timeout(std::time::Duration::from_secs(60), parade.run(stop)).await;
    let ended = ended.expect("not blind for ever");
    assert!(
        matches!(ended, Err(ClusterError::Watch { controller: "parade" })),
        "{ended:?}"
    );
}
