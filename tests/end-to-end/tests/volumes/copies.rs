//! Volumes move from one pool to another, and are kept as backups.

use std::time::Instant;

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use serde_json::json;

use crate::api::Api;
use crate::data::{beside, sum, user, volume};

/// Retyped, a volume is in the pool of the other type with all that was in it, and no longer in its own.
pub(crate) fn a_volume_moves_to_another_pool(
    cloud: &Cloud,
    cinder: &Api,
    (image, bytes): (&str, &str),
) -> anyhow::Result<()> {
    let id = volume(cinder, image, "ceph")?;
    ensure!(
        sum(cloud, "volumes", &id)? == bytes,
        "the volume is not its image"
    );
    let start = Instant::now();
    let body = json!({"os-retype": {"new_type": "archive", "migration_policy": "on-demand"}});
    cinder.call("POST", &format!("/v3/volumes/{id}/action"), Some(&body))?;
    cinder.becomes("volumes", "volume", &id, "available")?;
    let seen = cinder.show("volumes", "volume", &id)?;
    ensure!(seen["volume_type"] == "archive", "{seen}");
    println!("retype: moved after {:.1} s", start.elapsed().as_secs_f32());
    let listed = |pool: &str| -> anyhow::Result<String> {
        beside(
            cloud,
            "cinder-volume-ceph",
            &format!("rbd --id {} ls {pool}", user(cloud)?),
        )
    };
    ensure!(
        !listed("volumes")?.contains(&id),
        "{id} is still in the pool volumes"
    );
    ensure!(
        listed("archive")?.contains(&id),
        "{id} is not in the pool archive"
    );
    ensure!(
        sum(cloud, "archive", &id)? == bytes,
        "something was lost on the way"
    );
    cinder.remove("volumes", "volume", &id)
}

/// A backup, one of what changed since, and both restored.
pub(crate) fn a_volume_is_backed_up(
    cloud: &Cloud,
    cinder: &Api,
    (image, bytes): (&str, &str),
) -> anyhow::Result<()> {
    let id = volume(cinder, image, "ceph")?;
    let start = Instant::now();
    let first = cinder.make("backups", "backup", &json!({"volume_id": id, "name": "whole"}))?;
    println!("backup: whole after {:.1} s", start.elapsed().as_secs_f32());
    let write = format!(
        "rbd --id {} bench --io-type write --io-size 64K --io-total 1M volumes/volume-{id} >/dev/null",
        user(cloud)?
    );
    beside(cloud, "cinder-volume-ceph", &write)?;
    let changed = sum(cloud, "volumes", &id)?;
    ensure!(changed != bytes, "nothing was written");
    let spec = json!({"volume_id": id, "name": "more", "incremental": true});
    let second = cinder.make("backups", "backup", &spec)?;
    let seen = cinder.show("backups", "backup", &second)?;
    ensure!(seen["is_incremental"] == true, "{seen}");
    for (backup, expected) in [(&first, bytes), (&second, changed.as_str())] {
        let start = Instant::now();
        let restored = restore(cinder, backup)?;
        let found = sum(cloud, "volumes", &restored)?;
        ensure!(
            found == expected,
            "backup {backup}: {found} instead of {expected}"
        );
        println!("backup: restored after {:.1} s", start.elapsed().as_secs_f32());
        cinder.remove("volumes", "volume", &restored)?;
    }
    rights(cloud)?;
    for backup in [&second, &first] {
        cinder.remove("backups", "backup", backup)?;
    }
    cinder.remove("volumes", "volume", &id)
}

fn restore(cinder: &Api, backup: &str) -> anyhow::Result<String> {
    let body = json!({"restore": {"name": "restored"}});
    let told = cinder.call("POST", &format!("/v3/backups/{backup}/restore"), Some(&body))?;
    let volume = told["restore"]["volume_id"]
        .as_str()
        .with_context(|| told.to_string())?;
    cinder.becomes("backups", "backup", backup, "available")?;
    cinder.becomes("volumes", "volume", volume, "available")?;
    Ok(volume.to_owned())
}

/// Whoever has the key of backups alone sees no volume.
fn rights(cloud: &Cloud) -> anyhow::Result<()> {
    let own = beside(
        cloud,
        "cinder-backup",
        "rbd --id cinder-backup ls backups | wc -l",
    )?;
    ensure!(own.trim().parse::<u32>().is_ok_and(|count| count > 0), "{own}");
    let refused = beside(
        cloud,
        "cinder-backup",
        "rbd --id cinder-backup ls volumes 2>&1 || true",
    )?;
    ensure!(refused.contains("not permitted"), "{refused}");
    Ok(())
}
