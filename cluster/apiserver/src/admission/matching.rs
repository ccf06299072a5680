//! Which writes a webhook or a policy is about. Pure.

use apimachinery::selector::{LabelSelector, LabelSelectorSpec};
use serde::Deserialize;
use serde_json::Value;

use super::Operation;
use crate::registry::Kind;

/// What a webhook or a policy is about.
#[derive(Debug)]
pub(super) struct Reach {
    pub rules: Vec<Rule>,
    /// What the rules name and is left out again.
    pub but: Vec<Rule>,
    pub namespaces: LabelSelector,
    pub objects: LabelSelector,
    /// Other versions of the same resource are not meant.
    pub exact: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub(super) struct Rule {
    pub operations: Vec<String>,
    pub api_groups: Vec<String>,
    pub api_versions: Vec<String>,
    pub resources: Vec<String>,
    /// Objects by name; all when empty.
    pub resource_names: Vec<String>,
    pub scope: Option<String>,
}

/// No selector selects everything.
pub(super) fn selector(spec: Option<LabelSelectorSpec>) -> Result<LabelSelector, String> {
    match spec {
        Some(spec) => spec.selector().map_err(|error| error.to_string()),
        None => Ok(LabelSelector::everything()),
    }
}

/// What is about to be written.
pub(super) struct Subject<'a> {
    pub kind: &'a Kind,
    pub subresource: &'a str,
    pub name: &'a str,
    /// `CREATE`, `UPDATE` or `DELETE`.
    pub operation: Operation,
    pub object: Option<&'a Value>,
    pub old: Option<&'a Value>,
    /// The namespace that the object is in.
    pub namespace: Option<&'a Value>,
}

/// The version in which it wants to see the object, when it does.
pub(super) fn version(reach: &Reach, subject: &Subject<'_>) -> Option<String> {
    if !in_namespace(&reach.namespaces, subject) || !labelled(&reach.objects, subject) {
        return None;
    }
    let kind = subject.kind;
    let served = kind.types.iter().filter(|_| !reach.exact);
    let served = served.filter_map(|(api_version, _)| api_version.rsplit('/').next());
    let versions: Vec<&str> = std::iter::once(kind.version.as_str()).chain(served).collect();
    let named = |rules: &[Rule]| {
        let about = |version: &&&str| rules.iter().any(|rule| concerns(rule, subject, version));
        versions.iter().find(about).map(|version| (*version).to_owned())
    };
    named(&reach.rules).filter(|_| named(&reach.but).is_none())
}

fn concerns(rule: &Rule, subject: &Subject<'_>, version: &str) -> bool {
    let holds = |list: &[String], wanted: &str| list.iter().any(|item| item == "*" || item == wanted);
    let scope = match rule.scope.as_deref() {
        Some("Cluster") => !subject.kind.namespaced,
        Some("Namespaced") => subject.kind.namespaced,
        _ => true,
    };
    scope
        && holds(&rule.operations, subject.operation.as_str())
        && holds(&rule.api_groups, &subject.kind.group)
        && holds(&rule.api_versions, version)
        && (rule.resource_names.is_empty() || rule.resource_names.iter().any(|name| name == subject.name))
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
    let place = if own {
        subject.object.or(subject.old)
    } else {
        subject.namespace
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
