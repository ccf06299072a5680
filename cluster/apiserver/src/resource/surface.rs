//! Which paths a kind has, and which verbs they take. Authorisation has been asked by then: this says
//! what of an allowed request there is to serve.

use crate::{
    registry::Kind,
    serve::ResourcePath,
    status::{ApiError, Result},
    verb::Verb,
};

/// 404 where the kind has no such path, 405 where the path does not take the verb.
///
/// | path | cluster-scoped | namespaced |
/// |---|---|---|
/// | `/things` | the collection | `list` and `watch` over all namespaces |
/// | `/things/x[/sub]` | one object | 404 |
/// | `/namespaces/n/things` | 404 | the collection |
/// | `/namespaces/n/things/x[/sub]` | 404 | one object |
pub(super) fn check(kind: &Kind, verb: &Verb, place: &ResourcePath, subresource: &str) -> Result<()> {
    let has_place = match (&place.namespace, &place.name) {
        (Some(_), _) => kind.namespaced,
        (None, Some(_)) => !kind.namespaced,
        // What is only posted to a namespace is not there without one.
        (None, None) => !kind.namespaced || kind.allows(&Verb::List),
    };
    if !has_place {
        return Err(ApiError::no_route());
    }
    let verbs = if subresource.is_empty() {
        &kind.verbs
    } else {
        &kind
            .subresource(subresource)
            .ok_or_else(ApiError::no_route)?
            .verbs
    };
    let in_place = match (&place.namespace, &place.name) {
        // The verbs of a subresource are those of its one path.
        _ if !subresource.is_empty() => true,
        (_, Some(_)) => Verb::OF_OBJECTS.contains(verb),
        (None, None) if kind.namespaced => matches!(verb, Verb::List | Verb::Watch),
        (_, None) => matches!(
            verb,
            Verb::List | Verb::Watch | Verb::Create | Verb::DeleteCollection
        ),
    };
    // Reviews and bindings have a collection to post to and no objects.
    let has_objects = Verb::OF_OBJECTS.iter().any(|verb| kind.allows(verb));
    if subresource.is_empty() && place.name.is_some() && !has_objects {
        return Err(ApiError::no_route());
    }
    if in_place && verbs.contains(verb) {
        Ok(())
    } else {
        Err(ApiError::method_not_allowed())
    }
}
