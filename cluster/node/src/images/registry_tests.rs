//! Pulls from small registries on loopback.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::mpsc;

use serde_json::json;

use super::*;
use crate::images::Images;
use crate::names::EXAMPLE;

/// What a registry does with a request for a path.
#[derive(Clone)]
enum Says {
    Body(Vec<u8>),
    /// Status and header.
    Head(&'static str, String),
    /// The head of an answer, and nothing more.
    Nothing,
}

/// Answers by path, for as long as the process lives; tells what is asked.
fn serve(answers: BTreeMap<String, Says>) -> (String, mpsc::Receiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (tell, told) = mpsc::channel();
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let (answers, tell) = (answers.clone(), tell.clone());
            std::thread::spawn(move || answer(stream, &answers, &tell));
        }
    });
    (address, told)
}

fn answer(mut stream: TcpStream, answers: &BTreeMap<String, Says>, tell: &mpsc::Sender<String>) {
    let mut lines = BufReader::new(stream.try_clone().unwrap())
        .lines()
        .map_while(std::result::Result::ok);
    let first = lines.next().unwrap_or_default();
    lines.take_while(|l| !l.is_empty()).for_each(drop);
    let path = first.split(' ').nth(1).unwrap_or_default().to_owned();
    let (status, header, body) = match answers.get(&path).cloned() {
        Some(Says::Body(body)) => ("200 OK", String::new(), body),
        Some(Says::Head(status, header)) => (status, header, Vec::new()),
        Some(Says::Nothing) => {
            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\n");
            let _ = tell.send(path);
            std::thread::park();
            return;
        }
        None => ("404 Not Found", String::new(), Vec::new()),
    };
    let length = body.len();
    let head = format!("HTTP/1.1 {status}\r\n{header}content-length: {length}\r\nconnection: close\r\n\r\n");
    let _ = stream.write_all(&[head.into_bytes(), body].concat());
    let _ = tell.send(path);
}

/// An image of one layer: paths and answers of its parts, under `x:1`.
fn image(layer: &[u8]) -> (BTreeMap<String, Says>, String) {
    let digest = store::sha256(layer);
    let config = json!({ "rootfs": { "type": "layers", "diff_ids": [digest] } }).to_string();
    let part = |text: &[u8]| json!({ "mediaType": "m", "digest": store::sha256(text), "size": text.len() });
    let manifest = json!({ "schemaVersion": 2, "mediaType": "application/vnd.oci.image.manifest.v1+json",
        "config": part(config.as_bytes()), "layers": [part(layer)] });
    let blob = format!("/v2/x/blobs/{digest}");
    let answers = BTreeMap::from([
        (
            "/v2/x/manifests/1".to_owned(),
            Says::Body(manifest.to_string().into()),
        ),
        (
            format!("/v2/x/blobs/{}", store::sha256(config.as_bytes())),
            Says::Body(config.into()),
        ),
        (blob.clone(), Says::Body(layer.into())),
    ]);
    (answers, blob)
}

async fn pull_of(answers: BTreeMap<String, Says>) -> (Result<Fetched>, tempfile::TempDir) {
    let (address, _told) = serve(answers);
    let directory = tempfile::tempdir().unwrap();
    let mut puller = Puller::new(&format!("{address}/x:1"), &Registries::new(EXAMPLE, Vec::new())).unwrap();
    puller.patience = Duration::from_millis(500);
    (puller.pull(directory.path(), false).await, directory)
}

fn blobs(directory: &tempfile::TempDir) -> usize {
    std::fs::read_dir(directory.path().join("blobs/sha256"))
        .unwrap()
        .count()
}

