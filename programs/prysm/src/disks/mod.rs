//! Health of disks, as `smartctl` and `nvme` tell it.

mod alerts;
mod ask;
mod disk;
mod osds;
mod page;
mod smart;

pub(crate) use alerts::{Event, Thresholds, event};
pub(crate) use ask::{Asked, Tools};
pub(crate) use page::render;
