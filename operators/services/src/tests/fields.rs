//! No field of a service is accepted and ignored.

use c5c3_api::cortex::Cortex;
use c5c3_api::fields::{Field, changed, fields, spec_of};
use c5c3_api::openstack::{Cinder, Glance, Keystone, Neutron, Nova, Placement, Tempest};
use c5c3_kit::{Controller, Observed};
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::reconcile::Services;
use crate::shape::Subject;
use crate::testing::*;

/// Everything that is decided about an object, or why it is refused. With its schema in place.
fn digest<S: Subject>(object: S, mut facts: Facts) -> String {
    facts.unmet = None;
    let mut seen: Observed<Services<S>> = observed(object, facts);
    let plan = Services::<S>::plan(&seen);
    if let Some(refusal) = Services::<S>::refusal(&plan) {
        return refusal.to_string();
    }
    let first = objects(&seen);
    for mut job in first.iter().filter(|object| object["kind"] == "Job").cloned() {
        job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
        seen.facts
            .jobs
            .insert(name, serde_json::from_value(job).expect("a Job"));
    }
    // Processes that wait for each other come up one after the other.
    for _ in 0..4 {
        take_deployments(&mut seen);
    }
    let jobs: Vec<&String> = seen.facts.jobs.keys().collect();
    let report = seen.report(&applied(&seen));
    let references = Services::<S>::references(&seen.object);
    let references: Vec<String> = references.iter().map(ToString::to_string).collect();
    json!([
        first,
        objects(&seen),
        jobs,
        report.status_fields(),
        references,
        format!("{:?}", report.states())
    ])
    .to_string()
}

/// The fields of a kind that change nothing in any of these objects.
fn ignored<S: Subject + serde::Serialize>(kind: &str, objects: Vec<S>) -> Vec<String> {
    let schema = spec_of(kind).expect("a schema");
    let worlds: Vec<(Value, String)> = objects
        .into_iter()
        .map(|object| {
            (
                serde_json::to_value(&object).expect("writes"),
                digest(object, facts()),
            )
        })
        .collect();
    let acts = |field: &Field| {
        worlds.iter().any(|(object, before)| {
            let mut object = object.clone();
            object["spec"] = changed(&object["spec"], &schema, field);
            let parsed: S = serde_json::from_value(object)
                .unwrap_or_else(|error| panic!("{kind} {}: no value of ours fits: {error}", field.name()));
            digest(parsed, facts()) != *before
        })
    };
    let all = fields(&schema);
    all.iter().filter(|field| !acts(field)).map(Field::name).collect()
}

fn with<S: Subject + serde::Serialize>(object: &S, changes: Value) -> S {
    let mut value = serde_json::to_value(object).expect("writes");
    let Value::Object(changes) = changes else {
        panic!("fields")
    };
    for (name, change) in changes {
        value["spec"][name] = change;
    }
    serde_json::from_value(value).expect("reads")
}

/// What every service has, so that the fields below act.
fn rich() -> Value {
    json!({
        "autoscaling": {"minReplicas": 1, "maxReplicas": 4, "targetCpuUtilization": 80},
        "networkPolicy": {"enabled": true}, "logging": {"level": "INFO", "format": "text"},
    })
}

#[test]
fn every_field_of_a_keystone_acts_or_is_refused() {
    let base = keystone();
    let database = json!({"host": "db", "database": "keystone", "secretRef": {"name": "keystone-db"}});
    let others =
        json!({"database": database, "cache": {"servers": ["a:1"], "backend": "oslo_cache.memcache_pool"}});
    let all = vec![base.clone(), with(&base, rich()), with(&base, others)];
    let ignored = ignored::<Keystone>("Keystone", all);
    // It counts when keys are rotated: see `rotation::tests`.
    assert_eq!(ignored, ["credentialKeys.maxActiveKeys"]);
}

