//! Every object that a server becomes, as files in `snapshots`.

use c5c3_kit::Wanted;
use kube::Resource;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::objects::hash;
use crate::{mariadb, memcached, rabbitmq, valkey};

fn object<K: Resource<DynamicType = ()> + DeserializeOwned>(spec: Value) -> K {
    let metadata = json!({"namespace": "openstack", "name": "server", "uid": "u"});
    let whole =
        json!({"apiVersion": K::api_version(&()), "kind": K::kind(&()), "metadata": metadata, "spec": spec});
    serde_json::from_value(whole).expect("an object")
}

fn resources() -> Value {
    json!({"requests": {"cpu": "100m", "memory": "64Mi"}, "limits": {"memory": "1Gi"}})
}

/// The files of a ConfigMap are shown by their hashes.
fn shown(objects: Vec<Wanted>) -> Vec<Value> {
    let show = |wanted: Wanted| {
        let mut object = wanted.into_object();
        if object["kind"] == "ConfigMap" {
            let files = object["data"].as_object_mut().into_iter().flatten();
            files.for_each(|(_, text)| *text = hash(text).into());
        }
        object
    };
    objects.into_iter().map(show).collect()
}

#[test]
fn one_valkey_server() {
    let server = object(json!({"image": "valkey:1", "replicas": 1, "binding": {"secretName": "own"}}));
    let objects = valkey::manifests::all(&server, "pw", "server-0").expect("objects");
    insta::assert_yaml_snapshot!(shown(objects));
}

#[test]
fn three_valkey_servers_with_sentinels_and_volumes() {
    let server = object(
        json!({"image": "valkey:1", "replicas": 3, "sentinel": {"enabled": true}, "resources": resources(),
        "persistence": {"enabled": true, "size": "2Gi", "storageClass": "fast"}}),
    );
    let objects = valkey::manifests::all(&server, "pw", "server-2").expect("objects");
    insta::assert_yaml_snapshot!(shown(objects));
}

#[test]
fn one_mariadb_server() {
    let server = object(json!({"image": "mariadb:1", "replicas": 1, "resources": resources()}));
    let mut objects = vec![mariadb::manifests::root(&server, "root", "password", "pw")];
    objects.extend(mariadb::manifests::all(&server, Some(0)).expect("objects"));
    insta::assert_yaml_snapshot!(shown(objects));
}

#[test]
fn a_galera_cluster() {
    let server = object(
        json!({"image": "mariadb:1", "replicas": 3, "galera": {"enabled": true},
        "storage": {"size": "5Gi", "storageClassName": "fast"}}),
    );
    let objects = mariadb::manifests::all(&server, Some(1)).expect("objects");
    insta::assert_yaml_snapshot!(shown(objects));
}

#[test]
fn one_rabbitmq_node() {
    let cluster = object(json!({"image": "rabbitmq:1", "replicas": 1}));
    let user = rabbitmq::manifests::DefaultUser {
        username: "u".to_owned(),
        password: "p".to_owned(),
    };
    let mut objects = rabbitmq::manifests::secrets(&cluster, &user, "c").to_vec();
    objects.extend(rabbitmq::manifests::all(&cluster).expect("objects"));
    insta::assert_yaml_snapshot!(shown(objects));
}

#[test]
fn three_rabbitmq_nodes() {
    let cluster = object(
        json!({"image": "rabbitmq:1", "replicas": 3, "resources": resources(),
        "persistence": {"storage": "5Gi", "storageClassName": "fast"}}),
    );
    let objects = rabbitmq::manifests::all(&cluster).expect("objects");
    insta::assert_yaml_snapshot!(shown(objects));
}

#[test]
fn memcached_servers() {
    let servers = object(json!({"image": "memcached:1", "replicas": 2}));
    insta::assert_yaml_snapshot!(shown(memcached::objects(&servers).expect("objects")));
}
