//! Health of disks, as `smartctl` and `nvme` tell it.

mod alerts;
mod ask;
mod disk;
mod osds;
mod page;
mod smart;

pub use alerts::{Event, Thresholds, event};
pub use ask::{Asked, Tools};
pub use page::render;
