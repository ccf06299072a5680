//! Clients inside the process: the same service, no socket.

use std::task::{Context, Poll};

use futures::{FutureExt, future::BoxFuture};
use http::{Request, Response, header};
use hyper_util::{rt::TokioIo, service::TowerToHyperService};
use tower::{Service, service_fn};

use super::{ApiService, Body, BoxError};
use crate::identity::Identity;

/// Sends requests of one identity to one logical cluster.
#[derive(Clone)]
pub struct InProcess {
    pub service: ApiService,
    pub cluster: String,
    pub identity: Identity,
}

impl<B> Service<Request<B>> for InProcess
where
    B: http_body::Body<Data = bytes::Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    type Response = Response<Body>;
    type Error = BoxError;
    type Future = BoxFuture<'static, Result<Response<Body>, BoxError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let mut request = request.map(super::wrap);
        let path = request.uri().path_and_query().map_or("/", |path| path.as_str());
        let uri = format!("/clusters/{}{path}", self.cluster).parse();
        match uri {
            Ok(uri) => *request.uri_mut() = uri,
            Err(error) => return async move { Err(BoxError::from(error)) }.boxed(),
        }
        request.extensions_mut().insert(self.identity.clone());
        let service = self.service.clone();
        if request.headers().contains_key(header::UPGRADE) {
            return upgrade(service, request).boxed();
        }
        async move { service.answer(request).await.map_err(|never| match never {}) }.boxed()
    }
}

/// Only hyper makes upgraded connections: a request for one goes through a pipe with hyper at both ends.
async fn upgrade(service: ApiService, mut request: Request<Body>) -> Result<Response<Body>, BoxError> {
    let identity = request
        .extensions()
        .get::<Identity>()
        .cloned()
        .unwrap_or_default();
    let (ours, theirs) = tokio::io::duplex(64 << 10);
    let inner = service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(super::wrap);
        request.extensions_mut().insert(identity.clone());
        service.answer(request)
    });
    let server = hyper::server::conn::http1::Builder::new()
        .serve_connection(TokioIo::new(theirs), TowerToHyperService::new(inner))
        .with_upgrades();
    tokio::spawn(server);
    let (mut sender, connection) = hyper::client::conn::http1::handshake(TokioIo::new(ours)).await?;
    tokio::spawn(connection.with_upgrades());
    if !request.headers().contains_key(header::HOST) {
        request
            .headers_mut()
            .insert(header::HOST, http::HeaderValue::from_static("localhost"));
    }
    let response = sender.send_request(request).await?;
    Ok(response.map(super::wrap))
}
