//! What everything is called, and who listens where.

use std::collections::BTreeMap;

use c5c3_api::ovn::{OvnCluster, OvnDatabase};
use c5c3_kit::ownership::{CONTROLLER, OWNER};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{LabelSelector, ObjectMeta};
use kube::ResourceExt;

use crate::error::Error;

/// The user in our images of OVN and Open vSwitch.
pub const UID: i64 = 42495;

/// Longest name of an OVNCluster: a StatefulSet's pods carry a hash of it in a label.
const LONGEST: usize = 40;

/// One of the two databases.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Side {
    Northbound,
    Southbound,
}

impl Side {
    pub const BOTH: [Side; 2] = [Side::Northbound, Side::Southbound];

    pub fn short(self) -> &'static str {
        match self {
            Side::Northbound => "nb",
            Side::Southbound => "sb",
        }
    }

    /// The field of the spec.
    pub fn field(self) -> &'static str {
        match self {
            Side::Northbound => "northbound",
            Side::Southbound => "southbound",
        }
    }

    /// The database as OVSDB calls it.
    pub fn schema(self) -> &'static str {
        match self {
            Side::Northbound => "OVN_Northbound",
            Side::Southbound => "OVN_Southbound",
        }
    }

    pub fn port(self) -> u16 {
        match self {
            Side::Northbound => 6641,
            Side::Southbound => 6642,
        }
    }

    pub fn raft_port(self) -> u16 {
        match self {
            Side::Northbound => 6643,
            Side::Southbound => 6644,
        }
    }

    pub fn spec(self, cluster: &OvnCluster) -> &OvnDatabase {
        match self {
            Side::Northbound => &cluster.spec.northbound,
            Side::Southbound => &cluster.spec.southbound,
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Names {
    pub namespace: String,
    pub name: String,
}

impl Names {
    pub fn of(cluster: &OvnCluster) -> Self {
        Names {
            namespace: cluster.namespace().unwrap_or_default(),
            name: cluster.name_any(),
        }
    }

    /// The name must do for Services, and two Services may not share one.
    pub fn check(&self, cluster: &OvnCluster) -> Result<(), Error> {
        let letters = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        if self.name.len() > LONGEST
            || !self.name.bytes().all(letters)
            || !self.name.starts_with(|c: char| c.is_ascii_lowercase())
        {
            return Err(Error::NameNotUsable {
                name: self.name.clone(),
                longest: LONGEST,
            });
        }
        let mut taken = Vec::new();
        for side in Side::BOTH {
            taken.push(self.members(side));
            taken.extend((0..side.spec(cluster).replicas).map(|n| self.member(side, n)));
        }
        for side in Side::BOTH {
            let (name, _) = self.client(cluster, side);
            if taken.contains(&name) {
                return Err(Error::ServiceTaken { name, side });
            }
            taken.push(name);
        }
        Ok(())
    }

    /// Workload of a side, and prefix of its members.
    pub fn set(&self, side: Side) -> String {
        format!("{}-{}", self.name, side.short())
    }

    /// The Service that gives members their names.
    pub fn members(&self, side: Side) -> String {
        format!("{}-members", self.set(side))
    }

    /// A member's pod, and the Service with its address.
    pub fn member(&self, side: Side, ordinal: i32) -> String {
        format!("{}-{ordinal}", self.set(side))
    }

    /// The Service in front of all members, and its port.
    pub fn client(&self, cluster: &OvnCluster, side: Side) -> (String, u16) {
        let integration = &cluster.spec.neutron_integration;
        let wished = match side {
            Side::Northbound => integration.nb_connection.as_ref(),
            Side::Southbound => integration.sb_connection.as_ref(),
        };
        let port = wished.and_then(|wish| wish.service.port);
        (
            wished.map_or_else(|| self.set(side), |wish| wish.service.name.clone()),
            port.and_then(|port| u16::try_from(port).ok())
                .unwrap_or(side.port()),
        )
    }

    /// Whether the raft cluster was formed once.
    pub fn state(&self, side: Side) -> String {
        format!("{}-state", self.set(side))
    }

    /// The Secret with the certificates, and whether somebody else makes it.
    pub fn certificates(&self, cluster: &OvnCluster) -> (String, bool) {
        match &cluster.spec.tls.cert_secret_ref {
            Some(secret) => (secret.name.clone(), true),
            None => (self.suffixed("certificates"), false),
        }
    }

    /// The Secret with the certificates of hypervisors.
    pub fn hypervisors(&self, cluster: &OvnCluster) -> String {
        match &cluster.spec.tls.hypervisor_secret_ref {
            Some(secret) => secret.name.clone(),
            None => match &cluster.spec.tls.cert_secret_ref {
                Some(secret) => secret.name.clone(),
                None => self.suffixed("hypervisors"),
            },
        }
    }

    /// The Secret with the authority behind our own certificates.
    pub fn authority(&self) -> String {
        self.suffixed("authority")
    }

    /// The Secret with the authority behind our own certificates of hypervisors.
    pub fn hypervisor_authority(&self) -> String {
        self.suffixed("hypervisors-authority")
    }

    pub fn suffixed(&self, suffix: &str) -> String {
        format!("{}-{suffix}", self.name)
    }

    pub fn labels(&self, component: &str) -> BTreeMap<String, String> {
        [
            ("app.kubernetes.io/name", "ovn"),
            ("app.kubernetes.io/instance", &self.name),
            ("app.kubernetes.io/component", component),
            ("app.kubernetes.io/part-of", "c5c3"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into()
    }

    /// All of one cluster.
    pub fn selector(&self) -> String {
        format!(
            "app.kubernetes.io/name=ovn,app.kubernetes.io/instance={}",
            self.name
        )
    }

    pub fn meta(&self, name: String, component: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(name),
            labels: Some(self.labels(component)),
            ..ObjectMeta::default()
        }
    }

    /// Of a pod: with the marks by which its troubles bring a pass.
    pub fn pod_meta(&self, component: &str) -> ObjectMeta {
        let mut labels = self.labels(component);
        labels.insert(CONTROLLER.to_owned(), crate::clusters::NAME.to_owned());
        let owner = format!("{}/{}", self.namespace, self.name);
        ObjectMeta {
            labels: Some(labels),
            annotations: Some([(OWNER.to_owned(), owner)].into()),
            ..ObjectMeta::default()
        }
    }

    pub fn pods(&self, component: &str) -> LabelSelector {
        LabelSelector {
            match_labels: Some(self.labels(component)),
            ..LabelSelector::default()
        }
    }
}
