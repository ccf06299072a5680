//! OVN as the operator runs it: real databases, switches and controllers on embedded nodes.
//!
//! Needs root. The images are built first; that takes minutes once, then nothing.

mod members;
mod tls;

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::forward::Forward;
use end_to_end::patience::until_ok;
use ovsdb_client::{Condition, Follow, Operation, Session, Way, remotes};
use serde_json::Value;

const NAMESPACE: &str = "ovn-system";
const LABEL: &str = "node-role.kubernetes.io/hypervisor";

/// The certificates of a pod.
const KEYS: &str = "-p /tls/tls.key -c /tls/tls.crt -C /tls/ca.crt";

fn until<T>(seconds: u64, what: &str, attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    until_ok(what, Duration::from_secs(seconds), attempt)
}

struct Ovn(Cloud);

impl Ovn {
    /// Three nodes, of which the last two may run guests.
    fn up() -> anyhow::Result<Self> {
        let cloud = Cloud::new()?;
        cloud.c5c3(&["image", "build", "ovs", "ovn", "c5c3"])?;
        cloud.c5c3_here("up", &["--profile", "none", "--nodes", "3", "--hypervisors", "2"])?;
        let ovn = Self(cloud);
        ovn.0.kubectl(&["create", "namespace", NAMESPACE], "")?;
        Ok(ovn)
    }

    fn apply(&self, members: u8) -> anyhow::Result<()> {
        self.apply_with(members, "{}")
    }

