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
