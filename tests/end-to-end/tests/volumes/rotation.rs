//! A key of Ceph that may have leaked is replaced while volumes are made and deleted: nobody notices, and the old key
//! opens nothing any more.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Instant;

use anyhow::ensure;
use end_to_end::ceph_users::{self, PATIENCE};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until;
use serde_json::json;

use crate::api::Api;
use crate::with_archive;

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
    let by_hand = ceph_users::key(cloud, "cinder")?;
    ceph_users::begin(cloud, with_archive)?;
    let start = Instant::now();
    ceph_users::used(cloud, "cinder-1")?;
    println!(
        "client.cinder gave way to client.cinder-1 after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    ceph_users::told(
        cloud,
        "client.cinder, which was created by hand, is no longer used",
    )?;
    ceph_users::remove(cloud, "cinder")?;
    ceph_users::refused(cloud, "cinder", &by_hand)?;
    more(made, 2)?;

    let first = ceph_users::key(cloud, "cinder-1")?;
    ceph_users::opens(cloud, "cinder-1", &first)?;
    let start = Instant::now();
    ceph_users::rotate_now(cloud)?;
    ceph_users::used(cloud, "cinder-2")?;
    println!(
        "client.cinder-2 is used after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    ceph_users::gone(cloud, "cinder-1")?;
    println!(
        "client.cinder-1 is gone after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    ceph_users::refused(cloud, "cinder-1", &first)?;
    ceph_users::opens(cloud, "cinder-2", &ceph_users::key(cloud, "cinder-2")?)?;
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
