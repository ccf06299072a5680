//! `c5c3 operator …`: what every operator shares, and which there are.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Context;
use c5c3_api::Origin;
use c5c3_api::foreign::brought_by;
use c5c3_api::services;
use c5c3_control_plane as control_plane;
use c5c3_kit::fault::plain;
use c5c3_kit::lease::Candidate;
use c5c3_kit::serve::Endpoint;
use c5c3_kit::{Clusters, HOME, Metrics, Stop, telemetry};
use clap::{Args, Subcommand};

use super::leader;
use crate::failure::Failure;

const EXAMPLES: &str = "\
Examples:
  c5c3 operator all                                   every operator, on the current context
  c5c3 operator services --namespace openstack        those of the services, for one namespace
  c5c3 operator control-plane --context production --leader-elect";

#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    operator: Operator,
}

#[derive(Subcommand)]
enum Operator {
    /// All operators in one process.
    #[command(after_help = "Examples:
  c5c3 operator all
  c5c3 operator all --kubeconfig production.yaml --leader-elect")]
    All(Shared),
    /// ControlPlane, CredentialRotation and SecretAggregate.
    #[command(after_help = "Examples:
  c5c3 operator control-plane --context production
  c5c3 operator control-plane --leader-elect --lease-namespace c5c3-system")]
    ControlPlane(Shared),
    /// Keystone, Glance, Placement, Nova, Neutron, Cinder, Tempest and Cortex.
    #[command(after_help = "Examples:
  c5c3 operator services --namespace openstack
  c5c3 operator services --log c5c3_services=debug,warn")]
    Services(Shared),
    /// OVNCluster and OVNChassis.
    #[command(after_help = "Examples:
  c5c3 operator ovn --context production
  c5c3 operator ovn --context control --cluster hypervisor=hypervisors")]
    Ovn(Shared),
    /// Hypervisor and Eviction.
    #[command(after_help = "Examples:
  c5c3 operator hypervisor --context production
  c5c3 operator hypervisor --leader-elect --lease-namespace c5c3-system")]
    Hypervisor(Shared),
    /// RemoteCluster and RemoteArbiter.
    #[command(after_help = "Examples:
  c5c3 operator arbiter --context storage
  c5c3 operator arbiter --leader-elect --lease-namespace c5c3-system")]
    Arbiter(Shared),
}

const OVN: &str = "ovn.c5c3.io";
const HYPERVISOR: &str = "hypervisor.c5c3.io";
const CEPH: &str = "ceph.c5c3.io";

/// Groups of others that bring databases and caches. A cloud on servers of somebody else needs none.
const OF_BACKENDS: &[&str] = &["k8s.mariadb.com", "memcached.c5c3.io"];

