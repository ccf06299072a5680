//! CustomResourceDefinitions: names are accepted or refused as they are written.

use serde_json::{Value, json};

use super::Context;
use crate::resource::now;

/// Keeps a deleted CRD until its objects are gone.
pub const FINALIZER: &str = "customresourcecleanup.apiextensions.k8s.io";
pub const ESTABLISHED: &str = "Established";
const NAMES_ACCEPTED: &str = "NamesAccepted";

/// The status of one condition: `True`, `False` or nothing.
pub fn condition<'a>(crd: &'a Value, kind: &str) -> Option<&'a str> {
    let conditions = crd["status"]["conditions"].as_array()?;
    conditions.iter().find(|condition| condition["type"] == kind)?["status"].as_str()
}

pub fn set_condition(crd: &mut Value, kind: &str, status: &str, reason: &str, message: &str) {
    let mut condition = json!({"type": kind, "status": status, "reason": reason, "message": message,
        "lastTransitionTime": now()});
    let conditions = &mut crd["status"]["conditions"];
    if !conditions.is_array() {
        *conditions = json!([]);
    }
    let Some(list) = conditions.as_array_mut() else {
        return;
    };
    match list.iter_mut().find(|condition| condition["type"] == kind) {
        Some(old) => {
            if old["status"] == status {
                condition["lastTransitionTime"] = old["lastTransitionTime"].clone();
            }
            *old = condition;
        }
        None => list.push(condition),
    }
}

pub(super) fn prepare(context: &Context<'_>, object: &mut Value, old: Option<&Value>) {
    if context.subresource == "status" {
        return;
    }
    if old.is_none() {
        object["status"] = json!({"conditions": [], "acceptedNames": {}, "storedVersions": []});
        let finalizers = &mut object["metadata"]["finalizers"];
        match finalizers {
            Value::Array(list) if list.iter().any(|name| name == FINALIZER) => {}
            Value::Array(list) => list.push(FINALIZER.into()),
            other => *other = json!([FINALIZER]),
        }
    }
    let storage = object["spec"]["versions"]
        .as_array()
        .into_iter()
        .flatten()
        .find(|version| version["storage"] == true)
        .map(|version| version["name"].clone());
    if let (Some(storage), Some(stored)) = (storage, object["status"]["storedVersions"].as_array_mut())
        && !stored.contains(&storage)
    {
        stored.push(storage);
    }
    let others: Vec<Value> = context
        .cluster
        .list("apiextensions.k8s.io", "customresourcedefinitions", None)
        .objects
        .iter()
        .map(|stored| stored.value())
        .filter(|other| other["metadata"]["name"] != object["metadata"]["name"])
        .collect();
    judge_names(object, &others);
}

/// Accepts the names that no other CRD of the group has, and says so in the status.
pub fn judge_names(crd: &mut Value, others: &[Value]) {
    let group = crd["spec"]["group"].clone();
    let wanted = crd["spec"]["names"].clone();
    let mut accepted = crd["status"]["acceptedNames"].clone();
    if !accepted.is_object() {
        accepted = json!({});
    }
    let mut used_names: Vec<&str> = Vec::new();
    let mut used_kinds: Vec<&str> = Vec::new();
    for other in others.iter().filter(|other| other["spec"]["group"] == group) {
        let names = &other["status"]["acceptedNames"];
        used_names.extend(
            ["plural", "singular"]
                .iter()
                .filter_map(|field| names[*field].as_str()),
        );
        used_names.extend(
            names["shortNames"]
                .as_array()
                .into_iter()
                .flatten()
                .filter_map(Value::as_str),
        );
        used_kinds.extend(
            ["kind", "listKind"]
                .iter()
                .filter_map(|field| names[*field].as_str()),
        );
    }
    let mut conflict: Option<(&str, String)> = None;
    let fields = [
        ("plural", "PluralConflict", &used_names),
        ("singular", "SingularConflict", &used_names),
        ("shortNames", "ShortNamesConflict", &used_names),
        ("kind", "KindConflict", &used_kinds),
        ("listKind", "ListKindConflict", &used_kinds),
    ];
    for (field, reason, used) in fields {
        let names: Vec<&str> = match &wanted[field] {
            Value::Array(list) => list.iter().filter_map(Value::as_str).collect(),
            Value::String(text) => vec![text],
            _ => Vec::new(),
        };
        let taken: Vec<String> = names
            .iter()
            .filter(|name| used.contains(name))
            .map(|name| format!("{name:?} is already in use"))
            .collect();
        if taken.is_empty() {
            match wanted.get(field) {
                Some(value) => accepted[field] = value.clone(),
                None => {
                    if let Some(map) = accepted.as_object_mut() {
                        map.remove(field);
                    }
                }
            }
        } else {
            // The last one is told, as in Kubernetes.
            conflict = Some((reason, taken.join(", ")));
        }
    }
    match wanted.get("categories") {
        Some(value) => accepted["categories"] = value.clone(),
        None => {
            if let Some(map) = accepted.as_object_mut() {
                map.remove("categories");
            }
        }
    }
    // The schema of a CRD's status requires these two.
    for field in ["plural", "kind"] {
        if accepted[field].is_null() {
            accepted[field] = "".into();
        }
    }
    crd["status"]["acceptedNames"] = accepted;
    match conflict {
        None => {
            set_condition(crd, NAMES_ACCEPTED, "True", "NoConflicts", "no conflicts found");
            if condition(crd, ESTABLISHED) != Some("True") {
                let message = "the initial names have been accepted";
                set_condition(crd, ESTABLISHED, "True", "InitialNamesAccepted", message);
            }
        }
        Some((reason, message)) => {
            set_condition(crd, NAMES_ACCEPTED, "False", reason, &message);
            if condition(crd, ESTABLISHED) != Some("True") {
                set_condition(
                    crd,
                    ESTABLISHED,
                    "False",
                    "NotAccepted",
                    "not all names are accepted",
                );
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn crd(plural: &str, kind: &str, short: &[&str]) -> Value {
        json!({"spec": {"group": "g", "names": {"plural": plural, "kind": kind, "listKind": format!("{kind}List"),
            "singular": kind.to_lowercase(), "shortNames": short}}, "status": {}})
    }

    #[test]
    fn the_first_to_come_gets_the_name() {
        let mut first = crd("as", "A", &["x"]);
        judge_names(&mut first, &[]);
        assert_eq!(condition(&first, ESTABLISHED), Some("True"));
        let mut second = crd("bs", "B", &["x"]);
        judge_names(&mut second, std::slice::from_ref(&first));
        assert_eq!(condition(&second, NAMES_ACCEPTED), Some("False"));
        assert_eq!(condition(&second, ESTABLISHED), Some("False"));
        assert!(second["status"]["acceptedNames"]["shortNames"].is_null());
        judge_names(&mut second, &[]);
        assert_eq!(condition(&second, ESTABLISHED), Some("True"));
        // An established CRD stays so, whatever its later wishes.
        second["spec"]["names"]["shortNames"] = json!(["as"]);
        judge_names(&mut second, &[first]);
        assert_eq!(condition(&second, ESTABLISHED), Some("True"));
        assert_eq!(second["status"]["acceptedNames"]["shortNames"], json!(["x"]));
    }
}
