//! Real programs that the Makefile puts in place.

use std::path::PathBuf;

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
