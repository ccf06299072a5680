//! Limits of this process that pods and their runtime inherit.

use std::path::Path;

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

/// Each pod's runtime watches files; the usual 128 watchers of one user are few.
const WATCHERS: u64 = 8192;
const WATCHES: &str = "/proc/sys/fs/inotify/max_user_instances";

/// Allows more watchers of files, where the machine lets us.
pub fn raise_watches() {
    raise(Path::new(WATCHES), WATCHERS);
}

/// True when the setting is high enough now. One that is read-only stays as it is.
fn raise(setting: &Path, wanted: u64) -> bool {
    let now = std::fs::read_to_string(setting).ok();
    if now.and_then(|text| text.trim().parse::<u64>().ok()) >= Some(wanted) {
        return true;
    }
    match std::fs::write(setting, wanted.to_string()) {
        Ok(()) => true,
        Err(e) => {
            tracing::info!("{} stays as it is: {e}", setting.display());
            false
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_settings_are_raised_where_that_is_allowed() {
        let dir = tempfile::tempdir().unwrap();
        let file = dir.path().join("setting");
        let read = || std::fs::read_to_string(&file).unwrap();
        std::fs::write(&file, "128\n").unwrap();
        assert!(raise(&file, 200));
        assert_eq!(read(), "200");
        assert!(raise(&file, 100));
        assert_eq!(read(), "200", "never lowered");
        // A directory takes no value, whoever asks.
        assert!(!raise(dir.path(), 200));
        assert!(!raise(Path::new("/proc/sys/nowhere/at/all"), 200));
    }
}
