//! The operator on an API server: the embedded one, or the one that C5C3_TEST_KUBECONFIG names.

mod aggregates;
mod clouds;
mod rotations;
