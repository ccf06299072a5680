//! The readers of what others made, for the fuzz targets alone.

use std::path::Path;

use crate::error::Error;
use crate::oci::unpack;

/// Unpacks a layer that is not compressed.
pub fn unpack(tar: &[u8], root: &Path) -> Result<(), Error> {
    unpack::extract(tar::Archive::new(tar), root, Path::new("layer"))
}
