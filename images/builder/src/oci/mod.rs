//! Finished images: the store on disk, and what is done with an image.

pub(crate) mod archive;
pub(crate) mod chart;
pub(crate) mod check;
pub(crate) mod image;
pub(crate) mod import;
pub(crate) mod inspect;
pub(crate) mod key;
pub(crate) mod layout;
pub(crate) mod prune;
pub(crate) mod registry;
pub(crate) mod run;
pub(crate) mod sbom;
pub(crate) mod sign;
pub(crate) mod store;
pub(crate) mod tarball;
pub(crate) mod unpack;
