//! Which cluster a command means.

use std::path::{Path, PathBuf};

use c5c3_kit::Clusters;
use clap::Args;
use kube::Client;

use crate::commands::cluster::Place;
use crate::failure::Failure;

/// The cluster and namespace of a cloud: the embedded one of this machine unless told otherwise.
#[derive(Args, Clone)]
pub struct Target {
    #[command(flatten)]
    place: Place,
    /// Kubeconfig file of another cluster [default: the embedded cluster's, else as kubectl does]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of that file [default: the current one]
    #[arg(long)]
    context: Option<String>,
    /// Namespace of the cloud.
    #[arg(long, short, default_value = "openstack")]
    pub namespace: String,
}

impl Target {
    /// A target on the embedded cluster below this state directory.
    pub fn embedded(place: &Place, namespace: &str) -> Self {
        Target {
            place: place.clone(),
            kubeconfig: None,
            context: None,
            namespace: namespace.to_owned(),
        }
    }

    pub async fn client(&self) -> Result<Client, Failure> {
        let own = embedded(&self.place);
        let file = match (&self.kubeconfig, &self.context) {
            (None, None) if own.exists() => Some(own.as_path()),
            (file, _) => file.as_deref(),
        };
        let clusters = Clusters::connect(file, self.context.as_deref(), &[]).await?;
        let client = clusters.home().clone();
        if let Err(error) = client.apiserver_version().await {
            return Err(Failure::NotReady(unreachable(file, &own, &error.to_string())));
        }
        Ok(client)
    }
}

fn embedded(place: &Place) -> PathBuf {
    place.state_dir.join("api/kubeconfig")
}

fn unreachable(file: Option<&Path>, own: &Path, error: &str) -> String {
    if file == Some(own) {
        "the embedded cluster does not run: start it with `c5c3 up`".to_owned()
    } else {
        format!("no answer from the cluster: {error}")
    }
}
