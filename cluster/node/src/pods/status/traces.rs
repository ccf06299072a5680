//! Files that instances of a container leave: their logs and their last words.

use std::path::Path;

/// Instances whose files stay: the newest and the two before it, as the runtime keeps them.
const KEEP: u32 = 2;

/// Removes the files of instances long before `attempt` from a container's directory.
pub(in crate::pods) fn prune(directory: &Path, attempt: u32) {
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        let name = entry.file_name();
        if name.to_str().and_then(number).is_some_and(|n| is_old(n, attempt)) {
            let _ = std::fs::remove_file(entry.path());
        }
    }
}

fn is_old(number: u32, attempt: u32) -> bool {
    number < attempt.saturating_sub(KEEP)
}

/// The instance that a file belongs to: `3`, `3.log` and, once put aside, `3.log.1`.
fn number(name: &str) -> Option<u32> {
    let (number, rest) = name.split_once('.').unwrap_or((name, ""));
    matches!(rest.split('.').next(), Some("" | "log")).then(|| number.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_newest_stay() {
        let dir = tempfile::tempdir().unwrap();
        let all = [
            "0.log", "1.log", "1.log.1", "2.log", "3.log", "4.log", "0", "4", "notes", "1.txt",
        ];
        for name in all {
            std::fs::write(dir.path().join(name), "").unwrap();
        }
        prune(dir.path(), 4);
        let mut left: Vec<_> = std::fs::read_dir(dir.path())
            .unwrap()
            .flatten()
            .map(|e| e.file_name().into_string().unwrap())
            .collect();
        left.sort();
        assert_eq!(left, ["1.txt", "2.log", "3.log", "4", "4.log", "notes"]);
        prune(&dir.path().join("missing"), 4);
    }
}
