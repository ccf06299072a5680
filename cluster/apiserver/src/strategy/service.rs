//! Service addresses.

use std::net::Ipv4Addr;

/// The range that a cluster's Services get their addresses from.
#[derive(Clone, Debug)]
pub struct ServiceNetwork {
    base: u32,
    size: u32,
}

impl ServiceNetwork {
    pub fn new(base: Ipv4Addr, prefix: u8) -> Self {
        let size = 1u32 << (32 - u32::from(prefix.clamp(1, 31)));
        Self {
            base: u32::from(base) & !(size - 1),
            size,
        }
    }
}
