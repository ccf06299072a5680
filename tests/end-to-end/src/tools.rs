//! Real programs that the Makefile puts in place.

use std::path::PathBuf;

fn cache() -> PathBuf {
    let home = || std::env::var_os("HOME").map_or_else(|| PathBuf::from("/root"), PathBuf::from);
    std::env::var_os("XDG_CACHE_HOME")
        .map_or_else(|| home().join(".cache"), PathBuf::from)
        .join("c5c3")
}

fn find(variable: &str, default: &str, program: &str, target: &str) -> anyhow::Result<PathBuf> {
    let directory = std::env::var_os(variable).map_or_else(|| cache().join(default), PathBuf::from);
    let path = directory.join(program);
    anyhow::ensure!(
        path.is_file(),
        "{} is missing: run 'make {target}'",
        path.display()
    );
    Ok(path)
}

/// `kubectl` or `helm`.
pub fn tool(program: &str) -> anyhow::Result<PathBuf> {
    find("C5C3_TOOLS", "tools", program, "tools")
}

/// `kube-apiserver` or `etcd`.
pub fn kubernetes(program: &str) -> anyhow::Result<PathBuf> {
    find("C5C3_KUBERNETES", "kubernetes-v1.37.1", program, "conformance")
}
