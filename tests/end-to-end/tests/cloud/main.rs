//! From one ControlPlane to a cloud that people use, with the real programs. Needs root.
//!
//! The images are built first; that takes minutes once, then nothing. `make kubernetes-test` runs a part of it on a
//! real Kubernetes with the real operators.

mod core_services;
mod drills;
mod ha;
mod leaks;
mod lifecycle;
mod objects;
mod others;
mod upgrade;

use end_to_end::cloud::Cloud;
use end_to_end::elsewhere;
use end_to_end::process::free_offset;

/// `c5c3 up` with a profile, on ports of its own.
fn up(profile: &str) -> anyhow::Result<Cloud> {
    let cloud = Cloud::new()?;
    if cloud.is_elsewhere() {
        elsewhere::up(&cloud, profile)?;
        return Ok(cloud);
    }
    let offset = free_offset(&[5000, 8774, 8778, 9292, 9696])?.to_string();
    let arguments = ["--profile", profile, "--port-offset", &offset, "--wait", "900"];
    let said = cloud.c5c3_here("up", &arguments)?;
    println!("{said}");
    Ok(cloud)
}
