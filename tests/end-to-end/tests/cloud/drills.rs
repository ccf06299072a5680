//! On a real Kubernetes: credentials and passwords that change, and programs that are killed in the middle.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_true};
use end_to_end::process;
use end_to_end::stream::Stream;

use crate::ha::{CHECKERS, NAMESPACE};

/// The control group of the cluster's node.
const GROUP: &str = "C5C3_CLOUD_CGROUP";
/// A stand-by takes over within this time.
const HAND_OVER: Duration = Duration::from_secs(15);

fn wait_ready(cloud: &Cloud) -> anyhow::Result<()> {
    let words = [
        "-n",
        NAMESPACE,
        "wait",
        "--for=condition=Ready",
        "controlplane/cloud",
        "--timeout=600s",
    ];
    cloud.kubectl(&words, "").map(drop)
}

fn field(cloud: &Cloud, what: &str, path: &str) -> anyhow::Result<String> {
    let path = format!("jsonpath={path}");
    cloud.kubectl(&["-n", NAMESPACE, "get", what, "-o", &path], "")
}

/// On request, under load: nobody is turned away.
pub(crate) fn a_credential_rotates(cloud: &Cloud) -> anyhow::Result<()> {
    let current = "{.status.currentCredentialRef.name}";
    let before = field(cloud, "credentialrotation/glance", current)?;
    let stream = Stream::start(cloud, NAMESPACE, "rotation", Duration::from_secs(900), &CHECKERS)?;
    let words = [
        "-n",
        NAMESPACE,
        "annotate",
        "credentialrotation/glance",
        "c5c3.io/rotate-now=drill",
    ];
    cloud.kubectl(&words, "")?;
    until_true("another credential", Duration::from_secs(300), || {
        let now = field(cloud, "credentialrotation/glance", current)?;
        Ok(!now.is_empty() && now != before)
    })?;
    wait_ready(cloud)?;
    stream.more(10)?;
    let outcome = stream.stop()?;
    println!(
        "rotation: {} turns, {} failed",
        outcome.good,
        outcome.failed.len()
    );
    ensure!(outcome.failed.is_empty(), "{:?}", outcome.failed);
    Ok(())
}

/// A new value in the Secret of a database's password is a new account; the old one goes.
pub(crate) fn a_password_changes(cloud: &Cloud) -> anyhow::Result<()> {
    let accounts = || {
        let words = ["-n", NAMESPACE, "get", "users.k8s.mariadb.com", "-o", "name"];
        cloud.kubectl(&words, "")
    };
    let placement = |all: &str| -> Vec<String> {
        let own = all.lines().filter(|name| name.contains("placement"));
        own.map(str::to_owned).collect()
    };
    let before = placement(&accounts()?);
    let patch = r#"{"stringData": {"password": "another-password-of-the-drill"}}"#;
    let secret = "secret/placement-db-credentials";
    cloud.kubectl(
        &["-n", NAMESPACE, "patch", secret, "--type=merge", "-p", patch],
        "",
    )?;
    until("another account and only that", Duration::from_secs(300), || {
        let now = placement(&accounts()?);
        Ok(if now.len() == 1 && now != before {
            Ok(())
        } else {
            Err(format!("{before:?} became {now:?}"))
        })
    })?;
    wait_ready(cloud)
}

/// kill -9 of operators, API server and kubelet while a change is under way: it converges.
pub(crate) fn programs_die(cloud: &Cloud) -> anyhow::Result<()> {
    hand_over(cloud)?;
    let patch = r#"{"spec": {"services": {"keystone": {"replicas": 2}}}}"#;
    cloud.kubectl(
        &[
            "-n",
            NAMESPACE,
            "patch",
            "controlplane/cloud",
            "--type=merge",
            "-p",
            patch,
        ],
        "",
    )?;
    // Pods and the programs of Kubernetes are in the node's control group; other clusters have others.
    let group = std::env::var(GROUP).with_context(|| format!("{GROUP}: scripts/kubernetes sets it"))?;
    for program in ["c5c3", "kubelet", "kube-apiserver", "mariadb-operator", "k-orc"] {
        let running = process::find_processes(program, &group)?;
        ensure!(!running.is_empty(), "no {program} runs below {group}");
        process::kill(&running)?;
        println!("killed {program}");
    }
    until_true("the API server is back", Duration::from_secs(180), || {
        Ok(cloud.kubectl(&["get", "--raw", "/readyz"], "").is_ok())
    })?;
    until(
        "two of Keystone, and all is well",
        Duration::from_secs(600),
        || {
            let ready = field(cloud, "deployment/keystone", "{.status.readyReplicas}").unwrap_or_default();
            let conditions = "{.status.conditions[?(@.type==\"Ready\")].status}";
            let well = field(cloud, "controlplane/cloud", conditions).unwrap_or_default();
            Ok(if ready == "2" && well == "True" {
                Ok(())
            } else {
                Err(format!("{ready} ready, Ready={well}"))
            })
        },
    )
}

/// The leader dies without a word: the stand-by holds the lease soon.
fn hand_over(cloud: &Cloud) -> anyhow::Result<()> {
    let system = "c5c3-system";
    let lease = "jsonpath={.spec.holderIdentity}";
    let holder = || cloud.kubectl(&["-n", system, "get", "lease/c5c3-services", "-o", lease], "");
    let scale = ["-n", system, "scale", "deployment/c5c3-services", "--replicas=2"];
    cloud.kubectl(&scale, "")?;
    let rolled = [
        "-n",
        system,
        "rollout",
        "status",
        "deployment/c5c3-services",
        "--timeout=240s",
    ];
    cloud.kubectl(&rolled, "")?;
    let before = holder()?;
    let pods = cloud.kubectl(&["-n", system, "get", "pods", "-o", "name"], "")?;
    let leader = pods.lines().find(|pod| {
        let name = pod.trim_start_matches("pod/");
        before.contains(name)
    });
    let leader = leader.with_context(|| format!("a pod of the holder {before:?}: {pods}"))?;
    let start = Instant::now();
    let delete = ["-n", system, "delete", leader, "--grace-period=0", "--force"];
    cloud.kubectl(&delete, "")?;
    until_true("another leader", Duration::from_secs(60), || {
        let now = holder()?;
        Ok(!now.is_empty() && now != before)
    })?;
    let took = start.elapsed();
    println!("another leader after {:.1} s", took.as_secs_f64());
    ensure!(took <= HAND_OVER, "another leader after {took:?}");
    Ok(())
}
