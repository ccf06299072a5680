//! A Ceph monitor in another cluster: real monitors in two embedded clusters form one quorum. Neither is the first
//! cluster of the machine, as in a cloud.
//!
//! Needs root. The image is built first; that takes minutes once, then nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::arbiter::{ACCOUNT, THERE, access_key};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;
use serde_json::Value;

const NAMESPACE: &str = "rook-ceph";
/// kubectl's words for the place of Ceph, which is not the first cluster of the machine.
const HERE: [&str; 4] = ["--context", "storage", "-n", NAMESPACE];

const CEPH: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: rook-ceph}
---
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: storage, namespace: rook-ceph}
spec:
  mon: {count: 3, allowMultiplePerNode: true}
  mgr: {count: 1}
  network: {multiClusterService: {enabled: true, clusterID: storage}}
"#;

const ARBITER: &str = r#"
apiVersion: ceph.c5c3.io/v1alpha1
kind: RemoteCluster
metadata: {name: arbiter-site, namespace: rook-ceph}
spec:
  namespace: external-arbiter
  accesskeyRef: {name: arbiter-kubeconfig}
  checkInterval: 20s
---
apiVersion: ceph.c5c3.io/v1alpha1
kind: RemoteArbiter
metadata: {name: third, namespace: rook-ceph}
spec:
  remoteCluster: {name: arbiter-site}
  cephCluster: {name: storage}
  checkInterval: 10s
  service: {type: LoadBalancer}
  deployment: {resources: {requests: {memory: 128Mi}}}
"#;

fn until<T>(seconds: u64, what: &str, attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    until_ok(what, Duration::from_secs(seconds), attempt)
}

struct Site(Cloud);

impl Site {
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(&[&HERE[..], arguments].concat(), "")
    }

    fn apply(&self, place: &[&str], objects: &str) -> anyhow::Result<()> {
        let words = [place, &["apply", "-f", "-"]].concat();
        self.0.kubectl(&words, objects).map(drop)
    }

    /// The names of the monitors in the quorum, as the first of them tells it.
    fn quorum(&self) -> anyhow::Result<Vec<String>> {
        let script = "ceph --mon-host \"$ROOK_CEPH_MON_HOST\" --keyring /etc/ceph-keyring/keyring \
            --connect-timeout 10 quorum_status -f json";
        let exec = ["exec", "deploy/rook-ceph-mon-a", "--", "sh", "-c", script];
        let status: Value = serde_json::from_str(&self.kubectl(&exec)?)?;
        let names = status["quorum_names"].as_array().context("names")?;
        Ok(names
            .iter()
            .filter_map(|name| name.as_str().map(str::to_owned))
            .collect())
    }

    fn in_quorum(&self, names: &[&str]) -> anyhow::Result<()> {
        let mut quorum = self.quorum()?;
        quorum.sort();
        ensure!(quorum == names, "{quorum:?}");
        Ok(())
    }

    fn ready(&self, object: &str, seconds: u64) -> anyhow::Result<()> {
        let limit = format!("--timeout={seconds}s");
        let waited = self.kubectl(&["wait", "--for=condition=Ready", object, &limit]);
        waited.map(drop).or_else(|error| {
            let state = self.kubectl(&["get", object, "-o", "yaml"])?;
            let pods = self
                .0
                .kubectl(&[&THERE[..], &["get", "pods", "-o", "yaml"]].concat(), "")?;
            let logs = [&THERE[..], &["logs", "deploy/third-mon", "--tail=40"]].concat();
            let logs = self.0.kubectl(&logs, "").unwrap_or_default();
            Err(error.context(format!("{state}\n{pods}\n{logs}")))
        })
    }

    /// The only pod over there.
    fn pod(&self) -> anyhow::Result<String> {
        let names = ["get", "pods", "-o", "jsonpath={.items[*].metadata.name}"];
        let names = self.0.kubectl(&[&THERE[..], &names].concat(), "")?;
        let mut names = names.split_whitespace();
        let name = names.next().context("no pod")?.to_owned();
        ensure!(names.next().is_none(), "several pods");
        Ok(name)
    }

    fn ids(&self) -> anyhow::Result<String> {
        self.kubectl(&[
            "get",
            "cephcluster/storage",
            "-o",
            "jsonpath={.spec.mon.externalMonIDs[*]}",
        ])
    }
}

const ALL: [&str; 4] = ["a", "b", "c", "ext-a"];

