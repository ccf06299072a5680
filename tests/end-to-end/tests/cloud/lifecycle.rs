//! A person in front of `up`: interrupts it, brings a cloud of their own, takes it down and up again.

use std::io::{BufRead, BufReader};
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::process::free_offset;

/// Keystone alone, in a namespace of its own.
const MINE: &str = r#"
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: { namespace: mine, name: identity }
spec:
  openStackRelease: "2025.2"
  infrastructure:
    database: { replicas: 1, storageSize: 1Gi }
    cache: { replicas: 1, memory: 64Mi }
  services:
    keystone: { replicas: 1, publicEndpoint: "http://127.0.0.1:5000/v3" }
    glance: { enabled: false }
    placement: { enabled: false }
    nova: { enabled: false }
    neutron: { enabled: false }
    cinder: { enabled: false }
"#;

const SIGINT: i32 = 2;

#[test]
fn what_was_interrupted_goes_on_and_what_was_stopped_comes_back() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    an_interrupted_start_goes_on(&cloud)?;
    objects_without_a_cloud_are_applied(&cloud)?;
    let file = cloud.state().with_extension("yaml");
    std::fs::write(&file, MINE)?;
    let offset = free_offset(&[5000])?.to_string();
    let words = ["-f", &file.to_string_lossy(), "--port-offset", &offset];
    not_in_time_is_exit_code_4(&cloud, &words)?;
    an_interrupted_wait_goes_on(&cloud)?;
    only_one_cloud_is_there(&cloud)?;
    it_serves(&cloud)?;
    it_comes_back(&cloud)
}

/// Runs `up` until it says this, then presses Ctrl-C. Nobody reads what follows.
fn interrupted(cloud: &Cloud, arguments: &[&str], when: &str) -> anyhow::Result<()> {
    let command = cloud.command("up", arguments);
    // Whoever runs the tests may ignore the signal, and that is inherited.
    let mut up = Command::new("env")
        .arg("--default-signal=INT")
        .arg(command.get_program())
        .args(command.get_args())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()?;
    let mut lines = BufReader::new(up.stdout.take().context("a pipe")?).lines();
    let seen = lines
        .by_ref()
        .map_while(Result::ok)
        .any(|line| line.contains(when));
    let pid = up.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status()?;
    drop(lines);
    let ended = up.wait()?;
    ensure!(seen && sent.success(), "`up` did not say {when:?}: {ended}");
    ensure!(
        ended.signal() == Some(SIGINT),
        "`up` ended before Ctrl-C: {ended}"
    );
    Ok(())
}

fn daemon(cloud: &Cloud) -> anyhow::Result<u32> {
    let deadline = Instant::now() + Duration::from_secs(30);
    while Instant::now() < deadline {
        if let Ok(pid) = cloud.daemon() {
            return Ok(pid);
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    bail!("there is no daemon")
}

fn an_interrupted_start_goes_on(cloud: &Cloud) -> anyhow::Result<()> {
    interrupted(cloud, &["--profile", "none"], "starting the API server")?;
    let before = daemon(cloud)?;
    // It waits for the one that starts already, its kinds and its nodes too.
    cloud.c5c3_here("up", &["--profile", "none"])?;
    ensure!(daemon(cloud)? == before, "the daemon did not outlive Ctrl-C");
    cloud.kubectl(&["get", "controlplanes", "-A"], "")?;
    let nodes = cloud.kubectl(&["get", "nodes", "--no-headers"], "")?;
    ensure!(nodes.contains(" Ready "), "{nodes}");
    Ok(())
}

fn objects_without_a_cloud_are_applied(cloud: &Cloud) -> anyhow::Result<()> {
    let file = cloud.state().with_extension("objects.yaml");
    let text = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: note}\n---\n\
        apiVersion: scheduling.k8s.io/v1\nkind: PriorityClass\nmetadata: {name: high}\nvalue: 10\n";
    std::fs::write(&file, text)?;
    let said = cloud.c5c3_here("up", &["-f", &file.to_string_lossy()])?;
    ensure!(said.contains("Objects applied: 2."), "{said}");
    cloud.kubectl(&["-n", "openstack", "get", "configmap", "note"], "")?;
    let (code, _, err) = cloud.tried("status", &[])?;
    ensure!(code == 3 && err.contains("there is no cloud"), "{code}: {err}");
    Ok(())
}

fn not_in_time_is_exit_code_4(cloud: &Cloud, words: &[&str]) -> anyhow::Result<()> {
    let (code, out, err) = cloud.tried("up", &[words, &["--wait", "1"]].concat())?;
    ensure!(code == 4, "{code}:\n{out}\n{err}");
    ensure!(err.contains("run `c5c3 up` again to keep waiting"), "{err}");
    let (code, out, _) = cloud.tried("status", &["-n", "mine"])?;
    ensure!(code == 4 && out.contains("identity"), "{code}: {out}");
    let (code, out, _) = cloud.tried("explain", &["-n", "mine"])?;
    ensure!(code == 4 && out.contains("What to do:"), "{code}: {out}");
    Ok(())
}

fn an_interrupted_wait_goes_on(cloud: &Cloud) -> anyhow::Result<()> {
    let before = daemon(cloud)?;
    interrupted(cloud, &[], "… ")?;
    let said = cloud.c5c3_here("up", &["--wait", "600"])?;
    ensure!(said.contains("kubectl -n mine get controlplane,pods"), "{said}");
    ensure!(daemon(cloud)? == before, "the daemon did not outlive Ctrl-C");
    Ok(())
}

/// Plain `up` waits for what is there.
fn only_one_cloud_is_there(cloud: &Cloud) -> anyhow::Result<()> {
    let planes = cloud.kubectl(&["get", "controlplanes", "-A", "-o", "name"], "")?;
    ensure!(planes.lines().count() == 1, "{planes}");
    Ok(())
}

fn it_serves(cloud: &Cloud) -> anyhow::Result<()> {
    let said = cloud.c5c3_here("openstack", &["-n", "mine", "token", "issue", "-f", "json"])?;
    ensure!(said.contains("\"id\""), "{said}");
    Ok(())
}

/// The stored word that all is healthy is not believed: `up` returns when it serves.
fn it_comes_back(cloud: &Cloud) -> anyhow::Result<()> {
    cloud.c5c3_here("down", &[])?;
    let (code, _, err) = cloud.tried("status", &["-n", "mine"])?;
    ensure!(code == 4 && err.contains("is not running"), "{code}: {err}");
    cloud.c5c3_here("up", &["--wait", "600"])?;
    it_serves(cloud)?;
    only_one_cloud_is_there(cloud)?;
    let (code, out, err) = cloud.tried("status", &["-n", "mine"])?;
    ensure!(code == 0, "{code}:\n{out}\n{err}");
    Ok(())
}
