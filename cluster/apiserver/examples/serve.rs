//! Runs an API server by itself: `cargo run -p apiserver --example serve -- <directory> [cluster …]`.
//! It listens on a free port of this machine; the kubeconfig is in the directory.

use std::net::{Ipv4Addr, SocketAddr};

use apiserver::{Config, Server};

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let directory = arguments.next().ok_or("name a directory for the state")?;
    let mut clusters: Vec<String> = arguments.collect();
    if clusters.is_empty() {
        clusters.push("default".to_owned());
    }
    let server = Server::start(Config {
        state_dir: directory.into(),
        listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
        clusters,
        ..Config::default()
    })
    .await?;
    println!("export KUBECONFIG={}", server.kubeconfig_path().display());
    tokio::signal::ctrl_c().await?;
    server.shutdown().await;
    Ok(())
}
