//! What a controller may do in a cluster, derived from what it declares.
//!
//! A role made from this is enough and no more: a controller that reads or writes something which
//! it does not declare is refused by the API server.

use std::collections::{BTreeMap, BTreeSet};

use k8s_openapi::api::coordination::v1::Lease;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::api::rbac::v1::PolicyRule;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Resource;

use crate::clusters::HOME;
use crate::kinds::Kind;
use crate::reconcile::controller::Controller;

const READ: &[&str] = &["get", "list", "watch"];
/// Server-side apply needs `create` too.
const WRITE: &[&str] = &["create", "patch", "delete"];

/// A kind that a controller uses in addition to those that it owns and watches, and the verbs that it
/// needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touch {
    pub kind: Kind,
    /// A subresource with its slash; empty for the object itself.
    pub part: &'static str,
    pub verbs: &'static [&'static str],
    /// In the namespace where the program itself lives, and nowhere else.
    pub at_home: bool,
    /// Objects of these names alone; all of them when empty.
    pub names: &'static [&'static str],
}

/// Verbs by API group, resource and, where only some objects are meant, their names.
type Rights = BTreeMap<(String, String, &'static [&'static str]), BTreeSet<&'static str>>;

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Access {
    rights: Rights,
    /// In the namespace where the operator itself lives, and nowhere else.
    at_home: Rights,
    /// In other clusters, where it makes less.
    elsewhere: Rights,
    /// Of `rights`, what is in no namespace or is looked for in all of them.
    wide: BTreeSet<(String, String)>,
    /// Kinds whose status a controller writes, by API group and plural.
    serves: BTreeSet<(String, String)>,
}

impl Access {
    /// What the controller needs.
    #[must_use]
    pub fn with<C: Controller>(mut self) -> Self {
        let own = Kind::of::<C::Kind>();
        let rights = &mut self.rights;
        add(rights, &own, "", READ);
        // All that a controller writes of its own object beside the status.
        if C::FINALIZER.is_some() {
            add(rights, &own, "", &["patch"]);
        }
        if C::STATUS {
            add(rights, &own, "/status", &["get", "patch"]);
            let served = (own.resource.group.clone(), own.resource.plural.clone());
            self.serves.insert(served);
        }
        // Owner references that block deletion.
        add(rights, &own, "/finalizers", &["update"]);
        add(rights, &Kind::of::<Event>(), "", &["create", "patch"]);
        // To know when a kind comes that the cluster does not have yet.
        let definitions = Kind::of::<CustomResourceDefinition>();
        add(rights, &definitions, "", &["list", "watch"]);
        for kind in C::owns() {
            let rights = self.rights_to(&kind);
            add(rights, &kind, "", READ);
            if !kind.only_seen {
                add(rights, &kind, "", WRITE);
            }
        }
        for kind in C::watches() {
            add(self.rights_to(&kind), &kind, "", READ);
        }
        for touch in C::touches() {
            let rights = if touch.at_home {
                &mut self.at_home
            } else {
                self.rights_to(&touch.kind)
            };
            add_named(rights, &touch.kind, touch.part, touch.verbs, touch.names);
        }
        let touched = C::touches().into_iter().map(|touch| touch.kind);
        let kinds = C::owns().into_iter().chain(C::watches()).chain(touched);
        self.note_wide(kinds.chain([own, definitions]));
        self
    }

    /// Remembers which of the kinds are in no namespace, or are looked for in all of them.
    fn note_wide(&mut self, kinds: impl Iterator<Item = Kind>) {
        let wide = kinds.filter(|kind| kind.everywhere);
        self.wide
            .extend(wide.map(|kind| (kind.resource.group, kind.resource.plural)));
    }

    /// Where the kind is: at home, or in other clusters.
    fn rights_to(&mut self, kind: &Kind) -> &mut Rights {
        if kind.cluster == HOME {
            &mut self.rights
        } else {
            &mut self.elsewhere
        }
    }

