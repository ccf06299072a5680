//! The files that are made from the types: `deploy/crds/**` and `docs/api/**`.

use crate::{Kind, Origin, reference, registry};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Path below the repository's root → content, for everything that is generated.
pub fn generated() -> BTreeMap<PathBuf, String> {
    let kinds = registry();
    let mut files: BTreeMap<PathBuf, String> = kinds
        .iter()
        .map(|kind| (crd_path(kind), yaml(&kind.manifest())))
        .collect();
    files.extend(reference::pages(kinds));
    files
}

/// Where the definition of a kind is kept.
pub fn crd_path(kind: &Kind) -> PathBuf {
    let directory = match kind.origin {
        Origin::Ours => "deploy/crds",
        Origin::Composite => "deploy/crds/crossplane",
        Origin::Foreign => "deploy/crds/foreign",
    };
    Path::new(directory).join(format!("{}_{}.yaml", kind.group, kind.plural))
}

/// Directories that hold nothing but generated files.
pub const DIRECTORIES: [&str; 2] = ["deploy/crds", "docs/api"];

/// Human YAML: sorted keys, no nulls.
pub fn yaml(value: &Value) -> String {
    let mut value = value.clone();
    drop_nulls(&mut value);
    // A JSON value has no shape that YAML cannot say.
    serde_saphyr::to_string(&value).unwrap_or_default()
}

fn drop_nulls(value: &mut Value) {
    match value {
        Value::Object(map) => {
            map.retain(|_, v| !v.is_null());
            map.values_mut().for_each(drop_nulls);
        }
        Value::Array(items) => items.iter_mut().for_each(drop_nulls),
        _ => {}
    }
}

/// What differs between the generated files and the tree at `root`, one line each.
pub fn stale(root: &Path) -> std::io::Result<Vec<String>> {
    let files = generated();
    let mut differences = Vec::new();
    for (path, content) in &files {
        match std::fs::read_to_string(root.join(path)) {
            Ok(found) if found == *content => {}
            Ok(_) => differences.push(format!("{} differs", path.display())),
            Err(_) => differences.push(format!("{} is missing", path.display())),
        }
    }
    for directory in DIRECTORIES {
        for path in files_below(&root.join(directory))? {
            let relative = path.strip_prefix(root).unwrap_or(&path);
            if !files.contains_key(relative) {
                differences.push(format!("{} is left over", relative.display()));
            }
        }
    }
    Ok(differences)
}

/// Writes the generated files below `root` and removes what is left over.
pub fn write(root: &Path) -> std::io::Result<()> {
    let files = generated();
    for (path, content) in &files {
        let path = root.join(path);
        if let Some(parent) = path.parent() {
            std::fs::create_dir_all(parent)?;
        }
        std::fs::write(path, content)?;
    }
    for directory in DIRECTORIES {
        for path in files_below(&root.join(directory))? {
            if !files.contains_key(path.strip_prefix(root).unwrap_or(&path)) {
                std::fs::remove_file(path)?;
            }
        }
    }
    Ok(())
}

pub(crate) fn files_below(directory: &Path) -> std::io::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    let mut pending = vec![directory.to_path_buf()];
    while let Some(directory) = pending.pop() {
        if !directory.exists() {
            continue;
        }
        for entry in std::fs::read_dir(directory)? {
            let path = entry?.path();
            if path.is_dir() {
                pending.push(path);
            } else {
                files.push(path);
            }
        }
    }
    Ok(files)
}
