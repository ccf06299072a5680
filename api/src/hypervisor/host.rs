use super::HypervisorStatus;
use crate::common::LocalRef;
use crate::schema::{self, rules};
use kube::CustomResource;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_with::skip_serializing_none;
use std::collections::BTreeMap;

/// One host of virtual machines.
#[skip_serializing_none]
#[derive(CustomResource, Clone, Debug, PartialEq, Deserialize, Serialize, JsonSchema)]
#[kube(
    group = "hypervisor.c5c3.io",
    version = "v1",
    kind = "Hypervisor",
    plural = "hypervisors",
    status = "HypervisorStatus",
    shortname = "hv",
    category = "c5c3",
    derive = "PartialEq",
    derive = "Default",
    doc = "One host of virtual machines.",
    printcolumn(
        name = "Ready",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].status"
    ),
    printcolumn(
        name = "State",
        type_ = "string",
        json_path = ".status.conditions[?(@.type==\"Ready\")].reason"
    ),
    printcolumn(name = "Lifecycle", type_ = "boolean", json_path = ".spec.lifecycleEnabled"),
    printcolumn(name = "HA", type_ = "boolean", json_path = ".spec.highAvailability"),
    printcolumn(
        name = "Version",
        type_ = "string",
        json_path = ".status.operatingSystem.prettyVersion"
    ),
    printcolumn(name = "IP", type_ = "string", json_path = ".status.internalIp"),
    printcolumn(name = "Instances", type_ = "integer", json_path = ".status.numInstances"),
    printcolumn(
        name = "Maintenance",
        type_ = "string",
        json_path = ".spec.maintenance",
        priority = 1
    ),
    printcolumn(
        name = "Zone",
        type_ = "string",
        json_path = ".metadata.labels.topology\\.kubernetes\\.io/zone",
        priority = 1
    )
)]
#[serde(rename_all = "camelCase", default)]
#[schemars(extend("x-kubernetes-validations" = rules(&[
    (
        "self.maintenance != 'manual' || (has(self.maintenanceReason) && self.maintenanceReason.size() > 0)",
        "maintenanceReason: say why; maintenance manual needs a reason",
    ),
    // The spec alone is compared: metadata and status stay writable while a host goes away.
    (
        &frozen_under_termination(),
        "spec: is frozen while maintenance is termination; only maintenance may change, and only to ha",
    ),
])))]
pub struct HypervisorSpec {
    /// Desired version of the operating system. Not supported: the condition OperatingSystemUpdate says so.
    #[schemars(length(max = 128))]
    pub version: Option<String>,
    /// Reboot after an upgrade was installed. Not supported, as version.
    pub reboot: bool,
    /// Move the instances away before such a reboot.
    pub evacuate_on_reboot: bool,
    /// Let the operator onboard and offboard the host.
    pub lifecycle_enabled: bool,
    /// Onboard without booting a test instance.
    pub skip_tests: bool,
    /// Placement traits in addition to those that the host reports.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(regex(pattern = r"^[A-Z0-9_]+$"), length(max = 255)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub custom_traits: Vec<String>,
    /// Host aggregates, by name.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(
        length(max = 64),
        inner(length(min = 1, max = 255)),
        extend("x-kubernetes-list-type" = "set")
    )]
    pub aggregates: Vec<String>,
    /// UUIDs of the projects that may use the host; all when empty. Not supported: a host with this field is not Ready.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schemars(schema_with = "schema::uuids")]
    pub allowed_projects: Vec<String>,
    /// Restart instances elsewhere when the host fails.
    pub high_availability: bool,
    /// Ask cert-manager for a certificate of libvirt. Not supported: the condition TLSCertificateInstalled says so.
    pub create_cert_manager_certificate: bool,
    /// Let the agent install that certificate.
    pub install_certificate: bool,
    /// Kind of maintenance, during which the host takes no instances; empty when in service.
    pub maintenance: Maintenance,
    /// Reason for the maintenance, given by a person.
    #[schemars(length(max = 1024))]
    pub maintenance_reason: Option<String>,
    /// Allocation ratio of each resource, 1.0 or more: cpu 4.0, memory 1.0.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    #[schemars(schema_with = "overcommit")]
    pub overcommit: BTreeMap<String, f64>,
    /// How a failed host is powered off before its instances start elsewhere; when left out, a person has to do it.
    pub fencing: Option<Fencing>,
}

