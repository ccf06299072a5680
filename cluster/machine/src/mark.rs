//! The mark in the settings file that says that a directory belongs to a cluster, and to which one.
//! Nothing is removed without it.

use std::path::{Path, PathBuf};

use embedded_node::names::Names;
use serde::{Deserialize, Serialize};

use crate::settings::{FILES, Settings};

const VERSION: u32 = 1;

#[derive(Serialize, Deserialize)]
struct Mark {
    kind: String,
    version: u32,
    /// The state directory that the settings lie in.
    directory: PathBuf,
}

#[derive(Serialize)]
struct Marked<'a> {
    #[serde(flatten)]
    mark: Mark,
    #[serde(flatten)]
    settings: &'a Settings,
}

/// The settings as they are kept in `state`.
pub(super) fn text(names: Names, settings: &Settings, state: &Path) -> serde_json::Result<String> {
    let mark = Mark {
        kind: names.mark(),
        version: VERSION,
        directory: state.into(),
    };
    serde_json::to_string_pretty(&Marked { mark, settings })
}

/// Whose settings lie in a directory.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Whose {
    Own,
    /// There are none, or nothing that can be read.
    Unknown,
    /// Not this cluster's, and why.
    Others(String),
}

pub(super) fn whose(names: Names, state: &Path) -> Whose {
    let mut last = Whose::Unknown;
    for name in FILES {
        let Ok(text) = std::fs::read(state.join(name)) else {
            continue;
        };
        match judge(names, &text, state) {
            Ok(()) => return Whose::Own,
            Err(Some(why)) => last = Whose::Others(format!("{name} {why}")),
            Err(None) => {}
        }
    }
    last
}

/// Why the text is not the settings of the cluster in `state`; no reason when it is damaged.
fn judge(names: Names, text: &[u8], state: &Path) -> Result<(), Option<String>> {
    let (kind, program) = (names.mark(), names.program);
    let again = format!("if a cluster is in it, run `{program} up` or `{program} down` to mark it");
    let value: serde_json::Value = serde_json::from_slice(text).map_err(|_| None)?;
    let settings: Result<Settings, _> = serde_json::from_value(value.clone());
    let mark: Result<Mark, _> = serde_json::from_value(value);
    match (mark, settings) {
        (Ok(mark), _) if mark.kind != kind => Err(Some(format!("is of kind {:?}, not {kind:?}", mark.kind))),
        (Ok(mark), _) if mark.version != VERSION => Err(Some(format!(
            "has version {}, but this program knows version {VERSION}: use the program that created it",
            mark.version
        ))),
        (Ok(mark), _) if mark.directory != state => Err(Some(format!(
            "belongs to the cluster in {} and was moved or copied from there; {again}",
            mark.directory.display()
        ))),
        (Ok(_), Ok(_)) => Ok(()),
        _ => Err(Some(format!("is not marked as belonging to a cluster; {again}"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::EXAMPLE;

    #[test]
    fn settings_tell_whose_they_are() {
        let (state, other) = (Path::new("/s"), Path::new("/o"));
        let own = text(EXAMPLE, &Settings::default(), state).unwrap();
        assert_eq!(judge(EXAMPLE, own.as_bytes(), state), Ok(()));
        let with = |from: &str, to: &str| own.replace(from, to);
        for (text, said) in [
            (
                text(EXAMPLE, &Settings::default(), other).unwrap(),
                "the cluster in /o",
            ),
            (
                with(&EXAMPLE.mark(), "somebody.else/cluster"),
                "is of kind \"somebody.else/cluster\"",
            ),
            (with("\"version\": 1", "\"version\": 2"), "has version 2"),
            (with("\"nodes\"", "\"knots\""), "is not marked"),
            (
                serde_json::to_string(&Settings::default()).unwrap(),
                "is not marked",
            ),
            ("{}".into(), "is not marked"),
            ("[1]".into(), "is not marked"),
        ] {
            let why = judge(EXAMPLE, text.as_bytes(), state).unwrap_err().unwrap();
            assert!(why.contains(said), "{why}");
        }
        assert_eq!(judge(EXAMPLE, b"{ half", state), Err(None));
    }
}
