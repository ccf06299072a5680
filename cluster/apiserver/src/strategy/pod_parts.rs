//! The narrow ways to change a running pod: containers to debug it, and other resources.

use apimachinery::field::FieldError;
use serde_json::Value;

use super::paths;

fn list<'a>(pod: &'a Value, field: &str) -> &'a [Value] {
    pod["spec"][field].as_array().map_or(&[], Vec::as_slice)
}

/// Ephemeral containers are added; those that are there stay as they are.
pub(super) fn ephemeral(object: &Value, old: &Value) -> Vec<FieldError> {
    let path = "spec.ephemeralContainers";
    let (new, before) = (
        list(object, "ephemeralContainers"),
        list(old, "ephemeralContainers"),
    );
    let mut errors = Vec::new();
    for container in before {
        let name = container["name"].as_str().unwrap_or_default();
        let now = new.iter().find(|other| other["name"] == container["name"]);
        if now != Some(container) {
            let detail = format!("existing ephemeral containers {name:?} may not be removed or changed\n");
            errors.push(FieldError::forbidden(path, detail));
        }
    }
    let others = ["initContainers", "containers"]
        .map(|field| list(old, field))
        .concat();
    for (i, container) in new.iter().enumerate() {
        let at = format!("{path}[{i}]");
        let name = container["name"].as_str().unwrap_or_default();
        for fault in apimachinery::names::dns1123_label(name) {
            errors.push(FieldError::invalid(format!("{at}.name"), name, fault));
        }
        if others.iter().chain(&new[..i]).any(|other| other["name"] == name) {
            errors.push(FieldError::duplicate(format!("{at}.name"), name));
        }
        let mounts = container["volumeMounts"].as_array().into_iter().flatten();
        for (j, mount) in mounts.enumerate() {
            for field in ["subPath", "subPathExpr"] {
                if mount[field].as_str().is_some_and(|path| !path.is_empty()) {
                    let at = format!("{at}.volumeMounts[{j}].{field}");
                    errors.push(FieldError::forbidden(
                        at,
                        "cannot be set for an Ephemeral Container",
                    ));
                }
            }
        }
        errors.extend(paths::mounts(container, &at));
    }
    errors
}

/// A resize changes the resources of containers and nothing else of them.
pub(super) fn resized(object: &Value, old: &Value) -> Vec<FieldError> {
    let without = |pod: &Value| {
        let mut spec = pod["spec"].clone();
        for field in ["containers", "initContainers"] {
            let containers = spec.get_mut(field).and_then(Value::as_array_mut);
            for container in containers.into_iter().flatten() {
                if let Some(container) = container.as_object_mut() {
                    container.remove("resources");
                    container.remove("resizePolicy");
                }
            }
        }
        spec
    };
    if without(object) == without(old) {
        return Vec::new();
    }
    vec![FieldError::forbidden(
        "spec",
        "only cpu and memory resources are mutable",
    )]
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_resize_changes_resources_alone() {
        let old = json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {}}]}});
        let bigger = json!({"spec": {"containers": [{"name": "c", "image": "i", "resources": {"limits": {"cpu": "2"}}}]}});
        assert!(resized(&bigger, &old).is_empty());
        for container in [
            json!({"name": "c", "image": "other"}),
            json!({"name": "c", "image": "i", "securityContext": {"privileged": true}}),
        ] {
            let new = json!({"spec": {"containers": [container]}});
            assert_eq!(resized(&new, &old).len(), 1, "{new}");
        }
        assert_eq!(resized(&json!({"spec": {"containers": []}}), &old).len(), 1);
    }

    #[test]
    fn ephemeral_containers_are_only_added() {
        let pod = |ephemeral: Value| json!({"spec": {"containers": [{"name": "c"}], "ephemeralContainers": ephemeral}});
        let old = pod(json!([{"name": "one", "image": "i"}]));
        let one = json!({"name": "one", "image": "i"});
        let cases = [
            (json!([one, {"name": "two", "image": "i"}]), 0),
            (json!([]), 1),
            (json!([{"name": "one", "image": "other"}]), 1),
            (json!([one, {"name": "c", "image": "i"}]), 1),
            (
                json!([one, {"name": "two", "volumeMounts": [{"name": "v", "subPath": "a"}]}]),
                1,
            ),
            (
                json!([one, {"name": "two", "volumeMounts": [{"name": "v", "subPath": "/etc"}]}]),
                2,
            ),
        ];
        for (ephemeral_containers, expected) in cases {
            let new = pod(ephemeral_containers);
            let errors = ephemeral(&new, &old);
            assert_eq!(errors.len(), expected, "{new}: {errors:?}");
        }
    }
}
