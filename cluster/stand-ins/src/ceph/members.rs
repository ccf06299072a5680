//! Which monitors a cluster has. One that stays out of the quorum gives way to another with a new letter, as with
//! Rook: a monitor is known by its address, and that of a lost node does not come back. Pure.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::common::parse_duration;
use c5c3_api::foreign::rook::CephClusterSpec;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::ConfigMap;

use super::check::mon_ids;
use super::view::View;

/// How long Rook waits for a monitor when nobody says.
const PATIENCE: Duration = Duration::from_secs(600);

/// What the ConfigMap of the endpoints told last.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Told {
    /// Monitors of this cluster.
    pub own: Vec<String>,
    /// Those outside, with their addresses.
    pub elsewhere: BTreeMap<String, String>,
    /// Those that are not in the quorum.
    pub out: Vec<String>,
    /// The last letter that was ever given, by its number.
    last: Option<u8>,
}

/// Monitors of this cluster have letters; those of others have longer names.
pub(crate) fn is_own(id: &str) -> bool {
    matches!(id.as_bytes(), [b'a'..=b'z'])
}

pub(crate) fn told(endpoints: Option<&ConfigMap>) -> Told {
    let text = |key: &str| {
        let data = endpoints.and_then(|map| map.data.as_ref());
        data.and_then(|data| data.get(key)).map_or("", String::as_str)
    };
    let all = text("data").split(',').filter_map(|one| one.split_once('='));
    let (own, elsewhere): (Vec<_>, Vec<_>) = all.partition(|(id, _)| is_own(id));
    Told {
        own: own.into_iter().map(|(id, _)| id.to_owned()).collect(),
        elsewhere: elsewhere
            .into_iter()
            .map(|(id, address)| (id.to_owned(), address.to_owned()))
            .collect(),
        out: names(text("outOfQuorum")),
        last: text("maxMonId").parse().ok().filter(|last| *last < 26),
    }
}

fn names(text: &str) -> Vec<String> {
    let names = text.split(',').map(str::trim).filter(|name| !name.is_empty());
    names.map(str::to_owned).collect()
}

/// The number of the last letter that is or was given.
pub(crate) fn last(told: &Told, members: &[String]) -> u8 {
    let numbers = members.iter().filter_map(|id| Some(id.bytes().next()? - b'a'));
    numbers.chain(told.last).max().unwrap_or_default()
}

/// The monitors that there are, or as many more or fewer as the spec says.
pub(crate) fn of(spec: &CephClusterSpec, told: &Told) -> Vec<String> {
    let wanted = mon_ids(spec);
    if told.own.is_empty() {
        return wanted;
    }
    let mut members = told.own.clone();
    members.sort();
    members.truncate(wanted.len());
    while members.len() < wanted.len() {
        let Some(next) = fresh(told, &members) else {
            break;
        };
        members.push(next);
    }
    members
}

/// The next letter that was never given, or at the end of the alphabet the first that is free.
fn fresh(told: &Told, members: &[String]) -> Option<String> {
    let next = last(told, members) + 1;
    let mut letters = (b'a' + next..=b'z').chain(b'a'..=b'z');
    let free = letters.find(|letter| members.iter().all(|id| id.as_bytes() != [*letter]))?;
    Some(char::from(free).to_string())
}

/// How long a monitor may be out of the quorum; `None`: for ever.
fn patience(spec: &CephClusterSpec) -> Option<Duration> {
    let check = spec.health_check.as_ref();
    let check = check.and_then(|check| check.daemon_health.as_ref()?.mon.as_ref());
    if check.is_some_and(|check| check.disabled == Some(true)) {
        return None;
    }
    let given = check.and_then(|check| check.timeout.as_deref());
    let given = given.and_then(|text| parse_duration(text).ok());
    Some(given.unwrap_or(PATIENCE)).filter(|patience| !patience.is_zero())
}

/// Since when monitors are out of the quorum. Whoever is back is forgotten; while nobody answers nothing is known.
pub(crate) fn missed(
    before: &BTreeMap<String, Timestamp>,
    members: &[String],
    view: Option<&View>,
    now: Timestamp,
) -> BTreeMap<String, Timestamp> {
    let Some(view) = view else {
        return before.clone();
    };
    let quorum = &view.status.quorum_names;
    let out = members.iter().filter(|id| !quorum.contains(id));
    out.map(|id| (id.clone(), before.get(id).copied().unwrap_or(now)))
        .collect()
}

/// A monitor that is waited for no longer, and the letter of the one that takes its place. One after the other: the
/// map of the monitors has no more than one that is lost and not yet removed, so the others stay a majority.
pub(crate) fn replaced(
    spec: &CephClusterSpec,
    told: &Told,
    members: &[String],
    missed: &BTreeMap<String, Timestamp>,
    (view, now): (Option<&View>, Timestamp),
) -> Option<(String, String)> {
    let (view, patience) = (view?, patience(spec)?);
    let known = |id: &String| view.mons.mons.iter().any(|mon| mon.name == *id);
    let leaving = view
        .mons
        .mons
        .iter()
        .any(|mon| is_own(&mon.name) && !members.contains(&mon.name));
    if leaving || !members.iter().all(known) {
        return None;
    }
    let over = |since: &Timestamp| now.duration_since(*since).unsigned_abs() >= patience;
    let (lost, _) = missed
        .iter()
        .filter(|(_, since)| over(since))
        .min_by_key(|(_, since)| **since)?;
    Some((lost.clone(), fresh(told, members)?))
}

