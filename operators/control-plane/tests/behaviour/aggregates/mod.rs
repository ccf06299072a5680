//! SecretAggregate.

mod silence;
mod sources;
mod target;
mod world;
