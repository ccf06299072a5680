//! Admission webhooks: a real HTTPS server on loopback that changes and refuses objects.

use std::{
    io,
    sync::{Arc, Mutex},
    time::{Duration, Instant},
};

use apiserver::{admission::Network, pods::Connection};
use base64::{Engine, engine::general_purpose::STANDARD};
use bytes::Bytes;
use http::{Method, Request, Response};
use http_body_util::{BodyExt, Full};
use hyper_util::rt::TokioIo;
use rustls::pki_types::{PrivateKeyDer, pem::PemObject};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};

use crate::support::{MAPS, Running, call, config_map, delete, get, post, put, start};

const MUTATING: &str = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations";
const VALIDATING: &str = "/apis/admissionregistration.k8s.io/v1/validatingwebhookconfigurations";

/// A webhook whose path says what it does.
struct Webhook {
    port: u16,
    ca: String,
    asked: Arc<Mutex<Vec<Value>>>,
}

impl Webhook {
    async fn start() -> Self {
        let names = vec!["127.0.0.1".to_owned(), "hook.default.svc".to_owned()];
        let own = rcgen::generate_simple_self_signed(names).unwrap();
        let key = PrivateKeyDer::from_pem_slice(own.signing_key.serialize_pem().as_bytes()).unwrap();
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let config = rustls::ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(vec![own.cert.der().clone()], key)
            .unwrap();
        let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let asked: Arc<Mutex<Vec<Value>>> = Arc::default();
        let seen = asked.clone();
        tokio::spawn(async move {
            while let Ok((socket, _)) = listener.accept().await {
                let (acceptor, seen) = (acceptor.clone(), seen.clone());
                tokio::spawn(async move {
                    let Ok(stream) = acceptor.accept(socket).await else {
                        return;
                    };
                    let service = hyper::service::service_fn(move |request| answer(request, seen.clone()));
                    let _ = hyper::server::conn::http1::Builder::new()
                        .serve_connection(TokioIo::new(stream), service)
                        .await;
                });
            }
        });
        Self {
            port,
            ca: STANDARD.encode(own.cert.pem()),
            asked,
        }
    }

    /// An entry of a configuration for config maps, changed by `with`.
    fn entry(&self, path: &str, with: Value) -> Value {
        let mut entry = json!({
            "name": format!("{path}.example.com"), "sideEffects": "None", "admissionReviewVersions": ["v1"],
            "clientConfig": {"url": format!("https://127.0.0.1:{}/{path}", self.port), "caBundle": self.ca},
            "rules": [{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["configmaps"]}],
        });
        for (field, value) in with.as_object().into_iter().flatten() {
            entry[field] = value.clone();
        }
        entry
    }

    fn asked(&self) -> Vec<Value> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

async fn answer(
    request: Request<hyper::body::Incoming>,
    seen: Arc<Mutex<Vec<Value>>>,
) -> Result<Response<Full<Bytes>>, std::convert::Infallible> {
    let path = request.uri().path().to_owned();
    let body = request.into_body().collect().await.unwrap().to_bytes();
    let review: Value = serde_json::from_slice(&body).unwrap();
    let asked = review["request"].clone();
    let mut response = json!({"uid": asked["uid"], "allowed": true});
    let data = &asked["object"]["data"];
    let patch = match path.as_str() {
        "/mark" => Some(json!([{"op": "add", "path": "/data/marked", "value": "yes"}])),
        // Says how much of the object it saw.
        "/count" => {
            let count = data
                .as_object()
                .map_or(0, |data| data.keys().filter(|key| *key != "count").count());
            Some(json!([{"op": "add", "path": "/data/count", "value": count.to_string()}]))
        }
        "/place" => Some(
            json!([{"op": "add", "path": "/metadata/labels", "value": {"zone": asked["object"]["target"]["name"]}}]),
        ),
        "/odd" => Some(json!([
            {"op": "add", "path": "/unknown", "value": 1},
            {"op": "replace", "path": "/metadata/name", "value": "other"},
        ])),
        _ => None,
    };
    match path.as_str() {
        "/deny" => {
            response["allowed"] = json!(false);
            response["status"] = json!({"code": 403, "message": "not today"});
        }
        "/warn" => response["warnings"] = json!(["mind the gap"]),
        "/silent" => tokio::time::sleep(Duration::from_secs(60)).await,
        _ => {}
    }
    if let Some(patch) = patch {
        response["patch"] = STANDARD.encode(patch.to_string()).into();
        response["patchType"] = "JSONPatch".into();
    }
    seen.lock().unwrap().push(asked);
    let review =
        json!({"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": response});
    Ok(Response::new(Full::new(Bytes::from(review.to_string()))))
}

async fn configure(running: &Running, collection: &str, name: &str, webhooks: Vec<Value>) {
    let kind = if collection == MUTATING {
        "MutatingWebhookConfiguration"
    } else {
        "ValidatingWebhookConfiguration"
    };
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": kind,
        "metadata": {"name": name}, "webhooks": webhooks});
    let (code, said) = post(&running.client, collection, object).await;
    assert_eq!(code, 201, "{said}");
}

