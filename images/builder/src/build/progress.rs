//! One line for each thing that happened.

use std::io::Write;
use std::time::Instant;

use crate::oci::store::Record;

/// Tells how a build goes, line by line.
pub(crate) struct Progress {
    begin: Instant,
    tell: Box<dyn Fn(&str) + Send + Sync>,
}

impl Progress {
    /// Lines without the time: whoever takes them has a clock of their own.
    pub(crate) fn new(tell: impl Fn(&str) + Send + Sync + 'static) -> Self {
        Self {
            begin: Instant::now(),
            tell: Box::new(tell),
        }
    }

    /// To a person, on standard error, with the time since now.
    pub(crate) fn to_stderr(quiet: bool) -> Self {
        let begin = Instant::now();
        Self::new(move |line| {
            if !quiet {
                let seconds = begin.elapsed().as_secs_f64();
                // Progress is not worth an error.
                let _ = writeln!(std::io::stderr(), "{seconds:>7.1} s  {line}");
            }
        })
    }

    pub(crate) fn seconds(&self) -> f64 {
        self.begin.elapsed().as_secs_f64()
    }

    pub(crate) fn begin(&self, layer: &str) {
        self.line(&format!("{layer:<16} building"));
    }

    pub(crate) fn built(&self, layer: &str, seconds: f64) {
        self.line(&format!("{layer:<16} built in {seconds:.1} s"));
    }

    pub(crate) fn stored(&self, record: &Record, seconds: f64) {
        let (tar, size) = (megabytes(record.tar_size), megabytes(record.size));
        self.line(&format!(
            "{:<16} stored in {seconds:.1} s, {tar} → {size}",
            record.recipe
        ));
    }

    pub(crate) fn note(&self, text: &str) {
        self.line(text);
    }

    fn line(&self, text: &str) {
        (self.tell)(text);
    }
}

/// `12.3 MB`
pub(crate) fn megabytes(bytes: u64) -> String {
    // Sizes stay far below 2^52.
    format!("{:.1} MB", bytes as f64 / 1e6)
}
