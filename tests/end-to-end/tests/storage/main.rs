//! Ceph as the stand-in for Rook runs it: real daemons, killed and stopped, and what they store compared by checksum.
//!
//! Needs root. The image is built first; that takes minutes once, then nothing.

mod prysm;
mod s3;
mod subscriber;
mod webhook;
mod world;

use std::time::{Duration, Instant};

use anyhow::ensure;
use end_to_end::cloud::Cloud;
use serde_json::Value;

use world::{NAMESPACE, Storage, patient, quickstart, until};

const GREEDY: &str = r#"
apiVersion: ceph.rook.io/v1
kind: CephClient
metadata: {name: greedy, namespace: rook-ceph}
spec: {caps: {mon: ""}}
"#;

/// A guest of the cluster: it has the files of Cinder, as Cinder has them.
const GUEST: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: openstack}
spec:
  securityContext: {runAsUser: 42464, runAsGroup: 42464, fsGroup: 42464}
  volumes:
    - name: ceph
      secret: {secretName: ceph-cinder, defaultMode: 0440, items: [{key: ceph.conf, path: ceph.conf}, {key: keyring, path: ceph.client.cinder.keyring}]}
    - {name: tmp, emptyDir: {}}
  containers:
    - name: guest
      image: ghcr.io/c5c3/ceph:18.2
      command: [sleep, "86400"]
      env: [{name: CEPH_ARGS, value: "--id=cinder --rados-osd-op-timeout=60 --rados-mon-op-timeout=60"}]
      volumeMounts: [{name: ceph, mountPath: /etc/ceph}, {name: tmp, mountPath: /tmp}]
"#;

const WRITE: &str = "head -c 20000000 /dev/urandom > /tmp/data; rados -p volumes put data /tmp/data; \
    rbd create volumes/disk --size 64M; rbd bench --io-type write --io-total 8M --io-size 64K volumes/disk >/dev/null";
/// Sums of an object and of a disk.
const READ: &str =
    "rados -p volumes get data - | sha256sum; rbd export --no-progress volumes/disk - | sha256sum";

