//! Forecasts of changes to a small cloud that runs.

use serde_json::json;

use super::*;
use crate::plan::golden::world::{empty, installed, running, small};

/// What is to come when a small cloud becomes this one.
fn of(before: &Value, after: &Value) -> Forecast {
    let old = small(before);
    let seen = running(&old);
    let wanted = plan(&old, &seen);
    let live = wanted
        .wanted()
        .map(|value| (reference(value), value.clone()))
        .collect();
    let new = installed(small(after), "2025.2");
    let random = empty(&new).random;
    carried_out(new, Seen { random, ..seen }, live)
}

fn lines(forecast: &Forecast) -> Vec<String> {
    let line = |stage: &Stage, change: &Change| {
        let object = change.object.split('.').next().unwrap_or_default();
        format!("{} {:?} {:?} {object}", stage.number, stage.phase, change.verb)
    };
    let stages = forecast.stages.iter();
    stages
        .flat_map(|stage| stage.steps.iter().map(move |change| line(stage, change)))
        .collect()
}

#[test]
fn what_changes_nothing_has_no_stages() {
    let same = of(&json!({}), &json!({}));
    assert_eq!(same, Forecast::default());
}

#[test]
fn scaling_restarts_nothing() {
    let scaled = of(&json!({}), &json!({"services": {"keystone": {"replicas": 5}}}));
    let [stage] = scaled.stages.as_slice() else {
        panic!("{scaled:?}")
    };
    let [change] = stage.steps.as_slice() else {
        panic!("{stage:?}")
    };
    assert_eq!(change.fields, ["spec.replicas: 1 → 5"]);
    assert_eq!(change.effect, Effect::default());
}

#[test]
fn another_release_goes_by_tiers_and_says_where_the_way_back_ends() {
    let update = of(&json!({}), &json!({"openStackRelease": "2026.1"}));
    assert_eq!(
        lines(&update),
        [
            "1 UpdatingKeystone Change Keystone",
            "2 UpdatingServices Change Glance",
            "2 UpdatingServices Change Placement",
        ]
    );
    assert_eq!(
        update.way_back_until,
        Some(0),
        "Keystone contracts in the first stage"
    );
    let keystone = &update.stages[0].steps[0];
    assert_eq!(keystone.fields, ["spec.image.tag: 28.1.0 → 29.1.0"]);
    assert!(
        keystone
            .effect
            .restarts
            .as_deref()
            .is_some_and(|text| text.contains("contracted"))
    );
    let glance = &update.stages[1].steps[0];
    assert!(
        glance.effect.interruption.is_some(),
        "its one pod holds the volume"
    );
}

#[test]
fn a_service_that_goes_takes_its_entries_in_keystone_with_it() {
    let off = of(&json!({}), &json!({"services": {"glance": {"enabled": false}}}));
    let all = lines(&off);
    assert_eq!(all.first().map(String::as_str), Some("1 Idle Delete Glance"));
    assert!(off.way_back_until.is_some(), "another id in Keystone");
    let position = |text: &str| all.iter().position(|line| line.ends_with(text)).expect(text);
    assert!(position("Delete Endpoint") < position("Delete User"), "{all:?}");
}

#[test]
fn what_is_refused_is_said() {
    let far = of(
        &json!({}),
        &json!({"openStackRelease": "2026.2", "services": {"keystone": {"replicas": 2}}}),
    );
    assert!(
        far.refusal
            .as_deref()
            .is_some_and(|text| text.contains("set 2026.1 first"))
    );
    assert_eq!(lines(&far), ["1 Validating Change Keystone"], "scaling goes on");
    assert!(far.blocker.is_some());
}

#[test]
fn more_connections_restart_the_database() {
    let more = of(&json!({}), &json!({"services": {"keystone": {"replicas": 30}}}));
    let database = more.stages[0]
        .steps
        .iter()
        .find(|change| change.object.starts_with("MariaDB"));
    let database = database.expect("it changes");
    assert!(
        database.fields[0].contains("max_connections=1000"),
        "{:?}",
        database.fields
    );
    assert!(
        database
            .effect
            .interruption
            .as_deref()
            .is_some_and(|text| text.contains("half a minute"))
    );
}

#[test]
fn a_new_cloud_is_made_without_a_secret_being_shown() {
    let object = small(&json!({}));
    let world = World {
        releases: empty(&object).releases,
        ..World::default()
    };
    let forecast = forecast(&object, world);
    let first = &forecast.stages[0].steps;
    assert!(first.iter().any(|change| change.object.starts_with("Keystone.")));
    let text = serde_json::to_string(&forecast).expect("JSON");
    assert!(
        text.contains("keystone-db-credentials") && !text.contains("0101010101"),
        "{text}"
    );
    assert_eq!(forecast.blocker, None);
}
