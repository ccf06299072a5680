//! What somebody else runs: first the database and the cache, then Keystone.

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::process::free_offset;
use serde_json::{Value, json};

const THEIRS: &str = "theirs";

#[test]
fn what_others_run_is_used_and_left_as_it_was() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let offset = free_offset(&[5000, 9292, 9293])?;
    up(&cloud, offset, &[servers(), vec![ours()]].concat())?;
    nothing_of_theirs_is_ours(&cloud)?;
    let before = people(&cloud)?;
    ensure!(before.iter().any(|name| name == "glance"), "{before:?}");

    up(&cloud, offset, &[login(&cloud)?, edge()])?;
    let during = people(&cloud)?;
    let added: Vec<&String> = during.iter().filter(|name| !before.contains(name)).collect();
    ensure!(
        added.len() == 1 && added.iter().all(|name| name.starts_with("edge-glance-")),
        "{before:?} became {during:?}"
    );
    let (code, _, err) = cloud.tried("openstack", &["-n", "edge", "token", "issue"])?;
    ensure!(
        code == 3 && err.contains("Keystone is external: log in with clouds.yaml of Secret their-login"),
        "{code}: {err}"
    );

    let delete = ["-n", "edge", "delete", "controlplane/edge", "--timeout=240s"];
    cloud.kubectl(&delete, "")?;
    let after = people(&cloud)?;
    ensure!(after == before, "{before:?} became {after:?}");
    openstack(&cloud, "image list").map(drop)
}

fn up(cloud: &Cloud, offset: u16, objects: &[Value]) -> anyhow::Result<()> {
    let file = cloud.state().with_extension("json");
    let text: Vec<String> = objects.iter().map(Value::to_string).collect();
    std::fs::write(&file, text.join("\n---\n"))?;
    let (file, offset) = (file.to_string_lossy(), offset.to_string());
    let words = ["-f", &file, "--port-offset", &offset, "--wait", "600"];
    println!("{}", cloud.c5c3_here("up", &words)?);
    Ok(())
}

fn openstack(cloud: &Cloud, words: &str) -> anyhow::Result<Value> {
    let words: Vec<&str> = words.split(' ').collect();
    let own = ["-n", "openstack"];
    let said = cloud.c5c3_here("openstack", &[&own, words.as_slice(), &["-f", "json"]].concat())?;
    serde_json::from_str(&said).with_context(|| said.clone())
}

/// Names of users and projects in Keystone.
fn people(cloud: &Cloud) -> anyhow::Result<Vec<String>> {
    let mut all = Vec::new();
    for what in ["user list", "project list"] {
        let list = openstack(cloud, what)?;
        let names = list.as_array().into_iter().flatten();
        all.extend(names.filter_map(|one| one["Name"].as_str()).map(str::to_owned));
    }
    // Ours in a Keystone of others comes with a project of its own.
    all.retain(|name| !name.starts_with("edge-service-"));
    all.sort();
    Ok(all)
}

fn secret(namespace: &str, name: &str, data: &Value) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": namespace, "name": name}, "stringData": data})
}

/// A database and a cache, with accounts that their owner made.
fn servers() -> Vec<Value> {
    let database = |kind: &str, name: &str, spec: Value| {
        json!({"apiVersion": "k8s.mariadb.com/v1alpha1", "kind": kind,
            "metadata": {"namespace": THEIRS, "name": name}, "spec": spec})
    };
    let server = json!({"name": "mariadb"});
    let mut all = vec![
        database(
            "MariaDB",
            "mariadb",
            json!({"replicas": 1, "storage": {"size": "1Gi"}}),
        ),
        json!({"apiVersion": "memcached.c5c3.io/v1beta1", "kind": "Memcached",
            "metadata": {"namespace": THEIRS, "name": "memcached"}, "spec": {"replicas": 1}}),
    ];
    for service in ["keystone", "glance"] {
        let password = format!("they-chose-{service}");
        all.push(secret(THEIRS, service, &json!({"password": password})));
        let account = json!({"username": service, "password": password});
        all.push(secret(
            "openstack",
            &format!("{service}-db-credentials"),
            &account,
        ));
        all.push(database(
            "Database",
            service,
            json!({"mariaDbRef": server, "name": service}),
        ));
        let key = json!({"name": service, "key": "password"});
        all.push(database(
            "User",
            service,
            json!({"mariaDbRef": server, "name": service, "host": "%", "passwordSecretKeyRef": key,
                "maxUserConnections": 100}),
        ));
        all.push(database(
            "Grant",
            service,
            json!({"mariaDbRef": server, "username": service, "host": "%", "database": service,
                "table": "*", "privileges": ["ALL PRIVILEGES"]}),
        ));
    }
    all
}

fn plane(namespace: &str, name: &str, mut spec: Value) -> Value {
    spec["openStackRelease"] = "2025.2".into();
    for service in ["placement", "nova", "neutron", "cinder"] {
        spec["services"][service] = json!({"enabled": false});
    }
    json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
        "metadata": {"namespace": namespace, "name": name}, "spec": spec})
}

/// Keystone and Glance on servers of others.
fn ours() -> Value {
    let spec = json!({
        "infrastructure": {
            "database": {"host": "mariadb.theirs.svc"}, "cache": {"servers": ["memcached.theirs.svc:11211"]},
        },
        "services": {
            "keystone": {"replicas": 1, "publicEndpoint": "http://127.0.0.1:5000/v3"},
            "glance": {"replicas": 1, "publicEndpoint": "http://127.0.0.1:9292"},
        },
    });
    plane("openstack", "cloud", spec)
}

/// A Glance that logs in to the Keystone of the first cloud.
fn edge() -> Value {
    let spec = json!({
        "infrastructure": {
            "database": {"replicas": 1, "storageSize": "1Gi"}, "cache": {"replicas": 1, "memory": "64Mi"},
        },
        "services": {
            "keystone": {"enabled": false},
            "glance": {"replicas": 1, "publicEndpoint": "http://127.0.0.1:9293"},
        },
        "korc": {"cloudCredentialsRef": {"cloudName": "theirs", "secretName": "their-login"}},
    });
    plane("edge", "edge", spec)
}

fn login(cloud: &Cloud) -> anyhow::Result<Value> {
    let path = "go-template={{.data.password | base64decode}}";
    let words = [
        "-n",
        "openstack",
        "get",
        "secret/keystone-admin-credentials",
        "-o",
        path,
    ];
    let password = cloud.kubectl(&words, "")?;
    let clouds = json!({"clouds": {"theirs": {
        "auth": {
            "auth_url": "http://keystone.openstack.svc:5000/v3", "username": "admin", "password": password,
            "project_name": "admin", "user_domain_name": "Default", "project_domain_name": "Default",
        },
        "region_name": "RegionOne", "endpoint_type": "internal",
    }}});
    Ok(secret(
        "edge",
        "their-login",
        &json!({"clouds.yaml": clouds.to_string()}),
    ))
}

fn nothing_of_theirs_is_ours(cloud: &Cloud) -> anyhow::Result<()> {
    let kinds = "mariadbs,databases.k8s.mariadb.com,users.k8s.mariadb.com,grants.k8s.mariadb.com,memcacheds";
    let made = cloud.kubectl(&["-n", "openstack", "get", kinds, "-o", "name"], "")?;
    ensure!(made.is_empty(), "{made}");
    Ok(())
}
