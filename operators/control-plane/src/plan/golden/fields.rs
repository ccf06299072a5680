//! No field of a ControlPlane is accepted and ignored.

use c5c3_api::fields::{Field, changed, fields, spec_of};
use serde_json::json;

use super::super::*;
use super::world::*;

/// What a plan says and does, Secrets by name.
fn digest(object: &ControlPlane, seen: &Seen) -> String {
    let seen = Seen {
        random: empty(object).random,
        ..seen.clone()
    };
    let plan = plan(object, &seen);
    let parts = json!([told(&plan), bodies(&plan), plan.services]);
    parts.to_string()
}

/// Clouds that between them use every part.
fn clouds() -> Vec<Value> {
    let on = json!({"enabled": true});
    let backend = json!([{"name": "fast", "driver": "x.y.Z"}]);
    let all = json!({"nova": on, "neutron": on, "cinder": {"enabled": true, "backends": backend}});
    let storage = |value: Value| json!({"services": {"glance": {"storage": value}}});
    let others = json!({
        "database": {"replicas": null, "host": "db.example.com"}, "cache": {"replicas": null, "servers": ["a:1"]},
        "messaging": {"hosts": ["mq:5672"]}, "ovn": {"northbound": "tcp:a:1", "southbound": "tcp:a:2"},
    });
    vec![
        json!({}),
        json!({"services": all}),
        json!({"services": all, "infrastructure": others}),
        json!({"tempest": on}),
        json!({"cortex": on, "services": all}),
        storage(json!({"backend": "rbd", "rbd": {"pool": "p", "cephSecretRef": {"name": "c"}}})),
        storage(
            json!({"backend": "s3", "s3": {"endpoint": "https://s3", "bucket": "b", "secretRef": {"name": "s"}}}),
        ),
        json!({"korc": {"cloudCredentialsRef": {"cloudName": "c", "secretName": "s"}}}),
        json!({"infrastructure": {"valkey": {"replicas": 1}}}),
        json!({"infrastructure": {"messaging": {"replicas": 1}}}),
    ]
}

/// Switches of what is not there yet: all below them is refused with them.
const SWITCHES: [(&str, &str); 2] = [("global.tls", "tls"), ("global.monitoring", "monitoring")];

#[test]
fn every_field_acts_or_is_refused() {
    let schema = spec_of("ControlPlane").expect("a schema");
    let worlds: Vec<(Value, Seen, String)> = clouds()
        .iter()
        .map(|changes| {
            let object = small(changes);
            let seen = running(&object);
            let digest = digest(&object, &seen);
            (json!(object.spec), seen, digest)
        })
        .collect();
    let acts = |field: &Field| {
        worlds.iter().any(|(spec, seen, before)| {
            let mut object = json!(small(&json!({})));
            object["spec"] = changed(spec, &schema, field);
            let parsed: ControlPlane = serde_json::from_value(object)
                .unwrap_or_else(|error| panic!("{}: no value of ours fits: {error}", field.name()));
            digest(&parsed, seen) != *before
        })
    };
    let below = |field: &Field, switch: &str| field.name().starts_with(&format!("{switch}."));
    let all = fields(&schema);
    let ignored: Vec<String> = all
        .iter()
        // What it does needs newer builds: see `newer_builds_are_held_where_the_cloud_says_so`.
        .filter(|field| field.name() != "updatePolicy")
        // Its keys are names of cells, which no value of ours here is: see `consoles_are_those_of_cells`.
        .filter(|field| field.name() != "services.nova.consoles")
        .filter(|field| !SWITCHES.iter().any(|(switch, _)| below(field, switch)))
        .filter(|field| !acts(field))
        .map(Field::name)
        .collect();
    assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
    for (switch, step) in SWITCHES {
        let mut changes = json!({"enabled": true});
        if step == "tls" {
            changes["issuerRef"] = json!({"name": "ca"});
        }
        let changes = switch
            .rsplit('.')
            .fold(changes, |below, name| json!({name: below}));
        let object = small(&changes);
        let plan = plan(&object, &running(&object));
        let step = plan.steps.iter().find(|found| found.name == step).expect(switch);
        assert_eq!(step.reason(), reason::NOT_SUPPORTED, "{switch}");
    }
}

#[test]
fn consoles_are_those_of_cells() {
    let nova = json!({"enabled": true, "consoles": {"cell1": "https://console.example.com"}});
    let object = small(&json!({"services": {"nova": nova, "neutron": {"enabled": true}}}));
    let plan = plan(&object, &running(&object));
    let made = plan
        .wanted()
        .find(|object| object["kind"] == "Nova")
        .expect("a Nova");
    assert_eq!(
        made["spec"]["cells"][0]["consoleEndpoint"],
        "https://console.example.com"
    );
}
