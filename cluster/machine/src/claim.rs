//! Which directories belong to a cluster: `up` uses no other, and `down --purge` removes nothing else.

use std::path::{Path, PathBuf};

use crate::mark::{self, Whose};
use crate::settings;
use embedded_node::error::{Error, Result};
use embedded_node::names::Names;

/// What a cluster creates in its state directory. No other program uses the names in `MARKS`.
const MARKS: [&str; 2] = ["daemon.json", ".packages"];
const PLAIN: [&str; 7] = ["api", "builtin", "demo", "lock", "nodes", "pulled", "volumes"];

fn is_mark(called: Names, name: &str) -> bool {
    let part = name.starts_with("cluster.") && name.ends_with(".part");
    let log = called.log_name();
    let logged = name
        .strip_prefix(log.as_str())
        .is_some_and(|end| matches!(end, "" | ".1"));
    MARKS.contains(&name) || logged || part || name.starts_with(".overlay-")
}

fn is_own(called: Names, name: &str) -> bool {
    let part = name == "daemon.part";
    settings::FILES.contains(&name) || is_mark(called, name) || PLAIN.contains(&name) || part
}

/// Whose a directory is, by the names in it.
fn is_ours(called: Names, names: &[String]) -> bool {
    let settings = names.iter().any(|name| settings::FILES.contains(&name.as_str()));
    settings || is_begun(called, names)
}

/// A start that broke off may have left anything but the settings.
fn is_begun(called: Names, names: &[String]) -> bool {
    let begun =
        names.iter().any(|name| is_mark(called, name)) && names.iter().all(|name| is_own(called, name));
    names.is_empty() || begun
}

fn names(state: &Path) -> Result<Vec<String>> {
    let entries = std::fs::read_dir(state).map_err(Error::file("read", state))?;
    let mut names: Vec<String> = entries
        .map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned()))
        .collect::<std::io::Result<_>>()
        .map_err(Error::file("read", state))?;
    names.sort();
    Ok(names)
}

/// Refuses a directory that holds other files and no cluster.
pub(crate) fn check(called: Names, state: &Path) -> Result<()> {
    if !state.exists() || is_ours(called, &names(state)?) {
        return Ok(());
    }
    Err(Error::Refused(format!(
        "--state-dir {}: it contains other files and no cluster; name a new or an empty directory",
        state.display()
    )))
}

/// Refuses to purge what is not a state directory of ours.
pub(crate) fn check_purge(called: Names, state: &Path, home: Option<&Path>) -> Result<()> {
    let refused = |why: &str| Err(Error::Refused(format!("--state-dir {}: {why}", state.display())));
    let holds_home = home.is_some_and(|home| home.starts_with(state));
    if state.parent().is_none() || holds_home {
        return refused(
            "a home directory and its parent directories are never purged; remove the cluster's files by hand",
        );
    }
    match mark::whose(called, state) {
        Whose::Own => Ok(()),
        Whose::Others(why) => refused(&format!("{why}; nothing was removed")),
        Whose::Unknown if is_begun(called, &names(state)?) => Ok(()),
        Whose::Unknown => refused("there is no cluster in it, so nothing was removed"),
    }
}

/// Removes what is ours, and the directory itself when nothing else is in it. Gives what stays.
pub(crate) fn purge(called: Names, state: &Path) -> Result<Vec<String>> {
    let (own, foreign): (Vec<String>, Vec<String>) =
        names(state)?.into_iter().partition(|name| is_own(called, name));
    // The settings last: a purge that broke off can be run again.
    let (settings, rest): (Vec<_>, Vec<_>) = own
        .iter()
        .partition(|name| settings::FILES.contains(&name.as_str()));
    for name in rest.into_iter().chain(settings) {
        remove(&state.join(name))?;
    }
    if foreign.is_empty() {
        std::fs::remove_dir(state).map_err(Error::file("remove", state))?;
    }
    Ok(foreign)
}

