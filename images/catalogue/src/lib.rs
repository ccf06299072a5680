//! What a release holds: the version and image of every service, and the configuration
//! options that each service knows. The data is part of the program.
//!
//! ```
//! let release = c5c3_catalogue::Release::load("2025.2")?;
//! assert_eq!(release.image("keystone").as_deref(), Some("ghcr.io/c5c3/keystone:28.1.0"));
//! # Ok::<(), c5c3_catalogue::Error>(())
//! ```

mod nearest;
mod options;
mod order;
mod release;
mod value;

pub use nearest::nearest;
pub use options::{Catalogue, Deprecated, Found, Kind, Missing, Opt};
pub use order::{Move, way};
pub use release::{Release, Uv, releases, upstream};

/// `(path below images/releases, content)`, sorted.
static FILES: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

fn file(path: &str) -> Option<&'static str> {
    FILES
        .iter()
        .find(|(name, _)| *name == path)
        .map(|(_, text)| *text)
}

/// Why a release or a catalogue cannot be had.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    #[error("there is no release `{name}`; known: {}", known.join(", "))]
    Release { name: String, known: Vec<String> },
    #[error("release {release} has no option catalogue for `{service}`; known: {}", known.join(", "))]
    Service {
        release: String,
        service: String,
        known: Vec<String>,
    },
    #[error("{file}: {message}")]
    Data { file: String, message: String },
}