#[tokio::test]
async fn nobody_is_asked_whom_a_registry_names_and_a_person_does_not() {
    let (answers, blob) = image(b"layer");
    assert!(pull_of(answers.clone()).await.0.is_ok());
    let moved = |to: &str| Says::Head("307 Temporary Redirect", format!("location: {to}\r\n"));
    let challenge = "www-authenticate: Bearer realm=\"https://registry.invalid/token\"\r\n";
    for (path, says) in [
        (blob.as_str(), moved("https://registry.invalid/blob")),
        ("/v2/x/manifests/1", moved("https://registry.invalid/manifest")),
        (
            "/v2/x/manifests/1",
            Says::Head("401 Unauthorized", challenge.into()),
        ),
    ] {
        let mut answers = answers.clone();
        answers.insert(path.into(), says);
        let said = pull_of(answers).await.0.unwrap_err().to_string();
        assert!(
            said.contains("`example up --registry registry.invalid`"),
            "{said}"
        );
    }
}

#[tokio::test]
async fn a_part_has_the_size_that_was_named() {
    let (answers, blob) = image(b"layer");
    for (body, text) in [
        (&b"layer and more"[..], "more than the 5 bytes"),
        (b"lay", "2 too few"),
    ] {
        let mut answers = answers.clone();
        answers.insert(blob.clone(), Says::Body(body.into()));
        let (done, directory) = pull_of(answers).await;
        let said = done.unwrap_err().to_string();
        assert!(said.contains(text), "{said}");
        assert_eq!(blobs(&directory), 1, "the configuration alone");
    }
    assert!(
        enough_room(2 << 20, Some(1 << 20))
            .unwrap_err()
            .to_string()
            .contains("make room")
    );
    assert!(enough_room(1, Some(1)).is_ok() && enough_room(1, None).is_ok());
}

#[tokio::test]
async fn a_registry_that_stops_sending_is_given_up() {
    let (mut answers, blob) = image(b"layer");
    answers.insert(blob, Says::Nothing);
    let said = pull_of(answers).await.0.unwrap_err().to_string();
    assert!(said.contains("stopped sending"), "{said}");
}

#[tokio::test]
async fn a_slow_pull_holds_up_no_other() {
    let (mut slow, blob) = image(b"slow!");
    slow.insert(blob.clone(), Says::Nothing);
    let (slow, told) = serve(slow);
    let (quick, _) = serve(image(b"quick").0);
    let directory = tempfile::tempdir().unwrap();
    let images = Images::new(
        vec![],
        directory.path().join("pulled"),
        Registries::new(EXAMPLE, Vec::new()),
    );
    let (first, one) = (images.clone(), format!("{slow}/x:1"));
    let waits = tokio::spawn(async move { first.pulled(&one, &one, false).await });
    let reached = tokio::task::spawn_blocking(move || told.iter().any(|path| path == blob)).await;
    assert!(reached.unwrap());
    let two = format!("{quick}/x:1");
    let found = timeout(Duration::from_secs(20), images.pulled(&two, &two, false)).await;
    assert!(found.expect("it waits for the slow one").unwrap().is_some());
    assert!(!waits.is_finished());
    waits.abort();
}

#[tokio::test]
async fn what_was_damaged_is_fetched_anew_and_the_rest_stays() {
    let directory = tempfile::tempdir().unwrap();
    let layout = directory.path().join("pulled");
    let images = Images::new(vec![], layout.clone(), Registries::new(EXAMPLE, Vec::new()));
    let (one, two) = (serve(image(b"one").0).0, serve(image(b"two").0).0);
    let references = [one, two].map(|address| format!("{address}/x:1"));
    for reference in &references {
        assert!(
            images
                .pulled(reference, reference, false)
                .await
                .unwrap()
                .is_some()
        );
    }
    // Right in size and wrong in content, as a failing disk leaves it.
    let config = images
        .pulled(&references[0], &references[0], false)
        .await
        .unwrap()
        .unwrap()
        .config;
    let place = store::blob(&layout, &config.digest).unwrap();
    std::fs::write(&place, vec![0; usize::try_from(config.size).unwrap()]).unwrap();
    for reference in references.iter().rev() {
        assert!(
            images
                .pulled(reference, reference, false)
                .await
                .unwrap()
                .is_some()
        );
    }
    std::fs::write(layout.join("index.json"), "{").unwrap();
    for reference in &references {
        assert!(
            images
                .pulled(reference, reference, false)
                .await
                .unwrap()
                .is_some()
        );
    }
}
