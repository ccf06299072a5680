//! Why an object is not available, and the conditions with which K-ORC reports that.

use c5c3_api::conditions::korc::{AVAILABLE, PROGRESSING};
use c5c3_kit::conditions::{State, Truth};
use c5c3_kit::{Fault, Note, ReadError, Retry, States};
use openstack_client::Class;

/// K-ORC's reasons: they say what to do about it, the message says what it is.
mod reason {
    pub(crate) const SUCCESS: &str = "Success";
    pub(crate) const PROGRESSING: &str = "Progressing";
    pub(crate) const TRANSIENT: &str = "TransientError";
    pub(crate) const INVALID: &str = "InvalidConfiguration";
    pub(crate) const UNRECOVERABLE: &str = "UnrecoverableError";
}

/// Never holds a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Trouble {
    /// Something else has to happen first; a watch or the next look will tell.
    Waits(String),
    /// The same may work later.
    Transient(String),
    /// Only a change of the object helps.
    Invalid(String),
    /// Only a change in OpenStack helps.
    Unrecoverable(String),
}

impl Trouble {
    pub(crate) fn text(&self) -> &str {
        match self {
            Trouble::Waits(text)
            | Trouble::Transient(text)
            | Trouble::Invalid(text)
            | Trouble::Unrecoverable(text) => text,
        }
    }

    fn reason(&self) -> &'static str {
        match self {
            Trouble::Waits(_) => reason::PROGRESSING,
            Trouble::Transient(_) => reason::TRANSIENT,
            Trouble::Invalid(_) => reason::INVALID,
            Trouble::Unrecoverable(_) => reason::UNRECOVERABLE,
        }
    }

    /// What an event tells; waiting is no news.
    pub(crate) fn note(&self) -> Option<Note> {
        match self {
            Trouble::Waits(_) => None,
            other => Some(Note::warning(other.reason(), other.text())),
        }
    }

    fn goes_on(&self) -> bool {
        matches!(self, Trouble::Waits(_) | Trouble::Transient(_))
    }
}

impl From<&openstack_client::Error> for Trouble {
    fn from(error: &openstack_client::Error) -> Self {
        let text = error.to_string();
        match error.class() {
            Class::Invalid => Trouble::Invalid(text),
            _ => Trouble::Transient(text),
        }
    }
}

/// The two conditions. `known`: the thing has an id, it was there at least once.
pub(crate) fn states(trouble: Option<&Trouble>, there: bool, known: bool) -> States {
    let progressing = match trouble {
        None => State::new(Truth::False, reason::SUCCESS, "OpenStack resource is up to date"),
        Some(trouble) => {
            let truth = if trouble.goes_on() {
                Truth::True
            } else {
                Truth::False
            };
            State::new(truth, trouble.reason(), trouble.text())
        }
    };
    let available = match trouble {
        _ if there => State::new(Truth::True, reason::SUCCESS, "OpenStack resource is available"),
        Some(trouble) if known && trouble.goes_on() => {
            State::new(Truth::Unknown, trouble.reason(), trouble.text())
        }
        Some(trouble) => State::new(Truth::False, trouble.reason(), trouble.text()),
        None => State::new(Truth::False, reason::PROGRESSING, "does not exist yet"),
    };
    States::default()
        .with(AVAILABLE, available)
        .with(PROGRESSING, progressing)
}

/// What makes a pass fail, so that it is tried again.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    OpenStack(#[from] openstack_client::Error),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl Fault for Failure {
    /// It is reported in K-ORC's words.
    fn part(&self) -> Option<&'static str> {
        None
    }

    fn retry(&self) -> Retry {
        match self {
            Failure::OpenStack(error) if error.class() == Class::Invalid => Retry::OnChange,
            _ => Retry::Backoff,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditions_are_those_of_k_orc() {
        let waits = Trouble::Waits("Waiting for User/glance to be ready".to_owned());
        let lost = Trouble::Transient("no answer".to_owned());
        let wrong = Trouble::Invalid("no such field".to_owned());
        for (trouble, there, known, available, progressing) in [
            (None, true, true, ("True", "Success"), ("False", "Success")),
            (
                Some(&waits),
                false,
                false,
                ("False", "Progressing"),
                ("True", "Progressing"),
            ),
            (
                Some(&lost),
                false,
                true,
                ("Unknown", "TransientError"),
                ("True", "TransientError"),
            ),
            (
                Some(&lost),
                true,
                true,
                ("True", "Success"),
                ("True", "TransientError"),
            ),
            (
                Some(&wrong),
                false,
                true,
                ("False", "InvalidConfiguration"),
                ("False", "InvalidConfiguration"),
            ),
        ] {
            let states = states(trouble, there, known);
            let of = |part| {
                let state = states.get(part).expect("both are set");
                (state.truth.as_str(), state.reason.clone())
            };
            let owned = |(truth, reason): (&'static str, &str)| (truth, reason.to_owned());
            assert_eq!(of(AVAILABLE), owned(available), "{trouble:?}");
            assert_eq!(of(PROGRESSING), owned(progressing), "{trouble:?}");
        }
    }
}
