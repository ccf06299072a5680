//! Users of Ceph whose keys are replaced, as the quickstart has them: Cinder's.

use std::time::Duration;

use anyhow::ensure;

use crate::cloud::Cloud;
use crate::patience::{until, until_ok};

/// kubectl's words for the cluster with Ceph.
pub const CEPH: &[&str] = &["--context", "storage"];
/// The namespace of Ceph.
pub const STORAGE: &str = "rook-ceph";
const NAMESPACE: &str = "openstack";
const ROTATION: &str = include_str!("../../../deploy/quickstart/rotation.yaml");
const OBJECT: &str = "credentialrotation/ceph-cinder";
/// Stores are asked once a minute.
pub const PATIENCE: Duration = Duration::from_secs(420);

/// Of an object of the cloud.
pub fn field(cloud: &Cloud, object: &str, path: &str) -> anyhow::Result<String> {
    let path = format!("jsonpath={path}");
    cloud.kubectl(&["-n", NAMESPACE, "get", object, "-o", &path], "")
}

/// The user that was made by hand gives way to the first of a rotation, and older users go at once.
pub fn begin(cloud: &Cloud, changed: impl Fn(&str) -> String) -> anyhow::Result<()> {
    for object in ROTATION.split("\n---\n") {
        let place = if object.contains("c5c3.io/cluster: storage") {
            CEPH
        } else {
            &[]
        };
        let quick = changed(object).replace("gracePeriodDays: 1", "gracePeriodDays: 0");
        cloud.kubectl(&[place, &["apply", "-f", "-"]].concat(), &quick)?;
    }
    Ok(())
}

/// The next user is wanted at once.
pub fn rotate_now(cloud: &Cloud) -> anyhow::Result<()> {
    let words = ["annotate", OBJECT, "c5c3.io/rotate-now=leak"];
    cloud
        .kubectl(&[&["-n", NAMESPACE], &words[..]].concat(), "")
        .map(drop)
}

/// Waits until the rotation says so.
pub fn told(cloud: &Cloud, words: &str) -> anyhow::Result<()> {
    until(&format!("{OBJECT} says {words:?}"), PATIENCE, || {
        let told = field(cloud, OBJECT, "{.status.conditions[*].message}")?;
        Ok(if told.contains(words) { Ok(()) } else { Err(told) })
    })
}

pub fn remove(cloud: &Cloud, user: &str) -> anyhow::Result<()> {
    let words = ["-n", STORAGE, "delete", "cephclient", user, "--timeout=90s"];
    cloud.kubectl(&[CEPH, &words].concat(), "").map(drop)
}

/// Waits until the rotation has removed it.
pub fn gone(cloud: &Cloud, user: &str) -> anyhow::Result<()> {
    let wanted = format!("cephclient.ceph.rook.io/{user}");
    until(&format!("{user} is gone"), PATIENCE, || {
        let words = ["-n", STORAGE, "get", "cephclients", "-o", "name"];
        let users = cloud.kubectl(&[CEPH, &words].concat(), "")?;
        let told = field(cloud, OBJECT, "{.status.conditions[*].message}")?;
        Ok(if users.lines().any(|line| line == wanted) {
            Err(format!("{users}{told}"))
        } else {
            Ok(())
        })
    })
}

/// Waits until Cinder itself says that it is this user.
pub fn used(cloud: &Cloud, user: &str) -> anyhow::Result<()> {
    let wanted = format!("as client.{user}");
    until(&format!("Cinder opens volumes {wanted}"), PATIENCE, || {
        let path = "{.status.conditions[?(@.type==\"CephConnected\")].message}";
        let told = field(cloud, "cinder/cinder", path)?;
        let path = "{.status.updatedReplicas}/{.status.availableReplicas}/{.status.replicas}";
        let up = field(cloud, "deployment/cinder-volume-ceph", path)?;
        Ok(if told.ends_with(&wanted) && up == "1/1/1" {
            Ok(())
        } else {
            Err(format!("{told} {up}"))
        })
    })
}

pub fn key(cloud: &Cloud, user: &str) -> anyhow::Result<String> {
    let secret = format!("rook-ceph-client-{user}");
    let template = "go-template={{.data.userKey | base64decode}}";
    let words = ["-n", STORAGE, "get", "secret", &secret, "-o", template];
    cloud.kubectl(&[CEPH, &words].concat(), "")
}

/// What `rados` says with a key that was copied, beside a monitor.
fn tried(cloud: &Cloud, user: &str, key: &str) -> anyhow::Result<String> {
    let first = "jsonpath={.items[0].metadata.name}";
    let pods = [
        "-n",
        STORAGE,
        "get",
        "pods",
        "-l",
        "app=rook-ceph-mon",
        "-o",
        first,
    ];
    let pod = cloud.kubectl(&[CEPH, &pods].concat(), "")?;
    let script = format!(
        "umask 077; f=$(mktemp -p /tmp); cat > $f; rados --mon-host \"$ROOK_CEPH_MON_HOST\" --id {user} --keyring /dev/null \
         --keyfile $f -p volumes ls >/dev/null 2>/tmp/said && echo opened || cat /tmp/said; rm -f $f"
    );
    let exec = [
        "-n", STORAGE, "exec", "-i", &pod, "--", "timeout", "60", "sh", "-c", &script,
    ];
    cloud.kubectl(&[CEPH, &exec].concat(), key)
}

pub fn opens(cloud: &Cloud, user: &str, key: &str) -> anyhow::Result<()> {
    let said = tried(cloud, user, key)?;
    ensure!(said.contains("opened"), "client.{user}: {said}");
    Ok(())
}

pub fn refused(cloud: &Cloud, user: &str, key: &str) -> anyhow::Result<()> {
    let said = until_ok("an answer of Ceph", PATIENCE, || tried(cloud, user, key))?;
    let refusals = ["not permitted", "denied", "auth_bad_method"];
    ensure!(
        refusals.iter().any(|words| said.contains(words)),
        "client.{user}: {said}"
    );
    Ok(())
}
