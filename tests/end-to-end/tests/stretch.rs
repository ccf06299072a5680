//! Ceph over two sites with an arbiter in a third: a site is lost while a client writes, and comes back; then the arbiter is
//! lost. Nothing that was acknowledged is lost.
//!
//! Two monitors and two disks are in each site. An administrator turns Ceph's stretch mode on: Rook takes an arbiter in another
//! cluster only for a cluster that is not its own kind of stretched. Needs root and takes minutes.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::arbiter::{ACCOUNT, THERE, access_key};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use end_to_end::tools::tool;
use serde_json::Value;
use tempfile::NamedTempFile;

const NAMESPACE: &str = "rook-ceph";
const HERE: [&str; 4] = ["--context", "storage", "-n", NAMESPACE];
const PATIENCE: Duration = Duration::from_secs(300);
const ZONE: &str = "topology.kubernetes.io/zone";
const SITES: [&str; 2] = ["site-1", "site-2"];
/// The least that has to be written after each blow.
const MORE: usize = 50;
/// Objects that are written in turn.
const SLOTS: usize = 512;

const CEPH: &str = r#"
apiVersion: v1
kind: Namespace
metadata: {name: rook-ceph}
---
apiVersion: ceph.rook.io/v1
kind: CephCluster
metadata: {name: storage, namespace: rook-ceph}
spec:
  mon: {count: 4, failureDomainLabel: topology.kubernetes.io/zone}
  mgr: {count: 2}
  network: {provider: host}
  storage:
    storageClassDeviceSets: [SETS]
---
apiVersion: ceph.rook.io/v1
kind: CephBlockPool
metadata: {name: drill, namespace: rook-ceph}
spec:
  failureDomain: host
  replicated: {size: 4}
---
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
"#;

const SET: &str = r#"{name: "SITE", count: 2, portable: true,
  placement: {nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [
    {matchExpressions: [{key: topology.kubernetes.io/zone, operator: In, values: ["SITE"]}]}]}}},
  volumeClaimTemplates: [{metadata: {name: data}, spec: {volumeMode: Block, accessModes: [ReadWriteOnce], resources: {requests: {storage: 4Gi}}}}]}"#;

/// Two copies in each site.
const RULE: &str =
    "ceph osd getcrushmap -o /tmp/map && crushtool -d /tmp/map -o /tmp/text && cat >> /tmp/text <<'E'
rule stretched {
    id 77
    type replicated
    step take default
    step choose firstn 0 type zone
    step chooseleaf firstn 2 type host
    step emit
}
E
crushtool -c /tmp/text -o /tmp/map && ceph osd setcrushmap -i /tmp/map";

/// How a program in a monitor's pod reaches Ceph.
const CONNECTED: &str = r#"
import os, rados, time
settings = {"mon_host": os.environ["ROOK_CEPH_MON_HOST"], "keyring": "/etc/ceph-keyring/keyring", "log_to_stderr": "false", "log_file": ""}
cluster = rados.Rados(name="client.admin", conf=settings)
cluster.connect()
pool = cluster.open_ioctx("drill")
"#;
/// Says the number of each block, and when, once it is written.
const WRITES: &str = r#"
number = 0
while True:
    pool.write_full(f"block-{number % 512}", (f"{number:015d}\n" * 256).encode())
    print(number, time.monotonic(), flush=True)
    number += 1
    time.sleep(0.05)
"#;
/// Says what each block consists of: one number, where it is whole.
const READS: &str = r#"
for slot in range(512):
    try:
        text = pool.read(f"block-{slot}", 1 << 16).decode()
    except rados.ObjectNotFound:
        continue
    print(slot, len(text), *sorted(set(text.split())))
"#;

struct Drill(Cloud);

