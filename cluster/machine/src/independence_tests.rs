//! These crates know nothing of the program that embeds them: what it is called comes in as `Names`. Only
//! programs for tests (`main.rs`, `bin/`) and tests have the names of the one that they stand for.

use std::path::{Path, PathBuf};

const CRATES: [&str; 6] = [
    "apimachinery",
    "apiserver",
    "workloads",
    "node",
    "machine",
    "kubernetes",
];

fn files(directory: &Path, all: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let exempt = ["bin", "crashes", "main.rs", "tests", "tests.rs"].contains(&name.as_str());
        if exempt || name.ends_with("_tests.rs") {
            continue;
        }
        if path.is_dir() {
            files(&path, all);
        } else {
            all.push(path);
        }
    }
}

#[test]
fn no_source_names_the_program_that_embeds_clusters() {
    let cluster = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    let mut all = Vec::new();
    for name in CRATES {
        files(&cluster.join(name).join("src"), &mut all);
    }
    assert!(all.len() > 300, "{} files", all.len());
    let named: Vec<&PathBuf> = all
        .iter()
        .filter(|path| {
            let text = String::from_utf8(std::fs::read(path).unwrap()).unwrap_or_default();
            let code = text.split("\nmod tests {").next().unwrap_or_default();
            code.to_lowercase().contains("c5c3") || code.to_lowercase().contains("cobaltcore")
        })
        .collect();
    assert!(named.is_empty(), "{named:#?}");
}