#[tokio::test]
async fn objects_are_changed_before_they_are_stored() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    // The second configuration is asked after the first; the first again once the second changed something.
    configure(
        &running,
        MUTATING,
        "a",
        vec![hook.entry("count", json!({"reinvocationPolicy": "IfNeeded"}))],
    )
    .await;
    configure(
        &running,
        MUTATING,
        "b",
        vec![hook.entry("mark", json!({})), hook.entry("odd", json!({}))],
    )
    .await;
    let (code, made) = post(client, MAPS, config_map("one", json!({"x": "1"}))).await;
    assert_eq!(code, 201, "{made}");
    assert_eq!(made["data"], json!({"x": "1", "marked": "yes", "count": "2"}));
    assert_eq!(
        made["metadata"]["name"], "one",
        "names are not a webhook's to change"
    );
    assert!(made.get("unknown").is_none());
    let (_, stored) = get(client, &format!("{MAPS}/one")).await;
    assert_eq!(stored["data"], made["data"]);
    let asked = hook.asked();
    assert_eq!(asked.len(), 4, "three, and the first again");
    let first = &asked[0];
    assert_eq!(first["operation"], "CREATE");
    assert_eq!(
        (&first["name"], &first["namespace"]),
        (&json!("one"), &json!("default"))
    );
    assert_eq!(
        first["resource"],
        json!({"group": "", "version": "v1", "resource": "configmaps"})
    );
    assert_eq!(first["userInfo"]["username"], "system:admin");
    assert_eq!(
        (&first["oldObject"], &first["dryRun"]),
        (&Value::Null, &json!(false))
    );
    // An update has the old object, a dry run says so and stores nothing.
    let (code, said) = put(
        client,
        &format!("{MAPS}/one?dryRun=All"),
        config_map("one", json!({"y": "2"})),
    )
    .await;
    assert_eq!(
        (code, &said["data"]),
        (200, &json!({"y": "2", "marked": "yes", "count": "2"}))
    );
    let asked = hook.asked();
    assert_eq!(
        (&asked[0]["operation"], &asked[0]["dryRun"]),
        (&json!("UPDATE"), &json!(true))
    );
    assert_eq!(asked[0]["oldObject"]["data"], made["data"]);
    assert_eq!(get(client, &format!("{MAPS}/one")).await.1["data"], made["data"]);
}

#[tokio::test]
async fn writes_are_refused_with_the_webhooks_words() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    let (code, _) = post(client, MAPS, config_map("old", json!({}))).await;
    assert_eq!(code, 201);
    configure(&running, VALIDATING, "no", vec![hook.entry("deny", json!({}))]).await;
    let path = format!("{MAPS}/old");
    let patch = call(client, Method::PATCH, &path, json!({})).await.0;
    assert_eq!(
        patch, 415,
        "no media type of a patch: refused before anybody is asked"
    );
    for (code, said) in [
        post(client, MAPS, config_map("new", json!({}))).await,
        put(client, &path, config_map("old", json!({"a": "b"}))).await,
        delete(client, &path).await,
    ] {
        assert_eq!(code, 403, "{said}");
        assert_eq!(
            said["message"],
            "admission webhook \"deny.example.com\" denied the request: not today"
        );
    }
    let operations: Vec<Value> = hook.asked().iter().map(|r| r["operation"].clone()).collect();
    assert_eq!(operations, ["CREATE", "UPDATE", "DELETE"]);
    // Its own configuration is never its to refuse, nor what it was not asked about.
    let (code, _) = post(client, "/api/v1/namespaces", json!({"metadata": {"name": "n"}})).await;
    assert_eq!(code, 201);
    assert_eq!(delete(client, &format!("{VALIDATING}/no")).await.0, 200);
    assert_eq!(delete(client, &path).await.0, 200);
}

