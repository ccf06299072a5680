//! What processes keep to as long as they run: the version of others that they asked for once.
//!
//! Nova speaks to its computes as the oldest of them understands. It asks for that once, when it first has something to
//! say, and keeps to it; by then the computes are still of the version before. So what speaks to them starts anew when
//! all of them run another version: once, by an annotation of its pods.

use c5c3_catalogue::upstream;

use super::{Configuration, standing, workload_name};
use crate::facts::Facts;
use crate::names::KEEPS_TO;
use crate::shape::{Process, Service};

/// The version to which pods of this process keep; none for a process that keeps to nothing.
pub(super) fn pin(
    service: &Service,
    configuration: &Configuration,
    process: &Process,
    facts: &Facts,
) -> Option<String> {
    if process.keeps_to.is_empty() {
        return None;
    }
    let wanted = service.version()?;
    let others = service.processes.iter();
    let mut others = others.filter(|other| process.keeps_to.contains(&other.name));
    let all_moved = others.all(|other| standing::is_up(service, facts, configuration, other));
    let live = facts.live(process, &workload_name(service, process));
    let seen = live.as_ref().map(|live| {
        let annotations = live.template.metadata.as_ref()?.annotations.as_ref()?;
        annotations.get(KEEPS_TO).map(String::as_str)
    });
    let installed = service
        .status
        .as_ref()
        .and_then(|status| status.installed_release.as_deref());
    Some(pinned(upstream(&wanted), all_moved, seen, installed.map(upstream)).to_owned())
}

/// `seen` is what the running pods were made with, where there are any.
fn pinned<'a>(
    wanted: &'a str,
    all_moved: bool,
    seen: Option<Option<&'a str>>,
    installed: Option<&'a str>,
) -> &'a str {
    match seen {
        // There is nothing older that they could ask.
        None => wanted,
        Some(_) if all_moved => wanted,
        Some(noted) => noted.or(installed).unwrap_or(wanted),
    }
}

#[test]
fn pods_start_anew_only_when_all_have_moved() {
    for (all_moved, seen, installed, expected) in [
        (false, None, None, "33"),
        (false, None, Some("32"), "33"),
        (false, Some(Some("32")), Some("32"), "32"),
        (true, Some(Some("32")), Some("32"), "33"),
        // Done already, and a node that is away for a moment changes nothing.
        (false, Some(Some("33")), Some("33"), "33"),
        (false, Some(Some("33")), Some("32"), "33"),
        // Pods from before this was noted.
        (false, Some(None), Some("32"), "32"),
        (false, Some(None), None, "33"),
        (true, Some(None), Some("32"), "33"),
    ] {
        let found = pinned("33", all_moved, seen, installed);
        assert_eq!(found, expected, "{all_moved} {seen:?} {installed:?}");
    }
}
