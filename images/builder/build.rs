//! Embeds recipes, releases, patches and overrides, so that the program works without the repository.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

fn main() -> io::Result<()> {
    // Relative to the package: a tree that is moved or copied with what was built of it stays true to itself.
    let root = Path::new("..").to_path_buf();
    let mut table = String::from("&[\n");
    for folder in ["files", "overrides", "patches", "recipes", "releases"] {
        let path = root.join(folder);
        if path.is_dir() {
            embed(&mut table, &root, &path)?;
        }
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("files.rs"), table)
}

fn embed(table: &mut String, root: &Path, directory: &Path) -> io::Result<()> {
    println!("cargo::rerun-if-changed={}", directory.display());
    let mut entries: Vec<_> = fs::read_dir(directory)?.collect::<Result<_, _>>()?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let path = entry.path();
        if path.is_dir() {
            // The catalogues are what the build makes, not what it reads.
            if entry.file_name() != "options" {
                embed(table, root, &path)?;
            }
        } else if let Ok(name) = path.strip_prefix(root) {
            println!("cargo::rerun-if-changed={}", path.display());
            let (name, path) = (name.display().to_string(), path.display().to_string());
            // Writing to a String cannot fail.
            let _ = writeln!(
                table,
                "({name:?}, include_str!(concat!(env!(\"CARGO_MANIFEST_DIR\"), \"/\", {path:?}))),"
            );
        }
    }
    Ok(())
}
