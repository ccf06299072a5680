//! Which webhooks a write concerns. Pure.

use apimachinery::selector::LabelSelector;
use serde_json::Value;

use super::hook::{Hook, Rule};
use crate::registry::Kind;

/// What is about to be written.
pub(super) struct Subject<'a> {
    pub kind: &'a Kind,
    pub subresource: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: &'static str,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    /// The namespace that the object is in.
    pub namespace: Option<&'a Value>,
}

/// The version in which the webhook wants to see the object, when it does.
pub(super) fn version(hook: &Hook, subject: &Subject<'_>) -> Option<String> {
    if !in_namespace(&hook.namespaces, subject) || !labelled(&hook.objects, subject) {
        return None;
    }
    let kind = subject.kind;
    let served = kind.types.iter().filter(|_| !hook.exact);
    let served = served.filter_map(|(api_version, _)| api_version.rsplit('/').next());
    let mut versions = std::iter::once(kind.version.as_str()).chain(served);
    versions
        .find(|version| hook.rules.iter().any(|rule| concerns(rule, subject, version)))
        .map(str::to_owned)
}

fn concerns(rule: &Rule, subject: &Subject<'_>, version: &str) -> bool {
    let holds = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    let scope = match rule.scope.as_deref() {
        Some("Cluster") => !subject.kind.namespaced,
        Some("Namespaced") => subject.kind.namespaced,
        _ => true,
    };
    scope
        && holds(&rule.operations, subject.operation)
        && holds(&rule.api_groups, &subject.kind.group)
        && holds(&rule.api_versions, version)
        && rule
            .resources
            .iter()
            .any(|item| names(item, &subject.kind.plural, subject.subresource))
}

/// `pods`, `pods/status`, `pods/*`, `*/scale`, `*` for all without their subresources, `*/*` for all.
fn names(item: &str, resource: &str, subresource: &str) -> bool {
    let (wanted, part) = item.split_once('/').unwrap_or((item, ""));
    (wanted == "*" || wanted == resource) && (part == "*" || part == subresource)
}

/// A Namespace is in itself, what has no namespace is in every one.
fn in_namespace(selector: &LabelSelector, subject: &Subject<'_>) -> bool {
    let own = subject.kind.is("", "namespaces");
    let place = match own {
        true => subject.object.or(subject.old),
        false => subject.namespace,
    };
    if !own && !subject.kind.namespaced {
        return true;
    }
    place.map_or(selector.is_empty(), |namespace| {
        selector.matches_object(namespace)
    })
}

fn labelled(selector: &LabelSelector, subject: &Subject<'_>) -> bool {
    let mut both = [subject.object, subject.old].into_iter().flatten();
    selector.is_empty() || both.any(|object| selector.matches_object(object))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn resources_and_their_parts() {
        for (item, resource, part, matches) in [
            ("pods", "pods", "", true),
            ("pods", "pods", "status", false),
            ("pods/status", "pods", "status", true),
            ("pods/*", "pods", "status", true),
            ("*", "pods", "", true),
            ("*", "pods", "status", false),
            ("*/*", "pods", "", true),
            ("*/*", "pods", "status", true),
            ("*/scale", "deployments", "scale", true),
            ("services", "pods", "", false),
        ] {
            assert_eq!(names(item, resource, part), matches, "{item} {resource}/{part}");
        }
    }
}
