//! What the process of an operator needs: leadership, health and metrics endpoints, logs, a clean stop.

pub mod http;
pub mod lease;
pub mod metrics;
pub mod serve;
pub mod stop;
pub mod telemetry;
