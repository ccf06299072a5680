//! `c5c3 labels-injector`: copies labels of nodes to their pods.

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use anyhow::Context;
use c5c3_kit::lease::Candidate;
use c5c3_kit::serve::Endpoint;
use c5c3_kit::{Clusters, Metrics, Stop, telemetry};
use c5c3_labels::{Injector, KEYS, NAME, Settings};
use clap::Args;

use super::{block_on, leader};
use crate::failure::Failure;

/// Copy labels of nodes to their pods: an admission webhook, and a watch for the pods it missed.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 labels-injector --namespace c5c3-system --listen [::]:8443
  c5c3 labels-injector --label topology.kubernetes.io/zone --label example.com/rack")]
pub(crate) struct Arguments {
    /// Node labels to copy to pods [default: topology.kubernetes.io/region and /zone, kubernetes.metal.cloud.sap/name]
    #[arg(long = "label", value_name = "KEY", value_parser = key)]
    labels: Vec<String>,
    /// Address for the API server's HTTPS requests to /mutate.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8443")]
    listen: SocketAddr,
    /// Additional host name in its certificate, beside c5c3-labels-injector.NAMESPACE.svc
    #[arg(long = "address", value_name = "IP")]
    addresses: Vec<IpAddr>,
    /// Namespace of its certificates and its lease [default: that of the current context]
    #[arg(long, short)]
    namespace: Option<String>,
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the cluster [default: the current one]
    #[arg(long)]
    context: Option<String>,
    /// Address that serves /metrics and /healthz.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9192")]
    metrics_address: SocketAddr,
    /// Log filter, such as info or c5c3_labels=debug,warn.
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

/// A label has a name of at most 63 characters, after a prefix that is a domain.
fn key(text: &str) -> Result<String, String> {
    let (prefix, name) = text.rsplit_once('/').unwrap_or(("", text));
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let framed = name.starts_with(|c: char| c.is_ascii_alphanumeric())
        && name.ends_with(|c: char| c.is_ascii_alphanumeric());
    if framed && name.len() <= 63 && prefix.len() <= 253 && (prefix.to_owned() + name).chars().all(plain) {
        Ok(text.to_owned())
    } else {
        Err("a label is NAME or DOMAIN/NAME, such as topology.kubernetes.io/zone".to_owned())
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    telemetry::start(&arguments.log).map_err(|error| Failure::Usage(error.to_string()))?;
    block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<(), Failure> {
    let stop = Stop::on_signal().context("signals")?;
    let own = arguments.kubeconfig.as_deref();
    let clusters = Clusters::connect(own, arguments.context.as_deref(), &[]).await?;
    let client = clusters.home().clone();
    let namespace = arguments.namespace.as_deref();
    let terms = leader::terms(&client, namespace, NAME.to_owned());
    let keys = if arguments.labels.is_empty() {
        KEYS.map(str::to_owned).to_vec()
    } else {
        arguments.labels
    };
    let settings = Settings {
        keys,
        names: vec![format!("{NAME}.{}.svc", terms.namespace)],
        namespace: terms.namespace.clone(),
        addresses: arguments.addresses,
    };
    let metrics = Metrics::default();
    let endpoint = Endpoint::bind(arguments.metrics_address, metrics.clone())
        .await
        .with_context(|| format!("cannot serve metrics on {}", arguments.metrics_address))?;
    let injector = Injector::bind(client.clone(), settings, arguments.listen).await?;
    tracing::info!("admission reviews at https://{}/mutate", injector.address());
    let follow = injector.follower(metrics.clone());
    let candidate = Candidate::new(&client, terms, metrics);
    // Every replica answers; one of them writes.
    let following = leader::lead(candidate, stop.clone(), |stop| async move {
        follow(stop).await;
        Ok(())
    });
    let serving = async {
        tokio::join!(endpoint.serve(stop.clone()), injector.serve(stop.clone()));
        Ok::<(), Failure>(())
    };
    tokio::try_join!(following, serving).map(drop)
}

#[cfg(test)]
impl Arguments {
    pub(crate) fn listens_on(&self) -> u16 {
        self.listen.port()
    }
}

#[cfg(test)]
mod tests {
    use super::key;

    #[test]
    fn only_labels_are_labels() {
        for good in ["zone", "topology.kubernetes.io/zone", "a/b_c.d-e"] {
            assert!(key(good).is_ok(), "{good}");
        }
        for bad in ["", "a/", "a b", "-a", "a/b/c", "zone=a"] {
            assert!(key(bad).is_err(), "{bad}");
        }
    }
}
