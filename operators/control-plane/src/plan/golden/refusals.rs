//! What a refusal leaves alone, and what is secret.

use super::world::*;
use super::*;

#[test]
fn a_plan_shows_no_secret() {
    let object = small(&json!({}));
    let plan = plan(&object, &empty(&object));
    let secret = plan
        .wanted()
        .find(|value| value["kind"] == "Secret")
        .expect("there");
    let value = secret["data"]["password"].as_str().expect("a value");
    assert!(!format!("{plan:?}").contains(value));
}

#[test]
fn a_refused_release_leaves_everything_as_it_is() {
    let mut texts = Vec::new();
    for (from, to) in [("2025.2", "2019.1"), ("2025.2", "2026.2"), ("2026.1", "2025.2")] {
        let before = installed(small(&json!({"openStackRelease": from})), from);
        let seen = running(&before);
        let object = installed(small(&json!({"openStackRelease": to})), from);
        let plan = plan(&object, &seen);
        assert!(plan.refusal.is_some() && plan.removal.is_empty(), "{from} → {to}");
        let blocker = plan.blocker().expect("blocked");
        texts.push(format!(
            "{from} → {to}: {:?} {}: {}",
            plan.update,
            blocker.reason(),
            blocker.text()
        ));
    }
    // Back to the release that was complete, but a schema has moved on already.
    let mut seen = running(&small(&json!({})));
    let keystone = seen
        .children
        .iter_mut()
        .find(|(reference, _)| reference.kind.starts_with("Keystone"));
    keystone.expect("there").1.installed = Some("29.1.0".to_owned());
    let plan = plan(&installed(small(&json!({})), "2025.2"), &seen);
    texts.push(format!(
        "half way back: {:?}: {}",
        plan.update,
        plan.blocker().expect("blocked").text()
    ));
    insta::assert_snapshot!("refusals", texts.join("\n"));
    let unknown = small(&json!({"openStackRelease": "2019.1"}));
    snapshot("unknown-release-fresh", &unknown, &empty(&unknown));
}

#[test]
fn a_refused_release_stops_neither_scaling_nor_a_new_password() {
    let before = installed(small(&json!({})), "2025.2");
    let mut seen = running(&before);
    let given = seen.secrets.get_mut("glance-service-user").expect("there");
    given.data.insert("password".into(), b"changed".to_vec());
    let changes = json!({"openStackRelease": "2026.2", "services": {"glance": {"replicas": 5}, "nova": {"enabled": true}}});
    let object = installed(small(&changes), "2025.2");
    let plan = plan(&object, &seen);
    assert!(plan.refusal.is_some());
    let goes_on: Vec<&Value> = plan.goes_on(&seen.owned).collect();
    let glance = goes_on
        .iter()
        .find(|value| value["kind"] == "Glance")
        .expect("it goes on");
    assert_eq!(glance["spec"]["replicas"], 5);
    assert_eq!(
        glance["spec"]["image"]["tag"], "31.1.0",
        "it stays with its image"
    );
    let user = goes_on
        .iter()
        .find(|value| said(value) == "User glance")
        .expect("it goes on");
    let password = user["spec"]["resource"]["passwordRef"].clone();
    assert!(
        goes_on
            .iter()
            .any(|value| value["kind"] == "Secret" && value["metadata"]["name"] == password)
    );
    for new in ["Nova", "RabbitmqCluster"] {
        assert!(goes_on.iter().all(|value| value["kind"] != new), "{new} is made");
    }
    let empty: &[(Reference, bool)] = &[];
    assert_eq!(plan.goes_on(empty).count(), 0, "nothing runs, nothing goes on");
}

#[test]
fn images_are_kept_where_the_cloud_says() {
    let rbd = json!({"backend": "rbd", "rbd": {"pool": "images", "cephSecretRef": {"name": "ceph"},
        "cephClientRef": {"name": "glance", "namespace": "rook-ceph"}}});
    let s3 = json!({"backend": "s3", "s3": {"endpoint": "https://s3.example.com", "bucket": "images",
        "secretRef": {"name": "s3"}}});
    let file = json!({"backend": "file", "file": {"size": "1Ti", "storageClass": "shared"}});
    for storage in [rbd, s3, file] {
        let object = small(&json!({"services": {"glance": {"storage": storage}}}));
        let plan = plan(&object, &empty(&object));
        let glance = plan.wanted().find(|value| value["kind"] == "Glance");
        assert_eq!(glance.expect("there")["spec"]["storage"], storage);
    }
}

