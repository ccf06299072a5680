//! Where the picture of the world comes from.

pub mod file;
pub mod kubernetes;
pub mod openstack;
pub mod prometheus;
mod quantity;
pub mod web;
