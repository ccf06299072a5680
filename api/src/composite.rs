//! Crossplane's definition of a composite, and of the claim that people write.

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use serde_json::{Value, json};

/// The claim's names: the composite's without the X.
fn claim_names(crd: &CustomResourceDefinition) -> (String, String) {
    let names = &crd.spec.names;
    (
        names.kind.trim_start_matches('X').to_owned(),
        names.plural.trim_start_matches('x').to_owned(),
    )
}

/// The `CompositeResourceDefinition` of a composite's type.
pub(crate) fn definition(crd: &CustomResourceDefinition) -> Value {
    let (kind, plural) = claim_names(crd);
    let versions: Vec<Value> = crd
        .spec
        .versions
        .iter()
        .map(|version| {
            let schema = serde_json::to_value(
                version
                    .schema
                    .as_ref()
                    .and_then(|s| s.open_api_v3_schema.as_ref()),
            )
            .unwrap_or_default();
            json!({
                "name": version.name,
                "served": true,
                "referenceable": true,
                // Crossplane adds Synced, Ready and Age itself.
                "additionalPrinterColumns": version
                    .additional_printer_columns
                    .iter()
                    .flatten()
                    .filter(|c| !c.json_path.contains("conditions") && c.name != "Age")
                    .collect::<Vec<_>>(),
                "schema": { "openAPIV3Schema": schema },
            })
        })
        .collect();
    json!({
        "apiVersion": "apiextensions.crossplane.io/v1",
        "kind": "CompositeResourceDefinition",
        "metadata": { "name": crd.metadata.name },
        "spec": {
            "group": crd.spec.group,
            "names": {
                "kind": crd.spec.names.kind,
                "plural": crd.spec.names.plural,
                "categories": ["c5c3"],
            },
            "claimNames": { "kind": kind, "plural": plural, "categories": ["c5c3"] },
            "versions": versions,
        },
    })
}

/// The claim's definition as Crossplane would install it, without Crossplane's own fields.
pub(crate) fn claim(crd: &CustomResourceDefinition) -> CustomResourceDefinition {
    let (kind, plural) = claim_names(crd);
    let mut claim = crd.clone();
    claim.metadata.name = Some(format!("{plural}.{}", crd.spec.group));
    claim.spec.names.singular = Some(kind.to_lowercase());
    claim.spec.names.kind = kind;
    claim.spec.names.plural = plural;
    claim.spec.scope = "Namespaced".to_owned();
    claim
}
