//! The HTTPS listener.

use std::{sync::Arc, time::Duration};

use futures::FutureExt;
use http::Request;
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::conn::auto,
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

use super::{
    ApiService, Home,
    connections::{Activity, Answering, Prompt},
};
use crate::identity::PeerCertificates;

const HANDSHAKE: Duration = Duration::from_secs(10);
const HEADERS: Duration = Duration::from_secs(30);
/// A peer that is gone is noticed after both of these.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);

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
    let mut connections = JoinSet::new();
    loop {
        let socket = tokio::select! {
            accepted = listener.accept() => accepted,
            Some(_) = connections.join_next() => continue,
            () = stopping.cancelled() => break,
        };
        match socket {
            Ok((socket, from)) => {
                let Some(open) = service.0.connections.open(from.ip().to_canonical()) else {
                    tracing::debug!(%from, "too many connections are open");
                    continue;
                };
                let _ = socket.set_nodelay(true);
                let (acceptor, service) = (acceptor.clone(), service.clone());
                let (home, stopping) = (home.clone(), stopping.clone());
                connections.spawn(async move {
                    connection(socket, acceptor, service, home, stopping).await;
                    drop(open);
                });
            }
            Err(error) => {
                // Out of file descriptors, mostly: waiting is all that helps.
                tracing::warn!(%error, "cannot accept a connection");
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        }
    }
    let all = async { while connections.join_next().await.is_some() {} };
    let _ = tokio::time::timeout(grace, all).await;
}

async fn connection(
    socket: TcpStream,
    acceptor: TlsAcceptor,
    service: ApiService,
    home: Option<Home>,
    stopping: CancellationToken,
) {
    let shaken = tokio::select! {
        shaken = tokio::time::timeout(HANDSHAKE, acceptor.accept(socket)) => shaken,
        () = stopping.cancelled() => return,
    };
    let stream = match shaken {
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
    let limits = &service.0.limits;
    let (first_bytes, idle) = (limits.first_bytes, limits.idle);
    let activity = Activity::default();
    let active = activity.clone();
    let service = service_fn(move |request: Request<hyper::body::Incoming>| {
        let mut request = request.map(super::wrap);
        request.extensions_mut().insert(peer.clone());
        if let Some(home) = &home {
            request.extensions_mut().insert(home.clone());
        }
        let busy = active.begin();
        service
            .answer(request)
            .map(|answer| answer.map(|response| response.map(|body| Answering::new(body, busy))))
    });
    let mut builder = auto::Builder::new(TokioExecutor::new());
    builder
        .http1()
        .timer(TokioTimer::new())
        .header_read_timeout(HEADERS);
    builder
        .http2()
        .timer(TokioTimer::new())
        .keep_alive_interval(PING)
        .keep_alive_timeout(PONG)
        .max_concurrent_streams(1000);
    let io = TokioIo::new(Prompt::new(stream, first_bytes));
    let connection = builder
        .serve_connection_with_upgrades(io, TowerToHyperService::new(service))
        .into_owned();
    tokio::pin!(connection);
    let ending = tokio::select! {
        ended = connection.as_mut() => Some(ended),
        () = stopping.cancelled() => None,
        () = activity.idle(idle) => None,
    };
    let ended = match ending {
        Some(ended) => ended,
        None => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "connection ended");
    }
}
