//! What a pod needs of its namespace to run.

use std::collections::BTreeSet;

use serde_json::Value;

#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct References<'a> {
    pub secrets: BTreeSet<&'a str>,
    pub config_maps: BTreeSet<&'a str>,
    pub claims: BTreeSet<String>,
    pub account: &'a str,
}

fn each(list: &Value) -> impl Iterator<Item = &Value> {
    list.as_array().into_iter().flatten()
}

pub(super) fn references(pod: &Value) -> References<'_> {
    let spec = &pod["spec"];
    let mut found = References {
        account: spec["serviceAccountName"].as_str().unwrap_or_default(),
        ..References::default()
    };
    for secret in each(&spec["imagePullSecrets"]) {
        found.secrets.extend(secret["name"].as_str());
    }
    for volume in each(&spec["volumes"]) {
        found.secrets.extend(volume["secret"]["secretName"].as_str());
        found.config_maps.extend(volume["configMap"]["name"].as_str());
        for source in each(&volume["projected"]["sources"]) {
            found.secrets.extend(source["secret"]["name"].as_str());
            found.config_maps.extend(source["configMap"]["name"].as_str());
        }
        // Sources of storage name the Secret that opens them in one of these ways.
        for source in volume.as_object().into_iter().flatten().map(|(_, source)| source) {
            found.secrets.extend(source["secretRef"]["name"].as_str());
            found
                .secrets
                .extend(source["nodePublishSecretRef"]["name"].as_str());
        }
        let claim = volume["persistentVolumeClaim"]["claimName"].as_str();
        found.claims.extend(claim.map(str::to_owned));
        if !volume["ephemeral"].is_null() {
            let names = [&pod["metadata"]["name"], &volume["name"]];
            let names = names.map(|name| name.as_str().unwrap_or_default());
            found.claims.insert(names.join("-"));
        }
    }
    for list in ["initContainers", "containers", "ephemeralContainers"] {
        for container in each(&spec[list]) {
            for variable in each(&container["env"]) {
                let from = &variable["valueFrom"];
                found.secrets.extend(from["secretKeyRef"]["name"].as_str());
                found.config_maps.extend(from["configMapKeyRef"]["name"].as_str());
            }
            for from in each(&container["envFrom"]) {
                found.secrets.extend(from["secretRef"]["name"].as_str());
                found.config_maps.extend(from["configMapRef"]["name"].as_str());
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_way_to_name_something_is_seen() {
        let pod = json!({"metadata": {"name": "p"}, "spec": {
            "serviceAccountName": "account",
            "imagePullSecrets": [{"name": "pull"}],
            "volumes": [
                {"name": "a", "secret": {"secretName": "volume"}},
                {"name": "b", "configMap": {"name": "map"}},
                {"name": "c", "projected": {"sources": [{"secret": {"name": "projected"}}, {"configMap": {"name": "part"}}]}},
                {"name": "d", "persistentVolumeClaim": {"claimName": "claim"}},
                {"name": "e", "ephemeral": {}},
                {"name": "f", "csi": {"nodePublishSecretRef": {"name": "csi"}}},
                {"name": "g", "cephfs": {"secretRef": {"name": "ceph"}}},
            ],
            "initContainers": [{"env": [{"valueFrom": {"secretKeyRef": {"name": "env"}}}]}],
            "containers": [{"env": [{"valueFrom": {"configMapKeyRef": {"name": "env-map"}}}],
                "envFrom": [{"secretRef": {"name": "from"}}, {"configMapRef": {"name": "from-map"}}]}],
            "ephemeralContainers": [{"envFrom": [{"secretRef": {"name": "debug"}}]}]}});
        let found = references(&pod);
        let secrets = [
            "ceph",
            "csi",
            "debug",
            "env",
            "from",
            "projected",
            "pull",
            "volume",
        ];
        assert_eq!(found.secrets, BTreeSet::from(secrets));
        assert_eq!(
            found.config_maps,
            BTreeSet::from(["env-map", "from-map", "map", "part"])
        );
        let claims = ["claim", "p-e"].map(str::to_owned);
        assert_eq!(found.claims, BTreeSet::from(claims));
        assert_eq!(found.account, "account");
    }
}
