//! The API as files: generated definitions and reference, samples and bad variants.

mod definitions;
mod generated;
mod samples;
mod server;

use std::path::Path;

fn root() -> &'static Path {
    // The crate sits one directory below the root.
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("a parent directory")
}
