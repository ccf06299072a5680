//! The services of a cloud: each is one entry of a table.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlaneSpec, ServiceReadiness, ServiceToggle};
use c5c3_api::conditions::control_plane::{CREDENTIALS_READY, KEYSTONE_READY, SERVICES_READY};
use c5c3_api::conditions::reason;
use c5c3_api::openstack::port;
use serde_json::{Map, Value, json};

use super::rollout::Rollout;
use super::{Draft, Object, Start, State, Step, infrastructure, projection, reference, secrets};

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
    own: Option<fn(&ControlPlaneSpec) -> Value>,
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

    fn switch(&self) -> String {
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

/// Where a service answers inside the cluster.
pub(super) fn internal_url(draft: &Draft<'_>, service: &Service) -> String {
    format!(
        "http://{}.{}.svc:{}{}",
        service.name, draft.namespace, service.port, service.path
    )
}

pub(super) fn public_url(draft: &Draft<'_>, service: &Service) -> String {
    (service.toggle)(draft.spec)
        .and_then(|toggle| toggle.public_endpoint.clone())
        .unwrap_or_else(|| internal_url(draft, service))
}

pub(super) fn plan_keystone(draft: &mut Draft<'_>, rollout: &Rollout) {
    let service = keystone();
    if service.runs(draft.spec) {
        add(
            draft,
            rollout,
            service,
            KEYSTONE_READY,
            &["release", "database", "cache"],
            None,
        );
        return;
    }
    let state = match secrets::existing_keystone(draft) {
        Ok(url) => State::NotRequired(format!("the Keystone on {url} is used")),
        Err(problem) => problem,
    };
    draft.push(Step {
        name: service.name.to_owned(),
        title: service.title.to_owned(),
        part: KEYSTONE_READY,
        needs: Vec::new(),
        state,
        objects: Vec::new(),
    });
}

pub(super) fn plan_others(draft: &mut Draft<'_>, rollout: &Rollout) {
    let auth_url = if keystone().runs(draft.spec) {
        Some(internal_url(draft, keystone()))
    } else {
        secrets::existing_keystone(draft).ok()
    };
    for service in SERVICES.iter().skip(1) {
        if service.runs(draft.spec) {
            if !draft.spec.korc.enabled {
                draft.add_not_required(
                    &credential_step(service),
                    &format!("credential of {}", service.title),
                    CREDENTIALS_READY,
                    format!("Secret {} is given", secrets::app_credential(service.name)),
                );
            }
            let credential = credential_step(service);
            let needs = ["release", "database", "cache", &credential];
            add(
                draft,
                rollout,
                service,
                SERVICES_READY,
                &needs,
                Some(auth_url.as_deref()),
            );
        } else if (service.enabled)(draft.spec) {
            let text = format!(
                "{} is not supported yet: set {}: false",
                service.title,
                service.switch()
            );
            draft.push(Step {
                name: service.name.to_owned(),
                title: service.title.to_owned(),
                part: SERVICES_READY,
                needs: Vec::new(),
                state: State::failed(reason::NOT_SUPPORTED, text),
                objects: Vec::new(),
            });
        } else {
            let text = format!("{} is off", service.title);
            draft.add_not_required(service.name, service.title, SERVICES_READY, text);
        }
    }
}

pub(super) fn credential_step(service: &Service) -> String {
    format!("{}-credential", service.name)
}

/// `auth_url`: `None` for Keystone itself, `Some(None)` while the address of Keystone is not known.
fn add(
    draft: &mut Draft<'_>,
    rollout: &Rollout,
    service: &'static Service,
    part: &'static str,
    needs: &[&str],
    auth_url: Option<Option<&str>>,
) {
    let bare = object(draft, service, Map::new());
    let existing = draft.child(&bare).cloned();
    let image = rollout.image(draft, service, existing.as_ref());
    if let (Some(image), false) = (image, auth_url == Some(None)) {
        let fields = fields(draft, service, image, auth_url.flatten());
        let whole = object(draft, service, fields);
        draft.add(
            service.name,
            service.title,
            part,
            needs,
            Start::AtOnce,
            vec![whole],
        );
        return;
    }
    // What it would look like is not known: what runs stays as it is.
    draft.add(
        service.name,
        service.title,
        part,
        needs,
        Start::AtOnce,
        vec![bare.clone()],
    );
    if let Some(step) = draft.steps.last_mut() {
        step.objects = existing
            .map(|_| Object::Keep(reference(&bare)))
            .into_iter()
            .collect();
    }
}

fn object(draft: &Draft<'_>, service: &Service, fields: Map<String, Value>) -> Value {
    json!({
        "apiVersion": service.api_version(),
        "kind": service.kind,
        "metadata": {"namespace": draft.namespace, "name": service.name},
        "spec": fields,
    })
}

fn fields(draft: &Draft<'_>, service: &Service, image: Value, auth_url: Option<&str>) -> Map<String, Value> {
    let spec = draft.spec;
    let mut fields = match service.own.map(|own| own(spec)) {
        Some(Value::Object(fields)) => fields,
        _ => Map::new(),
    };
    let mut put = |name: &str, value: Value| {
        fields.insert(name.to_owned(), value);
    };
    put("image", image);
    put("database", database(spec, service.name));
    put("cache", cache(spec));
    if service.messaging {
        put("messaging", messaging(spec, service.name));
    }
    if let Some(url) = auth_url {
        let secret = secrets::app_credential(service.name);
        put(
            "keystone",
            json!({"authUrl": url, "appCredentialRef": {"secretName": secret}}),
        );
    }
    let toggle = (service.toggle)(spec);
    let own = toggle.and_then(|toggle| toggle.policy_overrides.as_ref());
    if let Some(policy) = projection::policy(spec.global.policy_overrides.as_ref(), own) {
        put("policyOverrides", json!(policy));
    }
    if let Some(toggle) = toggle {
        if !toggle.extra_config.is_empty() {
            put("extraConfig", json!(toggle.extra_config));
        }
        if let Some(resources) = &toggle.resources {
            put("resources", json!(resources));
        }
        if let Some(url) = &toggle.public_endpoint {
            put("publicEndpoint", json!(url));
        }
    }
    fields
}

fn database(spec: &ControlPlaneSpec, service: &str) -> Value {
    let cluster = &spec.infrastructure.database;
    let mut database = json!({"database": service, "secretRef": {"name": secrets::database(service)}});
    match &cluster.host {
        Some(host) => database["host"] = json!(host),
        None => database["clusterRef"] = json!({"name": infrastructure::DATABASE}),
    }
    if let Some(port) = cluster.port {
        database["port"] = json!(port);
    }
    database
}

fn cache(spec: &ControlPlaneSpec) -> Value {
    match spec.infrastructure.cache.servers.as_slice() {
        [] => json!({"clusterRef": {"name": infrastructure::CACHE}}),
        servers => json!({"servers": servers}),
    }
}

fn messaging(spec: &ControlPlaneSpec, service: &str) -> Value {
    let secret = json!({"name": secrets::messaging(service)});
    match spec.infrastructure.messaging.hosts.as_slice() {
        [] => json!({"clusterRef": {"name": infrastructure::MESSAGING}, "secretRef": secret}),
        hosts => json!({"hosts": hosts, "secretRef": secret}),
    }
}

/// Each service at a glance.
pub(super) fn readiness(draft: &Draft<'_>) -> BTreeMap<String, ServiceReadiness> {
    let mut all = BTreeMap::new();
    for service in SERVICES.iter().filter(|service| (service.enabled)(draft.spec)) {
        let Some(step) = draft.steps.iter().find(|step| step.name == service.name) else {
            continue;
        };
        let child = draft.child(&object(draft, service, Map::new()));
        let message = step.text();
        all.insert(
            service.name.to_owned(),
            ServiceReadiness {
                ready: step.state.is_done(),
                version: child.and_then(|child| child.installed.clone()),
                message: (!message.is_empty()).then_some(message),
            },
        );
    }
    all
}
