//! One rule of a role: what it allows and what it covers.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::identity::Attributes;

const ALL: &str = "*";

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Rule {
    pub verbs: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub api_groups: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resources: Vec<String>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub resource_names: Vec<String>,
    #[serde(rename = "nonResourceURLs", skip_serializing_if = "Vec::is_empty")]
    pub non_resource_urls: Vec<String>,
}

fn has(list: &[String], wanted: &str) -> bool {
    list.iter().any(|item| item == ALL || item == wanted)
}

impl Rule {
    pub fn allows(&self, attributes: &Attributes) -> bool {
        if !has(&self.verbs, attributes.verb.as_str()) {
            return false;
        }
        if !attributes.is_resource() {
            return self.covers_url(&attributes.path);
        }
        has(&self.api_groups, &attributes.group)
            && self.covers_resource(&attributes.resource, &attributes.subresource)
            && (self.resource_names.is_empty() || self.resource_names.contains(&attributes.name))
    }

    fn covers_url(&self, path: &str) -> bool {
        self.non_resource_urls
            .iter()
            .any(|allowed| match allowed.strip_suffix('*') {
                Some(prefix) => path.starts_with(prefix),
                None => allowed == path,
            })
    }

    fn covers_resource(&self, resource: &str, subresource: &str) -> bool {
        self.resources.iter().any(|allowed| {
            allowed == ALL
                || match (allowed.split_once('/'), subresource) {
                    (None, "") => allowed == resource,
                    (Some((of, sub)), _) => sub == subresource && (of == ALL || of == resource),
                    (None, _) => false,
                }
        })
    }

    /// The rule as rules of one verb on one thing each.
    pub fn parts(&self) -> Vec<Self> {
        let mut parts = Vec::new();
        for verb in &self.verbs {
            for url in &self.non_resource_urls {
                parts.push(Self {
                    verbs: vec![verb.clone()],
                    non_resource_urls: vec![url.clone()],
                    ..Self::default()
                });
            }
            for group in &self.api_groups {
                for resource in &self.resources {
                    let part = |names: Vec<String>| Self {
                        verbs: vec![verb.clone()],
                        api_groups: vec![group.clone()],
                        resources: vec![resource.clone()],
                        resource_names: names,
                        non_resource_urls: Vec::new(),
                    };
                    if self.resource_names.is_empty() {
                        parts.push(part(Vec::new()));
                    }
                    parts.extend(self.resource_names.iter().map(|name| part(vec![name.clone()])));
                }
            }
        }
        parts
    }

    /// Whether this rule gives all that one part gives.
    pub fn covers(&self, part: &Self) -> bool {
        if !part.verbs.iter().all(|verb| has(&self.verbs, verb)) {
            return false;
        }
        if !part.non_resource_urls.iter().all(|url| self.covers_url(url)) {
            return false;
        }
        if part.resources.is_empty() {
            return true;
        }
        let covers_names = self.resource_names.is_empty()
            || (!part.resource_names.is_empty()
                && part
                    .resource_names
                    .iter()
                    .all(|name| self.resource_names.contains(name)));
        part.api_groups.iter().all(|group| has(&self.api_groups, group))
            && part
                .resources
                .iter()
                .all(|resource| match resource.split_once('/') {
                    Some((of, subresource)) => self.covers_resource(of, subresource),
                    None => self.covers_resource(resource, ""),
                })
            && covers_names
    }
}

/// As Kubernetes prints a rule in a refusal.
impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let parts = [
            ("APIGroups", &self.api_groups),
            ("Resources", &self.resources),
            ("ResourceNames", &self.resource_names),
            ("NonResourceURLs", &self.non_resource_urls),
            ("Verbs", &self.verbs),
        ];
        let texts: Vec<String> = parts
            .iter()
            .filter(|(_, list)| !list.is_empty())
            .map(|(name, list)| format!("{name}:{list:?}"))
            .collect();
        write!(f, "{{{}}}", texts.join(", "))
    }
}
