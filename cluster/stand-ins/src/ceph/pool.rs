//! Decides which commands a pool needs to match its spec. Pure.

use c5c3_api::foreign::rook::PoolSpec;

use super::commands::Command;
use super::size;
use super::view::{OsdMap, Pool};
use crate::error::Error;

/// Groups of a new pool; Ceph itself adds more as it grows.
const GROUPS: u64 = 8;

fn wrong<T>(field: &'static str, reason: String) -> Result<T, Error> {
    Err(Error::Invalid { field, reason })
}

/// Copies of each object.
pub(crate) fn copies(spec: &PoolSpec) -> i64 {
    spec.replicated
        .as_ref()
        .map_or(1, |replicated| i64::from(replicated.size))
}

pub(crate) fn check(spec: &PoolSpec) -> Result<(), Error> {
    if spec
        .erasure_coded
        .as_ref()
        .is_some_and(|coded| coded.data_chunks > 0)
    {
        return wrong(
            "spec.erasureCoded",
            "only replication is supported here: use replicated.size".to_owned(),
        );
    }
    let safe = spec
        .replicated
        .as_ref()
        .and_then(|replicated| replicated.require_safe_replica_size);
    match copies(spec) {
        1 if safe != Some(false) => wrong(
            "spec.replicated.size",
            "with a single copy, data is lost with its OSD: use 2 or more, or set requireSafeReplicaSize to false".to_owned(),
        ),
        1..=10 => Ok(()),
        size => wrong("spec.replicated.size", format!("{size} copies: use 1 to 10")),
    }?;
    let max = spec.quotas.as_ref().and_then(|quotas| quotas.max_size.as_deref());
    match max {
        Some(text) if size::bytes(text).is_none() => wrong(
            "spec.quotas.maxSize",
            format!("{text:?} is not a size: write it like 10Gi"),
        ),
        _ => Ok(()),
    }
}

pub(crate) fn find<'a>(world: &'a OsdMap, name: &str) -> Option<&'a Pool> {
    world.pools.iter().find(|pool| pool.pool_name == name)
}

/// Makes the pool, or brings it to what is wanted. `application` is what it is for.
pub(crate) fn commands(name: &str, spec: &PoolSpec, application: &str, world: &OsdMap) -> Vec<Command> {
    let found = find(world, name);
    let size = copies(spec);
    let mut commands = Vec::new();
    let set = |variable: &str, value: &str| {
        let set = Command::new("osd pool set")
            .with("pool", name)
            .with("var", variable);
        set.with("val", value).with("yes_i_really_mean_it", true)
    };
    if found.is_none() {
        commands.push(rule(name, spec));
        let create = Command::new("osd pool create")
            .with("pool", name)
            .with("pg_num", GROUPS);
        // One copy has to be confirmed, which only `set` can.
        let create = create.with("pool_type", "replicated").with("rule", name);
        // A name that begins with a dot is passed over without a word otherwise.
        let create = create.with("yes_i_really_mean_it", true);
        commands.push(if size > 1 {
            create.with("size", size)
        } else {
            create
        });
    }
    // In stretch mode Ceph sets the copies of all pools, and nobody else may.
    let ours = !world.stretch_mode.stretch_mode_enabled;
    if found.map_or(size == 1, |pool| ours && pool.size != size) {
        commands.push(set("size", &size.to_string()));
        commands.push(set("min_size", &least(size).to_string()));
    }
    let application = spec.application.as_deref().unwrap_or(application);
    if found.is_none_or(|pool| !pool.application_metadata.contains_key(application)) {
        let enable = Command::new("osd pool application enable").with("pool", name);
        commands.push(enable.with("app", application).with("yes_i_really_mean_it", true));
    }
    if found.is_none() {
        commands.extend(
            spec.parameters
                .iter()
                .map(|(variable, value)| set(variable, value)),
        );
    }
    let quotas = spec.quotas.clone().unwrap_or_default();
    let bytes = quotas
        .max_size
        .as_deref()
        .and_then(size::bytes)
        .unwrap_or_default();
    let objects = quotas.max_objects.unwrap_or_default();
    let quota = |field: &str, value: u64| {
        let quota = Command::new("osd pool set-quota")
            .with("pool", name)
            .with("field", field);
        quota.with("val", value.to_string())
    };
    if found.map_or(0, |pool| pool.quota_max_bytes) != bytes {
        commands.push(quota("max_bytes", bytes));
    }
    if found.map_or(0, |pool| pool.quota_max_objects) != objects {
        commands.push(quota("max_objects", objects));
    }
    commands
}

