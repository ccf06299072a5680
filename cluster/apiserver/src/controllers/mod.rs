//! The controllers that belong to the API itself: what Kubernetes' controller manager does for every
//! object, whatever runs on the cluster. Each waits for changes in the store and is silent without.

mod accounts;
mod aggregation;
mod events;
mod follow;
mod gc;
mod namespaces;
mod requests;

use std::sync::Arc;

use tokio::task::JoinHandle;

use crate::{cluster::Cluster, serve::ApiService};

use requests::Requests;

/// Starts all controllers of one cluster. Once this returns, the namespaces that are there have their
/// ServiceAccount and the certificate of the authority.
pub async fn start(service: &ApiService, cluster: &Arc<Cluster>, authority: &str) -> Vec<JoinHandle<()>> {
    let requests = |name: &str| Requests::new(service.clone(), cluster.clone(), name);
    let accounts = accounts::Accounts::new(requests("service-account-controller"), authority);
    let accounts = accounts.first_pass().await;
    vec![
        tokio::spawn(accounts.run()),
        tokio::spawn(gc::run(requests("generic-garbage-collector"))),
        tokio::spawn(namespaces::run(requests("namespace-controller"))),
        tokio::spawn(aggregation::run(requests("clusterrole-aggregation-controller"))),
        tokio::spawn(events::run(requests("event-controller"))),
    ]
}
