//! An image that comes from a registry: a small one on loopback, which wants a token, has an
//! index of several architectures and keeps its blobs elsewhere.

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use embedded_node::images::{store, tiny};
use embedded_node::kubelet::remove_unused;
use serde_json::{Value, json};

use super::memory_api::{Case, MemoryApi, host, pod};
use super::test_nodes::{BUSYBOX, NAMES, TestNodes};

struct Registry {
    address: String,
    asked: Arc<Mutex<Vec<String>>>,
}

fn answer(stream: &mut TcpStream, status: &str, headers: &str, body: &[u8]) {
    let head = format!(
        "HTTP/1.1 {status}\r\n{headers}content-length: {}\r\nconnection: close\r\n\r\n",
        body.len()
    );
    let _ = stream
        .write_all(head.as_bytes())
        .and_then(|()| stream.write_all(body));
}

/// Serves the image `tiny:1` of a layout under `team/tool:1`.
fn serve(layout: PathBuf) -> Registry {
    let image = store::find(&layout, "c5c3.local/tiny:1").unwrap().unwrap();
    let digest = image.manifest.digest.clone();
    let index = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.index.v1+json", "manifests": [
        { "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": format!("sha256:{:064}", 0), "size": 1,
          "platform": { "architecture": "s390x", "os": "linux" } },
        { "mediaType": "application/vnd.oci.image.manifest.v1+json", "digest": digest, "size": image.manifest.size,
          "platform": { "architecture": store::architecture(), "os": "linux" } } ] });
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let asked = Arc::new(Mutex::new(Vec::new()));
    let (log, home) = (asked.clone(), address.clone());
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut lines = BufReader::new(stream.try_clone().unwrap())
                .lines()
                .map_while(Result::ok);
            let Some(first) = lines.next() else { continue };
            let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
            let trusted = lines
                .take_while(|l| !l.is_empty())
                .any(|l| l.eq_ignore_ascii_case("authorization: Bearer sesame"));
            log.lock().unwrap().push(path.clone());
            let blob = |hex: &str| std::fs::read(layout.join("blobs/sha256").join(hex)).unwrap_or_default();
            if path.starts_with("/token?service=here&scope=repository:team/tool:pull") {
                answer(&mut stream, "200 OK", "", br#"{"token":"sesame"}"#);
            } else if let Some(hex) = path.strip_prefix("/elsewhere/") {
                answer(&mut stream, "200 OK", "", &blob(hex));
            } else if !trusted {
                let wants = format!(
                    "www-authenticate: Bearer realm=\"http://{home}/token\",service=\"here\",scope=\"repository:team/tool:pull\"\r\n"
                );
                answer(&mut stream, "401 Unauthorized", &wants, b"");
            } else if path == "/v2/team/tool/manifests/1" {
                answer(
                    &mut stream,
                    "200 OK",
                    "content-type: application/vnd.oci.image.index.v1+json\r\n",
                    index.to_string().as_bytes(),
                );
            } else if path == format!("/v2/team/tool/manifests/{digest}") {
                answer(
                    &mut stream,
                    "200 OK",
                    "content-type: application/vnd.oci.image.manifest.v1+json\r\n",
                    &blob(&digest[7..]),
                );
            } else if let Some(hex) = path.strip_prefix("/v2/team/tool/blobs/sha256:") {
                answer(
                    &mut stream,
                    "307 Temporary Redirect",
                    &format!("location: /elsewhere/{hex}\r\n"),
                    b"",
                );
            } else {
                answer(&mut stream, "404 Not Found", "", b"");
            }
        }
    });
    Registry { address, asked }
}

fn waiting(status: &k8s_openapi::api::core::v1::PodStatus) -> Option<String> {
    let state = status.container_statuses.as_ref()?.first()?.state.clone()?;
    let waiting = state
        .waiting
        .filter(|w| w.reason.as_deref() == Some("ImagePullBackOff"))?;
    waiting.message
}

#[tokio::test(flavor = "multi_thread")]
async fn images_from_a_registry() {
    let test_nodes = TestNodes::new(&["a"]);
    let (_fabric, nodes) = test_nodes.up().await;
    let (node, cri) = &nodes[0];
    let api = Arc::new(MemoryApi::default());
    let host = host(&test_nodes, node, cri, &api);
    let elsewhere = tempfile::tempdir().unwrap();
    let busybox = std::fs::read("/usr/bin/busybox").unwrap();
    let entries = [
        tiny::Entry::directory("bin", 0o755),
        tiny::Entry::program("bin/busybox", &busybox),
        tiny::Entry::link("bin/echo", "busybox"),
    ];
    let layer = tiny::layer(&entries).unwrap();
    let config = json!({ "Env": ["PATH=/bin"] });
    store::add(elsewhere.path(), "c5c3.local/tiny:1", &layer, config).unwrap();
    let registry = serve(elsewhere.path().into());
    let reference = format!("{}/team/tool:1", registry.address);

    let spec = |image: &str| -> Value {
        json!({ "restartPolicy": "Never", "containers": [{ "name": "main", "image": image, "command": ["echo", "pulled"] }] })
    };
    let mut case = Case::start(&host, &api, pod("pulls", spec(&reference)));
    case.until_phase("Succeeded").await;
    assert_eq!(case.log("main", 0), "pulled\n");
    assert!(api.events_of("pulls").contains("Successfully pulled image"));
    case.delete(0).await;
    // The second time nobody is asked.
    let count = registry.asked.lock().unwrap().len();
    let mut case = Case::start(&host, &api, pod("again", spec(&reference)));
    case.until_phase("Succeeded").await;
    case.delete(0).await;
    assert_eq!(registry.asked.lock().unwrap().len(), count);

    for (name, image, said) in [
        (
            "absent",
            format!("{}/team/other:1", registry.address),
            "does not have it",
        ),
        // Nobody was asked: this registry was not allowed.
        (
            "foreign",
            "registry.example/team/tool:1".into(),
            "`c5c3 up --registry registry.example`",
        ),
        (
            "unbuilt",
            "c5c3.local/keystone:1".into(),
            "`c5c3 image build keystone`",
        ),
    ] {
        let mut case = Case::start(&host, &api, pod(name, spec(&image)));
        let status = case
            .until("waiting for its image", |s| waiting(s).is_some())
            .await;
        let text = waiting(&status).unwrap();
        assert!(text.contains(said), "{text}");
        assert_eq!(text.contains("--registry"), name == "foreign", "{text}");
        case.delete(0).await;
    }

    // When the disk is short: images of running containers stay, the others go and come back.
    let mut user = Case::start(
        &host,
        &api,
        pod(
            "user",
            json!({ "containers": [{ "name": "main", "image": BUSYBOX }] }),
        ),
    );
    user.until_ready().await;
    let gone = remove_unused(cri, NAMES).await.unwrap();
    assert_eq!(gone, std::slice::from_ref(&reference));
    assert!(cri.find_image(&reference).await.unwrap().is_none());
    assert!(cri.find_image(BUSYBOX).await.unwrap().is_some());
    let mut case = Case::start(&host, &api, pod("back", spec(&reference)));
    case.until_phase("Succeeded").await;
    case.delete(0).await;
    user.delete(0).await;
}
