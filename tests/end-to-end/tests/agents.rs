//! The agents of hypervisors beside a real libvirt: what they report about a host and about a guest that moves, without any
//! OpenStack. Needs root.

use std::process::Stdio;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;
use end_to_end::tools;
use serde_json::Value;

const HOME: &str = "c5c3-system";
const GUEST: &str = "6d1f2f4e-58a5-4c0a-8f27-3a1d6f0b9c11";
const PATIENCE: Duration = Duration::from_secs(180);

/// As Nova's operator starts it.
const LIBVIRTD: &str = include_str!("../../../operators/services/src/kinds/nova/libvirtd.sh");

fn libvirt() -> String {
    let script: String = LIBVIRTD.lines().map(|line| format!("    {line}\n")).collect();
    let at = |name: &str, host: &str, path: &str| {
        (
            format!("        - {{name: {name}, mountPath: {path}}}\n"),
            format!("      - {{name: {name}, hostPath: {{path: {host}, type: DirectoryOrCreate}}}}\n"),
        )
    };
    let shared = [
        at("run", "/run/libvirt", "/run/libvirt"),
        at("state", "/var/lib/libvirt", "/var/lib/libvirt"),
        at("etc", "/var/lib/libvirt-etc", "/etc/libvirt"),
        at("dev", "/dev", "/dev"),
        at("cgroup", "/sys/fs/cgroup", "/sys/fs/cgroup"),
    ];
    let (mounts, volumes): (String, String) = shared.into_iter().unzip();
    format!(
        "apiVersion: v1
kind: ConfigMap
metadata: {{name: libvirt}}
data:
  libvirtd.sh: |
{script}---
apiVersion: apps/v1
kind: DaemonSet
metadata: {{name: libvirt}}
spec:
  selector: {{matchLabels: {{app: libvirt}}}}
  template:
    metadata: {{labels: {{app: libvirt}}}}
    spec:
      nodeSelector: {{node-role.kubernetes.io/hypervisor: \"\"}}
      tolerations: [{{operator: Exists}}]
      hostNetwork: true
      hostPID: true
      containers:
      - name: libvirt
        image: ghcr.io/c5c3/libvirt:11.3
        command: [sh, -e, /script/libvirtd.sh]
        env:
        - {{name: NODE_ADDRESS, valueFrom: {{fieldRef: {{fieldPath: status.hostIP}}}}}}
        - {{name: LISTEN, value: plaintext}}
        - {{name: SHARES, value: /var/lib/shares}}
        securityContext: {{privileged: true, runAsUser: 0}}
        volumeMounts:
        - {{name: script, mountPath: /script}}
{mounts}      volumes:
      - {{name: script, configMap: {{name: libvirt}}}}
{volumes}"
    )
}

/// It has much memory and never writes to it: little is sent, for several seconds.
fn guest() -> String {
    format!(
        "<domain type='qemu'><name>guest</name><uuid>{GUEST}</uuid><memory unit='MiB'>2048</memory><vcpu>1</vcpu>
         <os><type arch='x86_64' machine='pc'>hvm</type></os>
         <devices><emulator>/usr/bin/qemu-system-x86_64</emulator><memballoon model='none'/></devices></domain>"
    )
}

struct World(Cloud);

impl World {
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(arguments, "")
    }

    fn json(&self, arguments: &[&str]) -> anyhow::Result<Value> {
        let said = self.kubectl(&[arguments, &["-o", "json"]].concat())?;
        serde_json::from_str(&said).context(said)
    }

    fn host(&self, node: &str) -> anyhow::Result<Value> {
        Ok(self.json(&["get", "hypervisor", node])?["status"].take())
    }

    fn libvirt_of(&self, node: &str) -> anyhow::Result<String> {
        let on = format!("spec.nodeName={node}");
        let pods = [
            "get",
            "pods",
            "-l",
            "app=libvirt",
            "-o",
            "name",
            "--field-selector",
            &on,
        ];
        Ok(self.kubectl(&pods)?.trim().to_owned())
    }
}

fn connected(status: &Value) -> bool {
    let conditions = status["conditions"].as_array().into_iter().flatten();
    let mut libvirt = conditions.filter(|one| one["type"] == "LibVirtConnection");
    libvirt.any(|one| one["status"] == "True")
}

#[test]
fn a_guest_that_moves_is_told_while_it_moves() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    cloud.c5c3(&["image", "build", "libvirt", "c5c3"])?;
    cloud.c5c3_here("up", &["--profile", "none", "--nodes", "3", "--hypervisors", "2"])?;
    cloud.kubectl(&["apply", "-f", "-"], &libvirt())?;
    let world = World(cloud);
    for node in ["node-2", "node-3"] {
        let status = until_ok("the agent reaches libvirt", PATIENCE, || {
            let status = world.host(node)?;
            ensure!(connected(&status), "{node}: {status}");
            Ok(status)
        })?;
        let version = status["libVirtVersion"].as_str().unwrap_or_default();
        ensure!(version.starts_with("11.3"), "{status}");
        ensure!(
            status["numInstances"] == 0 && !status["cells"][0].is_null(),
            "{status}"
        );
    }

    let pod = world.libvirt_of("node-2")?;
    let define = ["exec", "-i", &pod, "--", "virsh", "-q", "define", "/dev/stdin"];
    world.0.kubectl(&define, &guest())?;
    world.kubectl(&["exec", &pod, "--", "virsh", "-q", "start", "guest"])?;
    let start = Instant::now();
    until_ok("the guest is told", PATIENCE, || {
        let status = world.host("node-2")?;
        let told = &status["instances"][0];
        ensure!(told["id"] == GUEST && told["active"] == true, "{status}");
        Ok(())
    })?;
    println!("told {:?} after virsh had started it", start.elapsed());

    // One mebibyte in a second: it takes several.
    let mut migrate = std::process::Command::new(tools::tool("kubectl")?);
    let how = "--live --p2p --persistent --undefinesource --bandwidth 1 --migrateuri tcp://10.190.0.3";
    let mut moving = migrate
        .args(["exec", &pod, "--", "virsh", "migrate"])
        .args(how.split(' '))
        .args(["guest", "qemu+tcp://10.190.0.3/system"])
        .env("KUBECONFIG", world.0.state().join("api/kubeconfig"))
        .stdout(Stdio::null())
        .spawn()?;
    let told =
        || Ok::<_, anyhow::Error>(world.json(&["-n", HOME, "get", "migration", GUEST])?["status"].take());
    let seen = until_ok("its progress is told", PATIENCE, || {
        let status = told()?;
        ensure!(
            status["origin"] == "node-2" && status["memTotal"].is_string(),
            "{status}"
        );
        Ok(status)
    });
    let ended = moving.wait()?;
    ensure!(ended.success(), "the migration failed");
    let seen = seen?;
    ensure!(
        seen["operation"] == "running",
        "it was told before it ended: {seen}"
    );
    let status = until_ok("its end is told by both hosts", PATIENCE, || {
        let status = told()?;
        ensure!(
            status["operation"] == "completed" && status["destination"] == "node-3",
            "{status}"
        );
        Ok(status)
    })?;
    println!("{status}");
    until_ok("it is on the other host", PATIENCE, || {
        let (from, to) = (world.host("node-2")?, world.host("node-3")?);
        ensure!(
            from["numInstances"] == 0 && to["numInstances"] == 1,
            "{from} {to}"
        );
        Ok(())
    })?;

    // Its process dies, which nobody asked for; then it is stopped, which somebody did.
    let pod = world.libvirt_of("node-3")?;
    let there = |command: &str| world.kubectl(&["exec", &pod, "--", "sh", "-c", command]);
    let guest = |active: bool, trouble: Value| {
        until_ok("the guest is told", PATIENCE, || {
            let status = world.host("node-3")?;
            let told = &status["instances"][0];
            ensure!(
                told["active"] == active && told["trouble"]["kind"] == trouble,
                "{status}"
            );
            Ok(())
        })
    };
    let start = Instant::now();
    there("kill -9 $(cat /run/libvirt/qemu/guest.pid)")?;
    guest(false, "Crashed".into())?;
    println!(
        "a crash was told {:?} after its process was killed",
        start.elapsed()
    );
    there("virsh -q start guest")?;
    guest(true, Value::Null)?;
    there("virsh -q destroy guest")?;
    guest(false, Value::Null)?;
    there("virsh -q start guest")?;
    guest(true, Value::Null)?;

    // libvirtd dies and comes back: the agent does as well, and forgets nothing.
    let pod = world.libvirt_of("node-3")?;
    let kill = "(sleep 1; kill -9 $(cat /run/libvirtd.pid)) >/dev/null 2>&1 &";
    world.kubectl(&["exec", &pod, "--", "sh", "-c", kill])?;
    until_ok("the loss is told", PATIENCE, || {
        let status = world.host("node-3")?;
        ensure!(!connected(&status) && status["numInstances"] == 1, "{status}");
        Ok(())
    })?;
    until_ok("libvirt is reached again", PATIENCE, || {
        let status = world.host("node-3")?;
        ensure!(connected(&status) && status["numInstances"] == 1, "{status}");
        Ok(())
    })?;

    // Nothing happens, nothing is written.
    let of = [
        "resource=\"hypervisors\"",
        "resource=\"migrations\"",
        "resource=\"ovsnodes\"",
    ];
    std::thread::sleep(Duration::from_secs(5));
    let before = world.0.writes(&of)?;
    std::thread::sleep(Duration::from_secs(15));
    world.0.nothing_written_since(&before, &of)
}
