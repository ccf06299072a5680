//! Names and labels of the objects of a service.

use std::collections::BTreeMap;

use c5c3_kit::ownership::{CONTROLLER, OWNER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use crate::error::Error;

/// When a key set was last rotated. A person may set it back to have it rotated now.
pub(crate) const ROTATED: &str = "c5c3.io/rotated-at";
/// Since when its staged key is there.
pub(crate) const STAGED: &str = "c5c3.io/staged-at";
/// The configuration that a pod runs with.
pub(crate) const CONFIG: &str = "c5c3.io/config";
/// The image of a process as the spec names it. On its way to a node others may write another name
/// for the same image, or put containers beside ours.
pub(crate) const IMAGE: &str = "c5c3.io/image";
/// The version of others that pods keep to as long as they run.
pub(crate) const KEEPS_TO: &str = "c5c3.io/keeps-to";
/// In a variable of a process with `POD_IP`: that address as a part of a URL, in brackets where it needs them.
pub(crate) const HOST: &str = "@HOST@";
/// The database schema that is there when a Job is complete.
pub(crate) const SCHEMA: &str = "c5c3.io/schema";
/// What the pod of a Job is made of.
pub(crate) const POD: &str = "c5c3.io/pod";

/// The request for which a Job was made.
pub(crate) const ASKED: &str = c5c3_api::openstack::RUN_NOW;

/// The nodes for which a Job was made.
pub(crate) const NODES: &str = "c5c3.io/nodes";

/// Suffix of the Secret whose key goes into names that follow from secrets.
pub(crate) const NAMING: &str = "naming-key";

/// A label of a Job's pods holds the Job's name.
const LONGEST: usize = 63;
/// Longest that is put behind the name: `-credential-migrate-` and ten digits.
const SUFFIX: usize = 30;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Names {
    pub namespace: String,
    pub name: String,
    pub service: &'static str,
}

impl Names {
    /// The name must do for a Service and, with what is put behind it, for a Job.
    pub fn check(&self) -> Result<(), Error> {
        let longest = LONGEST - SUFFIX;
        if self.name.len() > longest {
            return Err(Error::NameTooLong {
                name: self.name.clone(),
                longest,
            });
        }
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if !self.name.bytes().all(letters) || !self.name.starts_with(|c: char| c.is_ascii_lowercase()) {
            return Err(Error::NameNotUsable(self.name.clone()));
        }
        Ok(())
    }

    pub fn suffixed(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    /// The Secret with the authority behind certificates of nodes that are mounted as this volume.
    pub fn authority_of(&self, volume: &str) -> String {
        self.suffixed(&format!("{volume}-authority"))
    }

    /// Database, User and Grant of one group; the main group needs no suffix.
    pub fn database_object(&self, group: &str) -> String {
        match group {
            "database" | "placement_database" => self.name.clone(),
            other => self.suffixed(&other.replace('_', "-")),
        }
    }

    /// Vhost, User and Permission of one bus; the main one needs no suffix.
    pub fn bus_object(&self, bus: &str) -> String {
        if bus.is_empty() {
            self.name.clone()
        } else {
            self.suffixed(bus)
        }
    }

    /// Labels of every object of this service.
    pub fn labels(&self) -> BTreeMap<String, String> {
        let labels = [
            ("app.kubernetes.io/name", self.service),
            ("app.kubernetes.io/instance", &self.name),
            ("app.kubernetes.io/part-of", "c5c3"),
        ];
        labels
            .map(|(label, value)| (label.to_owned(), value.to_owned()))
            .into()
    }

    /// The same as a label selector.
    pub fn selector(&self) -> String {
        format!(
            "app.kubernetes.io/name={},app.kubernetes.io/instance={}",
            self.service, self.name
        )
    }

    /// Labels of the pods of one process.
    pub fn process_labels(&self, process: &str) -> BTreeMap<String, String> {
        let mut labels = self.labels();
        labels.insert("app.kubernetes.io/component".to_owned(), process.to_owned());
        labels
    }

    /// Of a pod: with the marks by which its troubles bring a pass of our controller.
    pub fn pod_metadata(&self, process: &str) -> ObjectMeta {
        let mut labels = self.process_labels(process);
        labels.insert(CONTROLLER.to_owned(), self.service.to_owned());
        let owner = format!("{}/{}", self.namespace, self.name);
        ObjectMeta {
            labels: Some(labels),
            annotations: Some(BTreeMap::from([(OWNER.to_owned(), owner)])),
            ..ObjectMeta::default()
        }
    }

    pub fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(name.to_owned()),
            labels: Some(self.labels()),
            ..ObjectMeta::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_does_not_do_is_refused_with_the_way_out() {
        let names = |name: &str| Names {
            namespace: "openstack".into(),
            name: name.into(),
            service: "keystone",
        };
        let cases = [
            ("keystone", None),
            ("a234567890b234567890c234567890d23", None),
            (
                "a234567890b234567890c234567890d234",
                Some(
                    "metadata.name: a234567890b234567890c234567890d234 is too long: with its suffix the name of a Job would exceed 63 characters; use at most 33",
                ),
            ),
            (
                "my.keystone",
                Some(
                    "metadata.name: my.keystone cannot name a Service: use lowercase letters, digits and dashes, starting with a letter",
                ),
            ),
            (
                "9keystone",
                Some(
                    "metadata.name: 9keystone cannot name a Service: use lowercase letters, digits and dashes, starting with a letter",
                ),
            ),
        ];
        for (name, expected) in cases {
            let answer = names(name).check().err().map(|error| error.to_string());
            assert_eq!(answer.as_deref(), expected);
        }
    }
}
