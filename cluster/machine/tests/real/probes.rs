//! Probes by TCP, HTTPS and gRPC, and what runs after a start and before a stop. Servers that
//! busybox does not have run in this process, on the node's own address; their pods use the
//! node's network.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use http_body_util::{BodyExt, Full, StreamBody};
use hyper::body::{Bytes, Frame, Incoming};
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use k8s_openapi::api::core::v1::ContainerStatus;
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use serde_json::json;
use tokio::net::TcpListener;

use super::memory_api::{Case, MemoryApi, host, pod, ready};
use super::test_nodes::{BUSYBOX, PATIENCE, TestNodes};

/// HTTPS with a certificate that nobody trusts; 503 while `sick`.
async fn https(listener: TcpListener, sick: Arc<AtomicBool>) {
    let pair = rcgen::generate_simple_self_signed(vec!["nobody".into()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(pair.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![pair.cert.der().clone()], key)
        .unwrap();
    let acceptor = tokio_rustls::TlsAcceptor::from(Arc::new(config));
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let (acceptor, sick) = (acceptor.clone(), sick.clone());
        tokio::spawn(async move {
            let Ok(stream) = acceptor.accept(stream).await else {
                return;
            };
            let answer = service_fn(|_: http::Request<Incoming>| {
                let code = if sick.load(Ordering::Relaxed) { 503 } else { 200 };
                let answer = http::Response::builder()
                    .status(code)
                    .body(Full::<Bytes>::default());
                async move { Ok::<_, Infallible>(answer.unwrap()) }
            });
            let served = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            drop(served);
        });
    }
}

/// The standard health service of gRPC: NOT_SERVING while `sick`, and for services that it
/// does not know.
async fn grpc(listener: TcpListener, sick: Arc<AtomicBool>) {
    loop {
        let (stream, _) = listener.accept().await.unwrap();
        let sick = sick.clone();
        tokio::spawn(async move {
            let answer = service_fn(|request: http::Request<Incoming>| {
                let sick = sick.clone();
                async move {
                    assert_eq!(request.uri().path(), "/grpc.health.v1.Health/Check");
                    let body = request.into_body().collect().await.unwrap().to_bytes();
                    // A frame's head, then field 1: the service's name.
                    let known = body.ends_with(b"disk");
                    let status = if known && !sick.load(Ordering::Relaxed) {
                        1
                    } else {
                        2
                    };
                    let data = Frame::data(Bytes::from(vec![0, 0, 0, 0, 2, 8, status]));
                    let mut trailers = http::HeaderMap::new();
                    trailers.insert("grpc-status", "0".parse().unwrap());
                    let frames = [Ok::<_, Infallible>(data), Ok(Frame::trailers(trailers))];
                    let body = StreamBody::new(futures::stream::iter(frames));
                    let answer = http::Response::builder()
                        .header("content-type", "application/grpc")
                        .body(body);
                    Ok::<_, Infallible>(answer.unwrap())
                }
            });
            let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
                .serve_connection(TokioIo::new(stream), answer)
                .await;
            drop(served);
        });
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn probes_and_hooks() {
    let test_nodes = TestNodes::new(&["a"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let (node, cri) = &nodes[0];
    let api = Arc::new(MemoryApi::default());
    let host = host(&test_nodes, node, cri, &api);
    let (sick_web, sick_rpc) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicBool::new(false)));
    let listen = |port: u16| {
        let at = SocketAddr::new(host.address.parse().unwrap(), port);
        let ns = node.ns.clone();
        async move { ns.listen(at).await.unwrap() }
    };
    let servers = [
        tokio::spawn(https(listen(8443).await, sick_web.clone())),
        tokio::spawn(grpc(listen(9000).await, sick_rpc.clone())),
    ];

    let probed = |name: &str, probe: serde_json::Value| {
        let mut probe = probe;
        probe["periodSeconds"] = json!(1);
        probe["failureThreshold"] = json!(1);
        pod(
            name,
            json!({ "hostNetwork": true, "containers": [{ "name": "main", "image": BUSYBOX, "readinessProbe": probe }] }),
        )
    };
    for (name, probe, sick, said) in [
        (
            "secure",
            json!({ "httpGet": { "port": 8443, "scheme": "HTTPS", "path": "/healthz" } }),
            &sick_web,
            "HTTP probe failed with statuscode: 503",
        ),
        (
            "rpc",
            json!({ "grpc": { "port": 9000, "service": "disk" } }),
            &sick_rpc,
            "service unhealthy (responded with 2)",
        ),
    ] {
        let mut case = Case::start(&host, &api, probed(name, probe));
        case.until_ready().await;
        sick.store(true, Ordering::Relaxed);
        case.until("not ready", |s| !ready(s) && api.events_of(name).contains(said))
            .await;
        sick.store(false, Ordering::Relaxed);
        case.until_ready().await;
        case.delete(0).await;
    }
    // A service that the server does not know is never ready.
    let unknown = probed("unknown", json!({ "grpc": { "port": 9000, "service": "other" } }));
    let mut case = Case::start(&host, &api, unknown);
    case.until("running", |s| s.phase.as_deref() == Some("Running"))
        .await;
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(!ready(&case.status()));
    case.delete(0).await;
    for server in servers {
        server.abort();
    }

    tcp_probe(&host, &api).await;
    hooks(&host, &api).await;
}

/// By the port's name, on the pod's own address: first nobody listens.
async fn tcp_probe(host: &Arc<embedded_node::pods::Host>, api: &Arc<MemoryApi>) {
    let mut case = Case::start(
        host,
        api,
        pod(
            "listens",
            json!({ "containers": [{ "name": "main", "image": BUSYBOX,
                "command": ["sh", "-c", "while ! test -e /tmp/go; do sleep 0.1; done; exec httpd -f -p 8080 -h /www"],
                "ports": [{ "name": "web", "containerPort": 8080 }],
                "readinessProbe": { "tcpSocket": { "port": "web" }, "periodSeconds": 1, "failureThreshold": 1 } }] }),
        ),
    );
    case.until("running", |s| s.phase.as_deref() == Some("Running"))
        .await;
    let deadline = Instant::now() + PATIENCE;
    while !api
        .events_of("listens")
        .contains("Readiness probe failed: dial tcp 10.191.1.")
    {
        assert!(Instant::now() < deadline, "{}", api.events_of("listens"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(!ready(&case.status()));
    case.exec("main", "touch /tmp/go").await;
    case.until_ready().await;
    case.delete(0).await;
}

async fn hooks(host: &Arc<embedded_node::pods::Host>, api: &Arc<MemoryApi>) {
    // The container waits for its own postStart; preStop writes before the signal comes.
    let script = "while ! test -e /w/started; do sleep 0.05; done; trap 'cat /w/stopping; exit 0' TERM; while true; do sleep 0.05; done";
    let spec = |post: &str| {
        json!({
            "volumes": [{ "name": "w", "emptyDir": {} }],
            "containers": [{ "name": "main", "image": BUSYBOX, "command": ["sh", "-c", script],
                "volumeMounts": [{ "name": "w", "mountPath": "/w" }],
                "readinessProbe": { "exec": { "command": ["test", "-e", "/w/started"] }, "periodSeconds": 1 },
                "lifecycle": {
                    "postStart": { "exec": { "command": ["sh", "-c", post] } },
                    "preStop": { "exec": { "command": ["sh", "-c", "echo stopping > /w/stopping; sleep 1"] } } } }],
        })
    };
    let mut case = Case::start(host, api, pod("hooked", spec("touch /w/started")));
    case.until_ready().await;
    let log = host.node.layout.logs();
    let t = Instant::now();
    let watched = case.follow_log("main", 0);
    case.delete(60).await;
    assert!(
        t.elapsed() >= Duration::from_secs(1),
        "the hook's second was waited for"
    );
    assert!(
        t.elapsed() < Duration::from_secs(60),
        "and SIGTERM was enough: {:?}",
        t.elapsed()
    );
    assert_eq!(watched.join().unwrap(), "stopping\n", "{}", log.display());

    // A postStart that fails ends the container; the event says why.
    let mut case = Case::start(host, api, pod("unhooked", spec("echo no such luck >&2; exit 3")));
    let deadline = Instant::now() + PATIENCE;
    while !api
        .events_of("unhooked")
        .contains("PostStartHook failed: no such luck")
    {
        assert!(Instant::now() < deadline, "{}", api.events_of("unhooked"));
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    case.until("ended", |s| {
        let ended = |c: &ContainerStatus| {
            let states = c.state.iter().chain(&c.last_state);
            c.restart_count > 0 || states.filter_map(|s| s.terminated.as_ref()).count() > 0
        };
        s.container_statuses.iter().flatten().any(ended)
    })
    .await;
    case.delete(0).await;
}