    /// What [`crate::mark_unserved`] needs.
    #[must_use]
    pub fn with_marks(mut self, kinds: &[Kind]) -> Self {
        for kind in kinds {
            add(&mut self.rights, kind, "", &["list", "watch"]);
            add(&mut self.rights, kind, "/status", &["patch"]);
        }
        self.note_wide(kinds.iter().cloned());
        self
    }

    /// Whether there is a controller for the kind.
    pub fn serves(&self, group: &str, plural: &str) -> bool {
        self.serves.contains(&(group.to_owned(), plural.to_owned()))
    }

    /// Adds the lease of standby replicas.
    #[must_use]
    pub fn with_lease(mut self) -> Self {
        let verbs = &["get", "list", "watch", "create", "update"];
        add(&mut self.at_home, &Kind::of::<Lease>(), "", verbs);
        self
    }

    /// As rules of a role for the whole cluster.
    pub fn rules(&self) -> Vec<PolicyRule> {
        rules(&self.rights)
    }

    /// As rules of a role in the one namespace that it looks after.
    pub fn rules_in_namespace(&self) -> Vec<PolicyRule> {
        rules(&self.split().0)
    }

    /// As rules of a role for the whole cluster, beside [`Access::rules_in_namespace`].
    pub fn rules_beside_namespace(&self) -> Vec<PolicyRule> {
        rules(&self.split().1)
    }

    fn split(&self) -> (Rights, Rights) {
        let wide = |(group, resource, _): &(String, String, _)| {
            let plural = resource.split('/').next().unwrap_or_default();
            self.wide.contains(&(group.clone(), plural.to_owned()))
        };
        let all = self.rights.clone().into_iter();
        let (wide, narrow) = all.partition(|(place, _)| wide(place));
        (narrow, wide)
    }

    /// As rules of a role for another cluster that it works in; none where it does not.
    pub fn rules_elsewhere(&self) -> Vec<PolicyRule> {
        rules(&self.elsewhere)
    }

    /// As rules of a role in the namespace of the operator.
    pub fn rules_at_home(&self) -> Vec<PolicyRule> {
        rules(&self.at_home)
    }
}

fn add(rights: &mut Rights, kind: &Kind, part: &str, verbs: &[&'static str]) {
    add_named(rights, kind, part, verbs, &[]);
}

fn add_named(
    rights: &mut Rights,
    kind: &Kind,
    part: &str,
    verbs: &[&'static str],
    names: &'static [&'static str],
) {
    let resource = format!("{}{part}", kind.resource.plural);
    let rights = rights.entry((kind.resource.group.clone(), resource, names));
    rights.or_default().extend(verbs);
}

/// Resources of one group with the same verbs share a rule.
fn rules(rights: &Rights) -> Vec<PolicyRule> {
    let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
    /// Group, verbs and names.
    type Alike<'a> = (&'a str, &'a BTreeSet<&'static str>, &'a [&'static str]);
    let mut shared: BTreeMap<Alike<'_>, Vec<String>> = BTreeMap::new();
    for ((group, resource, names), verbs) in rights {
        let alike = shared.entry((group, verbs, names));
        alike.or_default().push(resource.clone());
    }
    let shared = shared.into_iter();
    shared
        .map(|((group, verbs, names), resources)| PolicyRule {
            api_groups: Some(vec![group.to_owned()]),
            resources: Some(resources),
            resource_names: (!names.is_empty()).then(|| texts(names)),
            verbs: verbs.iter().map(|verb| (*verb).to_owned()).collect(),
            ..PolicyRule::default()
        })
        .collect()
}