fn remove(path: &PathBuf) -> Result<()> {
    // A link is removed, not followed.
    let directory = std::fs::symlink_metadata(path).is_ok_and(|found| found.is_dir());
    if directory {
        std::fs::remove_dir_all(path)
    } else {
        std::fs::remove_file(path)
    }
    .map_err(Error::file("remove", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EXAMPLE;

    #[test]
    fn a_directory_is_ours_by_its_settings_or_by_a_start_that_broke_off() {
        for (names, ours) in [
            (vec![], true),
            (vec!["cluster.json", "notes.txt"], true),
            (vec!["cluster.json.copy"], true),
            (vec!["cluster.part"], true),
            (vec![".packages"], true),
            (vec!["api", "example.log", "lock", "nodes"], true),
            (vec!["example.log", "notes.txt"], false),
            // Anybody may have folders of these names.
            (vec!["api", "volumes"], false),
            (vec!["notes.txt"], false),
        ] {
            let names: Vec<String> = names.into_iter().map(str::to_owned).collect();
            assert_eq!(is_ours(EXAMPLE, &names), ours, "{names:?}");
        }
    }

    #[test]
    fn a_purge_takes_what_is_ours_and_nothing_else() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().join("state");
        std::fs::create_dir_all(state.join("nodes/node-1")).unwrap();
        let own = mark::text(EXAMPLE, &settings::Settings::default(), &state).unwrap();
        std::fs::write(state.join("cluster.json"), own).unwrap();
        std::fs::write(state.join("notes.txt"), "mine").unwrap();
        check_purge(EXAMPLE, &state, None).unwrap();
        assert_eq!(purge(EXAMPLE, &state).unwrap(), ["notes.txt"]);
        assert_eq!(names(&state).unwrap(), ["notes.txt"]);
        let said = check_purge(EXAMPLE, &state, None).unwrap_err();
        assert!(matches!(said, Error::Refused(_)), "{said}");
        assert!(said.to_string().contains("no cluster in it"), "{said}");
        assert!(check(EXAMPLE, &state).is_err());
        std::fs::remove_file(state.join("notes.txt")).unwrap();
        check(EXAMPLE, &state).unwrap();
        assert!(purge(EXAMPLE, &state).unwrap().is_empty() && !state.exists());
    }

    #[test]
    fn a_file_that_merely_has_the_name_proves_nothing() {
        let directory = tempfile::tempdir().unwrap();
        let state = directory.path().canonicalize().unwrap();
        std::fs::create_dir(state.join("volumes")).unwrap();
        let elsewhere = mark::text(EXAMPLE, &settings::Settings::default(), Path::new("/elsewhere")).unwrap();
        for (text, said) in [
            ("{}", "is not marked as belonging to a cluster"),
            (elsewhere.as_str(), "the cluster in /elsewhere"),
            ("", "no cluster in it"),
        ] {
            std::fs::write(state.join("cluster.json"), text).unwrap();
            let error = check_purge(EXAMPLE, &state, None).unwrap_err();
            assert!(matches!(error, Error::Refused(_)), "{error}");
            assert!(error.to_string().contains(said), "{error}");
        }
        // Cut short, but a start of ours left a mark.
        std::fs::write(state.join("example.log"), "").unwrap();
        check_purge(EXAMPLE, &state, None).unwrap();
        // One copy that is whole is enough.
        let own = mark::text(EXAMPLE, &settings::Settings::default(), &state).unwrap();
        std::fs::write(state.join("cluster.json.copy"), own).unwrap();
        std::fs::write(state.join("notes.txt"), "").unwrap();
        check_purge(EXAMPLE, &state, None).unwrap();
    }

    #[test]
    fn neither_the_root_nor_a_home_is_ever_purged() {
        let home = tempfile::tempdir().unwrap();
        std::fs::write(home.path().join("cluster.json"), "{}").unwrap();
        let refused = |state: &Path| {
            check_purge(EXAMPLE, state, Some(home.path()))
                .unwrap_err()
                .to_string()
        };
        assert!(refused(home.path()).contains("never purged"));
        assert!(refused(Path::new("/")).contains("never purged"));
        let below = home.path().join("state");
        std::fs::create_dir(&below).unwrap();
        check_purge(EXAMPLE, &below, Some(home.path())).unwrap();
    }
}
