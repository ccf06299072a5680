//! One file per command.

pub mod cluster;
pub mod completions;
pub mod crds;
pub mod image;
pub mod operator;
pub mod version;
