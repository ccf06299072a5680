//! Paths inside volumes: they stay inside.

use apimachinery::field::FieldError;
use serde_json::Value;

fn each(list: &Value) -> impl Iterator<Item = (usize, &Value)> {
    list.as_array().into_iter().flatten().enumerate()
}

/// A path below the volume.
fn descending(path: &str, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if path.starts_with('/') {
        errors.push(FieldError::invalid(at, path, "must be a relative path"));
    }
    errors.extend(no_backsteps(path, at));
    errors
}

fn no_backsteps(path: &str, at: &str) -> Option<FieldError> {
    let back = path.split('/').any(|part| part == "..");
    back.then(|| FieldError::invalid(at, path, "must not contain '..'"))
}

/// The same for a file that the node writes; it keeps names of its own that start with two dots.
fn file(path: &str, at: &str) -> Vec<FieldError> {
    if path.is_empty() {
        return vec![FieldError::required(at, "")];
    }
    let mut errors = descending(path, at);
    if path.starts_with("..") && path.split('/').all(|part| part != "..") {
        errors.push(FieldError::invalid(at, path, "must not start with '..'"));
    }
    errors
}

/// The files that a volume projects, and the directories that it takes from the node.
pub(super) fn volumes(spec: &Value, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, volume) in each(&spec["volumes"]) {
        let at = format!("{path}.volumes[{i}]");
        for source in ["configMap", "secret", "downwardAPI"] {
            errors.extend(items(&volume[source]["items"], &format!("{at}.{source}")));
        }
        for (j, source) in each(&volume["projected"]["sources"]) {
            let at = format!("{at}.projected.sources[{j}]");
            for kind in ["configMap", "secret", "downwardAPI"] {
                errors.extend(items(&source[kind]["items"], &format!("{at}.{kind}")));
            }
            for (kind, fields) in [
                ("serviceAccountToken", &["path"][..]),
                ("clusterTrustBundle", &["path"]),
                (
                    "podCertificate",
                    &["credentialBundlePath", "keyPath", "certificateChainPath"],
                ),
            ] {
                for field in fields {
                    if let Some(path) = source[kind][*field].as_str() {
                        errors.extend(file(path, &format!("{at}.{kind}.{field}")));
                    }
                }
            }
        }
        if let Some(path) = volume["hostPath"]["path"].as_str() {
            errors.extend(no_backsteps(path, &format!("{at}.hostPath.path")));
        }
        if let Some(path) = volume["gitRepo"]["directory"].as_str() {
            errors.extend(descending(path, &format!("{at}.gitRepo.directory")));
        }
    }
    errors
}

fn items(list: &Value, at: &str) -> Vec<FieldError> {
    each(list)
        .flat_map(|(i, item)| {
            let path = item["path"].as_str().unwrap_or_default();
            file(path, &format!("{at}.items[{i}].path"))
        })
        .collect()
}

/// Where in their volumes the mounts of a container begin.
pub(super) fn mounts(container: &Value, at: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, mount) in each(&container["volumeMounts"]) {
        let text = |field: &str| mount[field].as_str().unwrap_or_default();
        let at = |field: &str| format!("{at}.volumeMounts[{i}].{field}");
        errors.extend(descending(text("subPath"), &at("subPath")));
        let expression = text("subPathExpr");
        if !expression.is_empty() {
            if !text("subPath").is_empty() {
                let detail = "subPathExpr and subPath are mutually exclusive";
                errors.push(FieldError::invalid(at("subPathExpr"), expression, detail));
            }
            errors.extend(descending(expression, &at("subPathExpr")));
        }
    }
    errors
}

/// Where a volume of the node's own disk lies.
pub(super) fn persistent_volume(object: &Value) -> Vec<FieldError> {
    let paths = ["hostPath", "local"].into_iter().filter_map(|source| {
        let path = object["spec"][source]["path"].as_str()?;
        no_backsteps(path, &format!("spec.{source}.path"))
    });
    paths.collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn projected_files_stay_in_their_volume() {
        let cases = [
            ("/etc/passwd", "must be a relative path"),
            ("../x", "must not contain '..'"),
            ("a/../../x", "must not contain '..'"),
            ("..data", "must not start with '..'"),
            ("", "Required value"),
        ];
        for (path, expected) in cases {
            let items = json!([{"key": "k", "path": path}]);
            for volume in [
                json!({"configMap": {"items": items}}),
                json!({"secret": {"items": items}}),
                json!({"downwardAPI": {"items": items}}),
                json!({"projected": {"sources": [{"secret": {"items": items}}]}}),
                json!({"projected": {"sources": [{"serviceAccountToken": {"path": path}}]}}),
            ] {
                let errors = volumes(&json!({"volumes": [volume]}), "spec");
                assert_eq!(errors.len(), 1, "{path:?} {volume}: {errors:?}");
                assert!(errors[0].to_string().contains(expected), "{errors:?}");
            }
        }
        let fine = json!({"volumes": [{"configMap": {"items": [{"key": "k", "path": "a/..b/c"}]}}]});
        assert!(volumes(&fine, "spec").is_empty());
    }

    #[test]
    fn mounts_begin_in_their_volume() {
        let cases = [
            (json!({"subPath": "/etc"}), 1),
            (json!({"subPath": "a/../../b"}), 1),
            (json!({"subPathExpr": "$(POD)/.."}), 1),
            (json!({"subPathExpr": "/$(POD)"}), 1),
            (json!({"subPath": "a", "subPathExpr": "b"}), 1),
            (json!({"subPath": "a/b..c"}), 0),
            (json!({"subPathExpr": "$(POD)"}), 0),
        ];
        for (mount, expected) in cases {
            let errors = mounts(&json!({"volumeMounts": [mount]}), "spec.containers[0]");
            assert_eq!(errors.len(), expected, "{mount}: {errors:?}");
        }
    }

    #[test]
    fn directories_of_the_node_have_no_way_back() {
        let pod = json!({"volumes": [{"hostPath": {"path": "/data/../etc"}}]});
        assert_eq!(volumes(&pod, "spec").len(), 1);
        assert_eq!(
            persistent_volume(&json!({"spec": {"local": {"path": "/a/../b"}}})).len(),
            1
        );
        assert!(persistent_volume(&json!({"spec": {"hostPath": {"path": "/a/b"}}})).is_empty());
    }
}
