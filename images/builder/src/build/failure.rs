//! From a failed step and its log to an error that says what to do.

use std::fs;
use std::path::Path;

use crate::error::Error;

const TAIL: usize = 15;
/// Below this the disk counts as full.
const FULL: u64 = 32 << 20;

/// Signs in a log that the network or a registry is at fault.
const REGISTRY: &[&str] = &[
    "Could not resolve",
    "Temporary failure",
    "Could not connect",
    "Connection refused",
    "Connection timed out",
    "Unable to connect",
    "Unable to locate package",
    "Failed to fetch",
    "error sending request",
    "dns error",
    "tcp connect error",
    "certificate verify failed",
    "invalid peer certificate",
    "403  Forbidden",
    "407 Proxy",
    "was not found in the package registry",
    "Cannot initiate the connection",
];

pub(crate) fn explain(layer: &str, step: &str, status: &str, log: &Path, store: &Path) -> Error {
    let text = String::from_utf8_lossy(&fs::read(log).unwrap_or_default()).into_owned();
    let free = free_bytes(store);
    classify(layer, step, status, &text, log, store, free)
}

/// Free bytes where `path` lies, when that can be told.
pub(crate) fn free_bytes(path: &Path) -> Option<u64> {
    let stat = nix::sys::statvfs::statvfs(path).ok()?;
    Some(stat.blocks_available() * stat.fragment_size())
}

fn classify(
    layer: &str,
    step: &str,
    status: &str,
    text: &str,
    log: &Path,
    store: &Path,
    free: Option<u64>,
) -> Error {
    let lines: Vec<&str> = text.lines().filter(|line| !line.trim().is_empty()).collect();
    let full = lines
        .iter()
        .rev()
        .take(200)
        .any(|line| line.contains("No space left on device"));
    if full || free.is_some_and(|free| free < FULL) {
        let detail = format!("layer {layer}: {step} failed");
        return Error::DiskFull {
            path: store.to_owned(),
            detail,
        };
    }
    let recent = &lines[lines.len().saturating_sub(60)..];
    if let Some(line) = recent
        .iter()
        .find(|line| REGISTRY.iter().any(|sign| line.contains(sign)))
    {
        return Error::Registry {
            layer: layer.into(),
            line: line.trim().into(),
            log: log.to_owned(),
        };
    }
    if recent
        .iter()
        .any(|line| line.contains("mmdebstrap: not found") || line.contains("mmdebstrap: command not found"))
    {
        return Error::Program {
            program: "mmdebstrap".into(),
            package: "mmdebstrap".into(),
        };
    }
    let tail = &lines[lines.len().saturating_sub(TAIL)..];
    Error::Step {
        layer: layer.into(),
        step: step.into(),
        status: status.into(),
        log: log.to_owned(),
        tail: tail
            .iter()
            .map(|line| format!("  | {line}"))
            .collect::<Vec<_>>()
            .join("\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_are_told_apart() {
        let at = |text: &str, free: u64| {
            let path = Path::new("/x");
            classify("keystone", "uv", "exit status: 1", text, path, path, Some(free)).to_string()
        };
        let plenty = 1 << 40;
        for (text, free, part) in [
            (
                "a\nE: write: No space left on device\nE: failed\n",
                plenty,
                "no space left on /x",
            ),
            ("strange\n", 1000, "no space left on /x"),
            (
                "Err:1 http://x Could not resolve 'x'\nE: bad\n",
                plenty,
                "registry cannot be used: Err:1 http://x",
            ),
            (
                "/bin/sh: 1: mmdebstrap: not found\n",
                plenty,
                "install the package `mmdebstrap`",
            ),
            ("one\ntwo\n", plenty, "layer keystone: uv failed (exit status: 1)"),
            ("one\ntwo\n", plenty, "  | two"),
        ] {
            assert!(at(text, free).contains(part), "{text}: {}", at(text, free));
        }
    }
}
