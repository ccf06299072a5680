//! Embeds the part of `images/releases` that operators need: versions and option catalogues.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Relative to the package: a tree that is moved or copied with what was built of it stays true to itself.
    let releases = Path::new("../releases").to_path_buf();
    println!("cargo::rerun-if-changed={}", releases.display());
    let mut table = String::from("&[\n");
    for release in sorted(&releases)? {
        for file in ["release.yaml", "source-refs.yaml"] {
            entry(&mut table, &releases, &format!("{release}/{file}"));
        }
        let options = releases.join(&release).join("options");
        if options.is_dir() {
            println!("cargo::rerun-if-changed={}", options.display());
            for file in sorted(&options)?.iter().filter(|f| f.ends_with(".json")) {
                entry(&mut table, &releases, &format!("{release}/options/{file}"));
            }
        }
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("files.rs"), table)
}

fn entry(table: &mut String, root: &Path, name: &str) {
    let path = root.join(name).display().to_string();
    println!("cargo::rerun-if-changed={path}");
    // Writing to a String cannot fail.
    let _ = writeln!(
        table,
        "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/\", {path:?}))),"
    );
}

fn sorted(directory: &Path) -> io::Result<Vec<String>> {
    let mut names = Vec::new();
    for found in fs::read_dir(directory)? {
        names.push(found?.file_name().to_string_lossy().into_owned());
    }
    names.sort();
    Ok(names)
}
