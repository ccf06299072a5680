//! Defaults of built-in kinds. What depends on nothing else is data; the rest is below.

use std::{collections::HashMap, sync::LazyLock};

use apimachinery::openapi::builtin_definitions;
use serde_json::{Map, Value, json};

/// Fields and defaults by definition.
static DEFAULTS: LazyLock<HashMap<String, Map<String, Value>>> = LazyLock::new(|| {
    // Part of the program; a test reads it.
    serde_json::from_str(include_str!("../../data/defaults.json")).expect("the defaults are valid")
});

/// Definitions below which something has a default: the walk goes nowhere else.
static REACHES: LazyLock<HashMap<&'static str, bool>> = LazyLock::new(|| {
    let mut reaches: HashMap<&str, bool> = HashMap::new();
    let definitions = builtin_definitions();
    let own = |name: &str| DEFAULTS.contains_key(name) || CODED.contains(&name);
    for name in definitions.keys() {
        reaches.insert(name, own(name));
    }
    // A few rounds reach the fixed point: types nest, but not deeply.
    loop {
        let mut changed = false;
        for (name, schema) in definitions {
            if reaches[name.as_str()] {
                continue;
            }
            let below = references(schema)
                .into_iter()
                .any(|child| reaches.get(child).copied().unwrap_or(false));
            if below {
                reaches.insert(name, true);
                changed = true;
            }
        }
        if !changed {
            return reaches;
        }
    }
});

const CODED: [&str; 8] = [
    "core.v1.PodSpec",
    "apps.v1.DeploymentStrategy",
    "apps.v1.DaemonSetUpdateStrategy",
    "apps.v1.StatefulSetUpdateStrategy",
    "batch.v1.JobSpec",
    "networking.v1.NetworkPolicySpec",
    "rbac.v1.Subject",
    "apiextensions.v1.CustomResourceDefinitionSpec",
];

fn references(schema: &Value) -> Vec<&str> {
    let properties = schema["properties"]
        .as_object()
        .into_iter()
        .flatten()
        .map(|(_, s)| s);
    properties
        .filter_map(|s| {
            s["$ref"]
                .as_str()
                .or(s["items"]["$ref"].as_str())
                .or(s["additionalProperties"]["$ref"].as_str())
        })
        .collect()
}

pub(super) fn apply(definition: &str, value: &mut Value) {
    let Value::Object(map) = value else { return };
    if !REACHES.get(definition).copied().unwrap_or(false) {
        return;
    }
    if let Some(defaults) = DEFAULTS.get(definition) {
        // A probe's numbers are no pointers in Kubernetes: 0 is the same as nothing there.
        let zero_is_none = definition == "core.v1.Probe";
        for (field, default) in defaults {
            if zero_is_none && map.get(field).is_some_and(|given| *given == 0) {
                map.remove(field);
            }
            map.entry(field.clone()).or_insert_with(|| default.clone());
        }
    }
    coded(definition, map);
    let Some(schema) = builtin_definitions().get(definition) else {
        return;
    };
    for (field, value) in map.iter_mut() {
        let schema = &schema["properties"][field];
        if let Some(name) = schema["$ref"].as_str() {
            apply(name, value);
        } else if let (Some(name), Value::Array(items)) = (schema["items"]["$ref"].as_str(), &mut *value) {
            for item in items {
                apply(name, item);
            }
        } else if let (Some(name), Value::Object(items)) =
            (schema["additionalProperties"]["$ref"].as_str(), value)
        {
            for item in items.values_mut() {
                apply(name, item);
            }
        }
    }
}

fn coded(definition: &str, map: &mut Map<String, Value>) {
    let rolling = |map: &Map<String, Value>| map.get("type").is_some_and(|kind| kind == "RollingUpdate");
    match definition {
        "core.v1.PodSpec" => pod_spec(map),
        "apps.v1.DeploymentStrategy" if rolling(map) => {
            fill(
                map,
                "rollingUpdate",
                &json!({"maxSurge": "25%", "maxUnavailable": "25%"}),
            );
        }
        "apps.v1.DaemonSetUpdateStrategy" if rolling(map) => {
            fill(map, "rollingUpdate", &json!({"maxSurge": 0, "maxUnavailable": 1}));
        }
        "apps.v1.StatefulSetUpdateStrategy" if rolling(map) => {
            fill(map, "rollingUpdate", &json!({"partition": 0}));
        }
        "batch.v1.JobSpec" => {
            if !map.contains_key("completions") && !map.contains_key("parallelism") {
                map.insert("completions".into(), 1.into());
            }
            map.entry("parallelism").or_insert(1.into());
        }
        "networking.v1.NetworkPolicySpec" if !map.contains_key("policyTypes") => {
            let egress = map
                .get("egress")
                .and_then(Value::as_array)
                .is_some_and(|rules| !rules.is_empty());
            map.insert(
                "policyTypes".into(),
                if egress {
                    json!(["Ingress", "Egress"])
                } else {
                    json!(["Ingress"])
                },
            );
        }
        "rbac.v1.Subject"
            if !map.contains_key("apiGroup")
                && map
                    .get("kind")
                    .is_some_and(|kind| kind == "User" || kind == "Group") =>
        {
            map.insert("apiGroup".into(), "rbac.authorization.k8s.io".into());
        }
        "apiextensions.v1.CustomResourceDefinitionSpec" => {
            if let Some(Value::Object(names)) = map.get_mut("names")
                && let Some(kind) = names.get("kind").and_then(Value::as_str).map(str::to_owned)
            {
                names
                    .entry("singular")
                    .or_insert_with(|| kind.to_lowercase().into());
                names
                    .entry("listKind")
                    .or_insert_with(|| format!("{kind}List").into());
            }
        }
        _ => {}
    }
}

