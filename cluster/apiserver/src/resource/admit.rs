//! What every object passes on its way to the store, in Kubernetes' order: may this writer do it, what do webhooks
//! change, what does the server set, is it valid, does a policy or a webhook refuse it.

use serde_json::Value;

use super::special::BINDING;
use crate::{
    admission::Passage,
    semantics,
    status::Result,
    strategy::{self, Context},
};

/// Takes a new object, or the new state of one, all the way. `name` gives a name to an object that has none
/// yet: only after webhooks have seen it, because a refusal names the object as it was sent.
pub(super) async fn admit(
    context: &Context<'_>,
    passage: Passage<'_>,
    object: &mut Value,
    name: impl FnOnce(&mut Value),
) -> Result<()> {
    let (call, target, live) = (passage.call, passage.target, passage.old);
    let kind = &target.kind;
    strategy::admit(context, object, live)?;
    let access = &call.core.access;
    access.admit(
        &call.cluster,
        &call.identity,
        kind,
        &target.namespace,
        live,
        object,
    )?;
    // Of a Binding webhooks have been asked already.
    let asks = target.subresource != BINDING;
    if asks {
        passage.mutate(object).await?;
    }
    name(object);
    match live {
        None => semantics::prepare_create(kind, object),
        Some(live) => semantics::prepare_update(kind, &target.subresource, object, live),
    }
    strategy::prepare(context, object, live)?;
    let mut errors = match live {
        None => semantics::validate_create(kind, object),
        Some(live) => semantics::validate_update(kind, &target.subresource, object, live),
    };
    errors.extend(strategy::validate(context, object, live));
    semantics::refuse(kind, object, &errors)?;
    strategy::judge(context, object, live)?;
    if asks {
        let named = object["metadata"]["name"].as_str().map(str::to_owned);
        let name = named.as_deref().unwrap_or(passage.name);
        let passage = Passage { name, ..passage };
        passage.validate(Some(&*object)).await?;
    }
    Ok(())
}
