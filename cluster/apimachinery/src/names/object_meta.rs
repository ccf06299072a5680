//! What `metadata` of an object must look like, at creation and at an update.

use std::collections::BTreeSet;

use jiff::Timestamp;
use serde_json::{Value, json};

use super::{
    dns1035_label, dns1123_label, dns1123_label_prefix, dns1123_subdomain, dns1123_subdomain_prefix,
    label_value, path_segment, path_segment_prefix, qualified_name,
};
use crate::field::FieldError;
use crate::field::text::{is_printable, quote};

const ANNOTATIONS_MAX: i64 = 256 * 1024;
const FIELD_MANAGER_MAX: i64 = 128;
const SUBRESOURCE_MAX: i64 = 256;

/// What names of a kind look like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum NameRule {
    /// Most kinds.
    #[default]
    Subdomain,
    /// Namespaces.
    Label,
    /// Services of old; names that become a variable.
    Label1035,
    /// RBAC objects: whatever a URL path can hold.
    PathSegment,
}

impl NameRule {
    pub fn faults(self, name: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns1123_subdomain(name),
            Self::Label => dns1123_label(name),
            Self::Label1035 => dns1035_label(name),
            Self::PathSegment => path_segment(name),
        }
    }

    /// Faults of the beginning of a name.
    pub fn prefix_faults(self, prefix: &str) -> Vec<String> {
        match self {
            Self::Subdomain => dns1123_subdomain_prefix(prefix),
            Self::Label => dns1123_label_prefix(prefix),
            // Enough letters to make the end of the prefix the middle of a name.
            Self::Label1035 => dns1035_label(&format!("{}a", prefix.trim_end_matches('-'))),
            Self::PathSegment => path_segment_prefix(prefix),
        }
    }
}

/// Checks `metadata` of a new object, after its name was generated.
pub fn validate_create(metadata: &Value, namespaced: bool, names: NameRule) -> Vec<FieldError> {
    let meta = Meta(metadata);
    let mut errors = Vec::new();
    let generate_name = meta.text("generateName");
    if !generate_name.is_empty() {
        for fault in names.prefix_faults(generate_name) {
            errors.push(FieldError::invalid("metadata.generateName", generate_name, fault));
        }
    }
    let name = meta.text("name");
    if name.is_empty() {
        errors.push(FieldError::required(
            "metadata.name",
            "name or generateName is required",
        ));
    } else {
        for fault in names.faults(name) {
            errors.push(FieldError::invalid("metadata.name", name, fault));
        }
    }
    errors.extend(namespace_faults(meta.text("namespace"), namespaced));
    errors.extend(negative_generation(meta.integer("generation")));
    errors.extend(label_faults(&meta));
    errors.extend(annotation_faults(&meta));
    errors.extend(owner_faults(meta.list("ownerReferences")));
    errors.extend(finalizer_faults(&meta.texts("finalizers")));
    errors.extend(validate_managed_fields(meta.list("managedFields")));
    errors
}

/// Checks `metadata` of an object that replaces another.
pub fn validate_update(metadata: &Value, old: &Value) -> Vec<FieldError> {
    let (new, old) = (Meta(metadata), Meta(old));
    let mut errors = Vec::new();
    if old.present("deletionTimestamp") {
        errors.extend(added_finalizers(&new, &old));
    }
    let version = new.text("resourceVersion");
    if version.is_empty() {
        errors.push(FieldError::invalid(
            "metadata.resourceVersion",
            version,
            "must be specified for an update",
        ));
    }
    let generation = new.integer("generation");
    errors.extend(negative_generation(generation));
    if generation < old.integer("generation") {
        errors.push(FieldError::invalid(
            "metadata.generation",
            generation,
            "must not be decremented",
        ));
    }
    for field in ["name", "namespace", "uid"] {
        let (new, old) = (new.text(field), old.text(field));
        errors.extend(changed(field, &json!(new), &json!(old)));
    }
    for field in ["creationTimestamp", "deletionTimestamp"] {
        errors.extend(changed(field, &new.time(field), &old.time(field)));
    }
    let grace = "deletionGracePeriodSeconds";
    errors.extend(changed(grace, new.value(grace), old.value(grace)));
    errors.extend(label_faults(&new));
    errors.extend(annotation_faults(&new));
    errors.extend(owner_faults(new.list("ownerReferences")));
    errors.extend(validate_managed_fields(new.list("managedFields")));
    errors
}

/// Reads `metadata` with the zero values that a missing field has.
struct Meta<'a>(&'a Value);

