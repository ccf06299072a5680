//! HTTP/1.1 over whatever [`Dial`] brings: one connection for each request, so that none is stale.
//! (OpenStack under uWSGI answers with `Connection: close` anyway.)

use std::io;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt;
use futures::stream::BoxStream;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, header};
use http_body_util::combinators::UnsyncBoxBody;
use http_body_util::{BodyExt, BodyStream, Full, LengthLimitError, Limited, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::TokioIo;

use crate::error::{Cause, Error, Result};
use crate::tls::Tls;
use dial::Dial;

/// How long and how much a call may take.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// For the connection, TLS included.
    pub connect: Duration,
    /// From the request to the end of the answer; of a stream, to its first byte and between bytes.
    pub answer: Duration,
    /// Of an answer that is not a stream.
    pub bytes: usize,
    /// Further tries of a request that may be repeated, after an error of the connection.
    pub retries: u32,
    /// A catalogue at least as old is asked for again when it lacks a service: one may have come.
    pub catalogue: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connect: Duration::from_secs(5),
            answer: Duration::from_secs(30),
            bytes: 16 << 20,
            retries: 2,
            catalogue: Duration::from_secs(5),
        }
    }
}

const PAUSE: Duration = Duration::from_millis(50);

pub(crate) type Chunks = BoxStream<'static, io::Result<Bytes>>;

/// What is sent.
pub struct Call<'a> {
    /// For errors: "create user glance".
    pub doing: &'a str,
    pub method: Method,
    pub url: &'a str,
    pub headers: &'a [(HeaderName, &'a str)],
    pub body: Option<Bytes>,
}

pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: Bytes,
}

type Payload = UnsyncBoxBody<Bytes, io::Error>;

#[derive(Clone)]
pub struct Transport {
    dial: Arc<dyn Dial>,
    tls: Option<Tls>,
    pub limits: Limits,
}

impl Transport {
    pub fn new(dial: Arc<dyn Dial>, tls: Option<Tls>, limits: Limits) -> Self {
        Self { dial, tls, limits }
    }

    /// The whole answer, whatever its status.
    pub async fn send(&self, call: &Call<'_>) -> Result<Reply> {
        let repeatable = matches!(
            call.method,
            Method::GET | Method::HEAD | Method::PUT | Method::DELETE
        );
        let mut left = if repeatable { self.limits.retries } else { 0 };
        let mut pause = PAUSE;
        loop {
            match self.once(call).await {
                Err(error) if left > 0 && matches!(error.cause, Cause::Connect { .. } | Cause::Broken(_)) => {
                    left -= 1;
                    tokio::time::sleep(pause).await;
                    pause *= 4;
                }
                done => return done,
            }
        }
    }

    async fn once(&self, call: &Call<'_>) -> Result<Reply> {
        let failed = |cause| Error::new(call.doing, cause);
        let limits = self.limits;
        let work = async {
            let full = Full::new(call.body.clone().unwrap_or_default());
            let payload = full.map_err(|never| match never {}).boxed_unsync();
            let (parts, body) = self.exchange(call, payload).await?;
            let whole = Limited::new(body, limits.bytes).collect().await;
            let body = whole.map_err(|e| {
                failed(if e.is::<LengthLimitError>() {
                    Cause::TooLarge(limits.bytes)
                } else {
                    Cause::Broken(e.to_string())
                })
            })?;
            Ok(Reply {
                status: parts.status,
                headers: parts.headers,
                body: body.to_bytes(),
            })
        };
        let whole = limits.connect + limits.answer;
        tokio::time::timeout(whole, work)
            .await
            .unwrap_or_else(|_| Err(failed(Cause::Timeout(whole))))
    }

    /// Sends a stream. Never repeated: it is read only once.
    pub async fn upload(&self, call: &Call<'_>, content: Chunks) -> Result<Reply> {
        let frames = content.map(|chunk| chunk.map(Frame::data));
        let payload = StreamBody::new(frames).boxed_unsync();
        let (parts, body) = self.exchange(call, payload).await?;
        let whole = Limited::new(body, self.limits.bytes).collect().await;
        let body = whole.map_err(|e| Error::new(call.doing, Cause::Broken(e.to_string())))?;
        Ok(Reply {
            status: parts.status,
            headers: parts.headers,
            body: body.to_bytes(),
        })
    }

