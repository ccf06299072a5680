//! Makes the OCI images of the control plane: recipes and releases are data, a layer is built in an
//! overlay inside a private mount namespace, and the store is an OCI layout on disk.

mod build;
mod command;
mod error;
pub mod fuzzing;
mod oci;
mod output;
mod sources;

pub use command::{BundleCommand, ChartFiles, ImageCommand, Images, STORE};
pub use error::Error;
pub use oci::run::Call;
