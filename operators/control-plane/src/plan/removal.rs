//! What is no longer wanted goes in reverse order: the last that was made first.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_kit::Reference;

use super::{Object, State, Step, infrastructure, reference};
use c5c3_api::c5c3::ControlPlaneSpec;
use c5c3_api::conditions::control_plane::{
    CREDENTIALS_READY, INFRASTRUCTURE_READY, KEYSTONE_READY, KORC_READY, SERVICES_READY,
};
use c5c3_api::services::SERVICES;

/// Annotation of a ControlPlane: `"true"` lets its volumes go with it.
pub const DELETE_VOLUMES: &str = "c5c3.io/delete-volumes";

/// Objects that are no longer wanted and still exist.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Removal {
    /// Goes now.
    pub now: Vec<Reference>,
    /// Goes when that is gone.
    pub later: Vec<Reference>,
}

/// Kinds in the order in which they are made: consumers after what they use. Services log in with
/// credentials, those belong to users and endpoints of Keystone, and that needs its database.
const ORDER: &[&[&str]] = &[
    &["Secret"],
    &[
        "MariaDB.k8s.mariadb.com",
        "Memcached.memcached.c5c3.io",
        "RabbitmqCluster.rabbitmq.com",
        "Valkey.cache.cs.sap.com",
        "OVNCluster.ovn.c5c3.io",
        "NetworkPolicy.networking.k8s.io",
    ],
    &["Keystone.keystone.openstack.c5c3.io"],
    &["Domain.openstack.k-orc.cloud", "Role.openstack.k-orc.cloud"],
    &["Project.openstack.k-orc.cloud"],
    &["Service.openstack.k-orc.cloud", "User.openstack.k-orc.cloud"],
    &[
        "Endpoint.openstack.k-orc.cloud",
        "RoleAssignment.openstack.k-orc.cloud",
    ],
    &["CredentialRotation.c5c3.io"],
];

/// Services other than Keystone come after all of these.
fn rank(reference: &Reference) -> usize {
    ORDER
        .iter()
        .position(|kinds| kinds.contains(&reference.kind.as_str()))
        .unwrap_or(ORDER.len())
}

impl Removal {
    pub fn of(owned: &[(Reference, bool)], steps: &[Step]) -> Self {
        let wanted: BTreeSet<Reference> = steps
            .iter()
            .flat_map(|step| &step.objects)
            .map(|object| match object {
                Object::Apply(value) => reference(value),
                Object::Keep(reference) => reference.clone(),
            })
            .collect();
        let unwanted: Vec<&Reference> = owned
            .iter()
            .map(|(reference, _)| reference)
            .filter(|reference| !wanted.contains(reference))
            .collect();
        let last = unwanted.iter().map(|reference| rank(reference)).max();
        let (now, later) = unwanted
            .into_iter()
            .cloned()
            .partition(|reference| Some(rank(reference)) == last);
        Removal { now, later }
    }

    /// Objects whose deletion was requested and that still exist: a finalizer holds them.
    pub fn hangs<'a>(&'a self, owned: &'a [(Reference, bool)]) -> Vec<&'a Reference> {
        let deleting = |gone: &&Reference| owned.contains(&((*gone).clone(), true));
        self.now.iter().filter(deleting).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.now.is_empty() && self.later.is_empty()
    }
}

/// What is to go and does not is told where it belongs: a cloud that is being changed is not Ready.
pub(super) fn report(removal: &Removal, owned: &[(Reference, bool)]) -> Vec<Step> {
    let mut parts: BTreeMap<&'static str, Vec<&Reference>> = BTreeMap::new();
    for held in removal.hangs(owned) {
        parts.entry(part(held)).or_default().push(held);
    }
    let step = |(part, held): (&'static str, Vec<&Reference>)| {
        let names: Vec<String> = held.iter().map(ToString::to_string).collect();
        let text = format!(
            "still being deleted: {}; the finalizers in their metadata show what they are waiting for",
            names.join(", ")
        );
        Step {
            blocker: held.first().copied().cloned(),
            ..Step::bare(&format!("removal-{part}"), "Removal", part, State::Running(text))
        }
    };
    parts.into_iter().map(step).collect()
}

/// The condition that reports a kind.
fn part(reference: &Reference) -> &'static str {
    match rank(reference) {
        0 | 7 => CREDENTIALS_READY,
        1 => INFRASTRUCTURE_READY,
        2 => KEYSTONE_READY,
        3..=6 => KORC_READY,
        _ => SERVICES_READY,
    }
}

/// A PersistentVolumeClaim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Volume {
    pub name: String,
    pub labels: BTreeMap<String, String>,
}

