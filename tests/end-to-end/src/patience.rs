//! Waiting with a deadline.

use std::time::{Duration, Instant};

/// The pause between two looks.
const PAUSE: Duration = Duration::from_millis(500);

/// Looks until there is an answer. When the time is over, the error holds what was seen instead.
pub fn until<T>(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> anyhow::Result<Result<T, String>>,
) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        let instead = match look()? {
            Ok(found) => return Ok(found),
            Err(instead) => instead,
        };
        if start.elapsed() > limit {
            anyhow::bail!("not in {limit:?}: {what}\n{instead}");
        }
        std::thread::sleep(PAUSE);
    }
}

/// Tries until it works; what was wrong last is in the error.
pub fn until_ok<T>(
    what: &str,
    limit: Duration,
    mut attempt: impl FnMut() -> anyhow::Result<T>,
) -> anyhow::Result<T> {
    until(
        what,
        limit,
        || Ok(attempt().map_err(|error| format!("{error:#}"))),
    )
}

/// Looks until it is so.
pub fn until_true(
    what: &str,
    limit: Duration,
    mut look: impl FnMut() -> anyhow::Result<bool>,
) -> anyhow::Result<()> {
    until(what, limit, || {
        Ok(if look()? { Ok(()) } else { Err(String::new()) })
    })
}
