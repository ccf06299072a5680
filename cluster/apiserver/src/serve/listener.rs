//! The HTTPS listener.

use std::{sync::Arc, time::Duration};

use http::Request;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::{conn::auto, graceful::GracefulShutdown},
    service::TowerToHyperService,
};
use rustls::ServerConfig;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;
use tower::service_fn;

use super::{ApiService, Home};
use crate::identity::PeerCertificates;

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);

/// Serves until `stopping`, then lets open connections finish what they do. All of them end when
/// this is dropped.
pub async fn serve(
    listener: TcpListener,
    tls: Arc<ServerConfig>,
    service: ApiService,
    home: Option<Home>,
    stopping: CancellationToken,
    grace: Duration,
) {
    let acceptor = TlsAcceptor::from(tls);
    let graceful = GracefulShutdown::new();
    let mut connections = JoinSet::new();
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = stopping.cancelled() => break,
        };
        match socket {
            Ok((socket, _)) => {
                let _ = socket.set_nodelay(true);
                let watcher = graceful.watcher();
                let (acceptor, service) = (acceptor.clone(), service.clone());
                connections.spawn(connection(socket, acceptor, service, home.clone(), watcher));
            }
            Err(error) => {
                // Out of file descriptors, mostly: waiting is all that helps.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let _ = tokio::time::timeout(grace, graceful.shutdown()).await;
}

async fn connection(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    service: ApiService,
    home: Option<Home>,
    watcher: hyper_util::server::graceful::Watcher,
) {
    let stream = match tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)).await {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return tracing::debug!(%error, "TLS handshake failed"),
        Err(_) => return tracing::debug!("TLS handshake took too long"),
    };
    let certificates = stream.get_ref().1.peer_certificates().unwrap_or_default();
    let peer = PeerCertificates(
        certificates
            .iter()
            .map(|certificate| certificate.to_vec())
            .collect(),
    );
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(super::wrap);
        request.extensions_mut().insert(peer.clone());
        if let Some(home) = &home {
            request.extensions_mut().insert(home.clone());
        }
        service.answer(request)
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .max_concurrent_streams(1000);
    let connection =
        builder.serve_connection_with_upgrades(TokioIo::new(stream), TowerToHyperService::new(service));
    if let Err(error) = watcher.watch(connection.into_owned()).await {
        tracing::debug!(%error, "connection ended");
    }
}
