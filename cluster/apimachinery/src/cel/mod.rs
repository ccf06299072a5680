//! The Common Expression Language as Kubernetes uses it in rules of custom resources.

mod rules;

pub use rules::Validator;