/// Copies that must be there for a write.
fn least(size: i64) -> i64 {
    size - size / 2
}

fn rule(name: &str, spec: &PoolSpec) -> Command {
    let text = |field: &Option<String>, default: &str| field.clone().unwrap_or_else(|| default.to_owned());
    let rule = Command::new("osd crush rule create-replicated").with("name", name);
    let rule = rule
        .with("root", text(&spec.crush_root, "default"))
        .with("type", text(&spec.failure_domain, "host"));
    match &spec.device_class {
        Some(class) if !class.is_empty() => rule.with("class", class.as_str()),
        _ => rule,
    }
}

pub(crate) fn remove(name: &str) -> Vec<Command> {
    let pool = Command::new("osd pool delete")
        .with("pool", name)
        .with("pool2", name);
    let rule = Command::new("osd crush rule rm").with("name", name);
    vec![
        pool.with("yes_i_really_really_mean_it", true).or_nothing(),
        rule.or_nothing(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn spec(value: Value) -> PoolSpec {
        serde_json::from_value(value).expect("a spec")
    }

    fn words(name: &str, wanted: &PoolSpec, world: &OsdMap) -> Vec<String> {
        let text = |command: &Command| {
            let words = command.words();
            let of = |key: &str| {
                words[key]
                    .as_str()
                    .map(|text| format!(" {text}"))
                    .unwrap_or_default()
            };
            format!(
                "{}{}{}{}",
                words["prefix"].as_str().unwrap_or_default(),
                of("var"),
                of("field"),
                of("val")
            )
        };
        commands(name, wanted, "rbd", world).iter().map(text).collect()
    }

    fn world(size: i64, application: &str) -> OsdMap {
        let value = json!({"pools": [{"pool_name": "volumes", "size": size, "application_metadata": {application: {}}}]});
        serde_json::from_value(value).expect("a map")
    }

    #[test]
    fn a_pool_is_made_once() {
        let wanted = spec(
            json!({"replicated": {"size": 2}, "parameters": {"compression_mode": "none"}, "quotas": {"maxSize": "1Gi"}}),
        );
        assert_eq!(
            words("volumes", &wanted, &OsdMap::default()),
            [
                "osd crush rule create-replicated",
                "osd pool create",
                "osd pool application enable",
                "osd pool set compression_mode none",
                "osd pool set-quota max_bytes 1073741824",
            ]
        );
        assert_eq!(
            words(
                "volumes",
                &spec(json!({"replicated": {"size": 2}})),
                &world(2, "rbd")
            ),
            Vec::<String>::new()
        );
    }

    #[test]
    fn one_copy_is_confirmed_and_a_change_is_followed() {
        let one = spec(json!({"replicated": {"size": 1, "requireSafeReplicaSize": false}}));
        let made = words("volumes", &one, &OsdMap::default());
        assert!(made.contains(&"osd pool set size 1".to_owned()), "{made:?}");
        let three = spec(json!({"replicated": {"size": 3}}));
        let changed = words("volumes", &three, &world(2, "cephfs"));
        assert_eq!(
            changed,
            [
                "osd pool set size 3",
                "osd pool set min_size 2",
                "osd pool application enable"
            ]
        );
    }

    #[test]
    fn wrong_pools_are_refused_by_field() {
        for (value, field) in [
            (json!({}), "spec.replicated.size"),
            (json!({"replicated": {"size": 1}}), "spec.replicated.size"),
            (json!({"replicated": {"size": 0}}), "spec.replicated.size"),
            (json!({"replicated": {"size": 99}}), "spec.replicated.size"),
            (
                json!({"erasureCoded": {"dataChunks": 2, "codingChunks": 1}}),
                "spec.erasureCoded",
            ),
            (
                json!({"replicated": {"size": 2}, "quotas": {"maxSize": "lots"}}),
                "spec.quotas.maxSize",
            ),
        ] {
            let said = check(&spec(value.clone())).expect_err("refused").to_string();
            assert!(said.starts_with(field), "{value}: {said}");
        }
    }
}
