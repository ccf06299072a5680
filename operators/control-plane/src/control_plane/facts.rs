//! What is read before a plan is made.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlane, CredentialRotation};
use c5c3_api::foreign::korc;
use c5c3_api::foreign::mariadb::MariaDb;
use c5c3_api::foreign::memcached::Memcached;
use c5c3_api::foreign::rabbitmq::RabbitmqCluster;
use c5c3_api::foreign::valkey::Valkey;
use c5c3_api::ovn::OvnCluster;
use c5c3_catalogue::Release;
use c5c3_kit::controller::Object;
use c5c3_kit::ownership::{CONTROLLER, MANAGED_BY, OWNER_UID};
use c5c3_kit::{Kind, ReadError, Reader};
use futures::future::{BoxFuture, try_join_all};
use futures::{FutureExt, TryFutureExt};
use k8s_openapi::api::core::v1::{PersistentVolumeClaim, Secret};
use k8s_openapi::api::networking::v1::NetworkPolicy;
use kube::ResourceExt;
use kube::core::NamespaceResourceScope;
use serde::Serialize;
use serde_json::Value;

use crate::plan::{Child, DELETE_VOLUMES, SERVICES, Seen, SeenSecret, Volume, reference, secret_names};

/// What [`super::ControlPlanes`] knows when it decides.
#[derive(Clone, Default)]
pub struct Facts {
    pub seen: Seen,
    /// Another ControlPlane that was in this namespace before.
    pub elder: Option<String>,
    /// The claims of the namespace, when volumes are to be deleted too.
    pub volumes: Vec<Volume>,
    /// Secrets that last as long as the volumes, when those are to be deleted too.
    pub keys: Vec<String>,
}

/// A kind whose objects a plan makes and whose status it reads.
trait Made: Send + Sync {
    fn kind(&self) -> Kind;
    fn list<'a>(&self, reader: &'a Reader, namespace: &'a str, labels: &'a str) -> Listing<'a>;
}

type Listing<'a> = BoxFuture<'a, Result<Vec<Value>, ReadError>>;

struct Of<K>(std::marker::PhantomData<fn() -> K>);

impl<K> Made for Of<K>
where
    K: Object + kube::Resource<Scope = NamespaceResourceScope> + Serialize,
{
    fn kind(&self) -> Kind {
        Kind::of::<K>()
    }

    fn list<'a>(&self, reader: &'a Reader, namespace: &'a str, labels: &'a str) -> Listing<'a> {
        reader
            .list::<K>(namespace, labels)
            .map_ok(|items| {
                items
                    .iter()
                    .filter_map(|item| serde_json::to_value(item).ok())
                    .collect()
            })
            .boxed()
    }
}

fn made() -> Vec<Box<dyn Made>> {
    fn of<K>() -> Box<dyn Made>
    where
        K: Object + kube::Resource<Scope = NamespaceResourceScope> + Serialize,
    {
        Box::new(Of::<K>(std::marker::PhantomData))
    }
    let mut kinds = vec![
        of::<MariaDb>(),
        of::<Memcached>(),
        of::<RabbitmqCluster>(),
        of::<Valkey>(),
        of::<OvnCluster>(),
        of::<korc::Domain>(),
        of::<korc::Project>(),
        of::<korc::Role>(),
        of::<korc::Service>(),
        of::<korc::Endpoint>(),
        of::<korc::User>(),
        of::<korc::RoleAssignment>(),
        of::<CredentialRotation>(),
    ];
    macro_rules! services {
        ($($kind:ty),*) => { [$(of::<$kind>()),*] };
    }
    kinds.extend(c5c3_api::each_service!(services));
    kinds
}

/// The kinds that a plan makes.
pub(crate) fn kinds() -> Vec<Kind> {
    let plain = [Kind::of::<Secret>(), Kind::of::<NetworkPolicy>()];
    plain
        .into_iter()
        .chain(made().iter().map(|kind| kind.kind()))
        .collect()
}

pub(crate) async fn observe(
    object: &ControlPlane,
    reader: &Reader,
    releases: &[Release],
) -> Result<Facts, ReadError> {
    let namespace = object.namespace().unwrap_or_default();
    let uid = object.uid().unwrap_or_default();
    let labels = format!("{OWNER_UID}={uid}");
    let kinds = made();
    let children = try_join_all(kinds.iter().map(|kind| kind.list(reader, &namespace, &labels)));
    let names: Vec<String> = secret_names(&object.spec).into_iter().collect();
    let secrets = try_join_all(names.iter().map(|name| reader.get::<Secret>(&namespace, name)));
    let neighbours = reader.list::<ControlPlane>(&namespace, "");
    let (children, secrets, neighbours) = futures::try_join!(children, secrets, neighbours)?;
    let elder = elder(object, &neighbours);
    let owned = reader.owned();
    let (volumes, lasting) = if elder.is_none() && volumes_wanted(object, !owned.is_empty()) {
        let claims = reader.list::<PersistentVolumeClaim>(&namespace, "").await?;
        let secrets = reader
            .list::<Secret>(&namespace, &format!("{MANAGED_BY}=c5c3"))
            .await?;
        (claims.into_iter().map(volume).collect(), secrets)
    } else {
        (Vec::new(), Vec::new())
    };
    let keys = lasting.iter().filter(|secret| is_key(secret));
    let keys = keys.map(ResourceExt::name_any).collect();
    let children = children.iter().flatten();
    let seen = Seen {
        children: children.map(|live| (reference(live), Child::of(live))).collect(),
        secrets: secrets
            .into_iter()
            .flatten()
            .map(|secret| (secret.name_any(), seen(secret, &uid)))
            .collect(),
        owned: owned
            .into_iter()
            .map(|(reference, owned)| (reference, owned.deleting))
            .collect(),
        releases: releases.to_vec(),
        random: names.into_iter().map(|name| (name, rand::random())).collect(),
        missing: reader.absent_kinds(),
    };
    Ok(Facts {
        seen,
        elder,
        volumes,
        keys,
    })
}

