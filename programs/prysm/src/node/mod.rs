//! The node itself, from `/proc`: the kernel's counters and how much of the machine is used.

pub(crate) mod kernel;
pub(crate) mod usage;

use std::path::{Path, PathBuf};

use crate::error::Error;

/// `/proc`, or another directory that holds its files.
#[derive(Clone, Debug)]
pub(crate) struct Proc(pub PathBuf);

impl Proc {
    pub(crate) fn read(&self, file: &str) -> Result<String, Error> {
        let path = self.0.join(file);
        std::fs::read_to_string(&path).map_err(|why| Error::Read { path, why })
    }

    /// Empty where the kernel was built without it.
    pub(crate) fn read_if_there(&self, file: &str) -> String {
        std::fs::read_to_string(self.0.join(Path::new(file))).unwrap_or_default()
    }
}
