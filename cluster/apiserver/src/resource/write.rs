//! The end of every write, whatever its verb: seal, commit, count, answer.

use crate::verb::Verb;
use http::StatusCode;
use serde_json::Value;

use super::{Target, version};
use crate::{
    serve::Call,
    status::{ApiError, Reason, Result},
    store::{Action, Expect, Write, WriteError, draft},
    strategy,
};

/// What becomes of an object.
pub(super) enum Change<'a> {
    Put(&'a Value),
    /// With its last state.
    Delete(&'a Value),
}

impl<'a> Change<'a> {
    pub(super) fn of(object: &'a Value, gone: bool) -> Self {
        if gone {
            Self::Delete(object)
        } else {
            Self::Put(object)
        }
    }
}

/// Commits a change that was admitted and validated. `None`: another writer was faster, and the change
/// is to be recomputed; else its revision.
pub(super) async fn commit(
    call: &Call,
    target: &Target,
    context: &strategy::Context<'_>,
    (verb, name): (&Verb, &str),
    expect: Expect,
    change: Change<'_>,
) -> Result<Option<u64>> {
    let kind = &target.kind;
    let seal = |object: &Value| draft(&version::write(kind, object.clone()));
    let write = Write {
        collection: target.collection.clone(),
        key: target.key(name),
        expect,
        action: match change {
            Change::Put(object) => Action::Put(seal(object)),
            Change::Delete(object) => Action::Delete(seal(object)),
        },
    };
    match call.core.store.write(write).await {
        Ok(stored) => {
            strategy::after_write(context);
            let (cluster, user) = (&call.cluster.name, &call.identity.user);
            call.core
                .metrics
                .wrote(cluster, &kind.group, &kind.kind, verb, user);
            Ok(Some(stored.revision))
        }
        Err(WriteError::Conflict) => Ok(None),
        Err(WriteError::Exists) => Err(ApiError::already_exists(&kind.group, &kind.plural, name)),
        Err(WriteError::NotFound) => Err(target.not_found(name)),
        Err(WriteError::Stopped) => Err(ApiError::unavailable("the server is stopping")),
        Err(error @ WriteError::TooDeep) => Err(ApiError::new(
            StatusCode::PAYLOAD_TOO_LARGE,
            Reason::RequestEntityTooLarge,
            error.to_string(),
        )),
        Err(error @ WriteError::Disk(_)) => Err(ApiError::internal(error)),
    }
}