/// The cloud is to go, and its volumes with it. One that never had the namespace has none.
fn volumes_wanted(object: &ControlPlane, owns: bool) -> bool {
    object.metadata.deletion_timestamp.is_some()
        && (has_started(object) || owns)
        && object
            .annotations()
            .get(DELETE_VOLUMES)
            .is_some_and(|value| value == "true")
}

/// A plan was carried out for it once.
fn has_started(object: &ControlPlane) -> bool {
    let status = object.status.as_ref();
    status.is_some_and(|status| status.update_phase.is_some())
}

/// The first of a namespace has it; of two of the same second, the one that started, or the first
/// by name.
fn elder(object: &ControlPlane, all: &[ControlPlane]) -> Option<String> {
    let age = |one: &ControlPlane| {
        (
            one.metadata.creation_timestamp.clone().map(|t| t.0),
            !has_started(one),
            one.name_any(),
        )
    };
    let first = all.iter().min_by_key(|one| age(one))?;
    (first.uid() != object.uid()).then(|| first.name_any())
}

fn seen(secret: Secret, uid: &str) -> SeenSecret {
    let ours = secret.labels().get(OWNER_UID).is_some_and(|owner| owner == uid);
    let data = secret.data.unwrap_or_default();
    let data: BTreeMap<String, Vec<u8>> = data.into_iter().map(|(key, value)| (key, value.0)).collect();
    SeenSecret { data, ours }
}

/// A Secret that this cloud or one of its services made to last: it belongs to a name, not to an owner.
fn is_key(secret: &Secret) -> bool {
    let maker = secret.labels().get(CONTROLLER).map(String::as_str);
    let ours = |maker: &str| maker == "control-plane" || SERVICES.iter().any(|service| service.name == maker);
    maker.is_some_and(ours)
        && !secret.labels().contains_key(OWNER_UID)
        && secret
            .metadata
            .owner_references
            .as_ref()
            .is_none_or(Vec::is_empty)
}

fn volume(claim: PersistentVolumeClaim) -> Volume {
    Volume {
        name: claim.name_any(),
        labels: claim.metadata.labels.unwrap_or_default(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn cloud(name: &str, created: &str, started: bool) -> ControlPlane {
        let mut object = json!({
            "apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": name, "uid": name, "creationTimestamp": created, "deletionTimestamp": created,
                "annotations": {DELETE_VOLUMES: "true"}},
            "spec": {"openStackRelease": "2025.2"},
        });
        if started {
            object["status"] = json!({"updatePhase": "Idle"});
        }
        serde_json::from_value(object).expect("a ControlPlane")
    }

    const FIRST: &str = "2026-01-01T00:00:00Z";
    const LATER: &str = "2026-01-01T00:00:01Z";

    #[test]
    fn the_first_has_the_namespace() {
        let all = [cloud("z", FIRST, true), cloud("a", LATER, false)];
        assert_eq!(elder(&all[0], &all), None);
        assert_eq!(elder(&all[1], &all).as_deref(), Some("z"));
        // Within one second: who runs already, else by name.
        let all = [cloud("z", FIRST, true), cloud("a", FIRST, false)];
        assert_eq!(elder(&all[1], &all).as_deref(), Some("z"));
        let all = [cloud("z", FIRST, false), cloud("a", FIRST, false)];
        assert_eq!(elder(&all[0], &all).as_deref(), Some("a"));
    }

    #[test]
    fn only_what_was_made_to_last_is_a_key() {
        let secret = |labels: Value| -> Secret {
            serde_json::from_value(json!({"metadata": {"name": "x", "labels": labels}})).expect("a Secret")
        };
        for (labels, expected) in [
            (json!({CONTROLLER: "keystone"}), true),
            (json!({CONTROLLER: "control-plane"}), true),
            (json!({CONTROLLER: "keystone", OWNER_UID: "u"}), false),
            (json!({CONTROLLER: "ovn"}), false),
            (json!({}), false),
        ] {
            assert_eq!(is_key(&secret(labels.clone())), expected, "{labels}");
        }
    }

    #[test]
    fn only_one_that_started_has_volumes() {
        for (started, owns, wanted) in [(true, false, true), (false, true, true), (false, false, false)] {
            let cloud = cloud("a", FIRST, started);
            assert_eq!(volumes_wanted(&cloud, owns), wanted, "{started} {owns}");
        }
    }
}