#[test]
fn every_field_of_a_glance_acts_or_is_refused() {
    let rbd =
        json!({"pool": "images", "cephSecretRef": {"name": "ceph"}, "cephClientRef": {"name": "images"}});
    let s3 = json!({"endpoint": "https://s3", "bucket": "images", "secretRef": {"name": "s3"}});
    let base = glance(json!({"backend": "file"}));
    let all = vec![
        base.clone(),
        with(&base, rich()),
        glance(json!({"backend": "rbd", "rbd": rbd})),
        glance(json!({"backend": "s3", "s3": s3})),
    ];
    assert_eq!(ignored::<Glance>("Glance", all), Vec::<String>::new());
}

#[test]
fn every_field_of_a_placement_acts_or_is_refused() {
    let all = vec![placement(), with(&placement(), rich())];
    assert_eq!(ignored::<Placement>("Placement", all), Vec::<String>::new());
}

#[test]
fn every_field_of_a_cortex_acts_or_is_refused() {
    let cortex: Cortex = serde_json::from_value(json!({
        "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Cortex",
        "metadata": {"namespace": "openstack", "name": "cortex", "uid": "x"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/c5c3", "tag": "0.1.0"},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "pipelines": {"nova": {"enabled": true}, "cinder": {"enabled": true}},
        },
    }))
    .expect("a Cortex");
    assert_eq!(
        ignored::<Cortex>("Cortex", vec![cortex.clone(), with(&cortex, rich())]),
        Vec::<String>::new()
    );
}

#[test]
fn every_field_of_a_nova_acts_or_is_refused() {
    let base = nova(json!({}));
    let database = json!({"host": "db", "database": "nova", "secretRef": {"name": "service-db"}});
    let all = vec![
        base.clone(),
        with(&base, rich()),
        with(&base, json!({"database": database})),
        with(
            &base,
            json!({"scheduler": {"externalScheduler": {"enabled": true, "endpoint": "https://a"}}}),
        ),
    ];
    assert_eq!(ignored::<Nova>("Nova", all), Vec::<String>::new());
}

#[test]
fn every_field_of_a_neutron_acts_or_is_refused() {
    let base = neutron();
    let others = json!({"ovn": {"enabled": true, "nbConnection": "tcp:a:1", "sbConnection": "tcp:a:2"}});
    let secured = json!({"ovn": {"enabled": true, "nbConnection": "ssl:a:1", "sbConnection": "ssl:a:2",
        "tls": {"certSecretRef": {"name": "ovn"}}}});
    let all = vec![
        base.clone(),
        with(&base, rich()),
        with(&base, others),
        with(&base, secured),
    ];
    // Whatever its name, the agents are elsewhere: `tests::elsewhere` shows where.
    assert_eq!(ignored::<Neutron>("Neutron", all), ["metadata.computeRef.name"]);
}

#[test]
fn every_field_of_a_cinder_acts_or_is_refused() {
    let base = cinder();
    let ignored = ignored::<Cinder>("Cinder", vec![base.clone(), with(&base, rich())]);
    assert_eq!(ignored, Vec::<String>::new());
}

#[test]
fn every_field_of_a_tempest_acts_or_is_refused() {
    let tempest: Tempest = serde_json::from_value(json!({
        "apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
        "metadata": {"namespace": "openstack", "name": "tempest", "uid": "t"},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/tempest", "tag": "45.0.0"},
            "keystone": {"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"}},
            "tests": {"concurrency": 2, "includeRegex": "smoke"},
        },
    }))
    .expect("a Tempest");
    let trusted = json!({"authUrl": "http://keystone:5000/v3", "appCredentialRef": {"secretName": "service-app"},
        "caSecretRef": {"name": "keystone-ca", "key": "cacert"}});
    let trusting = with(&tempest, json!({"keystone": trusted}));
    let ignored = ignored::<Tempest>("Tempest", vec![tempest, trusting]);
    // A run is one pod: there is nothing to spread.
    assert_eq!(ignored, ["pods.topologyKey"]);
}
