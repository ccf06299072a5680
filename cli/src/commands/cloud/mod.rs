//! What a person does with a cloud: look at it, ask what blocks it, read its logs, use it.

pub mod console;
pub mod demo;
pub mod explain;
pub mod logs;
pub mod openstack;
pub mod plan;
pub mod ssh;
pub mod status;
pub mod test;
