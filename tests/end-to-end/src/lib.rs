//! What the end-to-end tests share: servers to run them on, real programs, recorded transcripts.

pub mod arbiter;
pub mod ceph_users;
pub mod cli;
pub mod cloud;
pub mod crowd;
pub mod elsewhere;
pub mod forward;
pub mod memory;
pub mod patience;
pub mod process;
pub mod stream;
pub mod tools;
pub mod transcript;
pub mod world;

use std::net::{Ipv4Addr, SocketAddr};

/// An embedded API server with a state directory of its own.
pub struct Embedded {
    pub server: apiserver::Server,
    pub directory: tempfile::TempDir,
}

impl Embedded {
    pub async fn start() -> anyhow::Result<Self> {
        Self::with_clusters(&["default"]).await
    }

    /// With these logical clusters, the first one being the default.
    pub async fn with_clusters(clusters: &[&str]) -> anyhow::Result<Self> {
        install_crypto();
        let directory = tempfile::tempdir()?;
        let config = apiserver::Config {
            state_dir: directory.path().to_path_buf(),
            listen: Some(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))),
            clusters: clusters.iter().map(|&name| name.to_owned()).collect(),
            ..apiserver::Config::default()
        };
        let server = apiserver::Server::start(config).await?;
        Ok(Self { server, directory })
    }
}

/// TLS needs a provider once a process; a second call changes nothing.
pub fn install_crypto() {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
}
