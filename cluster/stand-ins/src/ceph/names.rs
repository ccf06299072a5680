//! Names, labels and small objects as Rook writes them.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::{ConfigMap, Secret};
use kube::api::ObjectMeta;

/// The type of Rook's Secrets.
const ROOK: &str = "kubernetes.io/rook";
pub(crate) const MON: &str = "rook-ceph-mon";
pub(crate) const MGR: &str = "rook-ceph-mgr";
pub(crate) const OSD: &str = "rook-ceph-osd";
pub(crate) const RGW: &str = "rook-ceph-rgw";
pub(crate) const ENDPOINTS: &str = "rook-ceph-mon-endpoints";
pub(crate) const OVERRIDE: &str = "rook-config-override";
/// Where daemons read the addresses of monitors.
pub(crate) const CONFIG: &str = "rook-ceph-config";
pub(crate) const MONS_KEYRING: &str = "rook-ceph-mons-keyring";
pub(crate) const ADMIN_KEYRING: &str = "rook-ceph-admin-keyring";

pub(crate) type Labels = BTreeMap<String, String>;

pub(crate) fn map(pairs: &[(&str, &str)]) -> Labels {
    pairs
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Who a daemon is.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Daemon<'a> {
    pub namespace: &'a str,
    /// `rook-ceph-mon` …
    pub app: &'static str,
    /// `mon` …
    pub kind: &'static str,
    /// `a`, `0`, `objects` …
    pub id: &'a str,
    /// The object to which it belongs.
    pub parent: &'a str,
}

impl Daemon<'_> {
    pub(crate) fn name(&self) -> String {
        format!("{}-{}", self.app, self.id)
    }

    /// What never changes: by these its pods are found.
    pub(crate) fn selector(&self) -> Labels {
        map(&[
            ("app", self.app),
            ("rook_cluster", self.namespace),
            ("ceph_daemon_id", self.id),
            (self.kind, self.id),
        ])
    }

    pub(crate) fn labels(&self) -> Labels {
        let mut labels = self.selector();
        let resource = match self.kind {
            "rgw" => "cephobjectstores.ceph.rook.io",
            _ => "cephclusters.ceph.rook.io",
        };
        labels.extend(map(&[
            ("ceph_daemon_type", self.kind),
            ("app.kubernetes.io/name", &format!("ceph-{}", self.kind)),
            ("app.kubernetes.io/instance", self.id),
            ("app.kubernetes.io/component", resource),
            ("app.kubernetes.io/part-of", self.parent),
            ("app.kubernetes.io/created-by", "rook-ceph-operator"),
        ]));
        labels
    }

    pub(crate) fn meta(&self) -> ObjectMeta {
        meta(self.namespace, &self.name(), self.labels())
    }
}

pub(crate) fn meta(namespace: &str, name: &str, labels: Labels) -> ObjectMeta {
    ObjectMeta {
        namespace: Some(namespace.to_owned()),
        name: Some(name.to_owned()),
        labels: (!labels.is_empty()).then_some(labels),
        ..ObjectMeta::default()
    }
}

pub(crate) fn secret(meta: ObjectMeta, data: &[(&str, &str)]) -> Secret {
    let bytes = |(name, text): &(&str, &str)| ((*name).to_owned(), ByteString(text.as_bytes().to_vec()));
    Secret {
        metadata: meta,
        type_: Some(ROOK.to_owned()),
        data: Some(data.iter().map(bytes).collect()),
        ..Secret::default()
    }
}

pub(crate) fn config_map(namespace: &str, name: &str, data: &[(&str, &str)]) -> ConfigMap {
    ConfigMap {
        metadata: meta(namespace, name, Labels::new()),
        data: Some(map(data)),
        ..ConfigMap::default()
    }
}
