//! Errors of controllers: each has a reason, names the condition that it affects, and says whether a
//! retry helps.

use std::convert::Infallible;
use std::fmt::{self, Debug, Write};
use std::time::Duration;

use crate::kinds::Reference;

/// What may be tried after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retry {
    /// The same may work later: again, each time after a longer pause.
    Backoff,
    /// The same, with pauses no longer than this: what is waited for tells nobody when it comes.
    Within(Duration),
    /// Only a change can help; a watch will report it.
    OnChange,
}

/// One error enum per controller. The name of the variant is the reason in the condition, in the
/// event and in the metric; the text is what a person reads. It must not hold secret values.
pub trait Fault: std::error::Error + Debug + Send + Sync + 'static {
    /// The condition that this error makes false; `None` when only `Ready` is to report it.
    fn part(&self) -> Option<&'static str>;

    fn retry(&self) -> Retry {
        Retry::Backoff
    }

    fn reason(&self) -> String {
        variant(self)
    }

    /// The object without which it cannot go on; without a namespace, one beside the object itself.
    fn blocker(&self) -> Option<Reference> {
        None
    }
}

/// For controllers that cannot fail: trouble with what they watch is a fact to report.
impl Fault for Infallible {
    fn part(&self) -> Option<&'static str> {
        match *self {}
    }
}

/// The name of the enum variant, read off the front of its derived `Debug` form; the fields are
/// never formatted.
pub fn variant(error: &(impl Debug + ?Sized)) -> String {
    struct Front(String);
    impl Write for Front {
        fn write_str(&mut self, text: &str) -> fmt::Result {
            for c in text.chars() {
                if !c.is_ascii_alphanumeric() {
                    return Err(fmt::Error);
                }
                self.0.push(c);
            }
            Ok(())
        }
    }
    let mut front = Front(String::new());
    // The error is how the formatter is told to stop.
    let _ = write!(front, "{error:?}");
    if front.0.is_empty() {
        "Error".to_owned()
    } else {
        front.0
    }
}

const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(300);

/// The pause after `failures` failures in a row: it doubles up to five minutes and is shortened by up
/// to half at random, so that objects which failed together are not retried together. `chance` is in
/// [0, 1).
pub fn pause(failures: u32, chance: f64) -> Duration {
    let doubled = FIRST.saturating_mul(1 << failures.saturating_sub(1).min(20));
    doubled.min(LONGEST).mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0)
}

/// The pause where pauses end at `longest`, spread like any other interval.
pub fn pause_within(longest: Duration, failures: u32, chance: f64) -> Duration {
    pause(failures, chance).min(spread(longest, chance))
}

/// A stated interval, spread by a tenth either way.
pub fn spread(interval: Duration, chance: f64) -> Duration {
    interval.mul_f64(0.9 + chance.clamp(0.0, 1.0) / 5.0)
}

/// Longest time without a look at an object that waits for a moment: clocks jump, machines sleep.
const LOOK: Duration = Duration::from_secs(900);
const LATE: Duration = Duration::from_secs(10);

/// How long to wait for something that is due after `wait`: never too short and hardly longer, but
/// spread, so that not all objects are processed at once.
pub fn due(wait: Duration, chance: f64) -> Duration {
    let wait = wait.min(LOOK);
    wait + (wait / 10).min(LATE).mul_f64(chance.clamp(0.0, 1.0))
}

/// A client error in plain words.
pub fn plain(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) if !status.message.is_empty() => status.message.clone(),
        kube::Error::Api(status) => format!("the API server answered {} {}", status.code, status.reason),
        other => with_causes(other),
    }
}

/// The text of an error and of its causes, each said once.
pub(crate) fn with_causes(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let cause_text = cause.to_string();
        if !text.contains(&cause_text) {
            text = format!("{text}: {cause_text}");
        }
        source = cause.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug)]
    #[allow(dead_code)]
    enum Sample {
        Unit,
        Tuple(String),
        Named { field: u8 },
    }

    #[test]
    fn the_variant_is_the_reason() {
        assert_eq!(variant(&Sample::Unit), "Unit");
        assert_eq!(variant(&Sample::Tuple("secret".into())), "Tuple");
        assert_eq!(variant(&Sample::Named { field: 1 }), "Named");
    }

    #[test]
    fn pauses_grow_and_stop_growing() {
        assert_eq!(pause(1, 0.0), Duration::from_millis(500));
        assert_eq!(pause(2, 0.0), Duration::from_secs(1));
        assert_eq!(pause(4, 0.0), Duration::from_secs(4));
        assert_eq!(pause(40, 0.0), Duration::from_secs(300));
        assert_eq!(pause(u32::MAX, 0.0), Duration::from_secs(300));
        assert_eq!(pause(2, 1.0), Duration::from_millis(500));
        let longest = Duration::from_secs(15);
        assert_eq!(pause_within(longest, 1, 0.0), Duration::from_millis(500));
        assert_eq!(pause_within(longest, 40, 0.5), longest);
        assert_eq!(spread(Duration::from_secs(10), 0.5), Duration::from_secs(10));
    }

    #[test]
    fn what_is_due_is_neither_early_nor_late() {
        let seconds = Duration::from_secs;
        assert_eq!(due(seconds(10), 0.0), seconds(10));
        assert_eq!(due(seconds(10), 1.0), seconds(11));
        assert_eq!(due(seconds(800), 1.0), seconds(810));
        assert_eq!(due(seconds(7 * 86_400), 0.0), seconds(900), "the clock may jump");
    }
}