/// How a silent host is cut off.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct Fencing {
    /// Its power is cut by its management controller.
    pub redfish: RedfishFence,
}

/// A management controller that speaks Redfish.
#[skip_serializing_none]
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "camelCase")]
pub struct RedfishFence {
    /// Its address, without a path: `https://10.0.0.7`.
    #[schemars(length(max = 255), regex(pattern = r"^https?://[^/ ]+$"))]
    pub endpoint: String,
    /// Path of the machine, such as /redfish/v1/Systems/1; without it the only one that the controller has.
    #[serde(default)]
    #[schemars(length(max = 255), regex(pattern = r"^/[^ ]+$"))]
    pub system: Option<String>,
    /// A Secret in the operator's namespace with `username`, `password` and optionally `ca.crt`.
    pub secret_ref: LocalRef,
}

impl Default for HypervisorSpec {
    fn default() -> Self {
        Self {
            version: None,
            reboot: false,
            evacuate_on_reboot: true,
            lifecycle_enabled: true,
            skip_tests: false,
            custom_traits: Vec::new(),
            aggregates: Vec::new(),
            allowed_projects: Vec::new(),
            high_availability: true,
            create_cert_manager_certificate: false,
            install_certificate: true,
            maintenance: Maintenance::None,
            maintenance_reason: None,
            overcommit: BTreeMap::new(),
            fencing: None,
        }
    }
}

/// Why a host takes no instances.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Deserialize, Serialize, JsonSchema)]
#[serde(rename_all = "lowercase")]
pub enum Maintenance {
    #[default]
    #[serde(rename = "")]
    None,
    Manual,
    Auto,
    Ha,
    Termination,
}

fn overcommit(_: &mut schemars::SchemaGenerator) -> schemars::Schema {
    schemars::json_schema!({
        "type": "object",
        "maxProperties": 16,
        "additionalProperties": { "type": "number", "format": "double" },
        "x-kubernetes-validations": rules(&[(
            "self.all(r, self[r] >= 1.0)",
            "overcommit: a ratio is 1.0 or more; 1.0 gives each resource out once",
        )]),
    })
}

/// Fields with a default are always there; the others may come and go.
fn frozen_under_termination() -> String {
    const ALWAYS: [&str; 7] = [
        "reboot",
        "evacuateOnReboot",
        "lifecycleEnabled",
        "skipTests",
        "highAvailability",
        "createCertManagerCertificate",
        "installCertificate",
    ];
    const SOMETIMES: [&str; 7] = [
        "version",
        "maintenanceReason",
        "customTraits",
        "aggregates",
        "allowedProjects",
        "overcommit",
        "fencing",
    ];
    let same = ALWAYS
        .iter()
        .map(|f| format!("self.{f} == oldSelf.{f}"))
        .chain(SOMETIMES.iter().map(|f| {
            format!("has(self.{f}) == has(oldSelf.{f}) && (!has(self.{f}) || self.{f} == oldSelf.{f})")
        }))
        .collect::<Vec<_>>()
        .join(" && ");
    format!("oldSelf.maintenance != 'termination' || (self.maintenance in ['termination', 'ha'] && {same})")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_freeze_covers_every_field() {
        let rule = frozen_under_termination();
        let spec = HypervisorSpec {
            version: Some("1".into()),
            custom_traits: vec!["A".into()],
            aggregates: vec!["a".into()],
            allowed_projects: vec!["p".into()],
            maintenance_reason: Some("r".into()),
            overcommit: BTreeMap::from([("cpu".into(), 2.0)]),
            fencing: Some(Fencing {
                redfish: RedfishFence {
                    endpoint: "https://bmc".into(),
                    system: None,
                    secret_ref: LocalRef::new("bmc"),
                },
            }),
            ..HypervisorSpec::default()
        };
        let fields = serde_json::to_value(spec).unwrap();
        for field in fields.as_object().unwrap().keys() {
            assert!(rule.contains(&format!("oldSelf.{field}")), "{field}");
        }
    }
}
