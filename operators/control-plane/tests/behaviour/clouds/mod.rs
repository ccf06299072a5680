//! ControlPlane. The other operators are played: their objects get the status that they would write.

mod coming_up;
mod going;
mod updates;
pub(crate) mod world;
