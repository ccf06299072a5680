//! The services of a cloud: each is one entry of a table.

use c5c3_api::c5c3::{ControlPlaneSpec, ServiceToggle};
use c5c3_api::openstack::port;
use serde_json::{Map, Value, json};

use super::{projection, secrets};

/// A service as the plan knows it.
pub struct Service {
    pub name: &'static str,
    pub title: &'static str,
    /// Its kind, and the group of it.
    pub kind: &'static str,
    pub group: &'static str,
    /// Type in the catalogue of Keystone, and what it is.
    pub catalogue: (&'static str, &'static str),
    pub port: u16,
    pub path: &'static str,
    /// It sends messages.
    pub messaging: bool,
    /// Services are updated one tier after the other.
    pub tier: u8,
    /// The field that turns it off.
    pub switch: &'static str,
    pub enabled: fn(&ControlPlaneSpec) -> bool,
    pub toggle: fn(&ControlPlaneSpec) -> Option<&ServiceToggle>,
    /// The fields that only it has; `None` for a service that is not supported yet.
    pub own: Option<fn(&ControlPlaneSpec) -> Value>,
}

impl Service {
    /// It is wanted and we can run it.
    pub fn runs(&self, spec: &ControlPlaneSpec) -> bool {
        (self.enabled)(spec) && self.own.is_some()
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

pub const KEYSTONE: &str = "keystone";

macro_rules! plain {
    ($field:ident) => {
        (
            |spec| spec.services.$field.common.enabled,
            |spec| Some(&spec.services.$field.common),
        )
    };
}

/// In the order of dependence. A new service is one more entry.
pub static SERVICES: &[Service] = &[
    entry(
        "keystone",
        "Keystone",
        ("identity", "Identity"),
        port::KEYSTONE,
        "/v3",
        0,
        plain!(keystone),
        Some(keystone_fields),
    ),
    entry(
        "glance",
        "Glance",
        ("image", "Images"),
        port::GLANCE,
        "",
        1,
        plain!(glance),
        Some(glance_fields),
    ),
    entry(
        "placement",
        "Placement",
        ("placement", "Resource tracking"),
        port::PLACEMENT,
        "",
        1,
        plain!(placement),
        Some(placement_fields),
    ),
    entry(
        "nova",
        "Nova",
        ("compute", "Compute"),
        port::NOVA,
        "/v2.1",
        2,
        plain!(nova),
        None,
    )
    .with_messages(),
    entry(
        "neutron",
        "Neutron",
        ("network", "Networks"),
        port::NEUTRON,
        "",
        3,
        plain!(neutron),
        None,
    )
    .with_messages(),
    entry(
        "cinder",
        "Cinder",
        ("block-storage", "Volumes"),
        port::CINDER,
        "/v3",
        4,
        plain!(cinder),
        None,
    )
    .with_messages(),
    Service {
        switch: "cortex.enabled",
        group: "cortex.c5c3.io",
        ..entry(
            "cortex",
            "Cortex",
            ("cortex", "Placement of instances"),
            port::CORTEX,
            "",
            5,
            (|spec| spec.cortex.enabled, |_| None),
            None,
        )
    },
    Service {
        switch: "tempest.enabled",
        ..entry(
            "tempest",
            "Tempest",
            ("tempest", "Integration tests"),
            0,
            "",
            6,
            (|spec| spec.tempest.enabled, |_| None),
            None,
        )
    },
];

type Switch = (
    fn(&ControlPlaneSpec) -> bool,
    fn(&ControlPlaneSpec) -> Option<&ServiceToggle>,
);

#[allow(clippy::too_many_arguments)] // one line for each service reads like the table that it is
const fn entry(
    name: &'static str,
    title: &'static str,
    catalogue: (&'static str, &'static str),
    port: u16,
    path: &'static str,
    tier: u8,
    switch: Switch,
    own: Option<fn(&ControlPlaneSpec) -> Value>,
) -> Service {
    Service {
        name,
        title,
        kind: title,
        group: "",
        catalogue,
        port,
        path,
        messaging: false,
        tier,
        switch: "",
        enabled: switch.0,
        toggle: switch.1,
        own,
    }
}

impl Service {
    const fn with_messages(self) -> Self {
        Service {
            messaging: true,
            ..self
        }
    }

    pub(super) fn switch(&self) -> String {
        match self.switch {
            "" => format!("services.{}.enabled", self.name),
            other => other.to_owned(),
        }
    }

    pub(super) fn api_version(&self) -> String {
        match self.group {
            "" => format!("{}.openstack.c5c3.io/v1alpha1", self.name),
            other => format!("{other}/v1alpha1"),
        }
    }
}

pub(super) fn keystone() -> &'static Service {
    // The first entry of the table above.
    &SERVICES[0]
}

fn keystone_fields(spec: &ControlPlaneSpec) -> Value {
    let service = &spec.services.keystone;
    let mut fields = json!({
        "replicas": service.replicas.unwrap_or(3),
        "bootstrap": {
            "adminUser": "admin",
            "adminPasswordSecretRef": {"name": secrets::ADMIN, "key": "password"},
            "region": spec.region,
        },
    });
    if let Some(fernet) = &service.fernet {
        let mut keys = Map::new();
        if let Some(most) = fernet.max_active_keys {
            keys.insert("maxActiveKeys".to_owned(), json!(most));
        }
        // Admission lets no other interval through.
        if let Some(cron) = fernet.rotation_interval.as_deref().and_then(projection::cron) {
            keys.insert("rotationSchedule".to_owned(), json!(cron));
        }
        if !keys.is_empty() {
            fields["fernet"] = Value::Object(keys);
        }
    }
    fields
}

fn glance_fields(spec: &ControlPlaneSpec) -> Value {
    json!({"replicas": spec.services.glance.replicas.unwrap_or(3), "storage": {"backend": "file"}})
}

fn placement_fields(spec: &ControlPlaneSpec) -> Value {
    json!({"replicas": spec.services.placement.replicas.unwrap_or(3)})
}
