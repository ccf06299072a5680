//! The reader of OCI layouts.

use std::path::Path;

/// An index of any content is read or refused, and names no file outside of its directory.
pub(super) fn oci(data: &[u8]) {
    let directory = tempfile::tempdir().expect("a directory");
    let layout: &Path = directory.path();
    std::fs::write(layout.join("index.json"), data).expect("written");
    let blobs = layout.join("blobs/sha256");
    std::fs::create_dir_all(&blobs).expect("made");
    // The same bytes as manifest and configuration of the digests that a seed names.
    for digest in ["a".repeat(64), "b".repeat(64)] {
        std::fs::write(blobs.join(digest), data).expect("written");
    }
    let _ = embedded_node::images::store::find(layout, "docker.io/library/x:latest");
    if let Ok(text) = std::str::from_utf8(data)
        && let Ok(path) = embedded_node::images::store::blob(layout, text.trim())
    {
        assert!(path.starts_with(layout), "{path:?}");
        assert!(
            !path.components().any(|part| part.as_os_str() == ".."),
            "{path:?}"
        );
    }
    let name = String::from_utf8_lossy(data);
    let normal = embedded_node::images::normalise(&name);
    assert_eq!(embedded_node::images::normalise(&normal), normal, "{name}");
}
