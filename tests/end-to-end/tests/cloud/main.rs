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

/// One of each, as `--profile core` has it.
const CORE: &str = include_str!("../../../../deploy/profiles/core.yaml");
/// Three of each: the profile `ha` without servers and what they need.
const THREE: &str = include_str!("three.yaml");

/// `c5c3 up` with these objects on so many nodes, on ports of its own.
fn up(text: &str, nodes: u8) -> anyhow::Result<Cloud> {
    let cloud = Cloud::new()?;
    if cloud.is_elsewhere() {
        elsewhere::up(&cloud, text)?;
        return Ok(cloud);
    }
    let offset = free_offset(&[5000, 8774, 8778, 9292, 9696])?.to_string();
    let (file, nodes) = (cloud.state().with_extension("yaml"), nodes.to_string());
    std::fs::write(&file, text)?;
    let file = file.to_string_lossy();
    let arguments = [
        "-f",
        &file,
        "--nodes",
        &nodes,
        "--port-offset",
        &offset,
        "--wait",
        "900",
    ];
    let said = cloud.c5c3_here("up", &arguments)?;
    println!("{said}");
    Ok(cloud)
}
