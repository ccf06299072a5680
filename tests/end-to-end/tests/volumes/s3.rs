//! Images in the S3 of Ceph.

use std::time::Duration;

use end_to_end::ceph_users::{CEPH, STORAGE};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;
use end_to_end::process::free_offset;
use serde_json::{Value, json};

use crate::api::Api;
use crate::{NAMESPACE, data};

const PATIENCE: Duration = Duration::from_secs(60);

/// The gateway has an address for clients in other clusters.
const OBJECTS: &str = r#"
apiVersion: ceph.rook.io/v1
kind: CephObjectStore
metadata: {name: objects, namespace: rook-ceph}
spec:
  metadataPool: {replicated: {size: 2}}
  dataPool: {replicated: {size: 2}}
  gateway: {port: 80, instances: 1}
---
apiVersion: ceph.rook.io/v1
kind: CephObjectStoreUser
metadata: {name: glance, namespace: rook-ceph}
spec: {store: objects, displayName: Images}
---
apiVersion: v1
kind: Service
metadata: {name: s3, namespace: rook-ceph, annotations: {c5c3.io/expose: none}}
spec:
  type: LoadBalancer
  selector: {app: rook-ceph-rgw}
  ports: [{name: http, port: 80, targetPort: 8080}]
"#;

/// A second Glance: where one keeps its images is decided once.
pub(crate) fn images_are_kept_in_s3(cloud: &Cloud) -> anyhow::Result<()> {
    let there = |words: &[&str], input: &str| cloud.kubectl(&[CEPH, &["-n", STORAGE], words].concat(), input);
    there(&["apply", "-f", "-"], OBJECTS)?;
    let ready = "--for=jsonpath={.status.phase}=Ready";
    let users = ["cephobjectstore/objects", "cephobjectstoreuser/glance"];
    there(&["wait", ready, users[0], users[1], "--timeout=300s"], "")?;
    let address = "jsonpath={.status.loadBalancer.ingress[0].ip}";
    let address = there(&["get", "service", "s3", "-o", address], "")?;
    let secret = there(
        &[
            "get",
            "secret",
            "rook-ceph-object-user-objects-glance",
            "-o",
            "json",
        ],
        "",
    )?;
    let secret: Value = serde_json::from_str(&secret)?;
    let keys = json!({"accessKey": secret["data"]["AccessKey"], "secretKey": secret["data"]["SecretKey"]});
    let password = json!({"username": "objects", "password": "password-of-the-test"});
    let named = |name: &str| json!({"name": name, "namespace": NAMESPACE});
    let glance = cloud.kubectl(&["-n", NAMESPACE, "get", "glance", "glance", "-o", "json"], "")?;
    let mut glance: Value = serde_json::from_str(&glance)?;
    let mut spec = glance["spec"].take();
    spec["storage"] = json!({"backend": "s3", "s3": {
        "endpoint": format!("http://{address}"), "bucket": "images", "secretRef": {"name": "objects-s3"},
    }});
    spec["database"]["database"] = "objects".into();
    spec["database"]["secretRef"] = json!({"name": "objects-db"});
    spec["publicEndpoint"] = Value::Null;
    for object in [
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": named("objects-s3"), "data": keys}),
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": named("objects-db"), "stringData": password}),
        json!({"apiVersion": glance["apiVersion"], "kind": "Glance", "metadata": named("objects"), "spec": spec}),
    ] {
        cloud.kubectl(&["apply", "-f", "-"], &object.to_string())?;
    }
    let wait = [
        "wait",
        "--for=condition=Ready",
        "glance/objects",
        "--timeout=300s",
    ];
    cloud.kubectl(&[&["-n", NAMESPACE], wait.as_slice()].concat(), "")?;
    let port = free_offset(&[1])? + 1;
    let exposed = format!("c5c3.io/expose={port}");
    cloud.kubectl(&["-n", NAMESPACE, "annotate", "service", "objects", &exposed], "")?;
    let images = Api::of(cloud, port)?;
    until_ok("it is reached", PATIENCE, || {
        images.call("GET", "/v2/images", None)
    })?;
    let (id, _) = data::image(&images, "in-s3")?;
    images.call("DELETE", &format!("/v2/images/{id}"), None)?;
    println!("S3: image sent, read and deleted");
    Ok(())
}
