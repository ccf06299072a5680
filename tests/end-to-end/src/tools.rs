//! Real programs that the Makefile puts in place.

use std::path::{Path, PathBuf};

use anyhow::Context;

fn directory() -> PathBuf {
    let variable = |name: &str| std::env::var_os(name).map(PathBuf::from);
    variable("C5C3_TOOLS").unwrap_or_else(|| {
        let home = variable("HOME").unwrap_or_else(|| "/root".into());
        variable("XDG_CACHE_HOME")
            .unwrap_or_else(|| home.join(".cache"))
            .join("c5c3/tools")
    })
}

/// `kubectl` or `helm`.
pub fn tool(program: &str) -> anyhow::Result<PathBuf> {
    let path = directory().join(program);
    anyhow::ensure!(path.is_file(), "{} is missing: run 'make tools'", path.display());
    Ok(path)
}

/// Our own program, of the same build.
pub fn c5c3() -> anyhow::Result<PathBuf> {
    // target/<profile>/deps/<test>-… lies beside target/<profile>/c5c3.
    let own = std::env::current_exe()?;
    let profile = own.parent().and_then(Path::parent);
    let path = profile.context("a target directory")?.join("c5c3");
    let missing = || format!("{} is missing: run 'cargo build -p c5c3'", path.display());
    anyhow::ensure!(path.is_file(), missing());
    Ok(path)
}
