//! The operator between two API servers. Pods are played by the test; real monitors run in the end-to-end suite.

mod gate;
mod world;

use std::time::Duration;

use c5c3_api::ceph::{RemoteArbiter, RemoteCluster};
use c5c3_api::foreign::rook::CephCluster;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::{Value, json};
use test_harness::{eventually, settles, steadily};

use gate::Gate;
use world::{KEYRING, World, condition, text};

#[tokio::test(flavor = "multi_thread")]
async fn a_monitor_joins_is_followed_and_leaves() {
    let world = World::start().await;
    world.ceph().await;
    world.arbiter("third").await;
    world
        .ready::<RemoteArbiter>("third", "False", "RemoteCluster site is missing")
        .await;
    world.remote_cluster().await;
    world
        .ready::<RemoteCluster>("site", "False", "Secret key is missing")
        .await;
    world.access_key(&world.kubeconfig(None, None)).await;
    world.ready::<RemoteCluster>("site", "True", "").await;

    // It runs, and Ready waits for the quorum.
    world.pod(false).await;
    let arbiter = world.ready::<RemoteArbiter>("third", "False", "mon.ext-a").await;
    assert_eq!(arbiter["status"]["monId"], "ext-a");
    let ceph = world.home::<CephCluster>().get("ceph").await.expect("there");
    let ids = ceph.spec.mon.clone().expect("mon").external_mon_ids;
    assert_eq!(ids, ["ext-a"]);
    world.pod(true).await;
    world.ready::<RemoteArbiter>("third", "True", "").await;
    let secret = world.away::<Secret>().get("third-mon").await.expect("there");
    let keyring = text(&secret, "keyring");
    assert!(
        keyring.contains("FIRST") && !keyring.contains("ADMIN"),
        "{keyring}"
    );

    // Nothing changed, nothing written: not at home, not over there.
    let quiet = Duration::from_secs(6);
    settles("writes", Duration::from_secs(2), async || world.writes().await).await;
    steadily("writes", quiet, async || world.writes().await).await;

    // A new map is told to the monitor and restarts nothing; a new key does.
    let deployments = world.away::<Deployment>();
    let before = deployments.get("third-mon").await.expect("there");
    world.endpoints("a=10.0.0.1:6789,c=10.0.0.3:6789").await;
    let maps = world.away::<ConfigMap>();
    eventually("the map is followed", async || {
        let data = maps.get("third-mon").await.ok()?.data?;
        data.get("mon_host")?.contains("10.0.0.3").then_some(())
    })
    .await;
    let same = deployments.get("third-mon").await.expect("there");
    assert_eq!(before.metadata.generation, same.metadata.generation);
    world.keyring(&KEYRING.replace("FIRST", "SECOND")).await;
    eventually("the key is followed", async || {
        let secret = world.away::<Secret>().get("third-mon").await.ok()?;
        let now = deployments.get("third-mon").await.ok()?;
        let new = now.metadata.generation > before.metadata.generation;
        (new && text(&secret, "keyring").contains("SECOND")).then_some(())
    })
    .await;
    world.pod(true).await;
    world.ready::<RemoteArbiter>("third", "True", "").await;

    // What somebody takes away over there comes back.
    let services = world.away::<Service>();
    let first = services.get("third-mon").await.expect("there");
    world
        .away::<ConfigMap>()
        .delete("third-mon", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("it is made anew", async || {
        maps.get_opt("third-mon").await.ok()?
    })
    .await;
    assert_eq!(services.get("third-mon").await.expect("there").uid(), first.uid());

    // Deleted: the name goes back first, and the monitor stays while it is in the quorum.
    let arbiters = world.home::<RemoteArbiter>();
    arbiters
        .delete("third", &DeleteParams::default())
        .await
        .expect("deleted");
    // Its way there is held for it.
    world
        .home::<RemoteCluster>()
        .delete("site", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("the name is free", async || {
        let ceph = world.home::<CephCluster>().get("ceph").await.ok()?;
        let free = ceph.spec.mon.is_none_or(|mon| mon.external_mon_ids.is_empty());
        (free && ceph.metadata.annotations.unwrap_or_default().is_empty()).then_some(())
    })
    .await;
    world
        .ready::<RemoteArbiter>("third", "False", "still there: Deployment arbiters/third-mon")
        .await;
    deployments.get("third-mon").await.expect("it serves still");
    world.pod(false).await;
    eventually("nothing is left", async || {
        let none = arbiters.get_opt("third").await.ok()?.is_none()
            && deployments.get_opt("third-mon").await.ok()?.is_none()
            && services.get_opt("third-mon").await.ok()?.is_none()
            && maps.get_opt("third-mon").await.ok()?.is_none()
            && world.away::<Secret>().get_opt("third-mon").await.ok()?.is_none()
            && world
                .home::<RemoteCluster>()
                .get_opt("site")
                .await
                .ok()?
                .is_none();
        none.then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn no_two_arbiters_have_one_name() {
    let world = World::start().await;
    world.ceph().await;
    world.access_key(&world.kubeconfig(None, None)).await;
    world.remote_cluster().await;
    world.ready::<RemoteCluster>("site", "True", "").await;
    let names: Vec<String> = (0..8).map(|number| format!("site-{number}")).collect();
    let all = names.iter().map(|name| world.arbiter(name));
    futures::future::join_all(all).await;
    let ids = eventually("each has a name", async || {
        let list = world
            .home::<RemoteArbiter>()
            .list(&ListParams::default())
            .await
            .ok()?;
        let ids = list.items.into_iter().map(|one| one.status?.mon_id);
        ids.collect::<Option<Vec<String>>>()
    })
    .await;
    let mut ids = ids;
    ids.sort();
    let expected: Vec<String> = ('a'..='h').map(|letter| format!("ext-{letter}")).collect();
    assert_eq!(ids, expected);
    let ceph = world.home::<CephCluster>().get("ceph").await.expect("there");
    let mut listed = ceph.spec.mon.expect("mon").external_mon_ids;
    listed.sort();
    assert_eq!(listed, expected);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_account_without_rights_is_told_what_it_lacks() {
    let world = World::start().await;
    let role: Value = json!({"apiGroups": ["", "apps"], "resources": ["deployments", "services", "configmaps", "pods"],
        "verbs": ["get", "list", "create", "patch", "delete"]});
    let rules = vec![serde_json::from_value(role).expect("a rule")];
    world.away.client_with("limited", rules).await;
    world.access_key(&world.kubeconfig(Some("limited"), None)).await;
    world.remote_cluster().await;
    let lacking = "is not allowed to get secrets, create secrets, patch secrets, delete secrets there";
    let site = world.ready::<RemoteCluster>("site", "False", lacking).await;
    let state = condition(&site, "HasEnoughPermissions").expect("told");
    assert_eq!(
        (&state["status"], &site["status"]["state"]),
        (&json!("False"), &json!("Error"))
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_blip_passes_by_itself_and_what_is_out_of_reach_is_named() {
    let world = World::start().await;
    world.ceph().await;
    // A gate before the other cluster, that opens and shuts.
    let text = world.kubeconfig(None, None);
    let config: Value = serde_json::from_str(&text).expect("JSON");
    let server = config["clusters"][0]["cluster"]["server"]
        .as_str()
        .expect("a server");
    let rest = server.strip_prefix("https://").expect("https");
    let (host, path) = rest
        .split_once('/')
        .map_or((rest, String::new()), |(h, p)| (h, format!("/{p}")));
    let gate = Gate::open(host).await;
    let by_gate = world.kubeconfig(None, Some(&format!("https://{}{path}", gate.address)));
    world.access_key(&by_gate).await;
    world.remote_cluster().await;
    world.arbiter("third").await;
    world.pod(true).await;
    world.ready::<RemoteArbiter>("third", "True", "").await;

    gate.shut.send_replace(true);
    world
        .ready::<RemoteCluster>("site", "False", "does not answer")
        .await;
    let arbiter = world.ready::<RemoteArbiter>("third", "False", "").await;
    assert_eq!(
        condition(&arbiter, "RemoteClusterReady").expect("told")["status"],
        "False"
    );
    assert_eq!(
        condition(&arbiter, "InQuorum").expect("told")["status"],
        "Unknown"
    );
    gate.shut.send_replace(false);
    world.ready::<RemoteCluster>("site", "True", "").await;
    world.ready::<RemoteArbiter>("third", "True", "").await;

    gate.shut.send_replace(true);
    let arbiters = world.home::<RemoteArbiter>();
    arbiters
        .delete("third", &DeleteParams::default())
        .await
        .expect("deleted");
    let named =
        "mon.ext-a: Deployment, Service, ConfigMap and Secret arbiters/third-mon in the other cluster";
    world.ready::<RemoteArbiter>("third", "False", named).await;
    world.pod(false).await;
    gate.shut.send_replace(false);
    eventually("it goes when it can", async || {
        let gone = arbiters.get_opt("third").await.ok()?.is_none();
        let none = world.away::<Secret>().get_opt("third-mon").await.ok()?.is_none();
        (gone && none).then_some(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_of_somebody_else_is_left_alone() {
    let world = World::start().await;
    world.ceph().await;
    world.access_key(&world.kubeconfig(None, None)).await;
    let theirs = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "third-mon"}, "stringData": {"k": "v"}});
    let theirs: Secret = serde_json::from_value(theirs).expect("a Secret");
    world
        .away::<Secret>()
        .create(&PostParams::default(), &theirs)
        .await
        .expect("made");
    world.remote_cluster().await;
    world.arbiter("third").await;
    world
        .ready::<RemoteArbiter>(
            "third",
            "False",
            "Secret arbiters/third-mon in the other cluster belongs to",
        )
        .await;
    world
        .home::<RemoteArbiter>()
        .delete("third", &DeleteParams::default())
        .await
        .expect("deleted");
    eventually("it goes", async || {
        let gone = world.home::<RemoteArbiter>().get_opt("third").await.ok()?;
        gone.is_none().then_some(())
    })
    .await;
    let left = world
        .away::<Secret>()
        .get("third-mon")
        .await
        .expect("still theirs");
    assert_eq!(text(&left, "k"), "v");
}
