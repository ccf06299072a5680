//! Making layers: what is missing, in which order, and each in a sandbox of its own.

pub(crate) mod builder;
pub(crate) mod bytecode;
pub(crate) mod disk;
pub(crate) mod failure;
pub(crate) mod host;
pub(crate) mod plan;
pub(crate) mod progress;
pub(crate) mod sandbox;
pub(crate) mod schedule;
pub(crate) mod steps;
pub(crate) mod uv;
