//! What sets a node apart from others: its part in the cloud, its links, labels and taints.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::error::{Error, Result};

/// Of nodes that run guests.
pub const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";
const ZONE: &str = "topology.kubernetes.io/zone";
const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Taint {
    pub key: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    pub effect: String,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Traits {
    /// It runs guests: it has the label of hypervisors and the data link.
    #[serde(default)]
    pub hypervisor: bool,
    /// It has a second link, to the data network.
    #[serde(default)]
    pub data_link: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub zone: Option<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// Of a new node; afterwards they are changed as on any cluster.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub taints: Vec<Taint>,
}

impl Traits {
    pub fn has_data_link(&self) -> bool {
        self.data_link || self.hypervisor
    }

    /// Labels of the Node object beside those that every node has.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let mut labels = self.labels.clone();
        if self.hypervisor {
            labels.entry(HYPERVISOR.into()).or_default();
        }
        if let Some(zone) = &self.zone {
            labels.insert(ZONE.into(), zone.clone());
        }
        labels
    }

    /// What the API server would refuse much later, with the node's start.
    pub fn check(&self, node: &str) -> Result<()> {
        for (key, value) in self.labels() {
            check_key(&key, node)?;
            if !is_value(&value) {
                return Err(Error::Refused(format!(
                    "{node}: label {key}: {value:?} is not a label's value; use at most 63 letters, digits, '-', '_' and '.'"
                )));
            }
        }
        for taint in &self.taints {
            check_key(&taint.key, node)?;
            if !EFFECTS.contains(&taint.effect.as_str()) {
                return Err(Error::Refused(format!(
                    "{node}: taint {}: effect {:?} is not one of {}",
                    taint.key,
                    taint.effect,
                    EFFECTS.join(", ")
                )));
            }
        }
        Ok(())
    }
}

fn check_key(key: &str, node: &str) -> Result<()> {
    let name = key.rsplit('/').next().unwrap_or(key);
    let prefix = key.strip_suffix(name).unwrap_or_default().trim_end_matches('/');
    let good = !name.is_empty()
        && is_value(name)
        && prefix.len() <= 253
        && prefix
            .bytes()
            .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-' || b == b'.');
    if good {
        Ok(())
    } else {
        Err(Error::Refused(format!(
            "{node}: {key:?} is not the key of a label or taint"
        )))
    }
}

fn is_value(text: &str) -> bool {
    let inner = |b: u8| b.is_ascii_alphanumeric() || b"-_.".contains(&b);
    let end = |b: Option<&u8>| b.is_none_or(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    bytes.len() <= 63 && bytes.iter().copied().all(inner) && end(bytes.first()) && end(bytes.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hypervisor_is_labelled_and_linked() {
        let plain = Traits::default();
        assert!(!plain.has_data_link() && plain.labels().is_empty());
        let text = r#"{"hypervisor": true, "zone": "a", "labels": {"rack": "7"}}"#;
        let traits: Traits = serde_json::from_str(text).unwrap();
        assert!(traits.has_data_link());
        let labels: Vec<String> = traits.labels().iter().map(|(k, v)| format!("{k}={v}")).collect();
        assert_eq!(
            labels,
            [
                "node-role.kubernetes.io/hypervisor=",
                "rack=7",
                "topology.kubernetes.io/zone=a"
            ]
        );
        traits.check("node-1").unwrap();
    }

    #[test]
    fn what_the_api_would_refuse_is_named() {
        for (text, named) in [
            (r#"{"zone": "a b"}"#, "\"a b\" is not a label's value"),
            (r#"{"labels": {"-x": ""}}"#, "\"-x\" is not the key"),
            (r#"{"labels": {"UP/x": ""}}"#, "\"UP/x\" is not the key"),
            (
                r#"{"taints": [{"key": "x", "effect": "Never"}]}"#,
                "effect \"Never\" is not one of NoSchedule",
            ),
        ] {
            let traits: Traits = serde_json::from_str(text).unwrap();
            let said = traits.check("node-1").unwrap_err().to_string();
            assert!(said.starts_with("node-1: ") && said.contains(named), "{said}");
        }
        assert!(serde_json::from_str::<Traits>(r#"{"hypervisors": true}"#).is_err());
    }
}
