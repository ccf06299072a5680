//! The operator of `hypervisor.c5c3.io`: hosts of virtual machines from their first day to their last.
//!
//! - `nodes` makes a Hypervisor of each Node that runs guests.
//! - [`host`] is one pure transition for each host: from spec, Node, Nova, Placement and agent to calls
//!   and conditions.
//! - [`eviction`] empties a host: a pure planner of migrations under a budget.

mod error;
pub mod eviction;
pub mod host;
mod login;
pub mod names;
mod nodes;
pub mod nova;
mod power;
mod pulse;

pub use error::Error;
pub use login::{CONTROL_PLANE, Connect, Real};
pub use power::PowerView;
pub use pulse::AgentView;

use std::sync::Arc;

use c5c3_kit::{Access, ClusterError, Clusters, Loop, Metrics, Stop, together};
use eviction::{Evictions, Refusals};
use futures::FutureExt;
use futures::channel::mpsc;
use host::Hosts;
use login::Clouds;
use nodes::Nodes;
use power::Plugs;
use pulse::Pulses;

/// Reconciles all hosts of a cluster until `stop`. `connect` opens Nova and Placement.
pub async fn run(
    clusters: Clusters,
    metrics: Metrics,
    connect: Arc<dyn Connect>,
    stop: Stop,
) -> Result<(), ClusterError> {
    let clouds = Clouds::new(connect);
    let pulses = Pulses::default();
    let (fallen, changed) = mpsc::unbounded();
    let beats = pulses.clone().follow(clusters.home().clone(), fallen);
    let listening = tokio::spawn(beats);
    let result = together(stop, |stop| {
        let hosts = Hosts {
            clouds: clouds.clone(),
            // Management controllers have a network of their own, which no cloud's network leads to.
            plugs: Plugs::new(Arc::new(dial::Tcp)),
            pulses: pulses.clone(),
            refusals: Refusals::default(),
        };
        let nodes = Loop::new(Nodes, clusters.clone(), metrics.clone()).labelled(names::HYPERVISOR);
        let hosts = Loop::new(hosts, clusters.clone(), metrics.clone()).triggered_by(changed);
        let evictions = Loop::new(Evictions::new(clouds), clusters, metrics);
        vec![
            nodes.run(stop.clone()).boxed(),
            hosts.run(stop.clone()).boxed(),
            evictions.run(stop).boxed(),
        ]
    })
    .await;
    listening.abort();
    result
}

/// What the operator may do in a cluster.
pub fn access() -> Access {
    Access::default()
        .with::<Nodes>()
        .with::<Hosts>()
        .with::<Evictions>()
        .with_lease()
}
