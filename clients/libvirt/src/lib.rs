//! A client of libvirt's own protocol, without libvirt's library.
//!
//! [`Connection`] is one stream of calls, answers and events. It answers the server's pings and pings
//! the server. [`Session`] stays connected forever. Calls have the names of libvirt's protocol.
//!
//! ```no_run
//! # async fn example() -> Result<(), libvirt_client::Error> {
//! use libvirt_client::{Connection, Settings, Uri};
//!
//! let uri: Uri = "qemu:///system".parse()?;
//! let (connection, _events) = Connection::open(&uri, &Settings::default()).await?;
//! for domain in connection.domains().await? {
//!     println!("{} {}", domain.uuid, domain.name);
//! }
//! # Ok(())
//! # }
//! ```

mod calls;
mod connection;
mod error;
pub mod events;
mod records;
mod session;
mod tls;
mod uri;
pub mod wire;
pub mod xdr;

pub use calls::{PROCEDURES, Procedure};
pub use connection::{Connection, Events, Settings};
pub use error::Error;
pub use events::{Event, EventKind};
pub use records::{
    Domain, DomainInfo, DomainState, DomainStats, Domains, JobInfo, JobStats, MOST_DOMAINS, NodeInfo, Param,
    Refusal, Secret, Secrets, Uuid, Value, param,
};
pub use session::{News, Session};
pub use tls::Certificates;
pub use uri::{Uri, Way};

/// Bits of [`Connection::all_stats`].
pub mod stats {
    pub const STATE: u32 = 1;
    pub const CPU: u32 = 1 << 1;
    pub const BALLOON: u32 = 1 << 2;
    pub const VCPU: u32 = 1 << 3;
    pub const INTERFACE: u32 = 1 << 4;
    pub const BLOCK: u32 = 1 << 5;
}

/// Values of [`DomainState`]: states, and after a name of one its reasons.
pub mod state {
    pub const RUNNING: i32 = 1;
    pub const PAUSED: i32 = 3;
    pub const SHUTOFF: i32 = 5;
    pub const CRASHED: i32 = 6;

    pub const PAUSED_IO_ERROR: i32 = 5;
    pub const PAUSED_WATCHDOG: i32 = 6;
    pub const PAUSED_CRASHED: i32 = 10;
    pub const SHUTOFF_CRASHED: i32 = 3;
    pub const SHUTOFF_FAILED: i32 = 6;
    /// The daemon could not take it up again when it restarted.
    pub const SHUTOFF_DAEMON: i32 = 8;
}

/// Kinds of [`JobStats`] and [`JobInfo`], and the flag that asks for those of the last job.
pub mod job {
    pub const NONE: i32 = 0;
    pub const BOUNDED: i32 = 1;
    pub const UNBOUNDED: i32 = 2;
    pub const COMPLETED: i32 = 3;
    pub const FAILED: i32 = 4;
    pub const CANCELLED: i32 = 5;

    /// Values of the statistic `operation`.
    pub const MIGRATION_IN: u64 = 4;
    pub const MIGRATION_OUT: u64 = 5;
}
