//! Clients of the listener that are many, or say nothing.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::STANDARD};
use kube::config::Kubeconfig;
use rustls::pki_types::{CertificateDer, ServerName, pem::PemObject};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::{Instant, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::support::*;

const PATIENCE: Duration = Duration::from_secs(20);
const PATH: &[u8] = b"HEAD /livez HTTP/1.1\r\nHost: localhost\r\n\r\n";

async fn listening(change: impl FnOnce(&mut apiserver::serve::Limits)) -> (Running, SocketAddr) {
    let run = start_with(|mut config| {
        config.listen = Some(SocketAddr::from(([127, 0, 0, 1], 0)));
        change(&mut config.limits);
        config
    })
    .await;
    let address = run.server.addr().unwrap();
    (run, address)
}

/// A client that trusts the server.
pub(crate) fn tls(run: &Running) -> TlsConnector {
    let file = Kubeconfig::read_from(run.server.kubeconfig_path()).unwrap();
    let cluster = file.clusters[0].cluster.clone().unwrap();
    let authority = cluster.certificate_authority_data.unwrap();
    let pem = STANDARD.decode(authority).unwrap();
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let mut roots = rustls::RootCertStore::empty();
    roots.add(CertificateDer::from_pem_slice(&pem).unwrap()).unwrap();
    let config = rustls::ClientConfig::builder()
        .with_root_certificates(roots)
        .with_no_client_auth();
    TlsConnector::from(Arc::new(config))
}

/// A connection after its handshake.
async fn connect(run: &Running, address: SocketAddr) -> TlsStream<TcpStream> {
    let socket = TcpStream::connect(address).await.unwrap();
    let name = ServerName::from(address.ip());
    tls(run).connect(name, socket).await.unwrap()
}

/// How long it takes until the server closes a connection; what it says before is ignored.
async fn closed(stream: &mut (impl tokio::io::AsyncRead + Unpin)) -> Duration {
    let start = Instant::now();
    let mut buffer = [0; 1024];
    let end = async { while let Ok(1..) = stream.read(&mut buffer).await {} };
    timeout(PATIENCE, end).await.expect("the server closes it");
    start.elapsed()
}

async fn answered(stream: &mut TlsStream<TcpStream>) {
    stream.write_all(PATH).await.unwrap();
    let mut buffer = [0; 1024];
    let read = timeout(PATIENCE, stream.read(&mut buffer))
        .await
        .expect("in time")
        .unwrap();
    assert!(buffer[..read].starts_with(b"HTTP/1.1 "), "an answer");
}

#[tokio::test]
async fn one_address_opens_its_share_of_connections_and_no_more() {
    let (run, address) = listening(|limits| limits.connections = 6).await;
    // They say nothing at all, not even hello.
    let mut held = Vec::new();
    for _ in 0..3 {
        held.push(TcpStream::connect(address).await.unwrap());
    }
    let mut more = TcpStream::connect(address).await.unwrap();
    assert!(closed(&mut more).await < Duration::from_secs(5), "closed at once");
    held.pop();
    eventually("a place is free", || async {
        let mut stream = TcpStream::connect(address).await.unwrap();
        timeout(Duration::from_millis(200), stream.read_u8())
            .await
            .is_err()
    })
    .await;
    held.clear();
    // The places of those who are gone come back when the server has noticed.
    tokio::time::sleep(Duration::from_millis(300)).await;
    answered(&mut connect(&run, address).await).await;
}

#[tokio::test]
async fn who_says_nothing_after_the_handshake_is_closed() {
    let limit = Duration::from_millis(700);
    let (run, address) = listening(|limits| limits.first_bytes = limit).await;
    let start = Instant::now();
    let mut silent = connect(&run, address).await;
    let mut speaks = connect(&run, address).await;
    answered(&mut speaks).await;
    closed(&mut silent).await;
    assert!(start.elapsed() >= limit, "{:?}", start.elapsed());
    tokio::time::sleep(limit).await;
    answered(&mut speaks).await;
}

#[tokio::test]
async fn a_connection_is_closed_when_it_is_idle_and_not_while_it_is_used() {
    let limit = Duration::from_secs(2);
    let (run, address) = listening(|limits| limits.idle = limit).await;
    let mut stream = connect(&run, address).await;
    let start = Instant::now();
    while start.elapsed() < limit * 2 {
        answered(&mut stream).await;
        tokio::time::sleep(limit / 8).await;
    }
    let took = closed(&mut stream).await;
    assert!(took < Duration::from_secs(10), "{took:?}");
    assert!(start.elapsed() >= limit * 5 / 2, "{:?}", start.elapsed());
}