/// All with this one instead of that.
pub(crate) fn with(members: &[String], (lost, next): &(String, String)) -> Vec<String> {
    let others = members.iter().filter(|id| *id != lost).cloned();
    others.chain([next.clone()]).collect()
}

#[cfg(test)]
mod tests {
    use super::super::view::Mon;
    use super::*;
    use serde_json::{Value, json};

    fn spec(value: Value) -> CephClusterSpec {
        serde_json::from_value(value).expect("a spec")
    }

    fn ids(text: &str) -> Vec<String> {
        text.chars().map(String::from).collect()
    }

    fn map(data: &str, out: &str, last: &str) -> ConfigMap {
        let data = json!({"data": data, "outOfQuorum": out, "maxMonId": last});
        serde_json::from_value(json!({"metadata": {}, "data": data})).expect("a ConfigMap")
    }

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn view(mons: &[&str], quorum: &[&str]) -> View {
        let mut view = View::default();
        let mon = |name: &&str| Mon {
            name: (*name).to_owned(),
            ..Mon::default()
        };
        view.mons.mons = mons.iter().map(mon).collect();
        view.status.quorum_names = quorum.iter().map(|id| (*id).to_owned()).collect();
        view
    }

    #[test]
    fn what_was_told_is_read_again() {
        let told = told(Some(&map(
            "b=10.0.0.2:6789,d=10.0.0.4:6789,ext-a=10.9.0.1:6789",
            "d,ext-a",
            "3",
        )));
        assert_eq!(told.own, ids("bd"));
        assert_eq!(told.elsewhere["ext-a"], "10.9.0.1:6789");
        assert_eq!((told.out.len(), told.last), (2, Some(3)));
        assert_eq!(super::told(None), Told::default());
        assert_eq!(super::told(Some(&map("rubbish,=,x", ",", "-1"))).own, ids(""));
    }

    #[test]
    fn letters_go_on_where_they_ended() {
        for (count, data, last, expected) in [
            (3, "", "", "abc"),
            (3, "a=1", "0", "abc"),
            (3, "a=1,b=2,c=3", "2", "abc"),
            (1, "a=1,b=2,c=3", "2", "a"),
            // The third was replaced, and its letter is not given again.
            (3, "a=1,b=2,d=4", "3", "abd"),
            (5, "a=1,b=2", "3", "abefg"),
            (3, "y=1,z=2", "25", "yza"),
        ] {
            let spec = spec(json!({"mon": {"count": count}}));
            let told = told(Some(&map(data, "", last)));
            assert_eq!(of(&spec, &told).concat(), expected, "{count} {data}");
        }
    }

    #[test]
    fn the_time_out_of_the_quorum_begins_once() {
        let (members, seen) = (ids("abc"), view(&["a", "b", "c"], &["a", "c"]));
        let first = missed(&BTreeMap::new(), &members, Some(&seen), at(10));
        assert_eq!(first, BTreeMap::from([("b".to_owned(), at(10))]));
        assert_eq!(missed(&first, &members, Some(&seen), at(50)), first);
        assert_eq!(missed(&first, &members, None, at(60)), first, "nobody answers");
        let back = view(&["a", "b", "c"], &["a", "b", "c"]);
        assert!(missed(&first, &members, Some(&back), at(70)).is_empty());
    }

    #[test]
    fn a_monitor_is_replaced_when_its_time_is_over() {
        let missed = BTreeMap::from([("b".to_owned(), at(0))]);
        let timeout = |text: &str| json!({"healthCheck": {"daemonHealth": {"mon": {"timeout": text}}}});
        let seen = view(&["a", "b", "c", "ext-a"], &["a", "c", "ext-a"]);
        let silent = view(&[], &[]);
        // The one before has not left the map yet.
        let leaving = view(&["a", "b", "c", "x"], &["a", "c"]);
        let disabled = json!({"healthCheck": {"daemonHealth": {"mon": {"disabled": true}}}});
        for (given, view, now, expected) in [
            (json!({}), Some(&seen), 599, None),
            (json!({}), Some(&seen), 600, Some("d")),
            (timeout("45s"), Some(&seen), 44, None),
            (timeout("45s"), Some(&seen), 45, Some("d")),
            (timeout("0s"), Some(&seen), 9999, None),
            (disabled, Some(&seen), 9999, None),
            (json!({}), None, 9999, None),
            (json!({}), Some(&silent), 9999, None),
            (json!({}), Some(&leaving), 9999, None),
        ] {
            let members = ids("abc");
            let found = replaced(
                &spec(given.clone()),
                &Told::default(),
                &members,
                &missed,
                (view, at(now)),
            );
            let expected = expected.map(|next| ("b".to_owned(), next.to_owned()));
            assert_eq!(found, expected, "{given} {now}");
        }
    }

    #[test]
    fn the_new_one_takes_the_place_of_the_lost() {
        assert_eq!(with(&ids("abc"), &("a".to_owned(), "d".to_owned())), ids("bcd"));
    }
}
