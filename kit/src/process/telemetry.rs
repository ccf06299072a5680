//! Logs: for a person on a terminal, JSON lines otherwise.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

#[derive(Debug, thiserror::Error)]
#[error("log filter {filter:?}: {source}; write it like info or c5c3_kit=debug,warn")]
pub struct FilterError {
    filter: String,
    source: tracing_subscriber::filter::ParseError,
}

/// Starts logging to standard error. A second call changes nothing.
pub fn start(filter: &str) -> Result<(), FilterError> {
    let parsed = EnvFilter::try_new(filter).map_err(|source| FilterError {
        filter: filter.to_owned(),
        source,
    })?;
    let logs = tracing_subscriber::fmt()
        .with_env_filter(parsed)
        // It would say so where it cannot write, and a disk that is full would be a panic.
        .log_internal_errors(false)
        .with_writer(std::io::stderr);
    let terminal = std::io::stderr().is_terminal();
    // An error means that logging runs already.
    let _ = if terminal {
        logs.compact().with_target(false).try_init()
    } else {
        logs.json()
            .flatten_event(true)
            .with_current_span(false)
            .try_init()
    };
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    const INSIDE: &str = "C5C3_TEST_FULL_DISK";

    /// In a process of its own: its standard error is a disk without room.
    #[test]
    fn a_full_disk_is_no_panic() {
        if std::env::var_os(INSIDE).is_some() {
            super::start("info").expect("a filter");
            tracing::error!("nobody reads this");
            return;
        }
        let full = std::fs::OpenOptions::new().write(true).open("/dev/full");
        let own = std::env::current_exe().expect("the own program");
        let done = Command::new(own)
            .args([
                "--exact",
                "telemetry::tests::a_full_disk_is_no_panic",
                "--nocapture",
            ])
            .env(INSIDE, "1")
            .stderr(full.expect("a full disk"))
            .output()
            .expect("it runs");
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    }
}
