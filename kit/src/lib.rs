//! What every controller shares: **observe → plan → decide → apply → report**.
//!
//! A controller implements [`Controller`]; [`Loop`] runs it. The kit does the rest, the same for all:
//!
//! - Watches trigger passes; each pass reads its object afresh, so no decision rests on a stale cache.
//!   Caches hold metadata only: what refers to what ([`Controller::references`]) and what is owned.
//! - Server-side apply with the controller's name as field manager. Nothing is sent when the live
//!   object already says so ([`fields`]). Objects of others are refused, never adopted ([`ownership`]).
//! - Conditions are written on every way out of a pass, failed ones too; `Ready` is computed from the
//!   declared parts and names the blocker ([`conditions`]).
//! - Errors become a condition, an event and a metric by the name of their variant, and are tried again
//!   after growing, jittered pauses ([`fault`]).

pub mod access;
pub mod clusters;
pub mod fault;
pub mod kinds;
pub mod mask;
pub mod pod;
pub mod process;
pub mod read;
pub mod reconcile;
pub mod report;
#[cfg(test)]
mod testing;
pub mod write;

pub use access::{Access, Touch};
pub use clusters::{ClusterError, Clusters, HOME, OTHERS};
pub use process::{http, lease, metrics, serve, stop, telemetry};
pub use reconcile::controller;
pub use report::status::Blocker;
pub use report::{conditions, events};
pub use write::{fields, owned, ownership, rewritten};

pub use conditions::{Part, States};
pub use controller::{Applied, Controller, Decision, Finalizer, Observed, Report, Wanted};
pub use events::Note;
pub use fault::{Fault, Retry};
pub use kinds::{Key, Kind, Reference};
pub use metrics::Metrics;
pub use read::{ReadError, Reader};
pub use reconcile::run::{Loop, together};
pub use reconcile::unserved::mark_unserved;
pub use reconcile::watch::events as watching;
pub use stop::Stop;

/// A lock whose data stays sound when a holder panics: every guarded section here leaves whole values.
pub(crate) fn lock<T>(mutex: &std::sync::Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}