impl Operator {
    fn name(&self) -> &'static str {
        match self {
            Operator::All(_) => "operator",
            Operator::ControlPlane(_) => "control-plane",
            Operator::Services(_) => "services",
            Operator::Ovn(_) => "ovn",
            Operator::Hypervisor(_) => "hypervisor",
            Operator::Arbiter(_) => "arbiter",
        }
    }

    /// API groups without which it cannot work.
    fn groups(&self) -> Vec<&'static str> {
        let own = c5c3_api::c5c3::GROUP;
        let with_services = |others: &[&'static str]| {
            let all = [own].into_iter().chain(services::groups());
            all.chain(others.iter().copied()).collect()
        };
        match self {
            Operator::ControlPlane(_) => vec![own],
            Operator::Services(_) => with_services(&[]),
            Operator::Ovn(_) => vec![OVN],
            Operator::Hypervisor(_) => vec![HYPERVISOR, own],
            Operator::Arbiter(_) => vec![CEPH],
            Operator::All(_) => with_services(&[OVN, HYPERVISOR, CEPH]),
        }
    }

    fn shared(&self) -> &Shared {
        match self {
            Operator::All(shared)
            | Operator::ControlPlane(shared)
            | Operator::Services(shared)
            | Operator::Ovn(shared)
            | Operator::Hypervisor(shared)
            | Operator::Arbiter(shared) => shared,
        }
    }

    async fn work(&self, clusters: Clusters, metrics: Metrics, stop: Stop) -> Result<(), Failure> {
        let namespace = self.shared().namespace.clone();
        let control_plane = |clusters, metrics, stop| {
            let settings = control_plane::Settings {
                namespace: namespace.clone(),
                unserved: crate::roles::unserved(),
                ..control_plane::Settings::default()
            };
            control_plane::run(clusters, metrics, settings, stop)
        };
        let services =
            |clusters, metrics, stop| c5c3_services::run(clusters, metrics, namespace.clone(), stop);
        let ovn = |clusters, metrics, stop| {
            c5c3_ovn::run(
                clusters,
                metrics,
                Arc::new(openstack_client::Tcp),
                namespace.clone(),
                stop,
            )
        };
        let hypervisor = |clusters, metrics, stop| {
            let connect = c5c3_hypervisor::Real {
                dial: Arc::new(openstack_client::Tcp),
            };
            c5c3_hypervisor::run(clusters, metrics, Arc::new(connect), stop)
        };
        let arbiter = |clusters, metrics, stop| c5c3_arbiter::run(clusters, metrics, namespace.clone(), stop);
        match self {
            Operator::All(_) => {
                let first = control_plane(clusters.clone(), metrics.clone(), stop.clone());
                let second = services(clusters.clone(), metrics.clone(), stop.clone());
                let third = ovn(clusters.clone(), metrics.clone(), stop.clone());
                let fourth = hypervisor(clusters.clone(), metrics.clone(), stop.clone());
                tokio::try_join!(first, second, third, fourth, arbiter(clusters, metrics, stop))?;
            }
            Operator::Ovn(_) => ovn(clusters, metrics, stop).await?,
            Operator::Hypervisor(_) => hypervisor(clusters, metrics, stop).await?,
            Operator::Arbiter(_) => arbiter(clusters, metrics, stop).await?,
            Operator::ControlPlane(_) => control_plane(clusters, metrics, stop).await?,
            Operator::Services(_) => services(clusters, metrics, stop).await?,
        }
        Ok(())
    }
}

#[derive(Args)]
struct Shared {
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context of the cluster that holds the objects [default: the current one]
    #[arg(long)]
    context: Option<String>,
    /// Another cluster, by its context: OVN's agents run in `hypervisor`.
    #[arg(long = "cluster", value_name = "NAME=CONTEXT", value_parser = named_context)]
    clusters: Vec<(String, String)>,
    /// Kubeconfig file with the contexts of --cluster [default: the same kubeconfig]
    #[arg(long, value_name = "FILE", requires = "clusters")]
    clusters_kubeconfig: Option<PathBuf>,
    /// Serve one namespace only.
    #[arg(long, short)]
    namespace: Option<String>,
    /// Address that serves /metrics and /healthz.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9180")]
    metrics_address: SocketAddr,
    /// Work only while holding a lease, so that other replicas can stand by.
    #[arg(long)]
    leader_elect: bool,
    /// Namespace of the lease [default: that of the current context]
    #[arg(long, requires = "leader_elect")]
    lease_namespace: Option<String>,
    /// How long to wait for the API server and the operator's kinds before giving up with exit code 4.
    #[arg(long, value_name = "SECONDS", default_value_t = 60)]
    wait: u64,
    /// Log filter, such as info or c5c3_kit=debug,warn.
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

fn named_context(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, _)) if name == HOME => {
            Err(format!("{HOME} is the cluster of --context: use another name"))
        }
        Some((name, context)) if !name.is_empty() && !context.is_empty() => {
            Ok((name.to_owned(), context.to_owned()))
        }
        _ => Err("write it as NAME=CONTEXT".to_owned()),
    }
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    let operator = arguments.operator;
    telemetry::start(&operator.shared().log).map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(operator))
}

async fn serve(operator: Operator) -> Result<(), Failure> {
    let shared = operator.shared();
    let stop = Stop::on_signal().context("signals")?;
    let own = shared.kubeconfig.as_deref();
    let of_others = shared.clusters_kubeconfig.as_deref().or(own);
    let clusters = Clusters::connect(own, shared.context.as_deref(), &[])
        .await?
        .join(of_others, &shared.clusters)
        .await?;
    let patience = Duration::from_secs(shared.wait);
    if !served(&clusters, &operator.groups(), patience, &stop).await? {
        return Ok(());
    }
    let metrics = Metrics::default();
    let endpoint = Endpoint::bind(shared.metrics_address, metrics.clone())
        .await
        .with_context(|| format!("cannot serve metrics on {}", shared.metrics_address))?;
    tracing::info!("metrics on http://{}/metrics", endpoint.address()?);
    let serving = tokio::spawn(endpoint.serve(stop.clone()));

    let result = if shared.leader_elect {
        let client = clusters.home().clone();
        let name = format!("c5c3-{}", operator.name());
        let terms = leader::terms(&client, shared.lease_namespace.as_deref(), name);
        let candidate = Candidate::new(&client, terms, metrics.clone());
        leader::lead(candidate, stop, |stop| operator.work(clusters, metrics, stop)).await
    } else {
        operator.work(clusters, metrics, stop).await
    };
    serving.abort();
    result
}

