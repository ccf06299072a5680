//! Images of the local store, brought to the nodes before a pod asks: no registry has them.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use embedded_node::images::{Images, builder_name, store};

/// How often to check whether another image was built.
const LOOK: Duration = Duration::from_secs(2);

/// Imports the images that exist, then every new one, forever.
pub(crate) async fn keep(images: Images, nodes: Vec<String>, directory: PathBuf, wanted: Vec<String>) {
    let mut last = None;
    loop {
        let now = stamp(&directory);
        if now.is_some() && now != last && bring(&images, &nodes, &directory, &wanted).await {
            last = now;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// True when every image came to every node.
pub(crate) async fn bring(images: &Images, nodes: &[String], directory: &Path, wanted: &[String]) -> bool {
    let names = match store::names(directory) {
        Ok(names) => names,
        Err(e) => {
            tracing::warn!("{e}");
            return false;
        }
    };
    let mut all = true;
    for name in names.iter().filter(|name| is_wanted(name, wanted)) {
        for node in nodes {
            if let Err(e) = images.provide(node, name, false).await {
                tracing::warn!("{name}: {e}");
                all = false;
            }
        }
    }
    all
}

fn stamp(directory: &Path) -> Option<SystemTime> {
    std::fs::metadata(directory.join("index.json"))
        .ok()?
        .modified()
        .ok()
}

fn is_wanted(reference: &str, wanted: &[String]) -> bool {
    wanted.is_empty() || wanted.iter().any(|name| name == builder_name(reference))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_are_chosen_by_name() {
        let reference = "registry.example/cloud/keystone:28.1.0";
        assert!(is_wanted(reference, &[]));
        assert!(is_wanted(
            reference,
            &["glance".to_owned(), "keystone".to_owned()]
        ));
        assert!(!is_wanted(reference, &["key".to_owned()]));
    }
}