    /// An answer as a stream; one that is no success is read whole and becomes the error.
    pub async fn download(&self, call: &Call<'_>) -> Result<Chunks> {
        let limits = self.limits;
        let empty = Full::default().map_err(|never| match never {}).boxed_unsync();
        let head = tokio::time::timeout(limits.answer, self.exchange(call, empty)).await;
        let timeout = Error::new(call.doing, Cause::Timeout(limits.answer));
        let (parts, body) = head.map_err(|_| timeout)??;
        if !parts.status.is_success() {
            let whole = Limited::new(body, limits.bytes).collect().await;
            let body = whole.map(http_body_util::Collected::to_bytes).unwrap_or_default();
            return Err(Error::answer(call.doing, parts.status, &body));
        }
        let frames = BodyStream::new(body).filter_map(|frame| async move {
            match frame {
                Ok(frame) => frame.into_data().ok().map(Ok),
                Err(e) => Some(Err(io::Error::other(e))),
            }
        });
        let frames = tokio_stall(frames.boxed(), limits.answer);
        Ok(frames)
    }

    async fn exchange(&self, call: &Call<'_>, payload: Payload) -> Result<(http::response::Parts, Incoming)> {
        let failed = |cause| Error::new(call.doing, cause);
        let invalid = |why: String| failed(Cause::Invalid(format!("{:?}: {why}", call.url)));
        let url: Uri = call.url.parse().map_err(|e| invalid(format!("{e}")))?;
        let host = url
            .host()
            .ok_or_else(|| invalid("it has no host".to_owned()))?
            .trim_matches(['[', ']']);
        let secure = match url.scheme_str() {
            Some("http") => false,
            Some("https") => true,
            other => return Err(invalid(format!("scheme {other:?} is neither http nor https"))),
        };
        let port = url.port_u16().unwrap_or(if secure { 443 } else { 80 });
        let to = format!("{host}:{port}");
        let unreachable = |why: String| failed(Cause::Connect { to: to.clone(), why });

        let connect = async {
            let stream = self.dial.dial(host, port).await?;
            match (&self.tls, secure) {
                (_, false) => Ok(stream),
                (Some(tls), true) => tls.wrap(host, stream).await,
                (None, true) => Tls::new(None).map_err(io::Error::other)?.wrap(host, stream).await,
            }
        };
        let stream = tokio::time::timeout(self.limits.connect, connect)
            .await
            .map_err(|_| unreachable(format!("nothing within {} s", self.limits.connect.as_secs_f32())))?
            .map_err(|e| unreachable(e.to_string()))?;

        let authority = url.authority().map_or(to.as_str(), http::uri::Authority::as_str);
        let mut request = Request::builder()
            .method(call.method.clone())
            .uri(url.path_and_query().map_or("/", |p| p.as_str()))
            .header(header::HOST, authority)
            .header(header::ACCEPT, "application/json");
        for (name, value) in call.headers {
            let mut value = HeaderValue::from_str(value)
                .map_err(|_| failed(Cause::Invalid(format!("header {name} holds odd characters"))))?;
            value.set_sensitive(true);
            request = request.header(name, value);
        }
        let request = request.body(payload).map_err(|e| invalid(e.to_string()))?;

        let broken = |e: hyper::Error| failed(Cause::Broken(with_source(&e)));
        let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream))
            .await
            .map_err(broken)?;
        // Ends with the answer, or when the receiver of the body is dropped.
        tokio::spawn(async move {
            let _ = connection.await;
        });
        let answer = sender.send_request(request).await.map_err(broken)?;
        Ok(answer.into_parts())
    }
}

/// Ends a stream with an error when nothing comes for too long.
fn tokio_stall(stream: Chunks, longest: Duration) -> Chunks {
    futures::stream::unfold(Some(stream), move |state| async move {
        let mut stream = state?;
        match tokio::time::timeout(longest, stream.next()).await {
            Ok(Some(item)) => Some((item, Some(stream))),
            Ok(None) => None,
            Err(_) => {
                let text = format!("nothing more within {} s", longest.as_secs_f32());
                Some((Err(io::Error::new(io::ErrorKind::TimedOut, text)), None))
            }
        }
    })
    .boxed()
}

fn with_source(error: &hyper::Error) -> String {
    match std::error::Error::source(error) {
        Some(source) => format!("{error}: {source}"),
        None => error.to_string(),
    }
}
