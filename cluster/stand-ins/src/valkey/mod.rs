//! `cache.cs.sap.com`: Valkey, alone or with sentinels.

pub(crate) mod manifests;
mod servers;

pub use servers::Valkeys;

/// The user of the image.
const UID: i64 = 42460;
const SERVER: &str = "valkey";
const SENTINEL: &str = "sentinel";
