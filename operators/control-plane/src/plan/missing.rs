//! Kinds that the cluster lacks: the rest of the cloud is created, and the message names the operator
//! to install.

use c5c3_api::conditions::reason;
use c5c3_api::foreign::brought_by;
use serde_json::Value;

use super::{Draft, State, reference};

const OURS: &str = "CobaltCore's CRDs (deploy/crds)";

pub(crate) fn is_missing(draft: &Draft<'_>, object: &Value) -> bool {
    draft.seen.missing.contains(&reference(object).kind)
}

/// Failed when one of the objects cannot be there.
pub(crate) fn state(draft: &Draft<'_>, objects: &[Value]) -> Option<State> {
    let object = objects.iter().find(|object| is_missing(draft, object))?;
    let kind = reference(object).kind;
    let (kind, group) = kind.split_once('.').unwrap_or((&kind, ""));
    let by = brought_by(group).unwrap_or(OURS);
    let text = format!("this cluster has no kind {kind} of {group}: install {by}");
    Some(State::failed(reason::KIND_MISSING, text))
}
