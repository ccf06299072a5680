//! How things stand: whether what was built runs as it should, and what may go.

pub(crate) mod answers;
pub(crate) mod keep;
pub(crate) mod ovn;
pub(crate) mod recurring;
pub(crate) mod rollout;
pub(crate) mod storage;

use c5c3_kit::States;

use crate::facts::Trouble;

/// What keeps the processes from being brought to the wanted state.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Gate {
    Open,
    Dependency(Trouble),
    Credentials {
        reason: String,
        trouble: Trouble,
    },
    Messaging,
    /// A service that makes its own schema waits for the database itself.
    Database,
    Schema,
    /// The schema is being contracted for another version than the spec names.
    Contracted(String),
}

/// A part that is not met, and the object on which that depends.
pub(crate) fn troubled(states: States, part: &'static str, reason: &str, trouble: &Trouble) -> States {
    states
        .unmet(part, reason, trouble.text.clone())
        .because_of(part, trouble.blocker.clone())
}
