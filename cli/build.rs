//! Linker settings of the program, and the Helm charts that it carries.

use std::fmt::Write as _;
use std::path::Path;
use std::{env, fs, io};

/// Relative to the package: a tree that is moved with what was built of it stays true to itself.
const CHARTS: &str = "../deploy/charts";

fn main() -> io::Result<()> {
    let is = |name: &str, value: &str| env::var(name).is_ok_and(|found| found == value);
    // Relocations packed into a bitmap: the loader reads a fiftieth of the pages at each start.
    // It has to be that of glibc 2.36 or newer.
    if is("CARGO_CFG_TARGET_OS", "linux") && is("CARGO_CFG_TARGET_ENV", "gnu") {
        println!("cargo::rustc-link-arg-bins=-Wl,-z,pack-relative-relocs");
    }
    println!("cargo::rerun-if-changed=build.rs");
    let mut table = String::from("&[\n");
    for chart in sorted(Path::new(CHARTS))? {
        // The directory `shared` is what charts are generated from.
        if chart.join("Chart.yaml").is_file() {
            table.push_str("&[\n");
            embed(&mut table, &chart, &chart)?;
            table.push_str("],\n");
        }
    }
    table.push_str("]\n");
    let out = env::var_os("OUT_DIR").ok_or_else(|| io::Error::other("OUT_DIR is not set"))?;
    fs::write(Path::new(&out).join("charts.rs"), table)
}

fn embed(table: &mut String, chart: &Path, directory: &Path) -> io::Result<()> {
    for path in sorted(directory)? {
        if path.is_dir() {
            embed(table, chart, &path)?;
        } else if let Ok(name) = path.strip_prefix(chart) {
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

fn sorted(directory: &Path) -> io::Result<Vec<std::path::PathBuf>> {
    println!("cargo::rerun-if-changed={}", directory.display());
    let entries = fs::read_dir(directory)?.map(|entry| entry.map(|entry| entry.path()));
    let mut paths: Vec<_> = entries.collect::<Result<_, _>>()?;
    paths.sort();
    Ok(paths)
}
