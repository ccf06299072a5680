//! Commands for a cloud: show it, explain it, read its logs, use it.

pub(crate) mod console;
pub(crate) mod demo;
pub(crate) mod explain;
pub(crate) mod logs;
pub(crate) mod openstack;
pub(crate) mod plan;
pub(crate) mod ssh;
pub(crate) mod status;
pub(crate) mod test;
