//! The rooms of this crate use each other in one direction.

use std::fs;
use std::path::{Path, PathBuf};

/// Each uses what stands before it.
const ROOMS: [&str; 14] = [
    "config",
    "keys",
    "error",
    "names",
    "shape",
    "facts",
    "kinds",
    "build",
    "rotation",
    "judge",
    "plan",
    "report",
    "reconcile",
    "figures",
];

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).expect("a folder").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|end| end == "rs") {
            found.push(path);
        }
    }
}

/// The rooms that are named in code, tests aside.
fn named(text: &str) -> impl Iterator<Item = &str> {
    let code = text.split("#[cfg(test)]\nmod tests {").next().unwrap_or_default();
    let after = code.split("crate::").skip(1);
    after.filter_map(|rest| rest.split(|c: char| !c.is_ascii_lowercase() && c != '_').next())
}

#[test]
fn no_room_uses_one_that_stands_after_it() {
    let top = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/src"));
    let place = |room: &str| ROOMS.iter().position(|known| *known == room);
    let mut all = Vec::new();
    sources(top, &mut all);
    let (mut arrows, mut back) = (0, Vec::new());
    for path in all {
        let own = path
            .strip_prefix(top)
            .expect("below")
            .to_string_lossy()
            .into_owned();
        let room = own.split(['/', '.']).next().unwrap_or_default();
        if ["lib", "testing", "tests"].contains(&room) || own.ends_with("tests.rs") {
            continue;
        }
        let from = place(room).unwrap_or_else(|| panic!("{own} is in none of the rooms"));
        let text = fs::read_to_string(&path).expect("a text");
        for to in named(&text) {
            let Some(number) = place(to) else { continue };
            arrows += 1;
            if number > from {
                back.push(format!("{own} uses {to}"));
            }
        }
    }
    assert!(arrows > 100, "only {arrows} arrows were found");
    assert_eq!(back, Vec::<String>::new());
}