/// Kinds of ours come from this program, those of others with their operators.
fn lacking(groups: &[&str]) -> String {
    let foreign = |group: &&str| {
        let mut kinds = c5c3_api::registry().iter();
        kinds.any(|kind| kind.group == **group && kind.origin == Origin::Foreign)
    };
    let (others, ours): (Vec<&str>, Vec<&str>) = groups.iter().copied().partition(foreign);
    let mut parts = Vec::new();
    if !ours.is_empty() {
        parts.push(format!(
            "no CRDs of {}: install them with `c5c3 crds | kubectl apply --server-side -f -`",
            ours.join(", ")
        ));
    }
    if !others.is_empty() {
        let named = others.iter().map(|group| match brought_by(group) {
            Some(by) => format!("{group} ({by})"),
            None => (*group).to_owned(),
        });
        parts.push(format!(
            "no CRDs of {}: install the operators of these projects, which include them",
            named.collect::<Vec<_>>().join(", ")
        ));
    }
    format!("the cluster has {}", parts.join("; and "))
}

/// Every server gets this long for an answer.
const ANSWER: Duration = Duration::from_secs(5);

/// Waits until the API server answers and has the groups; `false` when the stop came first.
async fn served(
    clusters: &Clusters,
    groups: &[&'static str],
    patience: Duration,
    stop: &Stop,
) -> Result<bool, Failure> {
    let start = Instant::now();
    loop {
        let left = patience.saturating_sub(start.elapsed()).max(ANSWER);
        let answer = tokio::select! {
            () = stop.requested() => return Ok(false),
            answer = tokio::time::timeout(left, clusters.home().list_api_groups()) => answer,
        };
        let missing = match answer {
            Ok(Ok(list)) => {
                let without = |groups: &[&'static str]| -> Vec<&'static str> {
                    let has = |group: &str| list.groups.iter().any(|g| g.name == group);
                    groups.iter().copied().filter(|group| !has(group)).collect()
                };
                let missing = without(groups);
                if missing.is_empty() {
                    let others = without(OF_BACKENDS);
                    if !others.is_empty() {
                        tracing::warn!("{}; this is fine if all of them are external", lacking(&others));
                    }
                    return Ok(true);
                }
                lacking(&missing)
            }
            Ok(Err(error)) => format!("no answer from the API server: {}", plain(&error)),
            Err(_) => format!("no answer from the API server within {} s", left.as_secs()),
        };
        if start.elapsed() >= patience {
            return Err(Failure::NotReady(missing));
        }
        tracing::info!("waiting: {missing}");
        tokio::select! {
            () = stop.requested() => return Ok(false),
            () = tokio::time::sleep(Duration::from_secs(2).min(patience)) => {}
        }
    }
}

#[cfg(test)]
impl Arguments {
    /// Operator, port of its figures, and whether it has a lease where it runs.
    pub(crate) fn deployed(&self) -> (&'static str, u16, bool) {
        let shared = self.operator.shared();
        let leads = shared.leader_elect && shared.lease_namespace.is_none();
        (self.operator.name(), shared.metrics_address.port(), leads)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_to_be_had_where_it_comes_from() {
        let ours = lacking(&["c5c3.io"]);
        assert!(ours.contains("`c5c3 crds | kubectl apply"), "{ours}");
        let others = lacking(&["k8s.mariadb.com"]);
        assert!(
            others.contains("mariadb-operator") && !others.contains("c5c3 crds"),
            "{others}"
        );
        let both = lacking(&["c5c3.io", "k8s.mariadb.com"]);
        assert!(both.contains("of c5c3.io:") && both.contains("; and no CRDs of k8s.mariadb.com"));
    }
}
