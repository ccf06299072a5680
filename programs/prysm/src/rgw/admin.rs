//! Asks the Admin API over HTTP.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use futures::{StreamExt, TryStreamExt, stream};
use http::{Request, StatusCode, Uri};
use http_body_util::{BodyExt, Empty, Limited};
use hyper_rustls::{HttpsConnector, HttpsConnectorBuilder};
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::TokioExecutor;
use jiff::Timestamp;
use rustls::pki_types::{CertificateDer, pem::PemObject};
use serde::de::DeserializeOwned;

use super::sign::{self, Key};
use super::view::{Bucket, Names, Site, Stats, User};
use crate::error::Error;

const DEADLINE: Duration = Duration::from_secs(30);
const LARGEST: usize = 64 << 20;
/// Questions at a time: RadosGW has other work too.
const AT_ONCE: usize = 8;
const PAGE: &str = "1000";

/// How RadosGW is reached.
#[derive(Clone, Debug, Args)]
pub(crate) struct Keys {
    /// RadosGW, http://HOST:PORT; a path other than /admin can follow
    #[arg(long, env = "ADMIN_URL", value_name = "URL")]
    pub admin_url: String,
    /// Directory with the files AccessKey and SecretKey, as Rook's Secret of a user is mounted; without
    /// it ACCESS_KEY and SECRET_KEY in the environment count
    #[arg(long, value_name = "DIRECTORY")]
    pub keys: Option<PathBuf>,
    /// CA certificates of RadosGW (PEM) [default: those of the system]
    #[arg(long, value_name = "FILE")]
    pub ca: Option<PathBuf>,
}

impl Keys {
    /// Read again for every look, so a key that was exchanged is followed.
    fn read(&self) -> Result<Key, Error> {
        let one = |file: &str, variable: &str| match &self.keys {
            Some(directory) => {
                let path = directory.join(file);
                let text = std::fs::read_to_string(&path).map_err(|why| Error::Read { path, why })?;
                Ok(text.trim().to_owned())
            }
            None => std::env::var(variable).map_err(|_| Error::NoKeys(variable.to_owned())),
        };
        Ok(Key {
            access: one("AccessKey", "ACCESS_KEY")?,
            secret: one("SecretKey", "SECRET_KEY")?,
        })
    }
}

type Web = Client<HttpsConnector<HttpConnector>, Empty<Bytes>>;

pub(crate) struct Admin {
    keys: Keys,
    web: Web,
    /// Scheme and authority, and the path of the API.
    base: String,
    host: String,
    path: String,
}

impl Admin {
    pub(crate) fn new(keys: Keys) -> Result<Self, Error> {
        let wrong = || Error::AdminUrl(keys.admin_url.clone());
        let uri: Uri = keys.admin_url.parse().map_err(|_| wrong())?;
        let scheme = uri
            .scheme_str()
            .filter(|scheme| ["http", "https"].contains(scheme));
        let (Some(scheme), Some(authority)) = (scheme, uri.authority()) else {
            return Err(wrong());
        };
        // A login in there would end up in logs, and RadosGW takes none.
        if authority.as_str().contains('@') || uri.query().is_some() {
            return Err(wrong());
        }
        let path = match uri.path().trim_end_matches('/') {
            "" => "/admin",
            path => path,
        };
        // The signature covers the host as it is sent, and the usual port is not sent.
        let host = match (scheme, uri.port_u16()) {
            ("http", Some(80)) | ("https", Some(443)) => authority.host(),
            _ => authority.as_str(),
        };
        Ok(Admin {
            base: format!("{scheme}://{authority}"),
            host: host.to_owned(),
            path: path.to_owned(),
            web: web(keys.ca.as_deref())?,
            keys,
        })
    }

    /// All users with what they store, and all their buckets.
    pub(crate) async fn site(&self) -> Result<Site, Error> {
        let key = self.keys.read()?;
        let names = self.names(&key).await?;
        let mut all: Vec<_> = stream::iter(names)
            .map(|name| self.user_with_buckets(&key, name))
            .buffer_unordered(AT_ONCE)
            .try_filter_map(async |found| Ok(found))
            .try_collect()
            .await?;
        all.sort_by_cached_key(|(user, _)| user.id());
        let (users, buckets): (Vec<User>, Vec<Vec<Bucket>>) = all.into_iter().unzip();
        Ok(Site {
            users,
            buckets: buckets.into_iter().flatten().collect(),
        })
    }

    async fn names(&self, key: &Key) -> Result<Vec<String>, Error> {
        let mut all = Vec::new();
        let mut marker = String::new();
        loop {
            let query = [
                ("max-entries", PAGE),
                ("marker", marker.as_str()),
                ("format", "json"),
            ];
            let page: Names = self.get(key, "metadata/user", &query).await?.unwrap_or_default();
            all.extend(page.keys);
            if !page.truncated || page.marker.is_empty() || page.marker == marker {
                return Ok(all);
            }
            marker = page.marker;
        }
    }

