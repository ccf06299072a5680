//! Kinds that a CustomResourceDefinition brings.

use crate::verb::Verb;
use std::sync::{Arc, atomic::AtomicU64};

use apimachinery::{crd::CustomResource, openapi::ObjectType, schema::Structural};
use serde_json::Value;

use super::{Column, Kind, Schema, Subresource, api_version, version_rank};

/// The structure of one version of a custom resource.
#[derive(Clone, Debug)]
pub struct CustomSchema {
    /// Name of its CRD.
    pub crd: String,
    /// How its objects are prepared and checked.
    pub resource: CustomResource,
    /// Revision of the CRD that this was made from, or was found to agree with.
    pub crd_revision: Arc<AtomicU64>,
    /// Objects up to this revision may lack defaults of the present schema.
    pub defaults_since: u64,
    /// `openAPIV3Schema` as written.
    pub openapi: Value,
    /// JSON paths of the scale subresource.
    pub scale: Option<ScalePaths>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScalePaths {
    pub spec_replicas: String,
    pub status_replicas: String,
    pub label_selector: Option<String>,
}

impl CustomSchema {
    /// Brings an object from the store up to the present schema.
    pub fn complete(&self, object: &mut Value) {
        self.resource.schema.prune(object);
        self.resource.schema.apply_defaults(object);
    }
}

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn texts(value: &Value) -> Vec<String> {
    value.as_array().into_iter().flatten().map(text).collect()
}

/// The served versions of a CRD, best version first. Reads the accepted names from its status.
/// `defaults_since`: see [`CustomSchema`].
pub fn custom_kinds(crd: &Value, defaults_since: u64) -> Vec<Kind> {
    let spec = &crd["spec"];
    let versions: Vec<&Value> = spec["versions"].as_array().into_iter().flatten().collect();
    let storage = versions
        .iter()
        .find(|v| v["storage"] == true)
        .map_or_else(String::new, |v| text(&v["name"]));
    let types: Vec<(String, ObjectType)> = versions
        .iter()
        .filter(|version| version["served"] == true)
        .map(|version| {
            let schema = &version["schema"]["openAPIV3Schema"];
            let ty = ObjectType::custom(schema).unwrap_or_else(|error| {
                tracing::warn!(crd = %crd["metadata"]["name"], %error, "fields are tracked without a schema");
                ObjectType::deduced()
            });
            (api_version(&text(&spec["group"]), &text(&version["name"])), ty)
        })
        .collect();
    let mut kinds: Vec<Kind> = versions
        .iter()
        .filter(|version| version["served"] == true)
        .filter_map(|version| {
            let mut kind = kind(crd, spec, version, &storage, defaults_since)?;
            kind.types = types.clone();
            Some(kind)
        })
        .collect();
    kinds.sort_by_key(|kind| std::cmp::Reverse(version_rank(&kind.version)));
    kinds
}

type ResetFields = Vec<(String, Vec<String>)>;

fn subresources(kind: &str, declared: &Value) -> (Vec<Subresource>, ResetFields) {
    let mut all = Vec::new();
    let subresource = |name: &str, group: &str, version: &str, kind: &str| Subresource {
        name: name.into(),
        group: group.into(),
        version: version.into(),
        kind: kind.into(),
        verbs: vec![Verb::Get, Verb::Patch, Verb::Update],
    };
    let mut reset_fields = Vec::new();
    if declared["status"].is_object() {
        all.push(subresource("status", "", "", kind));
        reset_fields = vec![
            (String::new(), vec!["status".to_owned()]),
            (
                "status".to_owned(),
                vec!["metadata".to_owned(), "spec".to_owned()],
            ),
        ];
    }
    if declared["scale"].is_object() {
        all.push(subresource("scale", "autoscaling", "v1", "Scale"));
    }
    (all, reset_fields)
}

fn kind(crd: &Value, spec: &Value, version: &Value, storage: &str, defaults_since: u64) -> Option<Kind> {
    let names = &crd["status"]["acceptedNames"];
    let openapi = version["schema"]["openAPIV3Schema"].clone();
    let schema = Structural::from_json(&openapi)
        .map_err(
            |errors| tracing::warn!(crd = %crd["metadata"]["name"], ?errors, "the schema cannot be read"),
        )
        .ok()?;
    let name = text(&version["name"]);
    let declared = &version["subresources"];
    let (subresources, reset_fields) = subresources(&text(&names["kind"]), declared);
    let scale = declared["scale"].is_object().then(|| ScalePaths {
        spec_replicas: text(&declared["scale"]["specReplicasPath"]),
        status_replicas: text(&declared["scale"]["statusReplicasPath"]),
        label_selector: declared["scale"]["labelSelectorPath"].as_str().map(str::to_owned),
    });
    let columns = version["additionalPrinterColumns"]
        .as_array()
        .into_iter()
        .flatten()
        .filter_map(|column| serde_json::from_value(column.clone()).ok())
        .collect::<Vec<Column>>();
    let selectable = version["selectableFields"]
        .as_array()
        .into_iter()
        .flatten()
        .map(|field| text(&field["jsonPath"]).trim_start_matches('.').to_owned())
        .collect();
    let deprecated = (version["deprecated"] == true).then(|| {
        version["deprecationWarning"].as_str().map_or_else(
            || {
                format!(
                    "{}/{name} {} is deprecated",
                    text(&spec["group"]),
                    text(&names["kind"])
                )
            },
            str::to_owned,
        )
    });
    let resource = CustomResource {
        kind: text(&names["kind"]),
        api_version: api_version(&text(&spec["group"]), &name),
        namespaced: spec["scope"] == "Namespaced",
        status: declared["status"].is_object(),
        schema,
    };
    Some(Kind {
        group: text(&spec["group"]),
        kind: text(&names["kind"]),
        list_kind: text(&names["listKind"]),
        plural: text(&names["plural"]),
        singular: text(&names["singular"]),
        short_names: texts(&names["shortNames"]),
        categories: texts(&names["categories"]),
        namespaced: spec["scope"] == "Namespaced",
        verbs: vec![
            Verb::Delete,
            Verb::DeleteCollection,
            Verb::Get,
            Verb::List,
            Verb::Patch,
            Verb::Create,
            Verb::Update,
            Verb::Watch,
        ],
        subresources,
        columns,
        schema: Schema::Custom(Arc::new(CustomSchema {
            crd: text(&crd["metadata"]["name"]),
            resource,
            crd_revision: Arc::default(),
            defaults_since,
            openapi,
            scale,
        })),
        types: Vec::new(),
        storage_version: storage.to_owned(),
        reset_fields,
        selectable,
        deprecated,
        version: name,
    })
}
