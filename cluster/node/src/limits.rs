//! Limits of this process that pods and their runtime inherit.

use nix::sys::resource::{Resource, getrlimit, setrlimit};

/// Fewer open files do not carry a node.
pub const LEAST_FILES: u64 = 1024;
/// More than this only slows programs down that close every file they might have.
const MOST_FILES: u64 = 1 << 20;

/// How many files may be open at once, at most.
pub fn files() -> u64 {
    getrlimit(Resource::RLIMIT_NOFILE).map_or(u64::MAX, |(_, hard)| hard)
}

/// Allows as many open files as this process may.
pub fn raise_files() {
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        let wanted = hard.min(MOST_FILES).max(soft);
        let _ = setrlimit(Resource::RLIMIT_NOFILE, wanted, hard);
    }
}
