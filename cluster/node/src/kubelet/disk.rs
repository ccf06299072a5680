//! Room on the disk: when it gets short, images that no container uses go. They come back
//! from their store with the next pod that names them.

use std::collections::BTreeSet;
use std::path::Path;
use std::time::Duration;

use k8s_cri::v1::{Container, Image};
use nix::sys::statvfs::statvfs;

use crate::cri::Cri;
use crate::error::Result;
use crate::names::Names;
use crate::pods::Host;

/// In percent, as Kubernetes has it.
const SHORT: u64 = 85;
const PERIOD: Duration = Duration::from_secs(300);

/// Looks at the disk forever.
pub(super) async fn watch(host: &Host) {
    loop {
        tokio::time::sleep(PERIOD).await;
        let used = percent_used(&host.node.layout.containerd_root());
        if used.is_none_or(|percent| percent < SHORT) {
            continue;
        }
        match remove_unused(&host.cri, host.node.layout.names).await {
            Ok(gone) if gone.is_empty() => {}
            Ok(gone) => tracing::info!("the disk is short, removed images: {}", gone.join(", ")),
            Err(e) => tracing::warn!("removal of images: {e}"),
        }
        host.images.drop_pulled();
    }
}

fn percent_used(path: &Path) -> Option<u64> {
    let disk = statvfs(path).ok()?;
    let all = disk.blocks().max(1);
    let free = disk.blocks_available();
    Some(100 - (free * 100 / all).min(100))
}

/// Removes the images that no container uses, and returns their names.
pub async fn remove_unused(cri: &Cri, names: Names) -> Result<Vec<String>> {
    // Containers after images: one that is made in between keeps its image.
    let images = cri.images().await?;
    let containers = cri.containers(&[]).await?;
    let mut gone = Vec::new();
    for image in unused(&images, &containers, &names.pause()) {
        cri.remove_image(&image.id).await?;
        gone.push(image.repo_tags.first().unwrap_or(&image.id).clone());
    }
    Ok(gone)
}

fn unused<'a>(images: &'a [Image], containers: &[Container], pause: &str) -> Vec<&'a Image> {
    let used: BTreeSet<&str> = containers
        .iter()
        .flat_map(|c| [c.image_ref.as_str(), c.image.as_ref().map_or("", |i| &i.image)])
        .collect();
    images
        .iter()
        .filter(|image| {
            let names = || {
                image
                    .repo_tags
                    .iter()
                    .chain(&image.repo_digests)
                    .chain([&image.id])
            };
            !names().any(|name| used.contains(name.as_str()) || name == pause)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_cri::v1::ImageSpec;

    #[test]
    fn only_what_nothing_stands_on_goes() {
        let image = |id: &str, tag: &str| Image {
            id: id.into(),
            repo_tags: vec![tag.into()],
            ..Image::default()
        };
        let images = [
            image("sha256:p", "pause:1"),
            image("sha256:a", "a:1"),
            image("sha256:b", "b:1"),
            image("sha256:c", "c:1"),
        ];
        let containers = [
            Container {
                image_ref: "sha256:a".into(),
                ..Container::default()
            },
            Container {
                image: Some(ImageSpec {
                    image: "b:1".into(),
                    ..ImageSpec::default()
                }),
                ..Container::default()
            },
        ];
        let gone: Vec<&str> = unused(&images, &containers, "pause:1")
            .iter()
            .map(|i| i.id.as_str())
            .collect();
        assert_eq!(gone, ["sha256:c"]);
    }

    #[test]
    fn a_disk_has_a_level() {
        assert!(percent_used(Path::new("/")).unwrap() <= 100);
        assert_eq!(percent_used(Path::new("/nowhere")), None);
    }
}