    fn apply_with(&self, members: u8, tls: &str) -> anyhow::Result<()> {
        let database = format!("{{replicas: {members}, storage: {{size: 1Gi}}}}");
        let agent = format!("{{nodeSelector: {{{LABEL}: \"\"}}}}");
        let object = format!(
            "apiVersion: ovn.c5c3.io/v1alpha1
kind: OVNCluster
metadata: {{name: ovn, namespace: {NAMESPACE}}}
spec:
  ovnImage: {{repository: ghcr.io/c5c3/ovn, tag: \"25.03\"}}
  ovsImage: {{repository: ghcr.io/c5c3/ovs, tag: \"3.5\"}}
  northbound: {database}
  southbound: {database}
  controller: {agent}
  ovs: {agent}
  tls: {tls}
"
        );
        self.0.kubectl(&["apply", "-f", "-"], &object).map(drop)
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(&[&["-n", NAMESPACE], arguments].concat(), "")
    }

    fn field(&self, object: &str, path: &str) -> anyhow::Result<String> {
        self.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    fn ready(&self, seconds: u64) -> anyhow::Result<()> {
        let limit = format!("--timeout={seconds}s");
        let waited = self.kubectl(&["wait", "--for=condition=Ready", "ovncluster/ovn", &limit]);
        waited.map(drop).or_else(|error| {
            let state = self.kubectl(&["get", "ovncluster", "ovn", "-o", "yaml"])?;
            let pods = self.kubectl(&["get", "pods", "-o", "wide"])?;
            Err(error.context(format!("{state}\n{pods}")))
        })
    }

    fn shell(&self, pod: &str, script: &str) -> anyhow::Result<String> {
        self.kubectl(&["exec", pod, "--", "timeout", "15", "sh", "-c", script])
    }

    /// The tool of the northbound database, at whichever member leads.
    fn northbound(&self, pod: &str, arguments: &str) -> anyhow::Result<String> {
        let at = self.field("ovncluster/ovn", ".status.endpoints.northbound")?;
        let keys = if at.starts_with("ssl:") { KEYS } else { "" };
        self.shell(
            pod,
            &format!("ovn-nbctl --timeout=10 --db={at} {keys} {arguments}"),
        )
    }

    fn switches(&self, pod: &str) -> anyhow::Result<Vec<String>> {
        let rows = self.northbound(pod, "--bare --columns=name list logical_switch")?;
        Ok(rows.split_whitespace().map(str::to_owned).collect())
    }

    /// Ids of the servers in the raft cluster, as the first of these members that answers knows them.
    fn servers(&self, pod: &str) -> anyhow::Result<Vec<String>> {
        let status = self.shell(pod, "ovs-appctl -t /run/ovn/db.ctl cluster/status OVN_Northbound")?;
        let id = |line: &str| {
            (line.contains(" at tcp:") || line.contains(" at ssl:"))
                .then(|| line.split_whitespace().next().map(str::to_owned))?
        };
        Ok(status.lines().filter_map(id).collect())
    }

    fn roles(&self) -> anyhow::Result<Vec<String>> {
        let roles = self.field("ovncluster/ovn", ".status.northboundMembers[*].role")?;
        let mut roles: Vec<String> = roles.split_whitespace().map(str::to_owned).collect();
        roles.sort();
        Ok(roles)
    }

    fn label_hypervisors(&self) -> anyhow::Result<()> {
        for n in [2, 3] {
            let (node, address) = (
                format!("node-{n}"),
                format!("ovn.c5c3.io/tunnel-address=10.193.0.{n}"),
            );
            let label = [
                "label",
                "--overwrite",
                "node",
                &node,
                "ovn.c5c3.io/uplink=eth1",
                &address,
            ];
            self.0.kubectl(&label, "")?;
        }
        Ok(())
    }
}

#[test]
fn hypervisors_join_and_leave_a_database_of_one_member() -> anyhow::Result<()> {
    let ovn = Ovn::up()?;
    ovn.label_hypervisors()?;
    ovn.apply(1)?;
    ovn.ready(180)?;
    until(60, "both chassis are counted", || {
        let counts = ovn.field("ovncluster/ovn", ".status['chassisCount','activeControllers']")?;
        ensure!(counts == "2 2", "{counts}");
        Ok(())
    })?;
    for node in ["node-2", "node-3"] {
        let wait = [
            "wait",
            "--for=condition=Ready",
            &format!("ovnchassis/{node}"),
            "--timeout=60s",
        ];
        ovn.kubectl(&wait)?;
        until(60, "its answer", || {
            let heard = ovn.field(&format!("ovnchassis/{node}"), ".status.lastHeartbeat")?;
            ensure!(!heard.is_empty(), "{node} has not answered");
            Ok(())
        })?;
    }
    assert_eq!(ovn.roles()?, ["Leader"]);
    assert!(
        ovn.field("ovncluster/ovn", ".status.endpoints.southbound")?
            .starts_with("tcp:10.")
    );

    // The tunnel network carries packets from bridge to bridge: nobody listens there, which is said.
    let on = [
        "get",
        "pods",
        "-l",
        "app.kubernetes.io/component=ovs",
        "-o",
        "name",
        "--field-selector",
        "spec.nodeName=node-2",
    ];
    let switch = ovn.kubectl(&on)?;
    until(30, "the other end of the tunnel network", || {
        let script = "ovs-vsctl show; ovsdb-client --timeout=5 list-dbs tcp:10.193.0.3:9 2>&1 || true";
        let said = ovn.kubectl(&["exec", switch.trim(), "-c", "vswitchd", "--", "sh", "-c", script])?;
        ensure!(
            said.contains("remote_ip=\"10.193.0.3\"") && said.contains("refused"),
            "{said}"
        );
        Ok(())
    })?;

    agents_tell_of_the_switches(&ovn, switch.trim())?;
    agents_answer_requests(&ovn, switch.trim())?;
    our_own_client_reads_and_writes(&ovn)?;

    // The data is on the volume, not in the pod.
    ovn.northbound("ovn-nb-0", "ls-add kept")?;
    ovn.kubectl(&["delete", "pod", "ovn-nb-0"])?;
    until(60, "the member is back", || {
        let names = ovn.switches("ovn-nb-0")?;
        ensure!(names.contains(&"kept".to_owned()), "{names:?}");
        Ok(())
    })?;

    // A pod of the controller that is recreated does not leave OVN meanwhile.
    ovn.kubectl(&["delete", "pod", "-l", "app.kubernetes.io/component=controller"])?;
    ovn.ready(60)?;

    // A node that is no hypervisor any more leaves both the cluster and the database.
    ovn.0
        .kubectl(&["label", "node", "node-3", &format!("{LABEL}-")], "")?;
    until(90, "the chassis is gone", || {
        let there = ovn.kubectl(&["get", "ovnchassis", "-o", "name"])?;
        ensure!(!there.contains("node-3"), "{there}");
        let show = ovn.shell(
            "ovn-sb-0",
            "ovn-sbctl --timeout=5 --db=unix:/run/ovn/db.sock show",
        )?;
        ensure!(
            show.contains("node-2") && !show.contains("Chassis node-3"),
            "{show}"
        );
        Ok(())
    })?;

    ovn.kubectl(&["delete", "ovncluster", "ovn"])?;
    until(60, "the pods go", || {
        let pods = ovn.kubectl(&["get", "pods", "-o", "name"])?;
        ensure!(pods.is_empty(), "{pods}");
        Ok(())
    })?;
    let claims = ovn.kubectl(&["get", "pvc", "-o", "name"])?;
    ensure!(claims.lines().count() == 2, "the data stays: {claims}");
    Ok(())
}

/// Of node-2, whose switch is in this pod.
fn agents_tell_of_the_switches(ovn: &Ovn, switch: &str) -> anyhow::Result<()> {
    let agents = |arguments: &[&str]| ovn.0.kubectl(&[&["-n", "c5c3-system"], arguments].concat(), "");
    let told = |path: &str| {
        let path = format!("jsonpath={{{path}}}");
        agents(&["get", "ovsnode", "node-2", "-o", &path])
    };
    let vsctl = |words: &str| {
        let script = format!("ovs-vsctl --no-wait {words}");
        ovn.kubectl(&["exec", switch, "-c", "vswitchd", "--", "sh", "-c", &script])
    };
    for node in ["node-2", "node-3"] {
        let node = format!("ovsnode/{node}");
        agents(&["wait", "--for=create", &node, "--timeout=120s"])?;
        let waited = agents(&["wait", "--for=condition=Ready", &node, "--timeout=120s"]);
        waited.or_else(|error| Err(error.context(agents(&["get", &node, "-o", "yaml"])?)))?;
    }
    ensure!(told(".status.bridges[*].name")? == "br-int br-phy");
    ensure!(told(".status.interfaces.physical[*].name")? == "eth1");
    ensure!(told(".status.ovnController.connected")? == "true");
    ensure!(told(".status.ovsVersion")?.starts_with("3.5"));
    // Counted when the switch is first seen, which may be before OVN made them, and then every five minutes.
    until(330, "OVN's flows are counted", || {
        let flows: u32 = told(".status.flowStats.totalFlows")?.parse()?;
        ensure!(flows > 10, "{flows} flows");
        Ok(())
    })?;

    // A port whose tap is gone is told at once and taken back with it.
    let orphan = "port tap-gone of logical port lost is an orphan";
    vsctl("add-port br-int tap-gone -- set interface tap-gone external_ids:iface-id=lost")?;
    until(15, "the orphan is told", || {
        let issues = told(".status.issues[*].message")?;
        ensure!(issues.contains(orphan), "{issues}");
        Ok(())
    })?;
    let since = told(".status.issues[0].detectedAt")?;
    // So is a southbound database that is not reached.
    let remote = told(".status.ovnController.sbConnection")?;
    vsctl("set open_vswitch . external_ids:ovn-remote=tcp:127.0.0.1:9")?;
    until(60, "the lost database is told", || {
        let issues = told(".status.issues[*].message")?;
        ensure!(
            issues.contains("does not reach the southbound database"),
            "{issues}"
        );
        Ok(())
    })?;
    let kept = told(".status.issues[*].detectedAt")?;
    ensure!(kept.contains(&since), "since {since}: {kept}");
    vsctl(&format!(
        "set open_vswitch . 'external_ids:ovn-remote=\"{remote}\"'"
    ))?;
    vsctl("del-port br-int tap-gone")?;
    until(60, "all is well again", || {
        let issues = told(".status.issues[*].message")?;
        ensure!(issues.is_empty(), "{issues}");
        Ok(())
    })?;

    // An account without a node is nobody's agent.
    let account = "--as=system:serviceaccount:c5c3-system:c5c3-ovs-agent";
    let patch = "{\"metadata\": {\"labels\": {\"a\": \"b\"}}}";
    let refused = agents(&["patch", "ovsnode", "node-2", "--type=merge", "-p", patch, account]);
    let said = refused.expect_err("written").to_string();
    ensure!(said.contains("writes the OVSNode of its own node"), "{said}");
    Ok(())
}

/// Of node-2: the switch says what it would do with a packet, and packets of a port are recorded.
fn agents_answer_requests(ovn: &Ovn, switch: &str) -> anyhow::Result<()> {
    let agents = |arguments: &[&str]| ovn.0.kubectl(&[&["-n", "c5c3-system"], arguments].concat(), "");
    let inside = |script: &str| {
        let exec = [
            "exec", switch, "-c", "vswitchd", "--", "timeout", "15", "sh", "-c", script,
        ];
        ovn.kubectl(&exec)
    };
    let trace = ovn.0.c5c3_here("ovs trace", &["node-2", "in_port=br-int,arp"])?;
    ensure!(
        trace.contains("bridge(\"br-int\")") && trace.contains("Datapath actions:"),
        "{trace}"
    );
    // What the switch does not understand is its own word; nothing of the request stays.
    let refused = ovn.0.c5c3_here("ovs trace", &["node-2", "no_such_field=1"]);
    let said = format!("{:#}", refused.err().context("answered")?);
    ensure!(said.contains("no_such_field"), "{said}");
    let left = agents(&["get", "ovstraces,ovscaptures", "-o", "name"])?;
    ensure!(left.is_empty(), "{left}");

    // A port with an address of its own, where a connection to nobody begins with a packet.
    inside(
        "ovs-vsctl --may-exist add-port br-phy e2e-talk -- set interface e2e-talk type=internal \
         && ip address replace 192.0.2.1/24 dev e2e-talk && ip link set e2e-talk up \
         && ip neighbour replace 192.0.2.9 lladdr 02:00:00:00:00:09 dev e2e-talk",
    )?;
    let object = "apiVersion: ovs.c5c3.io/v1alpha1
kind: OVSCapture
metadata: {name: talk, namespace: c5c3-system}
spec:
  nodeRef: {name: node-2}
  port: e2e-talk
  filter: {protocol: tcp, host: 192.0.2.9, port: 4242}
  packets: 2
  seconds: 60
";
    ovn.0.kubectl(&["apply", "-f", "-"], object)?;
    agents(&[
        "wait",
        "--for=jsonpath={.status.phase}=Running",
        "ovscapture/talk",
        "--timeout=30s",
    ])?;
    let told = |path: &str| agents(&["get", "ovscapture", "talk", "-o", &format!("jsonpath={{{path}}}")]);
    until(40, "two packets", || {
        // Nobody answers: each try is a packet that begins a connection.
        for port in [4241, 4242] {
            let knock = format!("ovsdb-client --timeout=1 list-dbs tcp:192.0.2.9:{port} 2>&1 || true");
            inside(&knock)?;
        }
        let phase = told(".status.phase")?;
        ensure!(phase == "Succeeded", "{phase}: {}", told(".status.message")?);
        Ok(())
    })?;
    ensure!(told(".status.packets")? == "2");
    let secret = told(".status.secretRef.name")?;
    let file = agents(&["get", "secret", &secret, "-o", "jsonpath={.data.capture\\.pcap}"])?;
    // Its size, that of the format: a header, and two packets cut at the bound.
    let bytes: usize = told(".status.bytes")?.parse()?;
    ensure!(file.starts_with("TTyyoQIABA"), "the mark of the format: {file}");
    ensure!(
        file.len() == bytes.div_ceil(3) * 4 && bytes <= 24 + 2 * (16 + 96),
        "{bytes}"
    );
    agents(&["delete", "ovscapture", "talk"])?;
    until(30, "the Secret goes with it", || {
        let left = agents(&["get", "secret", &secret, "--ignore-not-found", "-o", "name"])?;
        ensure!(left.is_empty(), "{left}");
        Ok(())
    })?;
    inside("ovs-vsctl del-port br-phy e2e-talk")?;

    // Other devices of the host are none of its business.
    let capture = ["node-2", "lo", "--write", "/dev/null"];
    let refused = ovn.0.c5c3_here("ovs capture", &capture);
    let said = format!("{:#}", refused.err().context("recorded")?);
    ensure!(said.contains("not one of the switch's"), "{said}");

    // The account of the agents makes no other Secret, and answers for no other node.
    let account = "--as=system:serviceaccount:c5c3-system:c5c3-ovs-agent";
    let other = agents(&["create", "secret", "generic", "e2e-other", account]);
    let said = other.expect_err("made").to_string();
    ensure!(said.contains("Secrets of captures and no others"), "{said}");
    Ok(())
}

fn our_own_client_reads_and_writes(ovn: &Ovn) -> anyhow::Result<()> {
    let kubeconfig = ovn.0.state().join("api/kubeconfig");
    let forward = Forward::start(&kubeconfig, NAMESPACE, "ovn-nb-0", 6641)?;
    let runtime = tokio::runtime::Runtime::new()?;
    runtime.block_on(async {
        let follow = Follow {
            remotes: remotes(&format!("tcp:127.0.0.1:{}", forward.port))?,
            database: "OVN_Northbound".into(),
            tables: vec![(
                "Logical_Switch".into(),
                vec!["name".into(), "other_config".into()],
            )],
            leader: true,
        };
        let session = Session::start(follow, Way::default());
        let mut watch = session.watch();
        let limit = Duration::from_secs(30);
        tokio::time::timeout(limit, watch.wait_for(|state| state.remote.is_some())).await??;
        let made = session
            .transact(vec![Operation::insert("Logical_Switch").set("name", "ours")])
            .await?;
        ensure!(made[0].uuid().is_some(), "no id");
        let has = |state: &ovsdb_client::State| {
            let rows = state.tables.get("Logical_Switch").into_iter().flatten();
            rows.filter(|(_, row)| row.get("name").and_then(Value::as_str) == Some("ours"))
                .count()
        };
        tokio::time::timeout(limit, watch.wait_for(|state| has(state) == 1)).await??;
        let refused = session.transact(vec![Operation::insert("No_Such_Table")]).await;
        ensure!(refused.is_err(), "took a table that is not there");
        let gone = Operation::delete("Logical_Switch").only(Condition::equal("name", "ours"));
        ensure!(
            session.transact(vec![gone]).await?[0].count() == 1,
            "deleted another number"
        );
        tokio::time::timeout(limit, watch.wait_for(|state| has(state) == 0)).await??;
        Ok(())
    })
}
