//! A tiny HTTP server on loopback for tests: answers what it is told, remembers what it was asked.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::task::JoinHandle;

use crate::catalogue::Interface;
use crate::clouds::{Auth, Cloud, DomainName, Scope, UserName};
use crate::secret::Secret;
use dial::Stream;

#[derive(Clone, Debug)]
pub(crate) struct Question {
    pub method: Method,
    pub path: String,
    /// As the caller names the server.
    pub host: String,
    pub token: Option<String>,
    pub body: Bytes,
}

impl Question {
    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap_or_default()
    }
}

pub(crate) type Reply = (StatusCode, Vec<(&'static str, String)>, Bytes);

pub(crate) fn answer(status: u16, body: &Value) -> Reply {
    let status = StatusCode::from_u16(status).expect("a status");
    (status, Vec::new(), Bytes::from(body.to_string()))
}

/// A token that ends in this many seconds, with one service of each type at the server itself.
pub(crate) fn token(name: &str, seconds: i64, at: &str) -> Reply {
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let endpoint = json!([{"interface": "public", "url": at, "region_id": "RegionOne"}]);
    let services = ["image", "placement", "compute", "network"];
    let catalogue = services.map(|service| json!({"type": service, "endpoints": endpoint}));
    let body = json!({"token": {"expires_at": expires.to_string(), "user": {"id": "u1"},
        "project": {"id": "p1"}, "catalog": catalogue}});
    let (status, _, body) = answer(201, &body);
    (status, vec![("X-Subject-Token", name.to_owned())], body)
}

/// A login first, then these answers; each service is at the server itself.
pub(crate) fn logged_in(
    reply: impl Fn(&Question) -> Reply + Send + Sync + 'static,
) -> impl Fn(usize, &Question) -> Reply + Send + Sync + 'static {
    move |_, question| match question.path.as_str() {
        "/v3/auth/tokens" => token("t", 3600, &format!("http://{}", question.host)),
        _ => reply(question),
    }
}

pub(crate) struct Server {
    pub address: SocketAddr,
    asked: Arc<Mutex<Vec<Question>>>,
    task: JoinHandle<()>,
}

impl Drop for Server {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Server {
    pub(crate) async fn start(answer: impl Fn(usize, &Question) -> Reply + Send + Sync + 'static) -> Self {
        Self::wrapped(answer, |stream| async { Ok(Box::new(stream) as Box<dyn Stream>) }).await
    }

    /// With something around each connection, such as TLS. An error there drops the connection.
    pub(crate) async fn wrapped<F>(
        answer: impl Fn(usize, &Question) -> Reply + Send + Sync + 'static,
        wrap: impl Fn(tokio::net::TcpStream) -> F + Send + 'static,
    ) -> Self
    where
        F: Future<Output = std::io::Result<Box<dyn Stream>>> + Send,
    {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("loopback");
        let address = listener.local_addr().expect("an address");
        let asked: Arc<Mutex<Vec<Question>>> = Arc::default();
        let (answer, heard) = (Arc::new(answer), asked.clone());
        let task = tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                let Ok(stream) = wrap(stream).await else { continue };
                let (answer, heard) = (answer.clone(), heard.clone());
                tokio::spawn(async move {
                    let service = service_fn(|request| serve(request, &*answer, &heard));
                    let served = hyper::server::conn::http1::Builder::new();
                    let _ = served.serve_connection(TokioIo::new(stream), service).await;
                });
            }
        });
        Self { address, asked, task }
    }

    pub(crate) fn asked(&self) -> Vec<Question> {
        self.asked.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(crate) fn url(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn cloud(&self) -> Cloud {
        let domain = || DomainName::Id("default".to_owned());
        Cloud {
            auth_url: format!("{}/v3", self.url()),
            auth: Auth::Password {
                user: UserName::Name {
                    name: "admin".to_owned(),
                    domain: domain(),
                },
                password: Secret::new("s3cret"),
                scope: Scope::Project {
                    name: "admin".to_owned(),
                    domain: domain(),
                },
            },
            region: Some("RegionOne".to_owned()),
            interface: Interface::Public,
            ca: None,
        }
    }
}

async fn serve(
    request: Request<Incoming>,
    answer: &(impl Fn(usize, &Question) -> Reply + Sync),
    heard: &Mutex<Vec<Question>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (parts, body) = request.into_parts();
    let question = Question {
        method: parts.method,
        path: parts.uri.to_string(),
        host: parts
            .headers
            .get("host")
            .and_then(|value| value.to_str().ok())
            .unwrap_or_default()
            .to_owned(),
        token: parts
            .headers
            .get("x-auth-token")
            .map(|value| value.to_str().unwrap_or_default().to_owned()),
        body: body
            .collect()
            .await
            .map(http_body_util::Collected::to_bytes)
            .unwrap_or_default(),
    };
    let count = {
        let mut heard = heard.lock().unwrap_or_else(PoisonError::into_inner);
        heard.push(question.clone());
        heard.len() - 1
    };
    let (status, headers, body) = answer(count, &question);
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = status;
    for (name, value) in headers {
        response
            .headers_mut()
            .insert(name, value.parse().expect("a header"));
    }
    Ok(response)
}
