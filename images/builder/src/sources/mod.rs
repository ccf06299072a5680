//! What images are made from: recipes, releases, pins, patches and options, all of them data.

pub(crate) mod data;
pub(crate) mod graph;
pub(crate) mod lock;
pub(crate) mod options;
pub(crate) mod patch;
pub(crate) mod pins;
pub(crate) mod recipe;
pub(crate) mod release;
pub(crate) mod yaml;
