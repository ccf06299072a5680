//! What is read before a key of Ceph is rotated.

use c5c3_api::c5c3::{CephClientRotation, CredentialRotation};
use c5c3_api::ceph::{GUESTS_LABEL, USER_LABEL};
use c5c3_api::foreign::rook::CephClient;
use c5c3_api::hypervisor::Hypervisor;
use c5c3_kit::controller::Object;
use c5c3_kit::ownership::OWNER_UID;
use c5c3_kit::{ReadError, Reader};
use k8s_openapi::NamespaceResourceScope;
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment, StatefulSet};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Resource, ResourceExt};

use super::super::Error;
use super::super::facts::{Hidden, current, value};
use super::holders::{Sighting, holders};
use super::{ByHand, Facts, made, place, stable_secret, user_name};

pub(crate) async fn observe(
    object: &CredentialRotation,
    ceph: &CephClientRotation,
    reader: &Reader,
) -> Result<Facts, Error> {
    let labels = format!("{OWNER_UID}={}", object.uid().unwrap_or_default());
    let there = reader.in_cluster(&place(ceph))?;
    let clients = there.list::<CephClient>(&ceph.namespace, &labels).await?;
    let mut users = Vec::with_capacity(clients.len());
    for client in &clients {
        let secret: Option<Secret> = there.get(&ceph.namespace, &client.secret()).await?;
        let key: Option<Hidden> = secret.and_then(|secret| value(&secret, "userKey"));
        users.extend(made(object, client, key));
    }
    let stable: Option<Secret> = there.get(&ceph.namespace, &stable_secret(object)).await?;
    let current = stable.and_then(|secret| current(&object.spec.target_service_user, &secret));
    let mut facts = Facts {
        users,
        current,
        holders: Vec::new(),
        by_hand: None,
        owned: reader.owned().into_iter().map(|(own, _)| own).collect(),
    };
    if let Some(current) = facts.current {
        let numbers = facts.users.iter().map(|user| user.seen.number);
        let old: Vec<String> = numbers
            .filter(|number| *number < current.number)
            .map(|number| user_name(object, number))
            .collect();
        let namespace = object.namespace().unwrap_or_default();
        let current = user_name(object, current.number);
        if !old.is_empty() {
            facts.holders = look(&old, &current, &namespace, reader).await;
        }
    }
    let name = &object.spec.target_service_user;
    let others: Option<CephClient> = there.get(&ceph.namespace, name).await?;
    if let Some(client) = others.filter(|client| client.metadata.deletion_timestamp.is_none()) {
        let secret: Option<Secret> = there.get(&ceph.namespace, &client.secret()).await?;
        if let Some(key) = secret.and_then(|secret| value(&secret, "userKey")) {
            let namespace = object.namespace().unwrap_or_default();
            let current = facts.current.map(|current| user_name(object, current.number));
            let holders = match current {
                Some(current) => look(std::slice::from_ref(name), &current, &namespace, reader).await,
                None => Vec::new(),
            };
            facts.by_hand = Some(ByHand { key, holders });
        }
    }
    Ok(facts)
}

/// In all clusters: hypervisors may be elsewhere.
async fn look(old: &[String], current: &str, namespace: &str, reader: &Reader) -> Vec<String> {
    let mut all = Vec::new();
    for cluster in reader.clusters() {
        let seen = match reader.in_cluster(&cluster) {
            Ok(there) => read(old, current, namespace, &there)
                .await
                .map_err(|error| error.to_string()),
            Err(error) => Err(error.to_string()),
        };
        // Who cannot be asked may work with anything.
        match seen {
            Ok(place) => all.extend(holders(old, &place)),
            Err(error) => all.push(format!(
                "possibly something in cluster {cluster}, which cannot be checked ({error})"
            )),
        }
    }
    all
}

async fn read(
    old: &[String],
    current: &str,
    namespace: &str,
    reader: &Reader,
) -> Result<Sighting, ReadError> {
    let mut place = Sighting::default();
    for user in old {
        let labels = format!("{USER_LABEL}{user}");
        for pod in reader.list::<Pod>(namespace, &labels).await? {
            let phase = pod.status.as_ref().and_then(|status| status.phase.as_deref());
            if !matches!(phase, Some("Succeeded" | "Failed")) {
                place.workers.push(format!("Pod {}", pod.name_any()));
            }
        }
        // A workload may make the next pod with it at any moment.
        place
            .workers
            .extend(named::<Deployment>(reader, namespace, &labels).await?);
        place
            .workers
            .extend(named::<StatefulSet>(reader, namespace, &labels).await?);
        place
            .workers
            .extend(named::<DaemonSet>(reader, namespace, &labels).await?);
    }
    let handed = format!("{GUESTS_LABEL},{USER_LABEL}{current}");
    let hosts = reader.list::<Pod>(namespace, &handed).await?;
    place.hosts = hosts.into_iter().filter_map(|pod| pod.spec?.node_name).collect();
    place.told = reader
        .list_all::<Hypervisor>("")
        .await?
        .into_iter()
        .map(|host| (host.name_any(), host.status.and_then(|status| status.ceph_users)))
        .collect();
    Ok(place)
}

async fn named<K>(reader: &Reader, namespace: &str, labels: &str) -> Result<Vec<String>, ReadError>
where
    K: Object + Resource<Scope = NamespaceResourceScope>,
{
    let found = reader.list::<K>(namespace, labels).await?;
    let name = |object: &K| format!("{} {}", K::kind(&()), object.name_any());
    Ok(found.iter().map(name).collect())
}
