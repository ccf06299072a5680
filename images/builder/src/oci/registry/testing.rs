//! A registry in memory, for tests.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::{Arc, Mutex};

use crate::oci::store::{CONFIG, Descriptor, EMPTY, LAYER, MANIFEST, Manifest, NAME, Store};

/// A registry that keeps what it is sent, wants a token, and knows no referrers.
#[derive(Default)]
pub(crate) struct Kept {
    pub blobs: BTreeMap<String, Vec<u8>>,
    pub manifests: BTreeMap<String, Vec<u8>>,
    pub uploads: usize,
}

fn answer(kept: &mut Kept, method: &str, path: &str, token: bool, body: Vec<u8>) -> (u16, String, Vec<u8>) {
    let plain = |status| (status, String::new(), Vec::new());
    if path.starts_with("/token") {
        return (200, String::new(), br#"{"token": "t"}"#.to_vec());
    }
    if !token {
        let challenge = r#"WWW-Authenticate: Bearer realm="http://HOST/token",service="s",scope="x""#;
        return (401, challenge.to_owned(), Vec::new());
    }
    let Some(rest) = path.strip_prefix("/v2/mine/one/") else {
        return plain(404);
    };
    match (method, rest) {
        ("HEAD", blob) => plain(if kept.blobs.contains_key(blob) { 200 } else { 404 }),
        ("POST", "blobs/uploads/") => (202, "Location: /v2/mine/one/up?session=1".into(), Vec::new()),
        ("PUT", upload) if upload.starts_with("up?session=1&digest=") => {
            let digest = format!(
                "sha256:{}",
                hex::encode(<sha2::Sha256 as sha2::Digest>::digest(&body))
            );
            assert!(upload.ends_with(&digest), "{upload} is not {digest}");
            kept.uploads += 1;
            kept.blobs.insert(format!("blobs/{digest}"), body);
            plain(201)
        }
        ("PUT", manifest) => {
            kept.manifests.insert(manifest.to_owned(), body);
            plain(201)
        }
        (_, thing) => match kept.manifests.get(thing).or_else(|| kept.blobs.get(thing)) {
            Some(text) => (200, String::new(), text.clone()),
            None => plain(404),
        },
    }
}

fn serve(stream: TcpStream, host: &str, kept: &Mutex<Kept>) -> std::io::Result<()> {
    let mut reader = BufReader::new(stream.try_clone()?);
    let (mut line, mut size, mut token) = (String::new(), 0, false);
    reader.read_line(&mut line)?;
    loop {
        let mut header = String::new();
        reader.read_line(&mut header)?;
        let header = header.trim().to_ascii_lowercase();
        if header.is_empty() {
            break;
        }
        if let Some(length) = header.strip_prefix("content-length: ") {
            size = length.parse().unwrap();
        }
        token |= header == "authorization: bearer t";
    }
    let mut body = vec![0; size];
    reader.read_exact(&mut body)?;
    let mut words = line.split_whitespace();
    let (method, path) = (words.next().unwrap_or_default(), words.next().unwrap_or_default());
    let (status, header, text) = answer(&mut kept.lock().unwrap(), method, path, token, body);
    let header = header.replace("HOST", host);
    let header = if header.is_empty() {
        header
    } else {
        format!("{header}\r\n")
    };
    let head = format!(
        "HTTP/1.1 {status} X\r\n{header}Content-Length: {}\r\nConnection: close\r\n\r\n",
        text.len()
    );
    let mut stream = stream;
    stream.write_all(head.as_bytes())?;
    stream.write_all(&text)
}

pub(crate) fn registry() -> (String, Arc<Mutex<Kept>>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let host = listener.local_addr().unwrap().to_string();
    let kept = Arc::new(Mutex::new(Kept::default()));
    let (here, shared) = (host.clone(), kept.clone());
    // Ends with the tests.
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let _ = serve(stream, &here, &shared);
        }
    });
    (host, kept)
}

pub(crate) fn image(store: &Store) -> Descriptor {
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: None,
        config: store.put(CONFIG, b"{\"a\":1}").unwrap(),
        layers: vec![store.put(LAYER, b"layer").unwrap()],
        subject: None,
    };
    let mut image = store
        .put(MANIFEST, &serde_json::to_vec(&manifest).unwrap())
        .unwrap();
    image
        .annotations
        .insert(NAME.into(), "r.example/c5c3/one:1".into());
    let about = Manifest {
        artifact_type: Some("application/x".into()),
        config: store.put(EMPTY, b"{}").unwrap(),
        layers: vec![store.put("application/x", b"bill").unwrap()],
        subject: Some(image.clone()),
        ..manifest
    };
    let about = store.refer(&about).unwrap();
    store
        .update_index(|index| index.enter(vec![image.clone(), about]))
        .unwrap();
    image
}
