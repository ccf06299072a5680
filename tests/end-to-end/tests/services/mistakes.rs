//! Wrong input is refused or named in a condition; what runs goes on.

use anyhow::ensure;
use serde_json::{Value, json};

use crate::world::{NAMESPACE, World};

pub(crate) fn a_running_service_does_not_notice_them(world: &World) -> anyhow::Result<()> {
    let before = world.pods()?;
    let cases = [
        (
            json!({"extraConfig": {"token": {"expirations": "60"}}}),
            json!({"extraConfig": {"token": {"expirations": null}}}),
            "has no option `expirations` in [token]; did you mean `expiration`?",
        ),
        (
            json!({"policyOverrides": {"configMapRef": {"name": "no-rules"}}}),
            json!({"policyOverrides": {"configMapRef": null}}),
            "policyOverrides.configMapRef: ConfigMap no-rules is missing",
        ),
        (
            json!({"bootstrap": {"adminPasswordSecretRef": {"name": "nobody"}}}),
            json!({"bootstrap": {"adminPasswordSecretRef": {"name": "keystone-admin-credentials"}}}),
            "Secret nobody is missing: create it, or correct the name in the spec",
        ),
        (
            json!({"bootstrap": {"adminPasswordSecretRef": {"key": "pasword"}}}),
            json!({"bootstrap": {"adminPasswordSecretRef": {"key": "password"}}}),
            "Secret keystone-admin-credentials has no value under pasword",
        ),
        (
            json!({"image": {"tag": "0.0.1"}}),
            json!({"image": {"tag": "28.1.0"}}),
            "image: 0.0.1 is older than 28.1.0, whose schema is in the database",
        ),
        (
            json!({"image": {"tag": "28.1.0-p99"}}),
            json!({"image": {"tag": "28.1.0"}}),
            "keystone:28.1.0-p99",
        ),
    ];
    for (wrong, right, words) in cases {
        world.change(&wrong)?;
        world.until_said("keystone", "Ready", words)?;
        ensure!(world.pods()? == before, "{words}: a pod was touched");
        world.change(&right)?;
        world.until_ready()?;
        ensure!(
            world.pods()? == before,
            "{words}: a pod was touched on the way back"
        );
    }
    Ok(())
}

pub(crate) fn new_services_say_what_is_wrong(world: &World) -> anyhow::Result<()> {
    let before = world.pods()?;
    let both = keystone("both", &json!({"host": "db", "clusterRef": {"name": "mariadb"}}));
    let refused = world.apply(&both).expect_err("refused").to_string();
    ensure!(
        refused.contains("database: set exactly one of clusterRef (managed) and host"),
        "{refused}"
    );
    let secret = json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": NAMESPACE, "name": "wrong"},
        "stringData": {"username": "keystone", "password": "not-the-password"}});
    world.apply(&secret)?;
    // At the first address nobody listens; at the second a database does, and does not know us.
    let cases = [
        (
            "silent",
            "127.0.0.1",
            "Can't connect to MySQL server on '127.0.0.1'",
        ),
        (
            "denied",
            "mariadb.openstack.svc",
            "Access denied for user 'keystone'",
        ),
    ];
    for (name, host, _) in cases {
        world.apply(&keystone(name, &json!({"host": host})))?;
    }
    let long = "a-name-that-is-longer-than-all-jobs-can-bear";
    world.apply(&keystone(long, &json!({"host": "db"})))?;
    for (name, _, words) in cases {
        let said = world.until_said(name, "DatabaseReady", words)?;
        ensure!(!said.contains("not-the-password"), "a secret is told: {said}");
    }
    world.until_said(long, "Ready", "is too long")?;
    ensure!(world.pods()? == before, "a running pod was touched");
    Ok(())
}

fn keystone(name: &str, database: &Value) -> Value {
    let mut database = database.clone();
    database["database"] = "keystone".into();
    database["secretRef"] = json!({"name": "wrong"});
    json!({
        "apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
        "metadata": {"namespace": NAMESPACE, "name": name},
        "spec": {
            "image": {"repository": "ghcr.io/c5c3/keystone", "tag": "28.1.0"}, "replicas": 0, "database": database,
            "cache": {"servers": ["memcached.openstack.svc:11211"]},
            "bootstrap": {"adminPasswordSecretRef": {"name": "wrong", "key": "password"}},
        },
    })
}
