//! RadosGW's Admin API: users, buckets, quotas.

mod admin;
mod sign;
mod usage;
mod view;

pub use admin::{Admin, Keys};
pub use usage::{Target, render};
pub use view::{Site, User};
