//! A client of OVSDB, the database of Open vSwitch and OVN (RFC 7047).
//!
//! [`Connection`] is one stream of JSON-RPC: requests, answers, and the notes of monitors. It answers
//! the server's probes and probes the server. [`Session`] stays connected forever: it goes from
//! remote to remote, follows the leader of a raft cluster, and keeps a replica of the tables that
//! are asked for.
//!
//! ```no_run
//! # async fn example() -> Result<(), ovsdb_client::Error> {
//! use ovsdb_client::{Connection, Operation, Remote, Way};
//!
//! let remote: Remote = "tcp:127.0.0.1:6641".parse()?;
//! let (connection, _notes) = Connection::open(&remote, &Way::default()).await?;
//! let switches = connection
//!     .transact("OVN_Northbound", &[Operation::select("Logical_Switch").columns(&["name"])])
//!     .await?;
//! println!("{:?}", switches[0].rows());
//! # Ok(())
//! # }
//! ```

mod connection;
mod datum;
mod error;
mod frame;
mod message;
mod operation;
mod remote;
mod replica;
mod schema;
mod session;
mod tls;

pub use connection::{Connection, Note, Notes, Way};
pub use datum::{Row, elements, pairs, uuid, uuid_of};
pub use error::Error;
pub use frame::{Framer, LONGEST};
pub use message::Message;
pub use operation::{Condition, Function, Mutator, Operation, Outcome};
pub use remote::{Remote, remotes};
pub use replica::{Table, Tables};
pub use schema::{Column, Schema};
pub use session::{Follow, Session, State};
pub use tls::Certificates;
