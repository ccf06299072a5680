//! `c5c3 agent …`: what runs on every hypervisor.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::Context;
use c5c3_kit::serve::Endpoint;
use c5c3_kit::{Clusters, Metrics, Stop, telemetry};
use c5c3_node_agent as node_agent;
use c5c3_ovs_agent as ovs_agent;
use clap::{Args, Subcommand};
use libvirt_client::{Certificates, Uri};

use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 agent node --node-name node-1
  c5c3 agent node --node-name node-1 --libvirt qemu+tcp://10.190.0.2/system --root /host
  c5c3 agent ovs --node-name node-1 --namespace c5c3-system";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    agent: Agent,
}

#[derive(Subcommand)]
enum Agent {
    /// Report the status of the Hypervisor, its migrations and guests' metrics, from libvirt and the system.
    #[command(after_help = EXAMPLES)]
    Node(Node),
    /// Report the status of Open vSwitch: bridges, bonds, flows, the connection to OVN, and what looks wrong.
    #[command(after_help = EXAMPLES)]
    Ovs(Ovs),
}

#[derive(Args)]
struct Shared {
    /// Name of the node, its Hypervisor and its OVSNode.
    #[arg(long, env = "NODE_NAME")]
    node_name: String,
    /// Namespace of Migrations and OVSNodes [default: that of the current context]
    #[arg(long, short)]
    namespace: Option<String>,
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the cluster that holds the objects [default: the current one]
    #[arg(long)]
    context: Option<String>,
    /// Address that serves /metrics and /healthz [default: port 9190 on loopback, 9191 for `ovs`]
    #[arg(long, value_name = "ADDRESS:PORT")]
    metrics_address: Option<SocketAddr>,
    /// Log filter, such as info or libvirt_client=debug,warn.
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

#[derive(Args)]
struct Ovs {
    #[command(flatten)]
    shared: Shared,
    /// Directory of Open vSwitch's sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/openvswitch")]
    switch_sockets: PathBuf,
    /// Directory of ovn-controller's sockets.
    #[arg(long, value_name = "DIRECTORY", default_value = "/run/ovn")]
    ovn_sockets: PathBuf,
    /// Seconds between checks of flows and ovn-controller; changes of the switch are seen at once.
    #[arg(long, value_name = "SECONDS", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..))]
    interval: u64,
}

#[derive(Args)]
struct Node {
    #[command(flatten)]
    shared: Shared,
    /// URI of libvirt.
    #[arg(long, value_name = "URI", default_value = "qemu:///system")]
    libvirt: Uri,
    /// Directory with clientcert.pem, clientkey.pem and cacert.pem, for libvirt over TLS.
    #[arg(long, value_name = "DIRECTORY")]
    certificates: Option<PathBuf>,
    /// Path of the host's root file system.
    #[arg(long, value_name = "DIRECTORY", default_value = "/")]
    root: PathBuf,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let agent = arguments.agent;
    telemetry::start(&agent.shared().log).map_err(|error| Failure::Usage(error.to_string()))?;
    // It waits nearly always: one thread is enough, and costs the least memory.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()?;
    runtime.block_on(serve(agent))
}

impl Agent {
    fn shared(&self) -> &Shared {
        match self {
            Agent::Node(node) => &node.shared,
            Agent::Ovs(ovs) => &ovs.shared,
        }
    }

    fn port(&self) -> u16 {
        match self {
            Agent::Node(_) => 9190,
            Agent::Ovs(_) => 9191,
        }
    }
}

async fn serve(agent: Agent) -> Result<(), Failure> {
    let stop = Stop::on_signal().context("signals")?;
    let shared = agent.shared();
    let clusters = Clusters::connect(shared.kubeconfig.as_deref(), shared.context.as_deref(), &[]).await?;
    let namespace = shared.namespace.clone();
    let namespace = namespace.unwrap_or_else(|| clusters.home().default_namespace().to_owned());
    let metrics = Metrics::default();
    let loopback = SocketAddr::from(([127, 0, 0, 1], agent.port()));
    let address = shared.metrics_address.unwrap_or(loopback);
    let endpoint = Endpoint::bind(address, metrics.clone())
        .await
        .with_context(|| format!("cannot serve metrics on {address}"))?;
    tracing::info!("metrics on http://{}/metrics", endpoint.address()?);
    let serving = tokio::spawn(endpoint.serve(stop.clone()));
    let result = match agent {
        Agent::Node(node) => {
            let settings = of_node(node, namespace)?;
            node_agent::run(clusters, metrics, settings, stop).await
        }
        Agent::Ovs(ovs) => {
            let settings = ovs_agent::Settings {
                node: ovs.shared.node_name,
                namespace,
                switch: ovs.switch_sockets,
                ovn: ovs.ovn_sockets,
                interval: Duration::from_secs(ovs.interval),
            };
            ovs_agent::run(clusters, metrics, settings, stop).await
        }
    };
    serving.abort();
    Ok(result?)
}

fn of_node(node: Node, namespace: String) -> Result<node_agent::Settings, Failure> {
    let certificates = node.certificates.map(|directory| certificates(&directory));
    Ok(node_agent::Settings {
        node: node.shared.node_name,
        namespace,
        libvirt: node.libvirt,
        way: libvirt_client::Settings {
            certificates: certificates.transpose()?,
            ..libvirt_client::Settings::default()
        },
        root: node.root,
    })
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
