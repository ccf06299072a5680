//! `sidecar-webhook`.

use std::path::PathBuf;

use c5c3_kit::Stop;
use c5c3_webhook::{Call, Files, Server, Tls, review};
use clap::Args;

use super::Shared;
use crate::error::Error;
use crate::sidecar::Sidecar;

/// The API server sends no object that is larger.
const LARGEST: usize = 4 << 20;

/// Admission webhook at POST /mutate: puts ops-log beside RadosGW where a Deployment has the label
/// prysm-sidecar=yes.
#[derive(Debug, Args)]
#[command(after_help = "Examples:
  c5c3 prysm sidecar-webhook --listen [::]:8443 --image REGISTRY/c5c3:1.0 \\
    --certificate /tls/tls.crt --key /tls/tls.key")]
pub(super) struct SidecarWebhook {
    #[command(flatten)]
    pub(super) shared: Shared,
    /// Certificate of the webhook (PEM); a new one is taken up while it runs
    #[arg(long, value_name = "FILE")]
    certificate: PathBuf,
    /// Key of the certificate (PEM)
    #[arg(long, value_name = "FILE")]
    key: PathBuf,
    /// Image of the sidecar
    #[arg(long, env = "SIDECAR_IMAGE")]
    image: String,
    /// Name of RadosGW's log in /var/log/ceph (rgw_ops_log_file_path)
    #[arg(long, default_value = "ops-log.log")]
    file: String,
    /// Port of the sidecar's metrics
    #[arg(long, default_value_t = 9090)]
    port: u16,
}

impl SidecarWebhook {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let sidecar = Sidecar {
            image: self.image,
            file: self.file,
            port: self.port,
        };
        let certificate = Tls::Files(Files::new(self.certificate, self.key));
        let server = Server::bind(self.shared.listen, LARGEST, Some(certificate)).await?;
        tracing::info!("admission reviews at https://{}/mutate", server.address());
        let answer = move |call: Call| {
            let sidecar = sidecar.clone();
            review(call, move |request| async move { sidecar.judge(&request) })
        };
        server.serve(stop, answer).await;
        Ok(())
    }
}
