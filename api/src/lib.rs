//! Every kind of CobaltCore's API as a type, with the definitions made from the types.
//!
//! One module per API group. [`registry()`] lists every kind with its definition; the files of
//! `deploy/crds` and `docs/api` are generated from it. Kinds of other projects that we create or
//! read are in [`foreign`].

// Printer columns of one kind share attribute names.
#![allow(clippy::duplicated_attributes)]

pub mod c5c3;
pub mod ceph;
pub mod common;
mod composite;
pub mod conditions;
pub mod cortex;
pub mod crossplane;
pub mod fields;
pub mod foreign;
pub mod generate;
pub mod health;
pub mod hypervisor;
pub mod openstack;
pub mod ovn;
pub mod ovs;
mod publish;
mod reference;
mod registry;
pub mod samples;
mod schema;
pub mod services;

pub use registry::{Kind, Origin, registry};