/// K-ORC looks at a password only when the name of its Secret changes.
#[test]
fn a_new_password_has_a_new_name() {
    let object = small(&json!({}));
    let mut seen = running(&object);
    let named = |seen: &Seen| {
        let plan = plan(&object, seen);
        let user = plan.wanted().find(|value| said(value) == "User glance").cloned();
        let name = user.expect("there")["spec"]["resource"]["passwordRef"].clone();
        let mut wanted = plan.wanted();
        let copy = wanted.find(|value| value["kind"] == "Secret" && value["metadata"]["name"] == name);
        let copy = copy.expect("there")["data"]["password"].clone();
        let gone = plan.removal.now.iter().map(|gone| gone.key.name.clone());
        (
            name.as_str().unwrap_or_default().to_owned(),
            copy,
            gone.collect::<Vec<_>>(),
        )
    };
    let (before, _, gone) = named(&seen);
    assert!(before.starts_with("glance-service-user-") && gone.is_empty());
    let given = seen.secrets.get_mut("glance-service-user").expect("there");
    given.data.insert("password".into(), b"changed".to_vec());
    let (after, copy, gone) = named(&seen);
    assert_ne!(before, after);
    assert_eq!(copy, json!(k8s_openapi::ByteString(b"changed".to_vec())));
    assert_eq!(gone, [before]);
}

#[test]
fn passwords_are_made_once_and_differ() {
    let object = small(&json!({}));
    let data = |seen: &Seen| -> BTreeMap<String, Value> {
        let plan = plan(&object, seen);
        plan.wanted()
            .filter(|value| value["kind"] == "Secret")
            .map(|value| {
                (
                    value["metadata"]["name"].as_str().unwrap_or("").to_owned(),
                    value["data"].clone(),
                )
            })
            .collect()
    };
    let seen = empty(&object);
    let first = data(&seen);
    let passwords: std::collections::BTreeSet<String> = first
        .values()
        .filter_map(|data| data["password"].as_str())
        .map(str::to_owned)
        .collect();
    assert_eq!(
        passwords.len(),
        7,
        "three databases and their root, two service users, the admin"
    );
    // Read back, other bytes at hand: the same again.
    let mut later = empty(&object);
    later.random.values_mut().for_each(|bytes| bytes.fill(99));
    for (name, data) in &first {
        let secret: k8s_openapi::api::core::v1::Secret =
            serde_json::from_value(json!({"data": data})).expect("a Secret");
        let data = secret
            .data
            .unwrap_or_default()
            .into_iter()
            .map(|(key, value)| (key, value.0))
            .collect();
        later
            .secrets
            .insert(name.clone(), SeenSecret { data, ours: true });
    }
    // But for what is made of another one, nothing is sent: it may have been changed a moment ago.
    let made_of_others = |name: &&String| {
        let copies = [
            "glance-service-user-",
            "placement-service-user-",
            "k-orc-clouds-yaml",
        ];
        copies.iter().any(|copy| name.starts_with(copy))
    };
    assert_eq!(data(&later).keys().filter(made_of_others).count(), 3);
    assert!(data(&later).keys().all(|name| made_of_others(&name)));
    assert!(plan(&object, &later).removal.is_empty());
    assert_eq!(data(&later)["k-orc-clouds-yaml"], first["k-orc-clouds-yaml"]);
    assert!(data(&later).keys().all(|name| first.contains_key(name)));
    // A key that was lost is made again, the others stay.
    let lost = later.secrets.get_mut("glance-db-credentials").expect("there");
    lost.data.remove("password");
    lost.data.insert("username".into(), b"kept".to_vec());
    let again = data(&later);
    assert_eq!(
        again["glance-db-credentials"]["username"],
        json!(k8s_openapi::ByteString(b"kept".to_vec()))
    );
    assert_ne!(
        again["glance-db-credentials"]["password"],
        first["glance-db-credentials"]["password"]
    );
    // A Secret of somebody else is left alone.
    later.secrets.values_mut().for_each(|secret| secret.ours = false);
    assert_eq!(
        plan(&object, &later).blocker().map(Step::text).as_deref(),
        Some("Secret glance-db-credentials has no value under password: add it")
    );
    later.secrets.insert(
        "glance-db-credentials".into(),
        SeenSecret {
            data: [
                ("username".into(), b"u".to_vec()),
                ("password".into(), b"p".to_vec()),
            ]
            .into(),
            ours: false,
        },
    );
    let sent = data(&later);
    assert_eq!(sent.keys().filter(made_of_others).count(), sent.len());
    assert!(!sent.contains_key("k-orc-clouds-yaml"));
    // No bytes, no password.
    let without = Seen {
        random: BTreeMap::new(),
        ..empty(&object)
    };
    assert!(
        data(&without).keys().all(|name| name == "k-orc-clouds-yaml")
            && plan(&object, &without).blocker().is_some()
    );
}
