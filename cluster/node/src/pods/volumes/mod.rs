//! Volumes of a pod: what they hold is decided by pure functions ([`contents`]), and one
//! piece of work inside the node's mount namespace puts them in place ([`place`]).

pub mod contents;
pub mod place;
mod publish;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use k8s_openapi::api::core::v1::{Pod, PodSpec, Volume};

use super::observe::view;
use super::start::env;

/// A token that a projected volume asks for.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TokenRequest {
    pub audience: String,
    pub seconds: i64,
}

/// Objects that a pod names in environment and volumes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    pub config_maps: BTreeSet<String>,
    pub secrets: BTreeSet<String>,
    pub claims: BTreeSet<String>,
    pub tokens: BTreeSet<TokenRequest>,
}

pub fn needs(spec: &PodSpec) -> Needs {
    let mut needs = Needs::default();
    for container in view::all_containers(spec) {
        let (maps, secrets) = env::names(container);
        needs.config_maps.extend(maps);
        needs.secrets.extend(secrets);
    }
    for volume in spec.volumes.iter().flatten() {
        if let Some(source) = &volume.config_map {
            needs.config_maps.insert(source.name.clone());
        }
        if let Some(name) = volume.secret.as_ref().and_then(|s| s.secret_name.clone()) {
            needs.secrets.insert(name);
        }
        if let Some(claim) = &volume.persistent_volume_claim {
            needs.claims.insert(claim.claim_name.clone());
        }
        for source in projections(volume) {
            needs
                .config_maps
                .extend(source.config_map.as_ref().map(|s| s.name.clone()));
            needs
                .secrets
                .extend(source.secret.as_ref().map(|s| s.name.clone()));
            needs
                .tokens
                .extend(source.service_account_token.as_ref().map(token_request));
        }
    }
    needs
}

fn projections(volume: &Volume) -> impl Iterator<Item = &k8s_openapi::api::core::v1::VolumeProjection> {
    volume.projected.iter().flat_map(|p| p.sources.iter().flatten())
}

pub(super) fn token_request(
    source: &k8s_openapi::api::core::v1::ServiceAccountTokenProjection,
) -> TokenRequest {
    TokenRequest {
        audience: source.audience.clone().unwrap_or_default(),
        seconds: source.expiration_seconds.unwrap_or(3600),
    }
}

/// Whether a volume shows labels or annotations, and they are others now.
pub fn shows_otherwise(before: &Pod, now: &Pod) -> bool {
    let (old, new) = (&before.metadata, &now.metadata);
    if old.labels == new.labels && old.annotations == new.annotations {
        return false;
    }
    let mut volumes = now.spec.iter().flat_map(|s| s.volumes.iter().flatten());
    volumes.any(|v| v.downward_api.is_some() || projections(v).any(|p| p.downward_api.is_some()))
}

/// Directory of everything that belongs to one pod.
pub fn pod_directory(pods: &Path, pod: &Pod) -> PathBuf {
    pods.join(view::uid(pod))
}

/// Directory of a volume, below that of all pods.
pub fn directory(pod: &Pod, volume: &str) -> PathBuf {
    Path::new(view::uid(pod)).join("volumes").join(volume)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn only_volumes_with_fields_follow_labels() {
        let pod = |label: &str, volume: serde_json::Value| -> Pod {
            serde_json::from_value(json!({ "metadata": { "labels": { "a": label } },
                "spec": { "containers": [], "volumes": [volume] } }))
            .unwrap()
        };
        let plain = json!({ "name": "v", "emptyDir": {} });
        let direct = json!({ "name": "v", "downwardAPI": { "items": [] } });
        let projected = json!({ "name": "v", "projected": { "sources": [{ "downwardAPI": {} }] } });
        for (volume, follows) in [(plain, false), (direct, true), (projected, true)] {
            let first = pod("1", volume.clone());
            assert!(!shows_otherwise(&first, &first));
            assert_eq!(shows_otherwise(&first, &pod("2", volume)), follows);
        }
    }
}
