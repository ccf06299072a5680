//! What shapes lead to: decided objects, conditions and statuses, without a cluster.

mod address;
mod arrows;
mod bad_inputs;
mod cache;
pub(crate) mod ceph;
mod cinder;
mod cortex;
mod elsewhere;
mod fields;
mod golden;
mod jobs;
mod lifecycle;
pub(crate) mod neutron_tls;
mod nova;
mod nova_cortex;
pub(crate) mod nova_guests;
mod nova_upgrade;
mod registry;
mod rendered;
mod seeds;
mod storage;
mod tempest;
mod upgrade;
