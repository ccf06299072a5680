//! RadosGW's Admin API: users, buckets, quotas.

mod admin;
mod sign;
mod usage;
mod view;

pub(crate) use admin::{Admin, Keys};
pub(crate) use usage::{Target, render};
pub(crate) use view::{Site, User};