impl Touch {
    pub fn of<K: Resource<DynamicType = ()>>(verbs: &'static [&'static str]) -> Self {
        Self::part_of::<K>("", verbs)
    }

    /// `part` is a subresource with its slash.
    pub fn part_of<K: Resource<DynamicType = ()>>(
        part: &'static str,
        verbs: &'static [&'static str],
    ) -> Self {
        Touch {
            kind: Kind::of::<K>(),
            part,
            verbs,
            at_home: false,
            names: &[],
        }
    }

    /// Objects of these names alone.
    #[must_use]
    pub fn named(self, names: &'static [&'static str]) -> Self {
        Touch { names, ..self }
    }

    /// In the namespace where the program itself lives, and nowhere else.
    #[must_use]
    pub fn at_home(self) -> Self {
        Touch {
            at_home: true,
            ..self
        }
    }

    /// In another cluster that the operator knows.
    #[must_use]
    pub fn in_cluster(mut self, name: &'static str) -> Self {
        self.kind = self.kind.in_cluster(name);
        self
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Idle, Keen};
    use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret};

    fn verbs<'a>(rules: &'a [PolicyRule], resource: &str) -> Vec<&'a str> {
        let named = |rule: &&PolicyRule| rule.resources.iter().flatten().any(|one| one == resource);
        let rules = rules.iter().filter(named);
        rules.flat_map(|rule| &rule.verbs).map(String::as_str).collect()
    }

    #[test]
    fn only_a_finalizer_needs_more_of_the_object_than_its_status() {
        let idle = Access::default().with::<Idle>().rules();
        assert_eq!(verbs(&idle, "configmaps"), ["get", "list", "watch"]);
        assert_eq!(verbs(&idle, "configmaps/status"), ["get", "patch"]);
        let keen = Access::default().with::<Keen>().rules();
        assert_eq!(verbs(&keen, "configmaps"), ["get", "list", "patch", "watch"]);
    }

    #[test]
    fn one_namespace_has_all_but_what_is_in_none() {
        let access = Access::default().with::<Idle>();
        assert_eq!(
            verbs(&access.rules_in_namespace(), "configmaps/status"),
            ["get", "patch"]
        );
        let beside = access.rules_beside_namespace();
        assert_eq!(verbs(&beside, "customresourcedefinitions"), ["list", "watch"]);
        assert_eq!(beside.len(), 1, "{beside:?}");
        assert!(access.serves("", "configmaps") && !access.serves("", "secrets"));
        let marks = [Kind::of::<Secret>()];
        let marked = access.with_marks(&marks);
        assert_eq!(verbs(&marked.rules(), "secrets/status"), ["patch"]);
        assert!(!marked.serves("", "secrets"), "who marks does not serve");
    }

    #[test]
    fn leases_are_touched_at_home_only() {
        let access = Access::default().with::<Idle>().with_lease();
        assert!(verbs(&access.rules(), "leases").is_empty());
        assert_eq!(
            verbs(&access.rules_at_home(), "leases"),
            ["create", "get", "list", "update", "watch"],
            "who waits watches it"
        );
    }

    #[test]
    fn names_are_kept_apart_from_all() {
        let mut rights = Rights::default();
        add(&mut rights, &Kind::of::<Secret>(), "", &["list"]);
        add_named(&mut rights, &Kind::of::<Secret>(), "", &["get"], &["mine"]);
        let rules = rules(&rights);
        let of = |verb: &str| rules.iter().find(|rule| rule.verbs == [verb]).expect("a rule");
        assert_eq!(of("list").resource_names, None);
        assert_eq!(
            of("get").resource_names.as_deref(),
            Some(&["mine".to_owned()][..])
        );
    }

    #[test]
    fn one_rule_for_what_may_be_done_alike() {
        let mut rights = Rights::default();
        add(&mut rights, &Kind::of::<Secret>(), "", &["get", "list"]);
        add(&mut rights, &Kind::of::<ConfigMap>(), "", &["list", "get"]);
        add(&mut rights, &Kind::of::<Pod>(), "/status", &["patch"]);
        add(&mut rights, &Kind::of::<Secret>(), "", &["get"]);
        let rules: Vec<(Vec<String>, Vec<String>)> = rules(&rights)
            .into_iter()
            .map(|rule| (rule.resources.unwrap_or_default(), rule.verbs))
            .collect();
        let texts = |all: &[&str]| all.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
        assert_eq!(
            rules,
            [
                (texts(&["configmaps", "secrets"]), texts(&["get", "list"])),
                (texts(&["pods/status"]), texts(&["patch"])),
            ]
        );
    }
}