impl Drill {
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(&[&HERE[..], arguments].concat(), "")
    }

    fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let said = self.kubectl(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&said).with_context(|| said.clone())
    }

    fn apply(&self, context: &str, objects: &str) -> anyhow::Result<()> {
        let apply = ["--context", context, "apply", "-f", "-"];
        self.0.kubectl(&apply, objects).map(drop)
    }

    fn nodes(&self, context: &str) -> anyhow::Result<Vec<String>> {
        let names = "jsonpath={.items[*].metadata.name}";
        let words = ["--context", context, "get", "nodes", "-o", names];
        let names = self.0.kubectl(&words, "")?;
        let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
        names.sort();
        Ok(names)
    }

    /// Monitors with their pods and nodes.
    fn monitors(&self) -> anyhow::Result<Vec<[String; 3]>> {
        let pods = self.json(&["get", "pods", "-l", "app=rook-ceph-mon"])?;
        let pods = pods["items"].as_array().context("a list")?.iter();
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        Ok(pods
            .map(|pod| {
                let metadata = &pod["metadata"];
                [
                    text(&metadata["labels"]["mon"]),
                    text(&metadata["name"]),
                    text(&pod["spec"]["nodeName"]),
                ]
            })
            .collect())
    }

    /// A shell beside this monitor, whose `ceph` is the administrator's.
    fn shell(&self, pod: &str, script: &str) -> anyhow::Result<String> {
        let ceph = "ceph() { command ceph --mon-host \"$ROOK_CEPH_MON_HOST\" --keyring /etc/ceph-keyring/keyring \
            --connect-timeout 20 \"$@\"; }";
        let script = format!("{ceph}\n{script}");
        self.kubectl(&["exec", pod, "--", "sh", "-ec", &script])
    }

    fn ready(&self, object: &str) -> anyhow::Result<()> {
        let wait = match object.split('/').next() {
            Some("cephcluster" | "cephblockpool") => "--for=jsonpath={.status.phase}=Ready",
            _ => "--for=condition=Ready",
        };
        self.kubectl(&["wait", wait, object, "--timeout=300s"]).map(drop)
    }

    /// All groups are active and clean, and so many monitors are in the quorum.
    fn whole(&self, pod: &str, monitors: usize) -> anyhow::Result<()> {
        until_ok("Ceph is whole", 2 * PATIENCE, || {
            let status: Value = serde_json::from_str(&self.shell(pod, "ceph status -f json")?)?;
            let states = status["pgmap"]["pgs_by_state"].as_array().context("groups")?;
            let is_clean = |state: &Value| {
                let name = state["state_name"].as_str();
                name.is_some_and(|name| name.starts_with("active+clean"))
            };
            let quorum = status["quorum_names"].as_array().map_or(0, Vec::len);
            let clean = states.iter().all(is_clean);
            ensure!(clean && quorum == monitors, "{quorum} monitors, {states:?}");
            Ok(())
        })
    }

    fn program(&self, pod: &str, script: &str) -> anyhow::Result<Command> {
        let mut command = Command::new(tool("kubectl")?);
        let script = format!("{CONNECTED}{script}");
        command
            .args([&HERE[..], &["exec", pod, "--", "python3", "-c", &script]].concat())
            .env("KUBECONFIG", self.0.state().join("api/kubeconfig"));
        Ok(command)
    }
}

/// A client in the site that survives.
struct Writer {
    child: Child,
    said: NamedTempFile,
}

impl Writer {
    fn start(drill: &Drill, pod: &str) -> anyhow::Result<Self> {
        let said = NamedTempFile::new()?;
        let mut command = drill.program(pod, WRITES)?;
        let child = command
            .stdin(Stdio::null())
            .stdout(said.reopen()?)
            .stderr(Stdio::null())
            .spawn()?;
        let writer = Writer { child, said };
        writer.goes_on("at the beginning")?;
        Ok(writer)
    }

    /// Numbers of blocks, and when each was written, in seconds.
    fn written(&self) -> anyhow::Result<Vec<(usize, f64)>> {
        let said = std::fs::read_to_string(self.said.path())?;
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        let read = |line: &str| {
            let (number, at) = line.split_once(' ')?;
            Some((number.parse().ok()?, at.parse().ok()?))
        };
        Ok(whole.lines().filter_map(read).collect())
    }

