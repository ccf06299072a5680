//! Ceph alone on one node, from nothing to Ready and to pools and users that can be used, with the memory that each
//! daemon takes. Images are warm, the state directory is new. Needs root.
//!
//! The baseline is the cluster without Ceph, brought up in the same run.

use std::time::{Duration, Instant};

use end_to_end::cloud::Cloud;
use end_to_end::memory;
use end_to_end::patience::until;

/// One monitor, one manager, two disks, the pools and users of OpenStack.
const CEPH: &str = include_str!("../../../deploy/quickstart/storage.yaml");
const NAMESPACE: [&str; 2] = ["-n", "rook-ceph"];
const PATIENCE: Duration = Duration::from_secs(300);

fn main() -> anyhow::Result<()> {
    end_to_end::install_crypto();
    let cloud = Cloud::new()?;
    cloud.c5c3(&["image", "build", "ceph"])?;
    let start = Instant::now();
    cloud.c5c3_here("up", &["--profile", "none", "--cluster", "storage=1"])?;
    println!("the cluster alone:      {:.1?} (baseline)", start.elapsed());
    let before = memory_of(&cloud)?;

    let start = Instant::now();
    cloud.kubectl(&["apply", "-f", "-"], CEPH)?;
    ready(&cloud, "cephcluster", 1)?;
    println!("Ceph is Ready:          {:.1?} (goal 25 s)", start.elapsed());
    ready(&cloud, "cephblockpool", 3)?;
    ready(&cloud, "cephclient", 3)?;
    println!("pools and users as well: {:.1?}", start.elapsed());

    let after = memory_of(&cloud)?;
    let sum = |parts: &[(String, f64)]| parts.iter().map(|(_, taken)| taken).sum::<f64>();
    println!(
        "memory: {:.0} MiB, {:.0} MiB of them before Ceph (baseline)",
        sum(&after),
        sum(&before)
    );
    for (name, taken) in after {
        println!("  {taken:7.1} MiB  {name}");
    }
    Ok(())
}

/// Waits until so many objects of a kind are.
fn ready(cloud: &Cloud, kind: &str, count: usize) -> anyhow::Result<()> {
    let list = ["get", kind, "-o", "jsonpath={.items[*].status.phase}"];
    until(&format!("{kind}: {count} are Ready"), PATIENCE, || {
        let phases = cloud.kubectl(&[&NAMESPACE[..], &list].concat(), "")?;
        let ready = phases
            .split_whitespace()
            .filter(|phase| *phase == "Ready")
            .count();
        Ok(if ready == count { Ok(()) } else { Err(phases) })
    })
}

/// By daemon, the largest first.
fn memory_of(cloud: &Cloud) -> anyhow::Result<Vec<(String, f64)>> {
    let mut parts: Vec<(String, f64)> = memory::by_part(cloud, &["storage"])?.into_iter().collect();
    parts.sort_by(|a, b| b.1.total_cmp(&a.1));
    Ok(parts)
}
