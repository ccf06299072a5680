//! Images from registries, fetched in the machine's own network namespace: nodes have no way
//! out.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use http::header::{ACCEPT, AUTHORIZATION, LOCATION, WWW_AUTHENTICATE};
use http::{HeaderMap, Request, Response, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper::body::{Bytes, Incoming};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use rustls::crypto::aws_lc_rs;
use sha2::{Digest, Sha256};
use tokio::io::AsyncWriteExt;
use tokio::time::timeout;

use super::reference::{Parts, parts};
use super::registries::{self, Registries};
use super::store::{self, Descriptor};
use crate::error::{Error, Result};

const CONNECT: Duration = Duration::from_secs(10);
const PATIENCE: Duration = Duration::from_secs(60);
const TEXT_LIMIT: usize = 4 << 20;
const REDIRECTS: usize = 5;
const MANIFESTS: &str = "application/vnd.oci.image.index.v1+json, \
    application/vnd.oci.image.manifest.v1+json, \
    application/vnd.docker.distribution.manifest.list.v2+json, \
    application/vnd.docker.distribution.manifest.v2+json";

/// A manifest whose parts all lie in the layout.
#[derive(Debug)]
pub(super) struct Fetched {
    reference: String,
    top: Descriptor,
    text: Vec<u8>,
}

impl Fetched {
    /// Gives it its name. One at a time: the list of names is read and written.
    pub(super) fn enter(self, layout: &Path) -> Result<()> {
        crate::node::write(&store::blob(layout, &self.top.digest)?, &self.text)?;
        store::enter(layout, &self.reference, self.top)
    }
}

/// Fetches what an image consists of into an OCI layout; with `all`, also what lies there already.
pub(super) async fn pull(
    reference: &str,
    layout: &Path,
    registries: &Registries,
    all: bool,
) -> Result<Fetched> {
    let puller = Puller::new(reference, registries)?;
    let tried = puller.pull(layout, all).await;
    tried.map_err(|e| Error::said(format!("pull {reference}: {e}")))
}

type Answer = Response<Incoming>;

struct Puller {
    client: Client<HttpsConnector<HttpConnector>, Empty<Bytes>>,
    reference: String,
    parts: Parts,
    registries: Registries,
    /// For each answer's head and each piece of a body, not for the whole.
    patience: Duration,
    token: std::sync::Mutex<Option<String>>,
}

impl Puller {
    fn new(reference: &str, registries: &Registries) -> Result<Self> {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        connector.set_connect_timeout(Some(CONNECT));
        let connector = hyper_rustls::HttpsConnectorBuilder::new()
            .with_provider_and_native_roots(aws_lc_rs::default_provider())
            .map_err(Error::system("read the machine's certificates"))?
            .https_or_http()
            .enable_http1()
            .wrap_connector(connector);
        Ok(Self {
            client: Client::builder(TokioExecutor::new()).build(connector),
            reference: reference.into(),
            parts: parts(reference)
                .ok_or_else(|| Error::said(format!("{reference:?} is not an image reference")))?,
            registries: registries.clone(),
            patience: PATIENCE,
            token: std::sync::Mutex::default(),
        })
    }

    async fn pull(&self, layout: &Path, all: bool) -> Result<Fetched> {
        let blobs = layout.join("blobs/sha256");
        std::fs::create_dir_all(&blobs).map_err(Error::file("make directory", &blobs))?;
        let (mut top, mut text) = self.manifest(&self.parts.version).await?;
        if let Some(inner) = store::for_this_machine(&text, &self.reference)? {
            (top, text) = self.manifest(&inner.digest).await?;
        }
        let mut missing = Vec::new();
        for (number, blob) in store::parts(&text, &self.reference)?.into_iter().enumerate() {
            // The first is the configuration, which is read into memory.
            if number == 0 && blob.size > TEXT_LIMIT as u64 {
                let size = blob.size;
                return Err(Error::said(format!(
                    "its configuration has {size} bytes, more than {TEXT_LIMIT}"
                )));
            }
            let place = store::blob(layout, &blob.digest)?;
            let there = std::fs::metadata(&place).is_ok_and(|m| m.len() == blob.size);
            if all || !there {
                missing.push((blob, place));
            }
        }
        let needed = missing
            .iter()
            .fold(0, |sum: u64, (blob, _)| sum.saturating_add(blob.size));
        enough_room(needed, room(layout))?;
        for (blob, place) in &missing {
            self.blob(blob, place).await?;
        }
        top.annotations = BTreeMap::new();
        Ok(Fetched {
            reference: self.reference.clone(),
            top,
            text,
        })
    }

    /// A manifest or index, checked against its digest when it was asked by that.
    async fn manifest(&self, version: &str) -> Result<(Descriptor, Vec<u8>)> {
        let answer = self.get(&format!("manifests/{version}"), MANIFESTS).await?;
        let media_type = header(answer.headers(), "content-type").unwrap_or_default();
        let text = self.collect(answer).await?;
        let digest = store::sha256(&text);
        if version.contains(':') && version != digest {
            return Err(Error::said(format!("the registry sent {digest} for {version}")));
        }
        let named: serde_json::Value = serde_json::from_slice(&text)
            .map_err(|e| Error::said(format!("the registry sent no manifest: {e}")))?;
        let media_type = named["mediaType"].as_str().map_or(media_type, str::to_owned);
        let top = Descriptor {
            media_type,
            digest,
            size: text.len() as u64,
            annotations: BTreeMap::new(),
            platform: None,
        };
        Ok((top, text))
    }

    /// Streams a blob to its place.
    async fn blob(&self, blob: &Descriptor, place: &Path) -> Result<()> {
        let answer = self.get(&format!("blobs/{}", blob.digest), "*/*").await?;
        // Another image with the same blob may be on its way too.
        let own = store::sha256(self.reference.as_bytes());
        let part = place.with_extension(format!("{}.part", &own[7..23]));
        let saved = self.save(answer.into_body(), &part, blob.size).await;
        let right = saved.and_then(|digest| {
            if digest == blob.digest {
                std::fs::rename(&part, place).map_err(Error::file("write", place))
            } else {
                Err(Error::said(format!(
                    "the registry sent {digest} for {}",
                    blob.digest
                )))
            }
        });
        right.inspect_err(|_| drop(std::fs::remove_file(&part)))
    }

    async fn get(&self, what: &str, accept: &str) -> Result<Answer> {
        let Parts { host, repository, .. } = &self.parts;
        let url = format!("{}/v2/{repository}/{what}", registries::address(host));
        let mut answer = self.follow(&url, accept).await?;
        if answer.status() == StatusCode::UNAUTHORIZED
            && let Some(challenge) = header(answer.headers(), WWW_AUTHENTICATE.as_str())
        {
            self.log_in(&challenge).await?;
            answer = self.follow(&url, accept).await?;
        }
        match answer.status() {
            StatusCode::OK => Ok(answer),
            StatusCode::NOT_FOUND => Err(Error::said(format!("{host} does not have it"))),
            status => Err(Error::said(format!("GET {url}: {status}"))),
        }
    }

    /// Registries keep blobs elsewhere. The token is for the registry alone.
    async fn follow(&self, url: &str, accept: &str) -> Result<Answer> {
        let mut at: Uri = url.parse().map_err(|e| Error::said(format!("{url}: {e}")))?;
        let home = at.authority().cloned();
        for _ in 0..REDIRECTS {
            let token = self.token.lock().ok().and_then(|t| t.clone());
            let own = at.authority() == home.as_ref();
            let answer = self.ask(&at, accept, token.filter(|_| own)).await?;
            if !answer.status().is_redirection() {
                return Ok(answer);
            }
            let next = header(answer.headers(), LOCATION.as_str()).unwrap_or_default();
            at = if next.starts_with('/') {
                let mut parts = at.clone().into_parts();
                parts.path_and_query = next.parse().ok();
                Uri::from_parts(parts).map_err(|e| Error::said(e.to_string()))?
            } else {
                next.parse().map_err(|e| Error::said(format!("{next}: {e}")))?
            };
        }
        Err(Error::said(format!("{url} leads from one place to the next")))
    }

    /// Every request goes through here, and so does every place that it goes to.
    async fn ask(&self, at: &Uri, accept: &str, token: Option<String>) -> Result<Answer> {
        self.registries.check(&self.parts.host, at).map_err(Error::said)?;
        let agent = format!(
            "{}/{}",
            self.registries.names().program,
            env!("CARGO_PKG_VERSION")
        );
        let mut request = Request::get(at.clone())
            .header(ACCEPT, accept)
            .header("user-agent", agent);
        if let Some(token) = token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        let request = request
            .body(Empty::new())
            .map_err(|e| Error::said(e.to_string()))?;
        let host = at.host().unwrap_or_default().to_owned();
        timeout(self.patience, self.client.request(request))
            .await
            .map_err(|_| Error::said(format!("{host} does not answer")))?
            .map_err(|e| Error::said(format!("{host}: {}", cause(&e))))
    }

    /// Anyone may read public images, with a token that says so.
    async fn log_in(&self, challenge: &str) -> Result<()> {
        let words = challenge_words(challenge);
        let realm = words.get("realm").ok_or_else(|| {
            Error::said(format!(
                "the registry wants {challenge:?}: only public images are pulled"
            ))
        })?;
        let mut url = format!("{realm}?");
        for name in ["service", "scope"] {
            if let Some(value) = words.get(name) {
                url.push_str(&format!("{name}={}&", escape(value)));
            }
        }
        let at = url.parse().map_err(|e| Error::said(format!("{url}: {e}")))?;
        let answer = self.ask(&at, "application/json", None).await?;
        if !answer.status().is_success() {
            return Err(Error::said(format!("it is not public ({})", answer.status())));
        }
        let value: serde_json::Value =
            serde_json::from_slice(&self.collect(answer).await?).unwrap_or_default();
        let token = value["token"].as_str().or_else(|| value["access_token"].as_str());
        if let Ok(mut held) = self.token.lock() {
            *held = token.map(str::to_owned);
        }
        Ok(())
    }

    async fn collect(&self, answer: Answer) -> Result<Vec<u8>> {
        let body = Limited::new(answer.into_body(), TEXT_LIMIT);
        let collected = timeout(self.patience, body.collect())
            .await
            .map_err(|_| Error::said("the registry stopped sending"))?;
        Ok(collected
            .map_err(|e| Error::said(e.to_string()))?
            .to_bytes()
            .into())
    }

    /// Writes a body of exactly this size to a file; its digest.
    async fn save(&self, mut body: Incoming, part: &Path, size: u64) -> Result<String> {
        let mut file = tokio::fs::File::create(part)
            .await
            .map_err(Error::file("make", part))?;
        let mut hash = Sha256::new();
        let mut left = size;
        loop {
            let frame = timeout(self.patience, body.frame())
                .await
                .map_err(|_| Error::said("the registry stopped sending"))?;
            let Some(frame) = frame else { break };
            let frame = frame.map_err(|e| Error::said(e.to_string()))?;
            if let Some(data) = frame.data_ref() {
                left = left.checked_sub(data.len() as u64).ok_or_else(|| {
                    Error::said(format!("the registry sends more than the {size} bytes it named"))
                })?;
                hash.update(data);
                file.write_all(data).await.map_err(Error::file("write", part))?;
            }
        }
        if left > 0 {
            return Err(Error::said(format!(
                "of {size} bytes the registry sent {left} too few"
            )));
        }
        file.sync_all().await.map_err(Error::file("write", part))?;
        Ok(store::digest(&hash.finalize()))
    }
}

/// Bytes that are free where the layout lies.
fn room(layout: &Path) -> Option<u64> {
    let disk = nix::sys::statvfs::statvfs(layout).ok()?;
    disk.blocks_available().checked_mul(disk.fragment_size())
}

/// A registry names the sizes: nothing is begun that the disk cannot hold.
fn enough_room(needed: u64, room: Option<u64>) -> Result<()> {
    match room {
        Some(room) if needed > room => Err(Error::said(format!(
            "it has {} MiB and the disk {} MiB: make room, or name a smaller image",
            needed >> 20,
            room >> 20
        ))),
        _ => Ok(()),
    }
}

fn header(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(headers.get(name)?.to_str().ok()?.to_owned())
}

/// The innermost reason, which names what went wrong.
fn cause(error: &dyn std::error::Error) -> String {
    let mut last = error;
    while let Some(next) = last.source() {
        last = next;
    }
    last.to_string()
}

/// `Bearer realm="…",service="…"` as words.
fn challenge_words(challenge: &str) -> BTreeMap<String, String> {
    let Some(rest) = challenge.strip_prefix("Bearer ") else {
        return BTreeMap::new();
    };
    let mut words = BTreeMap::new();
    let mut rest = rest;
    while let Some((name, tail)) = rest.split_once("=\"") {
        let Some((value, tail)) = tail.split_once('"') else {
            break;
        };
        words.insert(name.trim_start_matches([',', ' ']).to_owned(), value.to_owned());
        rest = tail;
    }
    words
}

fn escape(text: &str) -> String {
    let plain = |b: u8| b.is_ascii_alphanumeric() || b"-._~:/".contains(&b);
    text.bytes()
        .map(|b| {
            if plain(b) {
                char::from(b).to_string()
            } else {
                format!("%{b:02X}")
            }
        })
        .collect()
}

#[cfg(test)]
#[path = "registry_tests.rs"]
mod pulls;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn challenges() {
        let words =
            challenge_words(r#"Bearer realm="https://a/token",service="b",scope="repository:x/y:pull""#);
        assert_eq!(words["realm"], "https://a/token");
        assert_eq!(words["scope"], "repository:x/y:pull");
        assert!(challenge_words("Basic realm=\"x\"").is_empty());
        assert!(challenge_words("Bearer realm=\"x").is_empty());
        assert_eq!(escape("a b&c:d"), "a%20b%26c:d");
    }
}