impl<'a> Meta<'a> {
    fn value(&self, field: &str) -> &'a Value {
        self.0.get(field).unwrap_or(&Value::Null)
    }

    fn present(&self, field: &str) -> bool {
        !self.value(field).is_null()
    }

    fn text(&self, field: &str) -> &'a str {
        self.value(field).as_str().unwrap_or("")
    }

    fn integer(&self, field: &str) -> i64 {
        self.value(field).as_i64().unwrap_or(0)
    }

    fn list(&self, field: &str) -> &'a [Value] {
        self.value(field).as_array().map_or(&[], Vec::as_slice)
    }

    fn texts(&self, field: &str) -> Vec<&'a str> {
        self.list(field).iter().filter_map(Value::as_str).collect()
    }

    fn pairs(&self, field: &str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.value(field)
            .as_object()
            .into_iter()
            .flatten()
            .map(|(key, value)| (key.as_str(), value.as_str().unwrap_or("")))
    }

    /// A time in whole seconds of UTC, so that two ways to write one instant are equal.
    fn time(&self, field: &str) -> Value {
        let text = self.text(field);
        match text.parse::<Timestamp>() {
            Ok(time) => json!(time.strftime("%Y-%m-%dT%H:%M:%SZ").to_string()),
            Err(_) => self.value(field).clone(),
        }
    }
}

fn namespace_faults(namespace: &str, namespaced: bool) -> Vec<FieldError> {
    let field = "metadata.namespace";
    match (namespaced, namespace) {
        (true, "") => vec![FieldError::required(field, "")],
        (true, name) => dns1123_label(name)
            .into_iter()
            .map(|fault| FieldError::invalid(field, name, fault))
            .collect(),
        (false, "") => Vec::new(),
        (false, _) => vec![FieldError::forbidden(field, "not allowed on this type")],
    }
}

fn negative_generation(generation: i64) -> Option<FieldError> {
    (generation < 0).then(|| {
        FieldError::invalid(
            "metadata.generation",
            generation,
            "must be greater than or equal to 0",
        )
    })
}

fn changed(field: &str, new: &Value, old: &Value) -> Option<FieldError> {
    (new != old).then(|| FieldError::invalid(format!("metadata.{field}"), new.clone(), "field is immutable"))
}

fn label_faults(meta: &Meta<'_>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (key, value) in meta.pairs("labels") {
        let mut add = |value: &str, faults: Vec<String>| {
            let error = |fault| FieldError::invalid("metadata.labels", value, fault);
            errors.extend(faults.into_iter().map(error));
        };
        add(key, qualified_name(key));
        add(value, label_value(value));
    }
    errors
}

fn annotation_faults(meta: &Meta<'_>) -> Vec<FieldError> {
    let field = "metadata.annotations";
    let mut errors = Vec::new();
    let mut size = 0;
    for (key, value) in meta.pairs("annotations") {
        size += (key.len() + value.len()) as i64;
        for fault in qualified_name(&key.to_lowercase()) {
            errors.push(FieldError::invalid(field, key, fault));
        }
    }
    if size > ANNOTATIONS_MAX {
        errors.push(FieldError::too_long(field, ANNOTATIONS_MAX));
    }
    errors
}

fn owner_faults(references: &[Value]) -> Vec<FieldError> {
    let field = "metadata.ownerReferences";
    let mut errors = Vec::new();
    let mut controller: Option<String> = None;
    for (i, reference) in references.iter().enumerate() {
        errors.extend(owner_reference_faults(reference, &format!("{field}[{i}]")));
        let owner = Meta(reference);
        if owner.value("controller").as_bool() == Some(true) {
            let name = format!("{}/{}", owner.text("kind"), owner.text("name"));
            match &controller {
                None => controller = Some(name),
                Some(first) => {
                    let shown: Vec<_> = references.iter().map(show_owner).collect();
                    let error = FieldError::invalid(
                        field,
                        references,
                        format!(
                            "Only one reference can have Controller set to true. Found \"true\" in references for {first} and {name}"
                        ),
                    );
                    errors.push(error.showing(format!("[{}]", shown.join(","))));
                }
            }
        }
    }
    errors
}

