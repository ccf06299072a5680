//! A hundred arbiters between two API servers: how long until all are Ready, and that nothing is written then.

// Of the world of the tests only a part is needed.
#[allow(dead_code)]
#[path = "../tests/behaviour/world.rs"]
mod world;

use std::time::{Duration, Instant};

use c5c3_api::ceph::{RemoteArbiter, RemoteCluster};
use futures::StreamExt;
use kube::api::ListParams;
use test_harness::settles;
use world::{World, condition};

const ARBITERS: usize = 100;
/// Each looks at its monitor four times meanwhile.
const IDLE: Duration = Duration::from_secs(20);

#[tokio::main]
async fn main() {
    let world = World::start().await;
    world.ceph().await;
    world.access_key(&world.kubeconfig(None, None)).await;
    world.remote_cluster().await;
    world.ready::<RemoteCluster>("site", "True", "").await;
    let start = Instant::now();
    // A prefix has names for 26.
    let names: Vec<(String, String)> = (0..ARBITERS)
        .map(|number| (format!("site-{number}"), format!("p{}-", number / 25)))
        .collect();
    futures::stream::iter(&names)
        .for_each_concurrent(8, async |(name, prefix)| world.arbiter_with(name, prefix).await)
        .await;
    futures::stream::iter(&names)
        .for_each_concurrent(8, async |(name, _)| world.pod_of(name, true).await)
        .await;
    // Whoever plays the pods is part of this time.
    let deadline = Instant::now() + Duration::from_secs(300);
    loop {
        let list = world.home::<RemoteArbiter>().list(&ListParams::default()).await;
        let list = list.expect("a list");
        let ready = list.items.iter().filter(|one| {
            let object = serde_json::to_value(one).unwrap_or_default();
            condition(&object, "Ready").is_some_and(|ready| ready["status"] == "True")
        });
        let ready = ready.count();
        if ready == ARBITERS {
            break;
        }
        assert!(Instant::now() < deadline, "{ready} of {ARBITERS} are Ready");
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    println!(
        "{ARBITERS} RemoteArbiters are Ready after {:.1} s",
        start.elapsed().as_secs_f64()
    );
    settles("what is written", Duration::from_secs(2), async || {
        world.writes().await
    })
    .await;
    let before = world.writes().await;
    tokio::time::sleep(IDLE).await;
    assert_eq!(world.writes().await, before, "written while nothing changed");
    println!(
        "0 writes in either cluster in the {} s after that",
        IDLE.as_secs()
    );
}
