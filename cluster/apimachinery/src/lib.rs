/// Field errors with Kubernetes' types, paths and wording.
pub mod field;