/// Fills in the fields of an object-valued field.
fn fill(map: &mut Map<String, Value>, field: &str, defaults: &Value) {
    let value = map.entry(field).or_insert_with(|| Value::Object(Map::new()));
    if let (Value::Object(value), Value::Object(defaults)) = (value, defaults) {
        for (key, default) in defaults {
            value.entry(key.clone()).or_insert_with(|| default.clone());
        }
    }
}

fn pod_spec(spec: &mut Map<String, Value>) {
    let host_network = spec.get("hostNetwork").is_some_and(|host| host == true);
    for list in ["containers", "initContainers", "ephemeralContainers"] {
        let Some(Value::Array(containers)) = spec.get_mut(list) else {
            continue;
        };
        for container in containers {
            let Value::Object(container) = container else {
                continue;
            };
            if !container.contains_key("imagePullPolicy") {
                let image = container.get("image").and_then(Value::as_str).unwrap_or_default();
                let policy = if is_latest(image) {
                    "Always"
                } else {
                    "IfNotPresent"
                };
                container.insert("imagePullPolicy".into(), policy.into());
            }
            if let Some(Value::Array(ports)) = container.get_mut("ports") {
                for port in ports {
                    if host_network && port["hostPort"].is_null() && port["containerPort"].is_number() {
                        port["hostPort"] = port["containerPort"].clone();
                    }
                }
            }
            if let Some(Value::Object(resources)) = container.get_mut("resources")
                && let Some(Value::Object(limits)) = resources.get("limits").cloned()
            {
                let requests = resources
                    .entry("requests")
                    .or_insert_with(|| Value::Object(Map::new()));
                if let Value::Object(requests) = requests {
                    for (name, limit) in limits {
                        requests.entry(name).or_insert(limit);
                    }
                }
            }
        }
    }
    if let Some(name) = spec.get("serviceAccountName").cloned() {
        spec.insert("serviceAccount".into(), name);
    } else if let Some(name) = spec.get("serviceAccount").cloned() {
        spec.insert("serviceAccountName".into(), name);
    }
    if let Some(Value::Array(volumes)) = spec.get_mut("volumes") {
        for volume in volumes {
            if let Value::Object(volume) = volume
                && volume.len() == 1
            {
                volume.insert("emptyDir".into(), Value::Object(Map::new()));
            }
        }
    }
}

fn is_latest(image: &str) -> bool {
    if image.contains('@') {
        return false;
    }
    let name = image.rsplit('/').next().unwrap_or_default();
    name.split_once(':').is_none_or(|(_, tag)| tag == "latest")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_default_names_a_field() {
        for (definition, fields) in &*DEFAULTS {
            for field in fields.keys() {
                let known = &builtin_definitions()[definition]["properties"][field];
                assert!(known.is_object(), "{definition}.{field}");
            }
        }
        for definition in CODED {
            assert!(builtin_definitions().contains_key(definition), "{definition}");
        }
    }

    #[test]
    fn zeros_of_a_probe_count_as_absent() {
        let mut pod = json!({"spec": {"containers": [{"name": "a", "image": "a", "readinessProbe": {"tcpSocket": {"port": 1},
            "initialDelaySeconds": 0, "periodSeconds": 0, "timeoutSeconds": 0, "successThreshold": 0, "failureThreshold": 7}}]}});
        apply("core.v1.Pod", &mut pod);
        let expected = json!({"tcpSocket": {"port": 1}, "initialDelaySeconds": 0, "periodSeconds": 10,
            "timeoutSeconds": 1, "successThreshold": 1, "failureThreshold": 7});
        assert_eq!(pod["spec"]["containers"][0]["readinessProbe"], expected);
    }

    #[test]
    fn a_deployment_is_filled_in_to_the_bottom() {
        let mut object = json!({"spec": {"template": {"spec": {"containers": [
            {"name": "a", "image": "r:5000/x/a", "ports": [{"containerPort": 80}], "livenessProbe": {"httpGet": {"port": 1}},
             "resources": {"limits": {"cpu": "1"}}}], "volumes": [{"name": "v", "secret": {"secretName": "s"}}]}}}});
        apply("apps.v1.Deployment", &mut object);
        let spec = &object["spec"];
        assert_eq!(spec["replicas"], 1);
        assert_eq!(
            spec["strategy"],
            json!({"type": "RollingUpdate", "rollingUpdate": {"maxSurge": "25%", "maxUnavailable": "25%"}})
        );
        let pod = &spec["template"]["spec"];
        assert_eq!(pod["restartPolicy"], "Always");
        assert_eq!(pod["volumes"][0]["secret"]["defaultMode"], 420);
        let container = &pod["containers"][0];
        assert_eq!(container["imagePullPolicy"], "Always");
        assert_eq!(container["ports"][0]["protocol"], "TCP");
        assert_eq!(container["livenessProbe"]["httpGet"]["scheme"], "HTTP");
        assert_eq!(container["resources"]["requests"]["cpu"], "1");
        let before = object.clone();
        apply("apps.v1.Deployment", &mut object);
        assert_eq!(object, before);
    }

    #[test]
    fn only_an_open_tag_is_pulled_always() {
        for (image, latest) in [
            ("a", true),
            ("a:latest", true),
            ("a:1", false),
            ("r:5000/a", true),
            ("a@sha256:0", false),
        ] {
            assert_eq!(is_latest(image), latest, "{image}");
        }
    }
}
