//! CustomResourceDefinitions: what is accepted, and how objects of them are written.

mod strategy;

pub use strategy::CustomResource;