fn owner_reference_faults(reference: &Value, path: &str) -> Vec<FieldError> {
    let owner = Meta(reference);
    let mut errors = Vec::new();
    let api_version = owner.text("apiVersion");
    let version = match api_version.split('/').collect::<Vec<_>>()[..] {
        [version] | [_, version] => version,
        _ => "",
    };
    if api_version.is_empty() {
        errors.push(missing(path, "apiVersion"));
    } else if version.is_empty() {
        errors.push(FieldError::invalid(
            format!("{path}.apiVersion"),
            api_version,
            "must be <group>/<version> or <version>",
        ));
    }
    for field in ["kind", "name", "uid"] {
        if owner.text(field).is_empty() {
            errors.push(missing(path, field));
        }
    }
    if api_version == "v1" && owner.text("kind") == "Event" {
        let error = FieldError::invalid(
            path,
            reference.clone(),
            "/v1, Kind=Event is disallowed from being an owner",
        );
        errors.push(error.showing(show_owner(reference)));
    }
    errors
}

fn missing(path: &str, field: &str) -> FieldError {
    FieldError::required(format!("{path}.{field}"), "must not be empty")
}

/// An owner reference with its fields in the order of the Kubernetes type.
fn show_owner(reference: &Value) -> String {
    let owner = Meta(reference);
    let mut fields: Vec<String> = ["apiVersion", "kind", "name", "uid"]
        .into_iter()
        .map(|field| format!("\"{field}\":{}", json!(owner.text(field))))
        .collect();
    for field in ["controller", "blockOwnerDeletion"] {
        if let Some(set) = owner.value(field).as_bool() {
            fields.push(format!("\"{field}\":{set}"));
        }
    }
    format!("{{{}}}", fields.join(","))
}

fn finalizer_faults(finalizers: &[&str]) -> Vec<FieldError> {
    let field = "metadata.finalizers";
    let mut errors = Vec::new();
    for finalizer in finalizers {
        for fault in qualified_name(finalizer) {
            errors.push(FieldError::invalid(field, *finalizer, fault));
        }
    }
    if finalizers.contains(&"orphan") && finalizers.contains(&"foregroundDeletion") {
        errors.push(FieldError::invalid(
            field,
            json!(finalizers),
            "finalizer orphan and foregroundDeletion cannot be both set",
        ));
    }
    errors
}

fn added_finalizers(new: &Meta<'_>, old: &Meta<'_>) -> Option<FieldError> {
    let new: BTreeSet<_> = new.texts("finalizers").into_iter().collect();
    let old: BTreeSet<_> = old.texts("finalizers").into_iter().collect();
    let added: Vec<_> = new.difference(&old).map(|f| quote(f)).collect();
    (!added.is_empty()).then(|| {
        FieldError::forbidden(
            "metadata.finalizers",
            format!(
                "no new finalizers can be added if the object is being deleted, found new finalizers []string{{{}}}",
                added.join(", ")
            ),
        )
    })
}

/// Checks the entries of `metadata.managedFields`.
pub fn validate_managed_fields(entries: &[Value]) -> Vec<FieldError> {
    let mut errors = Vec::new();
    for (i, entry) in entries.iter().enumerate() {
        let path = format!("metadata.managedFields[{i}]");
        let entry = Meta(entry);
        match entry.text("operation") {
            "" => errors.push(missing(&path, "operation")),
            "Apply" | "Update" => {}
            other => errors.push(FieldError::not_supported(
                format!("{path}.operation"),
                other,
                ["Apply", "Update"],
            )),
        }
        let fields_type = entry.text("fieldsType");
        if !fields_type.is_empty() && fields_type != "FieldsV1" {
            errors.push(FieldError::invalid(
                format!("{path}.fieldsType"),
                fields_type,
                "must be `FieldsV1`",
            ));
        }
        errors.extend(validate_field_manager(
            entry.text("manager"),
            &format!("{path}.manager"),
        ));
        if entry.text("subresource").len() as i64 > SUBRESOURCE_MAX {
            errors.push(FieldError::too_long(
                format!("{path}.subresource"),
                SUBRESOURCE_MAX,
            ));
        }
    }
    errors
}

/// Checks the name of a field manager, as in the `fieldManager` parameter.
pub fn validate_field_manager(manager: &str, path: &str) -> Vec<FieldError> {
    let mut errors = Vec::new();
    if manager.len() as i64 > FIELD_MANAGER_MAX {
        errors.push(FieldError::too_long(path, FIELD_MANAGER_MAX));
    }
    for (i, c) in manager.char_indices().filter(|(_, c)| !is_printable(*c)) {
        let detail = format!("invalid character U+{:04X} (at position {i})", c as u32);
        errors.push(FieldError::invalid(path, manager, detail));
    }
    errors
}
