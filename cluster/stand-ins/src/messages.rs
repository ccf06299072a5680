//! Commands to servers: an account or a right is created by a command in a server's own pod, once after each
//! start of this program and again when it has changed. Every message may be sent twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use c5c3_kit::mask::Mask;
use c5c3_kit::{Applied, Controller, Report, States};
use kube::Client;

use crate::exec::{self, ExecError, ExecTarget};

/// For changes that no watch reports: of an object of another name that this one depends on.
const LOOK: Duration = Duration::from_secs(2);

/// Sends messages to servers and remembers what each was told.
pub(crate) struct Messenger {
    client: Client,
    /// By uid of the object: a digest of the last message.
    digests: Mutex<HashMap<String, String>>,
}

/// A command to run in a server's pod, with its input.
pub struct Message {
    pub place: ExecTarget,
    pub command: &'static [&'static str],
    pub input: String,
    pub uid: String,
    /// `None`: the object is deleted, and there is nothing to remember.
    pub digest: Option<String>,
    /// What the server's error message must not repeat.
    pub hidden: Vec<String>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message for {}", self.place.pod)
    }
}

impl Messenger {
    pub(crate) fn new(client: Client) -> Self {
        Messenger {
            client,
            digests: Mutex::default(),
        }
    }

    pub(crate) fn last(&self, uid: &str) -> Option<String> {
        let told = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(uid).cloned()
    }

    /// Sends it and remembers that. `gone` tells complaints that mean: there is nothing to remove.
    pub(crate) async fn send(&self, message: &Message, gone: fn(&str) -> bool) -> Result<(), ExecError> {
        let done = exec::run(&self.client, &message.place, message.command, &message.input).await;
        match done {
            Ok(_) => {}
            Err(ExecError::Failed { said, .. }) if message.digest.is_none() && gone(&said) => {}
            Err(ExecError::Failed { pod, said }) => {
                let said = Mask::of(&message.hidden).in_pieces().hide(&said);
                return Err(ExecError::Failed { pod, said });
            }
            Err(error) => return Err(error),
        }
        let mut told = self.digests.lock().unwrap_or_else(PoisonError::into_inner);
        match &message.digest {
            Some(digest) => told.insert(message.uid.clone(), digest.clone()),
            None => told.remove(&message.uid),
        };
        Ok(())
    }
}

/// What became of the message of a pass, for an object that is to stay. `ready`: why nothing could be sent yet.
/// `failed` and `done` are the reasons that the real operator gives, and `done` has its message too.
pub(crate) fn report<C: Controller>(
    part: &'static str,
    applied: &Applied<C>,
    ready: Result<(), String>,
    failed: &'static str,
    done: (&'static str, &'static str),
) -> Report {
    let error = applied
        .outcomes()
        .iter()
        .find_map(|outcome| outcome.result.as_ref().err());
    let states = States::default();
    match (ready, error) {
        (Err(why), _) => Report::new(states.unmet(part, "Waiting", why)).again_in(LOOK),
        (Ok(()), Some(error)) => Report::new(states.unmet(part, failed, error.to_string())),
        (Ok(()), None) => Report::new(states.met(part, done.0, done.1)),
    }
}

/// The same for an object that is deleted: `left` names what the server keeps if it was not removed there.
pub(crate) fn farewell_report<C: Controller>(applied: &Applied<C>, left: Option<String>) -> Report {
    let done = applied.outcomes().iter().any(|outcome| outcome.result.is_ok());
    Report::new(States::default()).left(left.filter(|_| !done))
}