/// Of the claims of a namespace, those that belong to its cloud. A cloud on servers of others has none
/// of theirs, whatever those are called.
pub fn volumes_go<'c>(claims: &'c [Volume], spec: &ControlPlaneSpec) -> Vec<&'c Volume> {
    let of = &spec.infrastructure;
    let managed = [
        (infrastructure::DATABASE, of.database.host.is_none()),
        (infrastructure::MESSAGING, of.messaging.hosts.is_empty()),
        (infrastructure::VALKEY, of.valkey.hosts.is_empty()),
    ];
    let ours = |instance: &str| {
        managed.contains(&(instance, true)) || SERVICES.iter().any(|service| service.name == instance)
    };
    let label = |claim: &Volume, key: &str| claim.labels.get(&format!("app.kubernetes.io/{key}")).cloned();
    claims
        .iter()
        .filter(|claim| {
            label(claim, "instance")
                .or_else(|| label(claim, "name"))
                .is_some_and(|instance| ours(&instance))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_kit::HOME;
    use c5c3_kit::kinds::Key;
    use proptest::prelude::*;

    fn object(kind: &str, name: &str) -> (Reference, bool) {
        let reference = Reference {
            cluster: HOME,
            kind: kind.to_owned(),
            key: Key::new(Some("ns"), name),
        };
        (reference, false)
    }

    fn kinds() -> Vec<&'static str> {
        let services = [
            "Glance.glance.openstack.c5c3.io",
            "Placement.placement.openstack.c5c3.io",
        ];
        ORDER
            .iter()
            .flat_map(|kinds| kinds.iter().copied())
            .chain(services)
            .collect()
    }

    #[test]
    fn services_go_first_and_secrets_last() {
        let mut owned: Vec<_> = kinds().into_iter().map(|kind| object(kind, "x")).collect();
        let mut order = Vec::new();
        while !owned.is_empty() {
            let removal = Removal::of(&owned, &[]);
            order.push(removal.now.iter().map(|r| r.kind.clone()).collect::<Vec<_>>());
            owned.retain(|(reference, _)| !removal.now.contains(reference));
        }
        assert_eq!(order.len(), ORDER.len() + 1);
        assert_eq!(
            order[0],
            [
                "Glance.glance.openstack.c5c3.io",
                "Placement.placement.openstack.c5c3.io"
            ]
        );
        assert_eq!(order[1], ["CredentialRotation.c5c3.io"]);
        assert_eq!(order[order.len() - 3], ["Keystone.keystone.openstack.c5c3.io"]);
        assert_eq!(order[order.len() - 1], ["Secret"]);
    }

    #[test]
    fn what_hangs_is_told_where_it_belongs() {
        let mut owned = vec![
            object("Endpoint.openstack.k-orc.cloud", "glance-public"),
            object("RoleAssignment.openstack.k-orc.cloud", "glance-admin"),
            object("Secret", "s"),
        ];
        owned[0].1 = true;
        let removal = Removal::of(&owned, &[]);
        let told: Vec<_> = report(&removal, &owned)
            .into_iter()
            .map(|step| (step.part, step.text()))
            .collect();
        let [(KORC_READY, text)] = told.as_slice() else {
            panic!("{told:?}")
        };
        assert!(
            text.contains("Endpoint.openstack.k-orc.cloud ns/glance-public"),
            "{text}"
        );
        assert!(
            !text.contains("RoleAssignment"),
            "nobody asked it to go yet: {text}"
        );
        for (kind, expected) in [
            ("Secret", CREDENTIALS_READY),
            ("CredentialRotation.c5c3.io", CREDENTIALS_READY),
            ("MariaDB.k8s.mariadb.com", INFRASTRUCTURE_READY),
            ("Keystone.keystone.openstack.c5c3.io", KEYSTONE_READY),
            ("User.openstack.k-orc.cloud", KORC_READY),
            ("Domain.openstack.k-orc.cloud", KORC_READY),
            ("RoleAssignment.openstack.k-orc.cloud", KORC_READY),
            ("Glance.glance.openstack.c5c3.io", SERVICES_READY),
        ] {
            assert_eq!(part(&object(kind, "x").0), expected, "{kind}");
        }
    }

    #[test]
    fn only_volumes_of_the_cloud_go() {
        let claim = |name: &str, labels: &[(&str, &str)]| Volume {
            name: name.to_owned(),
            labels: labels
                .iter()
                .map(|(k, v)| (format!("app.kubernetes.io/{k}"), (*v).to_owned()))
                .collect(),
        };
        let claims = [
            claim(
                "storage-mariadb-0",
                &[("name", "mariadb"), ("instance", "mariadb")],
            ),
            claim("persistence-rabbitmq-0", &[("name", "rabbitmq")]),
            claim("glance-images", &[("name", "glance"), ("instance", "glance")]),
            claim("theirs", &[("name", "mariadb"), ("instance", "wordpress")]),
            claim("bare", &[]),
        ];
        let names = |infrastructure: serde_json::Value| -> Vec<&str> {
            let spec = serde_json::json!({"openStackRelease": "2025.2", "infrastructure": infrastructure});
            let spec = serde_json::from_value(spec).expect("a spec");
            let volumes = volumes_go(&claims, &spec);
            volumes.iter().map(|volume| volume.name.as_str()).collect()
        };
        assert_eq!(
            names(serde_json::json!({})),
            ["storage-mariadb-0", "persistence-rabbitmq-0", "glance-images"]
        );
        let of_others =
            serde_json::json!({"database": {"host": "db.example.com"}, "messaging": {"hosts": ["mq:5672"]}});
        assert_eq!(names(of_others), ["glance-images"]);
    }

    proptest! {
        /// Whatever is there: it ends, and nothing goes before what uses it.
        #[test]
        fn removal_ends_and_never_goes_against_the_order(picks in prop::collection::btree_set((0usize..15, 0u8..4), 0..30)) {
            let all = kinds();
            let mut owned: Vec<_> = picks.iter().map(|(kind, name)| object(all[kind % all.len()], &name.to_string())).collect();
            owned.sort();
            owned.dedup();
            let mut rounds = 0;
            while !owned.is_empty() {
                let removal = Removal::of(&owned, &[]);
                prop_assert!(!removal.now.is_empty());
                let lowest = removal.now.iter().map(rank).min();
                prop_assert!(removal.later.iter().all(|r| Some(rank(r)) < lowest));
                owned.retain(|(reference, _)| !removal.now.contains(reference));
                rounds += 1;
                prop_assert!(rounds <= ORDER.len() + 1);
            }
            prop_assert!(Removal::of(&owned, &[]).is_empty());
        }
    }
}