#[test]
#[ignore = "takes minutes: `make soak` runs it"]
fn an_arbiter_joins_is_killed_is_replaced_and_leaves() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    cloud.c5c3(&["image", "build", "ceph"])?;
    cloud.c5c3_here(
        "up",
        &[
            "--profile",
            "none",
            "--cluster",
            "control-plane=1",
            "--cluster",
            "storage=1",
            "--cluster",
            "arbiter=1",
        ],
    )?;
    let site = Site(cloud);
    let start = Instant::now();
    let told = |what: &str, since: Instant| println!("{what} after {:.1} s", since.elapsed().as_secs_f32());
    site.apply(&HERE[..2], CEPH)?;
    site.apply(&["--context", "arbiter"], ACCOUNT)?;
    site.apply(&HERE[..2], ARBITER)?;
    access_key(&site.0, &HERE[..2], NAMESPACE)?;
    site.ready("remotecluster/arbiter-site", 60)?;
    site.kubectl(&[
        "wait",
        "--for=jsonpath={.status.phase}=Ready",
        "cephcluster/storage",
        "--timeout=180s",
    ])?;
    told("three monitors and a manager", start);

    let joining = Instant::now();
    site.ready("remotearbiter/third", 120)?;
    told("the arbiter is in the quorum", joining);
    site.in_quorum(&ALL)?;
    ensure!(site.ids()? == "ext-a");
    until(90, "Rook tells its address", || {
        let endpoints = [
            "get",
            "configmap/rook-ceph-mon-endpoints",
            "-o",
            "jsonpath={.data.data}",
        ];
        let endpoints = site.kubectl(&endpoints)?;
        let address = [
            "get",
            "service/third-mon",
            "-o",
            "jsonpath={.status.loadBalancer.ingress[0].ip}",
        ];
        let address = site.0.kubectl(&[&THERE[..], &address].concat(), "")?;
        ensure!(
            endpoints.contains(&format!("ext-a={address}:6789")),
            "{endpoints}, {address}"
        );
        Ok(())
    })?;
    let keys = ["get", "secret/third-mon", "-o", "jsonpath={.data.keyring}"];
    let keys = site.0.kubectl(&[&THERE[..], &keys].concat(), "")?;
    let admin = [
        "get",
        "secret/rook-ceph-admin-keyring",
        "-o",
        "jsonpath={.data.keyring}",
    ];
    ensure!(!keys.is_empty() && keys != site.kubectl(&admin)?);

    quiet(&site)?;
    killed(&site)?;
    replaced(&site)?;

    let leaving = Instant::now();
    site.kubectl(&["delete", "remotearbiter/third", "--timeout=120s"])?;
    told("the arbiter left", leaving);
    until(60, "the others are among themselves", || {
        site.in_quorum(&["a", "b", "c"])
    })?;
    ensure!(site.ids()?.is_empty());
    let left = [&THERE[..], &["get", "deployments,services,secrets", "-o", "name"]].concat();
    let left = site.0.kubectl(&left, "")?;
    ensure!(!left.contains("third-mon"), "{left}");
    site.kubectl(&["delete", "remotecluster/arbiter-site", "--timeout=30s"])?;
    told("all of it", start);
    Ok(())
}

fn quiet(site: &Site) -> anyhow::Result<()> {
    let of = ["ceph", "secrets", "deployments", "configmaps", "services"];
    until(90, "nothing is written for twelve seconds", || {
        let before = site.0.writes(&of)?;
        std::thread::sleep(Duration::from_secs(12));
        site.0.nothing_written_since(&before, &of)
    })
}

/// A crash: the others go on, it comes back, and meanwhile nobody says that it is there.
fn killed(site: &Site) -> anyhow::Result<()> {
    let start = Instant::now();
    let pod = site.pod()?;
    site.0.kill_programs(&THERE, &[&pod], "ceph-mon")?;
    until(60, "the others have a quorum", || site.quorum().map(drop))?;
    until(60, "it is back", || site.in_quorum(&ALL))?;
    site.ready("remotearbiter/third", 60)?;
    println!(
        "killed: in the quorum after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    Ok(())
}

/// A new pod has an empty store, and gets all from the others.
fn replaced(site: &Site) -> anyhow::Result<()> {
    let start = Instant::now();
    let pod = site.pod()?;
    site.0
        .kubectl(&[&THERE[..], &["delete", "pod", &pod]].concat(), "")?;
    until(60, "the others miss it or have the next one", || {
        site.quorum().map(drop)
    })?;
    until(90, "another has its place", || {
        ensure!(site.pod()? != pod, "it is the same pod");
        site.in_quorum(&ALL)
    })?;
    site.ready("remotearbiter/third", 60)?;
    println!(
        "replaced: in the quorum after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    Ok(())
}
