//! The objects that run OVN.

pub mod agents;
pub mod database;
pub mod northd;
mod pod;

pub use pod::{NODE_TLS, Tls};

/// `tcp:10.0.0.1:6641`, several separated by commas: what programs of OVS take as a database.
pub fn remotes<'a>(protocol: &str, addresses: impl IntoIterator<Item = (&'a String, u16)>) -> String {
    let each = addresses.into_iter().map(|(address, port)| {
        if address.contains(':') {
            format!("{protocol}:[{address}]:{port}")
        } else {
            format!("{protocol}:{address}:{port}")
        }
    });
    each.collect::<Vec<_>>().join(",")
}
