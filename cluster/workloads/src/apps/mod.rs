//! Deployments, StatefulSets and DaemonSets, and the budgets that protect their pods.

pub(crate) mod daemonset;
pub(crate) mod deployment;
pub(crate) mod disruption;
pub(crate) mod proportion;
pub(crate) mod replicaset;
pub(crate) mod revision;
pub(crate) mod rollout;
pub(crate) mod statefulset;
