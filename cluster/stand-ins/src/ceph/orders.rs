//! Decides which commands to send to the monitors, from their answers. Pure.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::foreign::rook::CephClusterSpec;
use serde_json::json;

use super::commands::Command;
use super::keyring::{entry, mgr_caps};
use super::osds::Disk;
use super::view::View;

/// As Rook sets them, and what one machine needs.
const DEFAULTS: &[(&str, &str, &str)] = &[
    ("global", "mon_allow_pool_delete", "true"),
    ("global", "mon_allow_pool_size_one", "true"),
    ("global", "mon_warn_on_pool_no_redundancy", "false"),
    // Clients of ours are all new enough.
    ("mon", "auth_allow_insecure_global_id_reclaim", "false"),
    // Pools begin with few groups and grow.
    ("global", "osd_pool_default_pg_num", "8"),
];

/// Accounts that managers use.
pub(crate) fn managers(ids: &[String]) -> Vec<String> {
    ids.iter().map(|id| format!("mgr.{id}")).collect()
}

/// Copies of what has no pool object of its own: three where OSDs suffice.
fn copies(disks: usize) -> String {
    disks.clamp(1, 3).to_string()
}

fn settings(spec: &CephClusterSpec, disks: usize) -> BTreeMap<(String, String), String> {
    let defaults = DEFAULTS
        .iter()
        .map(|(section, name, value)| (((*section).to_owned(), (*name).to_owned()), (*value).to_owned()));
    let size = (
        ("global".to_owned(), "osd_pool_default_size".to_owned()),
        copies(disks),
    );
    let own = spec.ceph_config.iter().flat_map(|(section, options)| {
        // Ceph reads both ways of writing, and tells one.
        let one = |(name, value): (&String, &String)| {
            ((section.clone(), name.replace([' ', '-'], "_")), value.clone())
        };
        options.iter().map(one)
    });
    defaults.chain([size]).chain(own).collect()
}

pub(crate) fn of(
    spec: &CephClusterSpec,
    members: &[String],
    view: &View,
    manager_keys: &BTreeMap<String, String>,
    disks: &[Disk],
    disk_keys: &BTreeMap<String, String>,
) -> Vec<Command> {
    let mut commands = Vec::new();
    for ((section, name), value) in settings(spec, disks.len()) {
        if view.setting(&section, &name) != Some(&value) {
            let set = Command::new("config set").with("who", section).with("name", name);
            commands.push(set.with("value", value));
        }
    }
    for (id, key) in manager_keys {
        let name = format!("mgr.{id}");
        if view.accounts.get(&name).is_none_or(|account| account.key != *key) {
            commands.push(Command::new("auth import").input(entry(&name, key, &mgr_caps())));
        }
    }
    for disk in disks {
        let (Some(uuid), Some(key)) = (&disk.uuid, disk_keys.get(&disk.claim)) else {
            continue;
        };
        if view.osd(uuid).is_none() {
            let secrets = json!({"cephx_secret": key}).to_string();
            commands.push(Command::new("osd new").with("uuid", uuid.as_str()).input(secrets));
        }
    }
    commands.extend(modules(spec, view));
    commands.extend(lost_monitors(spec, members, view));
    commands
}

fn modules(spec: &CephClusterSpec, view: &View) -> Vec<Command> {
    let asked = spec.mgr.iter().flat_map(|mgr| &mgr.modules);
    let mut wanted: BTreeMap<&str, bool> = BTreeMap::from([("prometheus", true)]);
    wanted.extend(asked.map(|module| (module.name.as_str(), module.enabled == Some(true))));
    let change = |(name, on): (&str, bool)| {
        let verb = if on {
            "mgr module enable"
        } else {
            "mgr module disable"
        };
        (view.has_module(name) != on).then(|| Command::new(verb).with("module", name))
    };
    wanted.into_iter().filter_map(change).collect()
}

