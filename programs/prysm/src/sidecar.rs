//! The webhook that puts `prysm ops-log` beside RadosGW: a label on the Deployment asks for it.

use c5c3_webhook::Verdict;
use serde_json::{Value, json};

pub(crate) const CONTAINER: &str = "prysm-sidecar";
/// Where RadosGW's log is, in Rook's own volume.
const LOG_VOLUME: &str = "rook-ceph-log";
const LOGS: &str = "/var/log/ceph";
/// Keeps the place in the log when the container restarts.
const STATE_VOLUME: &str = "prysm-state";
const STATE: &str = "/var/lib/prysm";
const LABEL: &str = "prysm-sidecar";

/// What is put beside RadosGW.
#[derive(Clone, Debug)]
pub(crate) struct Sidecar {
    pub image: String,
    /// Name of the log in `/var/log/ceph`.
    pub file: String,
    pub port: u16,
}

impl Sidecar {
    /// Says what an admission request changes.
    pub(crate) fn judge(&self, request: &Value) -> Verdict {
        if request["kind"]["kind"] == "Deployment" && request["operation"] != "DELETE" {
            self.verdict(&request["object"])
        } else {
            Verdict::default()
        }
    }

    pub(crate) fn verdict(&self, deployment: &Value) -> Verdict {
        let labels = &deployment["metadata"]["labels"];
        let ours = labels["app"] == "rook-ceph-rgw"
            && labels["app.kubernetes.io/component"] == "cephobjectstores.ceph.rook.io"
            && labels["app.kubernetes.io/created-by"] == "rook-ceph-operator";
        if !ours {
            return Verdict::default();
        }
        match labels[LABEL].as_str() {
            Some("yes") => self.put(deployment),
            Some("no") | None => Verdict {
                patch: taken_away(deployment),
                warning: None,
            },
            Some(other) => Verdict {
                warning: Some(format!(
                    "label {LABEL}: {other:?} is not a valid value: use yes or no"
                )),
                ..Verdict::default()
            },
        }
    }

    fn put(&self, deployment: &Value) -> Verdict {
        let pod = &deployment["spec"]["template"]["spec"];
        let volumes = list(&pod["volumes"]);
        if position(volumes, LOG_VOLUME).is_none() {
            let why = format!(
                "no {CONTAINER} is added: the pod has no volume {LOG_VOLUME}, where RadosGW writes its log"
            );
            return Verdict {
                warning: Some(why),
                ..Verdict::default()
            };
        }
        let mut patch = Vec::new();
        if position(volumes, STATE_VOLUME).is_none() {
            let volume = json!({"name": STATE_VOLUME, "emptyDir": {}});
            patch.push(json!({"op": "add", "path": "/spec/template/spec/volumes/-", "value": volume}));
        }
        let wanted = self.container(&deployment["spec"]["template"]["metadata"]["annotations"]);
        let containers = list(&pod["containers"]);
        match position(containers, CONTAINER) {
            None => {
                patch.push(json!({"op": "add", "path": "/spec/template/spec/containers/-", "value": wanted}));
            }
            // The server has added its defaults to what is there: they stay.
            Some(index) if !has(&containers[index], &wanted) => {
                let path = format!("/spec/template/spec/containers/{index}");
                patch.push(json!({"op": "replace", "path": path, "value": wanted}));
            }
            Some(_) => {}
        }
        Verdict { patch, warning: None }
    }

    fn container(&self, annotations: &Value) -> Value {
        let named = |annotation: &str| annotations[annotation].as_str().filter(|name| !name.is_empty());
        let secret = named("prysm-sidecar/sidecar-env-secret")
            .map(|name| json!({"secretRef": {"name": name, "optional": true}}));
        let map = named("prysm-sidecar/sidecar-env-configmap")
            .map(|name| json!({"configMapRef": {"name": name, "optional": true}}));
        let from: Vec<Value> = secret.into_iter().chain(map).collect();
        let mut container = json!({
            "name": CONTAINER,
            "image": self.image,
            "args": [
                "prysm", "ops-log", format!("--file={LOGS}/{}", self.file),
                format!("--position={STATE}/position"), format!("--listen=[::]:{}", self.port),
            ],
            "env": [{"name": "POD_NAME", "valueFrom": {"fieldRef": {"fieldPath": "metadata.name"}}}],
            "ports": [{"name": "metrics", "containerPort": self.port, "protocol": "TCP"}],
            "readinessProbe": {"httpGet": {"path": "/healthz", "port": "metrics"}},
            "resources": {"requests": {"cpu": "20m", "memory": "32Mi"}, "limits": {"memory": "128Mi"}},
            "securityContext": {
                "allowPrivilegeEscalation": false, "readOnlyRootFilesystem": true,
                "capabilities": {"drop": ["ALL"]},
            },
            "volumeMounts": [
                {"name": LOG_VOLUME, "mountPath": LOGS, "readOnly": true},
                {"name": STATE_VOLUME, "mountPath": STATE},
            ],
        });
        if !from.is_empty() {
            container["envFrom"] = from.into();
        }
        container
    }
}

/// From the end, so that places in front stay what they are.
fn taken_away(deployment: &Value) -> Vec<Value> {
    let pod = &deployment["spec"]["template"]["spec"];
    [("containers", CONTAINER), ("volumes", STATE_VOLUME)]
        .into_iter()
        .filter_map(|(field, name)| {
            let index = position(list(&pod[field]), name)?;
            Some(json!({"op": "remove", "path": format!("/spec/template/spec/{field}/{index}")}))
        })
        .collect()
}