#[tokio::test]
async fn a_scale_is_shown_as_one() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    let deployments = "/apis/apps/v1/namespaces/default/deployments";
    let deployment = json!({"metadata": {"name": "web"}, "spec": {"selector": {"matchLabels": {"a": "b"}},
        "template": {"metadata": {"labels": {"a": "b"}}, "spec": {"containers": [{"name": "c", "image": "i"}]}}}});
    let (code, said) = post(client, deployments, deployment).await;
    assert_eq!(code, 201, "{said}");
    let rules = json!([{"operations": ["UPDATE"], "apiGroups": ["apps"], "apiVersions": ["*"], "resources": ["*/scale"]}]);
    configure(
        &running,
        VALIDATING,
        "scale",
        vec![hook.entry("deny", json!({ "rules": rules }))],
    )
    .await;
    let path = format!("{deployments}/web/scale");
    let scale = json!({"apiVersion": "autoscaling/v1", "kind": "Scale", "metadata": {"name": "web"}, "spec": {"replicas": 3}});
    let (code, said) = put(client, &path, scale).await;
    assert_eq!(code, 403, "{said}");
    let asked = hook.asked();
    assert_eq!(
        asked[0]["kind"],
        json!({"group": "autoscaling", "version": "v1", "kind": "Scale"})
    );
    assert_eq!(asked[0]["subResource"], "scale");
    assert_eq!(asked[0]["object"]["kind"], "Scale");
    let replicas = |object: &str| asked[0][object]["spec"]["replicas"].clone();
    assert_eq!((replicas("object"), replicas("oldObject")), (json!(3), json!(1)));
}

#[tokio::test]
async fn a_binding_is_shown_as_one_and_its_labels_reach_the_pod() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    let pods = "/api/v1/namespaces/default/pods";
    let pod = json!({"metadata": {"name": "web", "labels": {"app": "web"}},
        "spec": {"containers": [{"name": "c", "image": "i"}]}});
    let (code, said) = post(client, pods, pod).await;
    assert_eq!(code, 201, "{said}");
    let rules = json!([{"operations": ["*"], "apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods/binding"]}]);
    let entry = |path: &str| hook.entry(path, json!({ "rules": rules }));
    configure(&running, MUTATING, "place", vec![entry("place")]).await;
    configure(&running, VALIDATING, "no", vec![entry("deny")]).await;
    let path = format!("{pods}/web/binding");
    let binding = json!({"target": {"kind": "Node", "name": "node-1"}});
    let (code, said) = post(client, &path, binding.clone()).await;
    assert_eq!(code, 403, "{said}");
    assert_eq!(delete(client, &format!("{VALIDATING}/no")).await.0, 200);
    hook.asked();
    let (code, said) = post(client, &path, binding).await;
    assert_eq!(code, 201, "{said}");
    let asked = hook.asked();
    assert_eq!(asked.len(), 1, "once: {asked:?}");
    assert_eq!(
        (
            &asked[0]["operation"],
            &asked[0]["kind"]["kind"],
            &asked[0]["resource"]["resource"],
            &asked[0]["subResource"]
        ),
        (
            &json!("CREATE"),
            &json!("Binding"),
            &json!("pods"),
            &json!("binding")
        )
    );
    assert_eq!(asked[0]["object"]["metadata"]["name"], "web");
    assert_eq!(asked[0]["oldObject"], Value::Null);
    let (_, pod) = get(client, &format!("{pods}/web")).await;
    assert_eq!(pod["spec"]["nodeName"], "node-1");
    assert_eq!(pod["metadata"]["labels"], json!({"app": "web", "zone": "node-1"}));
    let (code, said) = post(client, &path, json!([1])).await;
    assert_eq!(code, 400, "{said}");
}

#[tokio::test]
async fn only_what_is_selected_is_asked_about() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    let (code, _) = post(
        client,
        "/api/v1/namespaces",
        json!({"metadata": {"name": "free"}}),
    )
    .await;
    assert_eq!(code, 201);
    configure(
        &running,
        VALIDATING,
        "some",
        vec![hook.entry(
            "deny",
            json!({
                "namespaceSelector": {"matchExpressions": [
                    {"key": "kubernetes.io/metadata.name", "operator": "NotIn", "values": ["free"]}]},
                "objectSelector": {"matchLabels": {"guarded": "yes"}},
                "matchConditions": [{"name": "big", "expression": "object.data.size == 'big'"}],
            }),
        )],
    )
    .await;
    let map = |name: &str, labels: Value, size: &str| {
        let mut map = config_map(name, json!({"size": size}));
        map["metadata"]["labels"] = labels;
        map
    };
    let yes = json!({"guarded": "yes"});
    let free = "/api/v1/namespaces/free/configmaps";
    for (place, object, code) in [
        (MAPS, map("a", yes.clone(), "big"), 403),
        (MAPS, map("b", yes.clone(), "small"), 201),
        (MAPS, map("c", json!({}), "big"), 201),
        (free, map("d", yes.clone(), "big"), 201),
    ] {
        let (got, said) = post(client, place, object.clone()).await;
        assert_eq!(got, code, "{object} {said}");
    }
    // A condition that has no answer is a webhook that has none.
    let mut bare = map("e", yes, "");
    bare["data"] = json!({});
    let (code, said) = post(client, MAPS, bare).await;
    assert_eq!(code, 500, "{said}");
    assert!(
        said["message"]
            .as_str()
            .unwrap()
            .contains("match condition \"big\": no such key"),
        "{said}"
    );
}

