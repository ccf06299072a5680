//! Nova's request spec, as its objects are written on the wire.

use std::collections::BTreeMap;

use serde::de::Deserializer;
use serde::{Deserialize, Serialize};
use serde_json::Value;

/// Why a host is sought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Intent {
    #[default]
    Create,
    Rebuild,
    Resize,
    LiveMigrate,
    Evacuate,
    /// Of our own: no hint of a caller leads to these.
    ReserveForFailover,
    ReserveForCommittedResource,
    /// Does it fit at all?
    CapacityProbe,
}

impl Intent {
    pub fn word(self) -> &'static str {
        match self {
            Intent::Create => "create",
            Intent::Rebuild => "rebuild",
            Intent::Resize => "resize",
            Intent::LiveMigrate => "live_migrate",
            Intent::Evacuate => "evacuate",
            Intent::ReserveForFailover => "reserve_for_failover",
            Intent::ReserveForCommittedResource => "reserve_for_committed_resource",
            Intent::CapacityProbe => "capacity_probe",
        }
    }

    /// Scheduling hints are the users' to set, so the names of our own intents mean nothing there.
    fn of_hint(hint: Option<&str>) -> Self {
        match hint {
            Some("rebuild") => Intent::Rebuild,
            Some("resize") => Intent::Resize,
            Some("live_migrate") => Intent::LiveMigrate,
            Some("evacuate") => Intent::Evacuate,
            _ => Intent::Create,
        }
    }

    /// Not for a server of a project.
    pub fn is_ours(self) -> bool {
        matches!(
            self,
            Intent::ReserveForFailover | Intent::ReserveForCommittedResource | Intent::CapacityProbe
        )
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Flavor {
    pub name: String,
    pub memory_mb: i64,
    pub vcpus: i64,
    pub extra_specs: BTreeMap<String, String>,
}

/// A server group.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Group {
    pub policy: String,
    pub members: Vec<String>,
    pub hosts: Vec<String>,
    pub max_per_host: u32,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Destination {
    pub host: String,
    /// All of these; each may be several, joined by commas, of which one is enough.
    pub aggregates: Vec<String>,
    pub forbidden_aggregates: Vec<String>,
}

/// The hypervisor that an image was made for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ImageType {
    Kvm,
    Foreign,
    #[default]
    Undetermined,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Spec {
    pub project: String,
    pub instance: String,
    pub zone: Option<String>,
    pub num_instances: i64,
    pub intent: Intent,
    /// Where a server that is migrated is now.
    pub source_host: Option<String>,
    pub domain_name: Option<String>,
    pub resource_group: Option<String>,
    pub ignore_hosts: Vec<String>,
    pub force_hosts: Vec<String>,
    pub image: ImageType,
    pub flavor: Flavor,
    pub group: Option<Group>,
    pub destination: Option<Destination>,
}

/// `{"nova_object.name": …, "nova_object.data": {…}}`.
#[derive(Deserialize)]
struct Wrapped<T> {
    #[serde(rename = "nova_object.data")]
    data: T,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireSpec {
    project_id: Option<String>,
    instance_uuid: Option<String>,
    availability_zone: Option<String>,
    num_instances: Option<i64>,
    scheduler_hints: Option<BTreeMap<String, Value>>,
    ignore_hosts: Option<Vec<String>>,
    force_hosts: Option<Vec<String>>,
    image: Option<Wrapped<WireImage>>,
    flavor: Option<Wrapped<WireFlavor>>,
    instance_group: Option<Wrapped<WireGroup>>,
    requested_destination: Option<Wrapped<WireDestination>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireImage {
    properties: Option<Wrapped<BTreeMap<String, Value>>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireFlavor {
    name: Option<String>,
    memory_mb: i64,
    vcpus: i64,
    extra_specs: Option<BTreeMap<String, String>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireGroup {
    policy: Option<String>,
    members: Option<Vec<String>>,
    hosts: Option<Vec<String>>,
    /// Nova's own name for it, and that of its API.
    #[serde(alias = "_rules")]
    rules: Option<BTreeMap<String, Value>>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct WireDestination {
    host: Option<String>,
    aggregates: Option<Vec<String>>,
    forbidden_aggregates: Option<Vec<String>>,
}

/// A hint is a text, or a list whose first is meant.
fn hint(hints: Option<&BTreeMap<String, Value>>, key: &str) -> Option<String> {
    match hints?.get(key)? {
        Value::String(text) => Some(text.clone()),
        Value::Array(list) => list.first().and_then(Value::as_str).map(str::to_owned),
        _ => None,
    }
}

/// Nova writes numbers of rules as texts, its API as numbers.
fn count(value: Option<&Value>) -> Option<u32> {
    let number = match value? {
        Value::String(text) => text.trim().parse().ok()?,
        number => number.as_u64()?,
    };
    u32::try_from(number).ok().filter(|number| *number > 0)
}

fn image_type(image: Option<&WireImage>) -> ImageType {
    let properties = image.and_then(|image| image.properties.as_ref());
    let told = properties.and_then(|properties| {
        let keys = ["img_hv_type", "hypervisor_type"];
        keys.iter().find_map(|key| properties.data.get(*key))
    });
    match told.and_then(Value::as_str).map(str::to_lowercase).as_deref() {
        Some("kvm" | "qemu") => ImageType::Kvm,
        Some("vmware" | "baremetal") => ImageType::Foreign,
        _ => ImageType::Undetermined,
    }
}

impl From<WireSpec> for Spec {
    fn from(wire: WireSpec) -> Self {
        let hints = wire.scheduler_hints.as_ref();
        let flavor = wire.flavor.map(|flavor| flavor.data).unwrap_or_default();
        let extra_specs = flavor.extra_specs.unwrap_or_default();
        // A group of hardware is the flavour's; the hint is for callers of our own.
        let group =
            hint(hints, "_cortex_resource_group").or_else(|| extra_specs.get("quota:hw_version").cloned());
        Spec {
            intent: Intent::of_hint(hint(hints, "_nova_check_type").as_deref()),
            source_host: hint(hints, "source_host").filter(|host| !host.is_empty()),
            domain_name: hint(hints, "domain_name"),
            resource_group: group.filter(|group| !group.is_empty()),
            project: wire.project_id.unwrap_or_default(),
            instance: wire.instance_uuid.unwrap_or_default(),
            zone: wire.availability_zone.filter(|zone| !zone.is_empty()),
            num_instances: wire.num_instances.unwrap_or(1).max(1),
            ignore_hosts: wire.ignore_hosts.unwrap_or_default(),
            force_hosts: wire.force_hosts.unwrap_or_default(),
            image: image_type(wire.image.as_ref().map(|image| &image.data)),
            flavor: Flavor {
                name: flavor.name.unwrap_or_default(),
                memory_mb: flavor.memory_mb,
                vcpus: flavor.vcpus,
                extra_specs,
            },
            group: wire.instance_group.map(|group| {
                let rules = group.data.rules.unwrap_or_default();
                Group {
                    policy: group.data.policy.unwrap_or_default(),
                    members: group.data.members.unwrap_or_default(),
                    hosts: group.data.hosts.unwrap_or_default(),
                    max_per_host: count(rules.get("max_server_per_host")).unwrap_or(1),
                }
            }),
            destination: wire.requested_destination.map(|wanted| Destination {
                host: wanted.data.host.unwrap_or_default(),
                aggregates: wanted.data.aggregates.unwrap_or_default(),
                forbidden_aggregates: wanted.data.forbidden_aggregates.unwrap_or_default(),
            }),
        }
    }
}

impl<'de> Deserialize<'de> for Spec {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let wire = Wrapped::<WireSpec>::deserialize(deserializer)?;
        Ok(wire.data.into())
    }
}

impl Spec {
    /// Of Cinder and Manila: an id and a project, where they can be found.
    pub(super) fn untyped(value: &Value) -> Self {
        let inner = value.get("nova_object.data").unwrap_or(value);
        let text = |keys: &[&str]| {
            let mut found = keys.iter().filter_map(|key| inner.pointer(key)?.as_str());
            found.next().unwrap_or_default().to_owned()
        };
        Spec {
            instance: text(&["/volume_id", "/share_id", "/id", "/resource_properties/id"]),
            project: text(&[
                "/project_id",
                "/volume_properties/project_id",
                "/share_properties/project_id",
            ]),
            num_instances: 1,
            ..Spec::default()
        }
    }
}
