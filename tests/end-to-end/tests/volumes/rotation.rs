//! A key of Ceph that may have leaked is replaced while volumes are made and deleted: nobody notices, and the old key
//! opens nothing any more.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use serde_json::json;

use crate::api::Api;
use crate::{CEPH, NAMESPACE, STORAGE, field, with_archive};

const ROTATION: &str = include_str!("../../../../deploy/quickstart/rotation.yaml");
/// Stores are asked once a minute.
const PATIENCE: Duration = Duration::from_secs(420);

pub(crate) fn keys_change_while_volumes_are_made(cloud: &Cloud, cinder: &Api) -> anyhow::Result<()> {
    let stop = AtomicBool::new(false);
    let made = AtomicU32::new(0);
    let failed = std::thread::scope(|scope| -> anyhow::Result<Vec<anyhow::Error>> {
        let workers: Vec<_> = (0..2)
            .map(|_| scope.spawn(|| work(cinder, &stop, &made)))
            .collect();
        let outcome = rotate(cloud, &made);
        stop.store(true, Ordering::Relaxed);
        let failed = workers.into_iter().filter_map(|worker| worker.join().ok()?.err());
        let failed: Vec<_> = failed.collect();
        outcome.map(|()| failed)
    })?;
    println!(
        "rotation: {} volumes made and deleted, {} failed",
        made.load(Ordering::Relaxed),
        failed.len()
    );
    ensure!(failed.is_empty(), "{failed:?}");
    Ok(())
}

fn work(cinder: &Api, stop: &AtomicBool, made: &AtomicU32) -> anyhow::Result<()> {
    while !stop.load(Ordering::Relaxed) {
        let volume = cinder.make("volumes", "volume", &json!({"size": 1, "name": "drill"}))?;
        cinder.remove("volumes", "volume", &volume)?;
        made.fetch_add(1, Ordering::Relaxed);
    }
    Ok(())
}

fn rotate(cloud: &Cloud, made: &AtomicU32) -> anyhow::Result<()> {
    more(made, 2)?;
    // The user that was made by hand gives way to the first of the rotation.
    let by_hand = key(cloud, "cinder")?;
    let objects: Vec<&str> = ROTATION.split("\n---\n").collect();
    for object in objects {
        let place = if object.contains("c5c3.io/cluster: storage") {
            CEPH
        } else {
            &[]
        };
        let quick = with_archive(object).replace("gracePeriodDays: 1", "gracePeriodDays: 0");
        cloud.kubectl(&[place, &["apply", "-f", "-"]].concat(), &quick)?;
    }
    let start = Instant::now();
    used(cloud, "cinder-1")?;
    println!(
        "client.cinder gave way to client.cinder-1 after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    until("the user made by hand may go", PATIENCE, || {
        let told = field(
            cloud,
            "credentialrotation/ceph-cinder",
            "{.status.conditions[*].message}",
        )?;
        Ok(
            if told.contains("client.cinder, which was created by hand, is no longer used") {
                Ok(())
            } else {
                Err(told)
            },
        )
    })?;
    cloud.kubectl(
        &[
            CEPH,
            &["-n", STORAGE, "delete", "cephclient", "cinder", "--timeout=90s"],
        ]
        .concat(),
        "",
    )?;
    refused(cloud, "cinder", &by_hand)?;
    more(made, 2)?;

    let first = key(cloud, "cinder-1")?;
    opens(cloud, "cinder-1", &first)?;
    let start = Instant::now();
    let now = [
        "-n",
        NAMESPACE,
        "annotate",
        "credentialrotation/ceph-cinder",
        "c5c3.io/rotate-now=leak",
    ];
    cloud.kubectl(&now, "")?;
    used(cloud, "cinder-2")?;
    println!(
        "client.cinder-2 is used after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    until("the user before is gone", PATIENCE, || {
        let users = cloud.kubectl(
            &[CEPH, &["-n", STORAGE, "get", "cephclients", "-o", "name"]].concat(),
            "",
        )?;
        let told = field(
            cloud,
            "credentialrotation/ceph-cinder",
            "{.status.conditions[*].message}",
        )?;
        Ok(if users.contains("cinder-1") {
            Err(format!("{users}{told}"))
        } else {
            Ok(())
        })
    })?;
    println!(
        "client.cinder-1 is gone after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    refused(cloud, "cinder-1", &first)?;
    opens(cloud, "cinder-2", &key(cloud, "cinder-2")?)?;
    more(made, 4)
}

/// So many volumes later.
fn more(made: &AtomicU32, count: u32) -> anyhow::Result<()> {
    let before = made.load(Ordering::Relaxed);
    until(&format!("{count} more volumes"), PATIENCE, || {
        let now = made.load(Ordering::Relaxed);
        Ok(if now >= before + count {
            Ok(())
        } else {
            Err(format!("{} so far", now - before))
        })
    })
}

fn key(cloud: &Cloud, user: &str) -> anyhow::Result<String> {
    let secret = format!("rook-ceph-client-{user}");
    let words = [
        "-n",
        STORAGE,
        "get",
        "secret",
        &secret,
        "-o",
        "go-template={{.data.userKey | base64decode}}",
    ];
    cloud.kubectl(&[CEPH, words.as_slice()].concat(), "")
}

/// Cinder itself says whom it is.
fn used(cloud: &Cloud, user: &str) -> anyhow::Result<()> {
    let wanted = format!("as client.{user}");
    until(&format!("Cinder opens volumes {wanted}"), PATIENCE, || {
        let told = field(
            cloud,
            "cinder/cinder",
            "{.status.conditions[?(@.type==\"CephConnected\")].message}",
        )?;
        let up = field(
            cloud,
            "deployment/cinder-volume-ceph",
            "{.status.updatedReplicas}/{.status.availableReplicas}/{.status.replicas}",
        )?;
        Ok(if told.ends_with(&wanted) && up == "1/1/1" {
            Ok(())
        } else {
            Err(format!("{told} {up}"))
        })
    })
}

/// What `rados` says with a key that was copied, beside a monitor.
fn try_key(cloud: &Cloud, user: &str, key: &str) -> anyhow::Result<String> {
    let pods = [
        "-n",
        STORAGE,
        "get",
        "pods",
        "-l",
        "app=rook-ceph-mon",
        "-o",
        "jsonpath={.items[0].metadata.name}",
    ];
    let pod = cloud.kubectl(&[CEPH, pods.as_slice()].concat(), "")?;
    let script = format!(
        "umask 077; f=$(mktemp -p /tmp); cat > $f; rados --mon-host \"$ROOK_CEPH_MON_HOST\" --id {user} --keyring /dev/null \
         --keyfile $f -p volumes ls >/dev/null 2>/tmp/said && echo opened || cat /tmp/said; rm -f $f"
    );
    let exec = [
        "-n", STORAGE, "exec", "-i", &pod, "--", "timeout", "60", "sh", "-c", &script,
    ];
    cloud.kubectl(&[CEPH, exec.as_slice()].concat(), key)
}

fn opens(cloud: &Cloud, user: &str, key: &str) -> anyhow::Result<()> {
    let said = try_key(cloud, user, key)?;
    ensure!(said.contains("opened"), "client.{user}: {said}");
    Ok(())
}

fn refused(cloud: &Cloud, user: &str, key: &str) -> anyhow::Result<()> {
    let said = until_ok("an answer", PATIENCE, || try_key(cloud, user, key)).context("Ceph")?;
    let refusals = ["not permitted", "denied", "auth_bad_method"];
    ensure!(
        refusals.iter().any(|words| said.contains(words)),
        "client.{user}: {said}"
    );
    Ok(())
}
