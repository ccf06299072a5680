//! Probes and lifecycle hooks: who is asked, how, and what the answers mean.

pub(super) mod handlers;
pub(super) mod health;
pub(super) mod prober;
pub mod tls;
