//! `c5c3 agent …`: what runs on every hypervisor.

use std::net::SocketAddr;
use std::path::PathBuf;

use anyhow::Context;
use c5c3_kit::serve::Endpoint;
use c5c3_kit::{Clusters, Metrics, Stop, telemetry};
use c5c3_node_agent as node_agent;
use clap::{Args, Subcommand};
use libvirt_client::{Certificates, Uri};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 agent node --node-name node-1
  c5c3 agent node --node-name node-1 --libvirt qemu+tcp://10.190.0.2/system --root /host";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub struct Arguments {
    #[command(subcommand)]
    agent: Agent,
}

#[derive(Subcommand)]
enum Agent {
    /// Status of the Hypervisor, migrations and figures of guests, from libvirt and the system.
    #[command(after_help = EXAMPLES)]
    Node(Node),
}

#[derive(Args)]
struct Node {
    /// The node that it runs on, which is the name of its Hypervisor.
    #[arg(long, env = "NODE_NAME")]
    node_name: String,
    /// Where libvirt listens.
    #[arg(long, value_name = "URI", default_value = "qemu:///system")]
    libvirt: Uri,
    /// Directory with clientcert.pem, clientkey.pem and cacert.pem, for libvirt over TLS.
    #[arg(long, value_name = "DIRECTORY")]
    certificates: Option<PathBuf>,
    /// Where the root of the host is.
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
    /// Namespace of Migrations [default: that of the current context]
    #[arg(long, short)]
    namespace: Option<String>,
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the cluster that holds the Hypervisor [default: the current one]
    #[arg(long)]
    context: Option<String>,
    /// Where /metrics and /healthz are served.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9190")]
    metrics_address: SocketAddr,
    /// Log filter, such as info or libvirt_client=debug,warn.
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

pub fn run(arguments: Arguments) -> Result<(), Failure> {
    let Agent::Node(node) = arguments.agent;
    telemetry::start(&node.log).map_err(|error| Failure::Usage(error.to_string()))?;
    // It waits nearly always: one thread is enough, and costs the least memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(node))
}

async fn serve(node: Node) -> Result<(), Failure> {
    let stop = Stop::on_signal().context("signals")?;
    let clusters = Clusters::connect(node.kubeconfig.as_deref(), node.context.as_deref(), &[]).await?;
    let namespace = node
        .namespace
        .unwrap_or_else(|| clusters.home().default_namespace().to_owned());
    let metrics = Metrics::default();
    let endpoint = Endpoint::bind(node.metrics_address, metrics.clone())
        .await
        .with_context(|| format!("cannot serve metrics on {}", node.metrics_address))?;
    tracing::info!("metrics on http://{}/metrics", endpoint.address()?);
    let serving = tokio::spawn(endpoint.serve(stop.clone()));
    let way = libvirt_client::Settings {
        certificates: node
            .certificates
            .map(|directory| certificates(&directory))
            .transpose()?,
        ..libvirt_client::Settings::default()
    };
    let settings = node_agent::Settings {
        node: node.node_name,
        namespace,
        libvirt: node.libvirt,
        way,
        root: node.root,
    };
    let result = node_agent::run(clusters, metrics, settings, stop).await;
    serving.abort();
    Ok(result?)
}

fn certificates(directory: &std::path::Path) -> Result<Certificates, Failure> {
    let read = |name: &str| {
        let path = directory.join(name);
        std::fs::read(&path).with_context(|| format!("cannot read {}", path.display()))
    };
    let (certificate, key) = (read("clientcert.pem")?, read("clientkey.pem")?);
    Certificates::new(&certificate, &key, &read("cacert.pem")?)
        .map_err(|error| Failure::Usage(format!("--certificates {}: {error}", directory.display())))
}
