//! One line for each thing that happened, with times.

use std::io::Write;
use std::sync::Mutex;
use std::time::Instant;

use crate::store::Record;

/// Tells on standard error how a build goes.
#[derive(Debug)]
pub struct Progress {
    begin: Instant,
    quiet: bool,
    lock: Mutex<()>,
}

impl Progress {
    pub fn new(quiet: bool) -> Self {
        Self {
            begin: Instant::now(),
            quiet,
            lock: Mutex::new(()),
        }
    }

    pub fn seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    pub fn begin(&self, layer: &str) {
        self.line(&format!("{layer:<16} building"));
    }

    pub fn built(&self, layer: &str, seconds: f64) {
        self.line(&format!("{layer:<16} built in {seconds:.1} s"));
    }

    pub fn stored(&self, record: &Record, seconds: f64) {
        let (tar, size) = (megabytes(record.tar_size), megabytes(record.size));
        self.line(&format!(
            "{:<16} stored in {seconds:.1} s, {tar} → {size}",
            record.recipe
        ));
    }

    pub fn note(&self, text: &str) {
        self.line(text);
    }

    fn line(&self, text: &str) {
        if self.quiet {
            return;
        }
        let _guard = self
            .lock
            .lock()
            .unwrap_or_else(std::sync::PoisonError::into_inner);
        // Progress is not worth an error.
        let _ = writeln!(std::io::stderr(), "{:>7.1} s  {text}", self.seconds());
    }
}

/// `12.3 MB`
pub fn megabytes(bytes: u64) -> String {
    // Sizes stay far below 2^52.
    format!("{:.1} MB", bytes as f64 / 1e6)
}