/// Monitors that nobody wants any more leave when all others are there: never below a majority. One that is lost leaves
/// as soon as those that are there are a majority without it, and the one in its place has joined.
fn lost_monitors(spec: &CephClusterSpec, members: &[String], view: &View) -> Vec<Command> {
    let quorum: BTreeSet<&str> = view.status.quorum_names.iter().map(String::as_str).collect();
    let is_in = |name: &str| quorum.contains(name);
    let mons = &view.mons.mons;
    let all_there = members.iter().all(|id| is_in(id));
    let all_joined = members.iter().all(|id| mons.iter().any(|mon| mon.name == *id));
    let majority = quorum.len() * 2 > mons.len().saturating_sub(1);
    let outside = spec.mon.iter().flat_map(|mon| &mon.external_mon_ids);
    let wanted: BTreeSet<&String> = members.iter().chain(outside).collect();
    let gone = mons.iter().filter(|mon| !wanted.contains(&mon.name));
    gone.filter(|mon| all_there || (!is_in(&mon.name) && all_joined && majority))
        .map(|mon| Command::new("mon remove").with("name", mon.name.as_str()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::check::mon_ids;
    use super::super::view::{Account, Mon, Osd, Setting};
    use super::*;
    use serde_json::Value;

    fn spec(value: Value) -> CephClusterSpec {
        serde_json::from_value(value).expect("a spec")
    }

    fn settled(spec: &CephClusterSpec) -> View {
        let mut view = View::default();
        let setting = |((section, name), value)| Setting { section, name, value };
        view.settings = settings(spec, 0).into_iter().map(setting).collect();
        view.mgrs.modules.insert("prometheus".to_owned());
        view
    }

    fn mons(view: &mut View, there: &[&str], quorum: &[&str]) {
        let mon = |name: &&str| Mon {
            name: (*name).to_owned(),
            ..Mon::default()
        };
        view.mons.mons = there.iter().map(mon).collect();
        view.status.quorum_names = quorum.iter().map(|name| (*name).to_owned()).collect();
    }

    fn words(commands: &[Command]) -> Vec<Value> {
        commands.iter().map(Command::words).collect()
    }

    #[test]
    fn nothing_is_told_when_all_is_so() {
        let spec = spec(json!({"cephConfig": {"global": {"osd max backfills": "2"}}}));
        let view = settled(&spec);
        assert_eq!(
            of(
                &spec,
                &mon_ids(&spec),
                &view,
                &BTreeMap::new(),
                &[],
                &BTreeMap::new()
            ),
            []
        );
    }

    #[test]
    fn a_setting_of_the_user_wins_over_ours() {
        let wanted = spec(json!({"cephConfig": {"global": {"osd-pool-default-pg-num": "32"}}}));
        let view = settled(&spec(json!({})));
        let told = of(
            &wanted,
            &mon_ids(&wanted),
            &view,
            &BTreeMap::new(),
            &[],
            &BTreeMap::new(),
        );
        let expected = json!({"prefix": "config set", "who": "global", "name": "osd_pool_default_pg_num", "value": "32"});
        assert_eq!(words(&told), [expected]);
    }

    #[test]
    fn a_manager_gets_its_key_when_it_has_another() {
        let spec = spec(json!({}));
        let mut view = settled(&spec);
        let keys = BTreeMap::from([("a".to_owned(), "KEY".to_owned())]);
        let told = |view: &View| words(&of(&spec, &mon_ids(&spec), view, &keys, &[], &BTreeMap::new()));
        assert_eq!(told(&view), [json!({"prefix": "auth import"})]);
        let account = |key: &str| Account {
            key: key.to_owned(),
            ..Account::default()
        };
        view.accounts.insert("mgr.a".to_owned(), account("OLD"));
        assert_eq!(told(&view).len(), 1);
        view.accounts.insert("mgr.a".to_owned(), account("KEY"));
        assert_eq!(told(&view).len(), 0);
    }

    #[test]
    fn an_osd_is_made_once_and_its_key_shows_nowhere() {
        let spec = spec(json!({}));
        let mut view = settled(&spec);
        let disk = |uuid: Option<&str>| Disk {
            claim: "s-data-0".to_owned(),
            set: "s".to_owned(),
            size: 1 << 30,
            portable: true,
            resources: None,
            placement: Default::default(),
            uuid: uuid.map(str::to_owned),
            wanted: Default::default(),
        };
        let keys = BTreeMap::from([("s-data-0".to_owned(), "SECRET".to_owned())]);
        let none = BTreeMap::new();
        assert_eq!(of(&spec, &mon_ids(&spec), &view, &none, &[disk(None)], &keys), []);
        let told = of(&spec, &mon_ids(&spec), &view, &none, &[disk(Some("u"))], &keys);
        assert_eq!(words(&told), [json!({"prefix": "osd new", "uuid": "u"})]);
        assert!(!format!("{told:?}").contains("SECRET"));
        view.settings = settled(&spec).settings;
        view.osds.osds.push(Osd {
            uuid: "u".to_owned(),
            ..Osd::default()
        });
        assert_eq!(
            of(&spec, &mon_ids(&spec), &view, &none, &[disk(Some("u"))], &keys),
            []
        );
    }

    #[test]
    fn monitors_leave_only_when_the_rest_is_there() {
        let spec = spec(json!({"mon": {"count": 1, "externalMonIDs": ["ext-a"]}}));
        for (there, quorum, gone) in [
            (&["a"][..], &["a"][..], &[][..]),
            (&["a", "b", "c"], &["a", "b", "c"], &["b", "c"]),
            (&["a", "b", "c"], &["b", "c"], &[]),
            (&["a", "ext-a"], &["a"], &[]),
        ] {
            let mut view = settled(&spec);
            mons(&mut view, there, quorum);
            let told = words(&of(
                &spec,
                &mon_ids(&spec),
                &view,
                &BTreeMap::new(),
                &[],
                &BTreeMap::new(),
            ));
            let names: Vec<&str> = told
                .iter()
                .filter_map(|command| command["name"].as_str())
                .collect();
            assert_eq!(names, gone, "{there:?} {quorum:?}");
        }
    }

    #[test]
    fn a_lost_monitor_leaves_when_another_has_its_place() {
        let spec = spec(json!({"mon": {"count": 5}}));
        let members: Vec<String> = ["b", "c", "d", "e", "f"].map(str::to_owned).into();
        for (there, quorum, gone) in [
            // Its place is not taken yet.
            (&["a", "b", "c", "d", "e"][..], &["b", "c", "d", "e"][..], &[][..]),
            (
                &["a", "b", "c", "d", "e", "f"],
                &["b", "c", "d", "e", "f"],
                &["a"],
            ),
            // Another one is lost as well: the rest is a majority.
            (&["a", "b", "c", "d", "e", "f"], &["b", "c", "d", "f"], &["a"]),
            (&["a", "b", "c", "d", "e", "f"], &["a", "b", "c", "d"], &[]),
        ] {
            let mut view = settled(&spec);
            mons(&mut view, there, quorum);
            let told = words(&of(
                &spec,
                &members,
                &view,
                &BTreeMap::new(),
                &[],
                &BTreeMap::new(),
            ));
            let names: Vec<&str> = told
                .iter()
                .filter_map(|command| command["name"].as_str())
                .collect();
            assert_eq!(names, gone, "{there:?} {quorum:?}");
        }
    }

    #[test]
    fn modules_are_switched() {
        let spec = spec(
            json!({"mgr": {"modules": [{"name": "iostat", "enabled": true}, {"name": "nfs", "enabled": false}]}}),
        );
        let mut view = settled(&spec);
        view.mgrs.modules.insert("nfs".to_owned());
        let told = words(&of(
            &spec,
            &mon_ids(&spec),
            &view,
            &BTreeMap::new(),
            &[],
            &BTreeMap::new(),
        ));
        assert_eq!(
            told,
            [
                json!({"prefix": "mgr module enable", "module": "iostat"}),
                json!({"prefix": "mgr module disable", "module": "nfs"})
            ]
        );
    }
}