fn list(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn position(all: &[Value], name: &str) -> Option<usize> {
    all.iter().position(|one| one["name"] == name)
}

/// Everything that is wanted is there; fields that are only there are defaults of the server.
fn has(there: &Value, wanted: &Value) -> bool {
    match (there, wanted) {
        (Value::Object(there), Value::Object(wanted)) => wanted
            .iter()
            .all(|(field, value)| there.get(field).is_some_and(|there| has(there, value))),
        (Value::Array(there), Value::Array(wanted)) => {
            there.len() == wanted.len() && there.iter().zip(wanted).all(|(there, wanted)| has(there, wanted))
        }
        _ => there == wanted,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sidecar() -> Sidecar {
        Sidecar {
            image: "registry/c5c3:1".to_owned(),
            file: "ops-log.log".to_owned(),
            port: 9090,
        }
    }

    fn deployment(label: Option<&str>) -> Value {
        let mut deployment = json!({
            "kind": "Deployment",
            "metadata": {"name": "rook-ceph-rgw-objects-a", "labels": {
                "app": "rook-ceph-rgw", "app.kubernetes.io/component": "cephobjectstores.ceph.rook.io",
                "app.kubernetes.io/created-by": "rook-ceph-operator"}},
            "spec": {"template": {"metadata": {}, "spec": {
                "containers": [{"name": "rgw"}], "volumes": [{"name": LOG_VOLUME}]}}},
        });
        if let Some(label) = label {
            deployment["metadata"]["labels"][LABEL] = label.into();
        }
        deployment
    }

    fn patched(deployment: &Value, patch: &[Value]) -> Value {
        let mut changed = deployment.clone();
        for step in patch {
            let path = step["path"].as_str().expect("a path");
            let (parent, last) = path.rsplit_once('/').expect("a parent");
            let list = changed
                .pointer_mut(parent)
                .and_then(Value::as_array_mut)
                .expect("a list");
            match (step["op"].as_str(), last) {
                (Some("add"), "-") => list.push(step["value"].clone()),
                (Some("replace"), index) => {
                    list[index.parse::<usize>().expect("a number")] = step["value"].clone();
                }
                (Some("remove"), index) => _ = list.remove(index.parse().expect("a number")),
                other => panic!("{other:?}"),
            }
        }
        changed
    }

    #[test]
    fn the_label_adds_it_once_and_takes_it_away() {
        let bare = deployment(Some("yes"));
        let with = patched(&bare, &sidecar().verdict(&bare).patch);
        let containers = with["spec"]["template"]["spec"]["containers"]
            .as_array()
            .expect("containers");
        assert_eq!(containers.len(), 2);
        assert_eq!(containers[1]["ports"][0]["name"], "metrics");
        assert_eq!(
            sidecar().verdict(&with),
            Verdict::default(),
            "asked again, nothing changes"
        );

        let mut defaulted = with.clone();
        defaulted["spec"]["template"]["spec"]["containers"][1]["imagePullPolicy"] = "IfNotPresent".into();
        assert_eq!(sidecar().verdict(&defaulted), Verdict::default());

        let newer = Sidecar {
            image: "registry/c5c3:2".to_owned(),
            ..sidecar()
        };
        let upgraded = patched(&with, &newer.verdict(&with).patch);
        assert_eq!(
            upgraded["spec"]["template"]["spec"]["containers"][1]["image"],
            "registry/c5c3:2"
        );

        let mut off = with;
        off["metadata"]["labels"][LABEL] = "no".into();
        let off = patched(&off, &sidecar().verdict(&off).patch);
        assert_eq!(off["spec"], bare["spec"]);
    }

    #[test]
    fn others_are_left_alone_and_mistakes_are_named() {
        let mut other = deployment(Some("yes"));
        other["metadata"]["labels"]["app"] = "nginx".into();
        assert_eq!(sidecar().verdict(&other), Verdict::default());
        assert_eq!(sidecar().verdict(&deployment(None)), Verdict::default());
        let warning = |deployment: &Value| sidecar().verdict(deployment).warning.unwrap_or_default();
        assert!(warning(&deployment(Some("true"))).contains("use yes or no"));
        let mut without = deployment(Some("yes"));
        without["spec"]["template"]["spec"]["volumes"] = json!([]);
        assert!(warning(&without).contains(LOG_VOLUME));
        let asked = |operation: &str, kind: &str| {
            let request =
                json!({"operation": operation, "kind": {"kind": kind}, "object": deployment(Some("yes"))});
            !sidecar().judge(&request).patch.is_empty()
        };
        assert!(asked("UPDATE", "Deployment"));
        assert!(!asked("DELETE", "Deployment") && !asked("UPDATE", "StatefulSet"));
    }

    #[test]
    fn settings_come_from_the_secret_and_map_that_annotations_name() {
        let mut asked = deployment(Some("yes"));
        asked["spec"]["template"]["metadata"]["annotations"] = json!({
            "prysm-sidecar/sidecar-env-secret": "s", "prysm-sidecar/sidecar-env-configmap": "m"});
        let patch = Value::Array(sidecar().verdict(&asked).patch).to_string();
        assert!(
            patch.contains(r#""secretRef":{"name":"s","optional":true}"#),
            "{patch}"
        );
        assert!(
            patch.contains(r#""configMapRef":{"name":"m","optional":true}"#),
            "{patch}"
        );
    }
}