#[test]
fn ceph_with_its_pools_users_and_objects() -> anyhow::Result<()> {
    let storage = Storage(Cloud::up(&["ceph", "c5c3"])?);
    let start = Instant::now();
    storage.apply(&quickstart()?)?;
    storage.apply(GREEDY)?;
    storage.wait("cephcluster/storage", 120)?;
    println!("CephCluster Ready after {:.1} s", start.elapsed().as_secs_f32());
    as_rook_tells_it(&storage)?;

    for object in [
        "cephblockpool/volumes",
        "cephblockpool/images",
        "cephclient/cinder",
    ] {
        storage.wait(object, 60)?;
    }
    println!("pools and users after {:.1} s", start.elapsed().as_secs_f32());
    // Before the gateway is there: the webhook changes its Deployment as it is made.
    let webhook = webhook::Webhook::start(&storage)?;
    storage.apply(s3::OBJECTS)?;
    wrong_users(&storage)?;

    storage.apply(GUEST)?;
    let wait = [
        "-n",
        "openstack",
        "wait",
        "--for=condition=Ready",
        "pod/guest",
        &format!("--timeout={}s", patient(120)),
    ];
    storage.0.kubectl(&wait, "")?;
    println!(
        "keys in the other namespace after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    storage.guest(WRITE)?;
    let written = storage.guest(READ)?;
    let sent = storage.guest("sha256sum < /tmp/data")?;
    ensure!(written.starts_with(&sent), "{sent}\n{written}");
    rights(&storage)?;
    until(90, "all placement groups are clean", || storage.all_up())?;
    s3::ready(&storage)?;
    prysm::watches_the_gateway(&storage)?;
    webhook.end(&storage)?;
    println!(
        "Prysm has seen it all after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    kills(&storage, &written)?;
    down_and_up(&storage, &written)?;
    println!("all of it after {:.1} s", start.elapsed().as_secs_f32());
    nothing_more_is_written(&storage)?;
    gone(&storage)
}

fn as_rook_tells_it(storage: &Storage) -> anyhow::Result<()> {
    let cluster: Value =
        serde_json::from_str(&storage.kubectl(&["get", "cephcluster", "storage", "-o", "json"])?)?;
    let status = &cluster["status"];
    ensure!(status["state"] == "Created", "{status:#}");
    ensure!(
        status["ceph"]["health"]
            .as_str()
            .is_some_and(|health| health.starts_with("HEALTH_")),
        "{status:#}"
    );
    ensure!(
        status["storage"]["osd"]["storeType"]["bluestore"] == 2,
        "{status:#}"
    );
    let fsid = storage.ceph("fsid")?;
    ensure!(status["ceph"]["fsid"] == fsid["fsid"], "{fsid}");
    let endpoints = storage.field("configmap/rook-ceph-mon-endpoints", ".data.data")?;
    let address = storage.field("service/rook-ceph-mon-a", ".spec.clusterIP")?;
    ensure!(endpoints == format!("a={address}:6789"), "{endpoints}");
    for selector in [
        "app=rook-ceph-mon,mon=a",
        "app=rook-ceph-mgr,mgr=a",
        "app=rook-ceph-osd,ceph-osd-id=1",
    ] {
        storage.pod(selector)?;
    }
    let modules = storage.ceph("mgr module ls")?;
    let enabled = modules["enabled_modules"].to_string();
    ensure!(enabled.contains("prometheus"), "{enabled}");
    Ok(())
}

/// A user without rights to name stays out, and says why.
fn wrong_users(storage: &Storage) -> anyhow::Result<()> {
    ensure!(storage.field("cephclient/greedy", ".status.phase")? == "Failure");
    let said = storage.field("cephclient/greedy", ".status.conditions[*].message")?;
    ensure!(said.contains("spec.caps"), "{said}");
    Ok(())
}

/// What the key opens, and what it does not.
fn rights(storage: &Storage) -> anyhow::Result<()> {
    let said = storage.refused("rados -p images put stolen /tmp/data")?;
    ensure!(said.contains("not permitted"), "{said}");
    let said = storage.refused("ceph-authtool --gen-print-key > /tmp/wrong; rados --keyring /dev/null --keyfile /tmp/wrong -p volumes ls")?;
    ensure!(said.contains("auth_bad_method"), "{said}");
    Ok(())
}

/// Every daemon is killed in turn, then a pod is taken away: what was stored is there each time.
fn kills(storage: &Storage, written: &str) -> anyhow::Result<()> {
    for (selector, program) in [
        ("app=rook-ceph-mon", "ceph-mon"),
        ("app=rook-ceph-mgr", "ceph-mgr"),
        ("app=rook-ceph-osd,ceph-osd-id=0", "ceph-osd"),
        ("app=rook-ceph-osd,ceph-osd-id=1", "ceph-osd"),
    ] {
        let start = Instant::now();
        let pod = storage.pod(selector)?;
        storage.0.kill_containers(NAMESPACE, &[&pod], program)?;
        until(60, "data is there again", || storage.same(written))?;
        println!(
            "{program} killed: data read after {:.1} s",
            start.elapsed().as_secs_f32()
        );
        until(90, "all is up again", || storage.all_up())?;
    }
    // `make soak` has time for more.
    if std::env::var_os("C5C3_DRILLS").is_some() {
        explained(storage)?;
    }
    let pod = storage.pod("app=rook-ceph-osd,ceph-osd-id=0")?;
    storage.kubectl(&["delete", "pod", &pod, "--wait=true"])?;
    storage.guest("echo more > /tmp/more; rados -p volumes put more /tmp/more")?;
    until(90, "the OSD is up again", || storage.all_up())?;
    storage.same(written)?;
    // Both at once: nobody is left to serve, and nothing is lost.
    let pods = [
        storage.pod("app=rook-ceph-osd,ceph-osd-id=0")?,
        storage.pod("app=rook-ceph-osd,ceph-osd-id=1")?,
    ];
    storage
        .0
        .kill_containers(NAMESPACE, &[&pods[0], &pods[1]], "ceph-osd")?;
    until(90, "both OSDs are up again", || storage.all_up())?;
    storage.same(written)?;
    storage.wait("cephcluster/storage", 60)
}

/// An OSD that cannot run is named as what blocks.
fn explained(storage: &Storage) -> anyhow::Result<()> {
    let node = storage.kubectl(&["get", "nodes", "-o", "jsonpath={.items[0].metadata.name}"])?;
    storage.kubectl(&["cordon", &node])?;
    let pod = storage.pod("app=rook-ceph-osd,ceph-osd-id=1")?;
    storage.kubectl(&["delete", "pod", &pod, "--wait=true"])?;
    let told = until(90, "explain names the OSD", || {
        let (code, said, complaint) = storage.0.tried("explain", &[])?;
        ensure!(
            code == 4 && said.contains("osd.1 on"),
            "{code}: {said}{complaint}"
        );
        Ok(said)
    })?;
    ensure!(
        told.contains("CephCluster storage") && told.contains("-l app=rook-ceph-osd"),
        "{told}"
    );
    storage.kubectl(&["uncordon", &node])?;
    until(120, "the OSD is up again", || storage.all_up())
}

/// All daemons stop and start together: the first ones meet nobody.
fn down_and_up(storage: &Storage, written: &str) -> anyhow::Result<()> {
    storage.0.c5c3_here("down", &[])?;
    let start = Instant::now();
    storage.0.start()?;
    until(120, "data is there again", || storage.same(written))?;
    println!(
        "data read {:.1} s after a new start",
        start.elapsed().as_secs_f32()
    );
    until(90, "all is up again", || storage.all_up())
}

fn nothing_more_is_written(storage: &Storage) -> anyhow::Result<()> {
    let of = ["ceph", "secrets", "deployments", "configmaps"];
    until(60, "nothing is written for five seconds", || {
        let before = storage.0.writes(&of)?;
        std::thread::sleep(Duration::from_secs(5));
        storage.0.nothing_written_since(&before, &of)
    })
}

/// A pool with a disk in it stays; without one it goes, and so does a user.
fn gone(storage: &Storage) -> anyhow::Result<()> {
    storage.kubectl(&[
        "delete",
        "cephclient/greedy",
        "cephblockpool/images",
        &format!("--timeout={}s", patient(60)),
    ])?;
    storage.kubectl(&["delete", "cephblockpool/volumes", "--wait=false"])?;
    until(30, "what is left is named", || {
        let said = storage.field("cephblockpool/volumes", ".status.conditions[*].message")?;
        ensure!(said.contains("disk disk"), "{said}");
        Ok(())
    })?;
    storage.guest("rbd rm --no-progress volumes/disk")?;
    storage.kubectl(&[
        "wait",
        "--for=delete",
        "cephblockpool/volumes",
        &format!("--timeout={}s", patient(60)),
    ])?;
    storage.kubectl(&[
        "delete",
        "cephclient/cinder",
        &format!("--timeout={}s", patient(60)),
    ])?;
    let users = storage.ceph("auth ls")?.to_string();
    ensure!(!users.contains("client.cinder"), "{users}");
    Ok(())
}
