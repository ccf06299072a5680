//! RadosGW's operations log → counters and histograms.

mod counters;
mod decoder;
mod entry;
mod families;
mod signatures;
mod source;

pub use counters::{Counters, Limits};
pub use decoder::Decoder;
pub use entry::Entry;
pub use families::{FAMILIES, Family, choose};
pub use signatures::without_signatures;
pub use source::{Piece, Position, Tail};
