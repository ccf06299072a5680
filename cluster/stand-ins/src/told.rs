//! What servers were told: an account or a right is made by a command in a server's own pod, once
//! after each start of ours and again when it has changed. Every message may be sent twice.

use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

use c5c3_kit::mask::Mask;
use kube::Client;

use crate::exec::{self, ExecError, Place};

/// By uid of the object: a digest of what was said last.
#[derive(Debug, Default)]
pub struct Told(Mutex<HashMap<String, String>>);

/// A command and its input for a server.
pub struct Message {
    pub place: Place,
    pub command: &'static [&'static str],
    pub input: String,
    pub uid: String,
    /// `None`: the object goes, nothing has to be remembered.
    pub digest: Option<String>,
    /// What the server's complaint must not repeat.
    pub hidden: Vec<String>,
}

impl std::fmt::Debug for Message {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "message for {}", self.place.pod)
    }
}

impl Told {
    pub fn last(&self, uid: &str) -> Option<String> {
        let told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        told.get(uid).cloned()
    }

    /// Sends it and remembers that. `gone` tells complaints that mean: there is nothing to remove.
    pub async fn send(
        &self,
        client: &Client,
        message: &Message,
        gone: fn(&str) -> bool,
    ) -> Result<(), ExecError> {
        let done = exec::run(client, &message.place, message.command, &message.input).await;
        match done {
            Ok(_) => {}
            Err(ExecError::Failed { said, .. }) if message.digest.is_none() && gone(&said) => {}
            Err(ExecError::Failed { pod, said }) => {
                let said = Mask::of(&message.hidden).in_pieces().hide(&said);
                return Err(ExecError::Failed { pod, said });
            }
            Err(error) => return Err(error),
        }
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match &message.digest {
            Some(digest) => told.insert(message.uid.clone(), digest.clone()),
            None => told.remove(&message.uid),
        };
        Ok(())
    }
}
