//! Makes the OCI images of the control plane: recipes and releases are data, a layer is built in an
//! overlay inside a private mount namespace, and the store is an OCI layout on disk.

mod build;
mod bytecode;
mod chamber;
mod check;
mod command;
mod data;
mod disk;
mod error;
mod failure;
mod graph;
mod host;
mod image;
mod import;
mod inspect;
mod lanes;
mod layout;
mod lock;
mod options;
mod output;
mod patch;
mod pins;
mod plan;
mod progress;
mod prune;
mod push;
mod recipe;
mod release;
mod run;
mod sbom;
mod steps;
mod store;
mod tarball;
mod unpack;
mod uv;
mod yaml;

pub use command::{ImageCommand, Images, STORE};
pub use error::Error;
pub use run::Call;
