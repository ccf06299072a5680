//! Volumes and images in a real Ceph, without hypervisors: keys that change, copies, and moves between pools. Needs root.

mod api;
mod copies;
mod data;
mod rotation;
mod s3;

use std::io::Write;

use end_to_end::cloud::Cloud;
use end_to_end::process::free_offset;

use api::Api;

const NAMESPACE: &str = "openstack";

const CLOUD: &str = include_str!("cloud.yaml");
const BACKUP: &str = include_str!("../../../../deploy/quickstart/backup.yaml");
const QUICKSTART: &str = include_str!("../../../../deploy/quickstart/storage.yaml");

#[test]
#[ignore = "a cloud of its own: make soak"]
fn volumes_in_ceph() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let offset = free_offset(&[5000, 8776, 9292])?;
    let mut file = tempfile::NamedTempFile::with_suffix(".yaml")?;
    write!(file, "{}---\n{BACKUP}---\n{CLOUD}", with_archive(QUICKSTART))?;
    let path = file.path().to_string_lossy().into_owned();
    let ports = offset.to_string();
    let up = ["--file", &path, "--port-offset", &ports, "--wait", "900"];
    println!("{}", cloud.c5c3_here("up", &up)?);
    let cinder = Api::of(&cloud, 8776 + offset)?;
    let glance = Api::of(&cloud, 9292 + offset)?;
    let (image, bytes) = data::image(&glance, "random")?;
    let image = (image.as_str(), bytes.as_str());
    copies::a_volume_moves_to_another_pool(&cloud, &cinder, image)?;
    copies::a_volume_is_backed_up(&cloud, &cinder, image)?;
    rotation::keys_change_while_volumes_are_made(&cloud, &cinder)?;
    copies::a_volume_is_backed_up(&cloud, &cinder, image)?;
    s3::images_are_kept_in_s3(&cloud)
}

/// Cinder may use a second pool, too.
fn with_archive(objects: &str) -> String {
    let more = |what: &str| format!("{what} pool=volumes, {what} pool=archive");
    objects.replace("profile rbd pool=volumes", &more("profile rbd"))
}