    /// Waits for more blocks, and says the longest time between two of them.
    fn goes_on(&self, when: &str) -> anyhow::Result<()> {
        let before = self.written()?.len();
        until(&format!("{MORE} more blocks {when}"), PATIENCE, || {
            let more = self.written()?.len() - before;
            Ok(if more >= MORE {
                Ok(())
            } else {
                Err(format!("{more} so far"))
            })
        })?;
        let written = self.written()?;
        let since = &written[before.saturating_sub(1)..];
        let gap = since
            .windows(2)
            .map(|two| two[1].1 - two[0].1)
            .fold(0.0, f64::max);
        println!(
            "{when}: {} blocks, the longest time between two {gap:.1} s",
            since.len()
        );
        Ok(())
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
#[ignore = "takes minutes: `make soak` runs it"]
fn a_site_is_lost_and_nothing_that_was_written() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    cloud.c5c3(&["image", "build", "ceph"])?;
    let clusters = ["control-plane=1", "storage=4", "arbiter=1"].map(|one| ["--cluster", one]);
    cloud.c5c3_here("up", &[&["--profile", "none"][..], &clusters.concat()].concat())?;
    let drill = Drill(cloud);
    let nodes = drill.nodes("storage")?;
    ensure!(nodes.len() == 4, "{nodes:?}");
    for (number, node) in nodes.iter().enumerate() {
        let label = format!("{ZONE}={}", SITES[number / 2]);
        drill.kubectl(&["label", "node", node, &label, "--overwrite"])?;
    }
    stretched(&drill, &nodes)?;
    let monitors = drill.monitors()?;
    let [_, beside, _] = monitors
        .iter()
        .find(|[_, _, node]| nodes[2..].contains(node))
        .context("a monitor of the second site")?;

    let writer = Writer::start(&drill, beside)?;
    let lost = Instant::now();
    for node in &nodes[..2] {
        drill.0.c5c3_here("node kill", &[node])?;
    }
    writer.goes_on("a site is lost")?;
    println!("written again {:.1?} after it was killed", lost.elapsed());
    for node in &nodes[..2] {
        drill.0.c5c3_here("node start", &[node])?;
    }
    writer.goes_on("the site comes back")?;
    drill.whole(beside, 5)?;
    println!("whole again {:.1?} after it was killed", lost.elapsed());

    arbiter_is_lost(&drill, &writer, beside)?;
    let acknowledged: Vec<usize> = writer.written()?.into_iter().map(|(number, _)| number).collect();
    drop(writer);
    let mut reader = drill.program(beside, READS)?;
    let output = reader.stdin(Stdio::null()).output()?;
    ensure!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let wrong = differences(&String::from_utf8_lossy(&output.stdout), &acknowledged);
    ensure!(wrong.is_empty(), "{}", wrong.join("; "));
    println!("{} acknowledged blocks are there", acknowledged.len());
    Ok(())
}

/// Makes Ceph over both sites, and turns its stretch mode on.
fn stretched(drill: &Drill, nodes: &[String]) -> anyhow::Result<()> {
    let sets = SITES.map(|site| SET.replace("SITE", site)).join(", ");
    drill.apply("storage", &CEPH.replace("SETS", &sets))?;
    drill.apply("arbiter", ACCOUNT)?;
    access_key(&drill.0, &HERE[..2], NAMESPACE)?;
    drill.ready("cephcluster/storage")?;
    drill.ready("cephblockpool/drill")?;
    drill.ready("remotearbiter/third")?;
    let monitors = drill.monitors()?;
    let sites = monitors.iter().map(|[id, _, node]| {
        let site = nodes.iter().position(|one| one == node);
        let site = site.map(|number| SITES[number / 2]);
        anyhow::Ok((id.clone(), site.context("its site")?))
    });
    let sites: Vec<(String, &str)> = sites.collect::<anyhow::Result<_>>()?;
    for site in SITES {
        let there = sites.iter().filter(|(_, one)| *one == site).count();
        ensure!(there == 2, "monitors are not spread: {sites:?}");
    }
    let pod = &monitors[0][1];
    let mut script = "ceph mon set election_strategy connectivity\n".to_owned();
    for (id, site) in &sites {
        script.push_str(&format!("ceph mon set_location {id} zone={site}\n"));
    }
    script.push_str("ceph mon set_location ext-a zone=arbiter\n");
    script.push_str(RULE);
    script.push_str("\nceph mon enable_stretch_mode ext-a stretched zone\n");
    drill.shell(pod, &script)?;
    drill.whole(pod, 5)
}

/// Its program is killed, its pod is replaced, and its cluster is away for a while: nobody who writes notices.
fn arbiter_is_lost(drill: &Drill, writer: &Writer, beside: &str) -> anyhow::Result<()> {
    let pod = || {
        let names = ["get", "pods", "-o", "jsonpath={.items[0].metadata.name}"];
        drill.0.kubectl(&[&THERE[..], &names].concat(), "")
    };
    drill.0.kill_programs(&THERE, &[&pod()?], "ceph-mon")?;
    writer.goes_on("the arbiter is killed")?;
    drill.whole(beside, 5)?;
    drill
        .0
        .kubectl(&[&THERE[..], &["delete", "pod", &pod()?]].concat(), "")?;
    writer.goes_on("the arbiter is replaced")?;
    drill.whole(beside, 5)?;
    for node in drill.nodes("arbiter")? {
        drill.0.c5c3_here("node kill", &[&node])?;
        writer.goes_on("the arbiter's cluster is away")?;
        drill.0.c5c3_here("node start", &[&node])?;
    }
    drill.whole(beside, 5)?;
    drill.ready("remotearbiter/third")
}

/// Blocks that are torn, or hold an older number than was acknowledged. A newer one was written and not told in time.
fn differences(read: &str, acknowledged: &[usize]) -> Vec<String> {
    let mut last = vec![None; SLOTS];
    for number in acknowledged {
        last[number % SLOTS] = Some(*number);
    }
    let mut seen: Vec<Option<&str>> = vec![None; SLOTS];
    for line in read.lines() {
        let (slot, rest) = line.split_once(' ').unwrap_or_default();
        if let Ok(slot) = slot.parse::<usize>()
            && let Some(place) = seen.get_mut(slot)
        {
            *place = Some(rest);
        }
    }
    let is_good = |slot: usize, last: usize, seen: &str| {
        let number = seen.strip_prefix("4096 ");
        let number = number.and_then(|number| number.parse::<usize>().ok());
        number.is_some_and(|number| number >= last && number % SLOTS == slot)
    };
    let blocks = last.iter().zip(&seen).enumerate();
    blocks
        .filter_map(|(slot, (last, seen))| {
            let last = (*last)?;
            let good = seen.is_some_and(|seen| is_good(slot, last, seen));
            (!good).then(|| format!("block {slot} should hold {last} and is {seen:?}"))
        })
        .collect()
}

#[test]
fn what_is_lost_or_torn_is_seen() {
    let acknowledged = [0, 1, 2, 3, 512];
    let well =
        "0 4096 000000000000512\n1 4096 000000000000001\n2 4096 000000000000514\n3 4096 000000000000003\n";
    assert!(differences(well, &acknowledged).is_empty());
    for (from, to) in [
        ("000000000000512", "000000000000000"),
        ("1 4096 000000000000001", "1 4096 000000000000001 000000000000513"),
        ("3 4096 000000000000003\n", ""),
        ("3 4096", "3 4095"),
        ("000000000000514", "000000000000515"),
    ] {
        assert_eq!(
            differences(&well.replace(from, to), &acknowledged).len(),
            1,
            "{to}"
        );
    }
}