    /// `None`: it went away since it was listed.
    async fn user_with_buckets(&self, key: &Key, name: String) -> Result<Option<(User, Vec<Bucket>)>, Error> {
        let query = [("uid", name.as_str()), ("format", "json")];
        let Some(mut user) = self.get::<User>(key, "user", &query).await? else {
            return Ok(None);
        };
        let query = [("uid", name.as_str()), ("stats", "true"), ("format", "json")];
        let buckets: Vec<Bucket> = self.get(key, "bucket", &query).await?.unwrap_or_default();
        // RadosGW's own sums of a user are minutes old, at times a day: those of buckets are not.
        user.stats = Stats::sum(buckets.iter().map(|bucket| bucket.usage.main));
        Ok(Some((user, buckets)))
    }

    async fn get<T: DeserializeOwned>(
        &self,
        key: &Key,
        what: &str,
        query: &[(&str, &str)],
    ) -> Result<Option<T>, Error> {
        let path = format!("{}/{what}", self.path);
        let failed = |why: String| Error::Admin {
            address: format!("{}{path}", self.base),
            why,
        };
        let signed = sign::get(key, &self.host, &path, query, Timestamp::now());
        let mut request = Request::get(format!("{}{}", self.base, signed.target)).header("host", &self.host);
        for (name, value) in signed.headers {
            request = request.header(name, value);
        }
        let request = request
            .body(Empty::new())
            .map_err(|error| failed(error.to_string()))?;
        let asked = async {
            let response = self.web.request(request).await.map_err(|error| whole(&error))?;
            let status = response.status();
            let body = Limited::new(response.into_body(), LARGEST).collect().await;
            Ok::<_, String>((status, body.map_err(|error| error.to_string())?.to_bytes()))
        };
        let late = |_| failed(format!("no answer within {} s", DEADLINE.as_secs()));
        let answer = tokio::time::timeout(DEADLINE, asked).await.map_err(late)?;
        let (status, body) = answer.map_err(failed)?;
        match status {
            StatusCode::OK => {
                let read = serde_json::from_slice(&body);
                read.map(Some)
                    .map_err(|error| failed(format!("its answer cannot be read: {error}")))
            }
            StatusCode::NOT_FOUND => Ok(None),
            StatusCode::FORBIDDEN => Err(failed(format!(
                "refused ({}): the key is wrong, or its user lacks the rights users=read, buckets=read, metadata=read",
                said(&body)
            ))),
            other => Err(failed(format!("{other}: {}", said(&body)))),
        }
    }
}

/// Errors of hyper keep the reason to themselves.
fn whole(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        text = format!("{text}: {inner}");
        source = inner.source();
    }
    text
}

fn said(body: &[u8]) -> String {
    String::from_utf8_lossy(body).chars().take(200).collect()
}

fn web(authority: Option<&Path>) -> Result<Web, Error> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = HttpsConnectorBuilder::new();
    let builder = match authority {
        None => builder
            .with_provider_and_native_roots(provider)
            .map_err(Error::Roots)?,
        Some(path) => {
            let unreadable = |why: String| Error::Certificate {
                path: path.to_owned(),
                why,
            };
            let mut roots = rustls::RootCertStore::empty();
            let all = CertificateDer::pem_file_iter(path).map_err(|error| unreadable(error.to_string()))?;
            for one in all {
                let one = one.map_err(|error| unreadable(error.to_string()))?;
                roots.add(one).map_err(|error| unreadable(error.to_string()))?;
            }
            let config = rustls::ClientConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .map_err(|error| unreadable(error.to_string()))?
                .with_root_certificates(roots)
                .with_no_client_auth();
            builder.with_tls_config(config)
        }
    };
    let connector = builder.https_or_http().enable_http1().build();
    Ok(Client::builder(TokioExecutor::new()).build(connector))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admin(url: &str) -> Result<Admin, Error> {
        Admin::new(Keys {
            admin_url: url.to_owned(),
            keys: None,
            ca: None,
        })
    }

    #[test]
    fn the_address_says_where_the_api_is() {
        for (url, host, path) in [
            ("http://rgw:8080", "rgw:8080", "/admin"),
            ("http://rgw:80/", "rgw", "/admin"),
            ("http://rgw/other/", "rgw", "/other"),
        ] {
            let admin = admin(url).expect("an address");
            assert_eq!((admin.host.as_str(), admin.path.as_str()), (host, path), "{url}");
        }
        for url in ["rgw:8080", "ftp://rgw", "http://a:b@rgw", "http://rgw/?x=1", ""] {
            let error = admin(url).err().map(|error| error.to_string());
            assert!(error.is_some_and(|text| text.contains("http://")), "{url}");
        }
    }
}
