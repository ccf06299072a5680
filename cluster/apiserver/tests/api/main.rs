//! The API as clients see it: an embedded server in a temporary directory, and kube-rs.

mod access;
mod apply;
mod clusters;
mod conformity;
mod controllers;
mod crds;
mod crud;
mod durability;
mod errors;
mod lifecycle;
mod listener;
mod load;
mod nodes;
mod pod_security;
mod pods;
mod policies;
mod routes;
mod seeds;
mod support;
mod watch;
mod webhooks;
