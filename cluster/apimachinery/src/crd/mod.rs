//! CustomResourceDefinitions: what is accepted, and how objects of them are written.

mod defaults;
pub mod definition;
pub mod field_path;
mod keywords;
mod openapi;
mod strategy;
mod structural;
mod version;

pub use openapi::validate as validate_schema;
pub use strategy::CustomResource;