#[tokio::test]
async fn without_an_answer_the_policy_decides() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    let closed = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = closed.local_addr().unwrap().port();
    drop(closed);
    let absent = json!({"url": format!("https://127.0.0.1:{port}/x"), "caBundle": hook.ca});
    let entry = |policy: &str| hook.entry("absent", json!({"clientConfig": absent, "failurePolicy": policy}));
    configure(&running, VALIDATING, "weak", vec![entry("Ignore")]).await;
    assert_eq!(post(client, MAPS, config_map("a", json!({}))).await.0, 201);
    configure(&running, VALIDATING, "strict", vec![entry("Fail")]).await;
    let (code, said) = post(client, MAPS, config_map("b", json!({}))).await;
    assert_eq!(code, 500, "{said}");
    let text = said["message"].as_str().unwrap();
    assert!(
        text.contains("failed calling webhook \"absent.example.com\"") && text.contains("refused"),
        "{text}"
    );
    assert_eq!(delete(client, &format!("{VALIDATING}/strict")).await.0, 200);
    // One that hangs is given up, one whose certificate is another's is not believed.
    configure(
        &running,
        VALIDATING,
        "hangs",
        vec![hook.entry("silent", json!({"timeoutSeconds": 1}))],
    )
    .await;
    let started = Instant::now();
    let (code, said) = post(client, MAPS, config_map("c", json!({}))).await;
    assert_eq!(code, 500, "{said}");
    assert!(
        started.elapsed() < Duration::from_secs(50) && said.to_string().contains("deadline"),
        "{said}"
    );
    assert_eq!(delete(client, &format!("{VALIDATING}/hangs")).await.0, 200);
    let other = Webhook::start().await;
    let forged = json!({"url": format!("https://127.0.0.1:{}/x", hook.port), "caBundle": other.ca});
    configure(
        &running,
        VALIDATING,
        "forged",
        vec![hook.entry("forged", json!({"clientConfig": forged}))],
    )
    .await;
    let (code, said) = post(client, MAPS, config_map("d", json!({}))).await;
    assert!(code == 500 && said.to_string().contains("certificate"), "{said}");
}

/// A network where one Service is.
struct Inside(u16);

#[async_trait::async_trait]
impl Network for Inside {
    async fn connect(&self, host: &str, port: u16) -> io::Result<Option<Box<dyn Connection>>> {
        if (host, port) != ("hook.default.svc", 8443) {
            return Ok(None);
        }
        Ok(Some(Box::new(TcpStream::connect(("127.0.0.1", self.0)).await?)))
    }
}

#[tokio::test]
async fn services_are_reached_in_the_clusters_network() {
    let (running, hook) = (start().await, Webhook::start().await);
    let client = &running.client;
    let service = json!({"service": {"namespace": "default", "name": "hook", "port": 8443, "path": "/warn"}, "caBundle": hook.ca});
    configure(
        &running,
        VALIDATING,
        "inside",
        vec![hook.entry("warn", json!({"clientConfig": service}))],
    )
    .await;
    let (code, said) = post(client, MAPS, config_map("a", json!({}))).await;
    assert_eq!(code, 500, "no way there yet: {said}");
    assert!(
        said.to_string()
            .contains("neither in the cluster nor on this machine"),
        "{said}"
    );
    running.server.set_network("default", Arc::new(Inside(hook.port)));
    let body = kube::client::Body::from(config_map("a", json!({})).to_string().into_bytes());
    let request = Request::post(MAPS)
        .header("content-type", "application/json")
        .body(body)
        .unwrap();
    let response = client.send(request).await.unwrap();
    assert_eq!(response.status(), 201);
    assert_eq!(response.headers()["warning"], "299 - \"mind the gap\"");
}

#[tokio::test]
async fn bad_configurations_are_refused() {
    let running = start().await;
    let object = json!({"apiVersion": "admissionregistration.k8s.io/v1", "kind": "ValidatingWebhookConfiguration",
        "metadata": {"name": "x"}, "webhooks": [{"name": "short", "sideEffects": "Some", "admissionReviewVersions": ["v1"],
        "clientConfig": {"url": "http://127.0.0.1/"}, "timeoutSeconds": 31}]});
    let (code, said) = post(&running.client, VALIDATING, object).await;
    assert_eq!(code, 422, "{said}");
    for field in [
        "webhooks[0].name",
        "webhooks[0].sideEffects",
        "webhooks[0].timeoutSeconds",
    ] {
        assert!(said["message"].as_str().unwrap().contains(field), "{said}");
    }
}
