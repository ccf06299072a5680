//! What has to be in Keystone, as objects of K-ORC: the catalogue, and a user for each service.

use c5c3_api::c5c3::BootstrapResource;
use c5c3_api::conditions::control_plane::{CREDENTIALS_READY, KORC_READY};
use c5c3_api::services::{SERVICES, Service, keystone};
use c5c3_kit::Reference;
use serde_json::{Value, json};

use super::{Draft, Start, State, Step, reference, secrets, services};

const GROUP: &str = "openstack.k-orc.cloud/v1alpha1";
/// The roles of a User, for the credentials that are made for it.
pub const ROLES: &str = "c5c3.io/roles";
pub(super) const SERVICE_ROLES: [&str; 2] = ["admin", "service"];
pub(super) const SERVICE_PROJECT: &str = "service";
#[cfg(test)]
pub(super) const DOMAIN: &str = "openstack.k-orc.cloud";
/// A kind that came after v2.6.0.
pub(super) const ASSIGNMENT: &str = "RoleAssignment.openstack.k-orc.cloud";
const IMPORTED_ROLES: [&str; 4] = ["admin", "member", "reader", "service"];

pub(super) fn plan(draft: &mut Draft<'_>) {
    if !draft.spec.korc.enabled {
        draft.add_not_required("korc", "K-ORC", KORC_READY, "korc.enabled is false");
        return;
    }
    // A Secret of the user's own has to be there; ours is made by now.
    let mut ground = vec!["keystone"];
    if draft.spec.korc.cloud_credentials_ref.is_some() {
        ground.push("clouds");
        let state = secrets::given_clouds(draft).map_or_else(|state| state, |_| State::Done);
        draft.push(Step::bare("clouds", "K-ORC's login", KORC_READY, state));
    }
    let base = base(draft);
    draft.add("korc", "K-ORC", KORC_READY, &ground, Start::AfterNeeds, base);
    // A rotation is made with the rest: it waits for its user and the user's roles by itself.
    let open = draft.open(&ground.iter().map(|step| (*step).to_owned()).collect::<Vec<_>>());
    let start = if open.is_empty() {
        Start::AtOnce
    } else {
        Start::AfterNeeds
    };
    for service in SERVICES.iter().skip(1).filter(|service| service.runs(draft.spec)) {
        let step = format!("{}-catalogue", service.name);
        let title = format!("catalogue of {}", service.title);
        let objects = catalogue(draft, service);
        draft.add(&step, &title, KORC_READY, &ground, Start::AfterNeeds, objects);
        let name = services::credential_step(service);
        let title = format!("credential of {}", service.title);
        let needs = [ground.as_slice(), &[step.as_str()]].concat();
        let rotation = rotation(draft, service);
        draft.add(&name, &title, CREDENTIALS_READY, &needs, start, vec![rotation]);
    }
}

/// This K-ORC has no RoleAssignment: we assign roles ourselves.
pub(super) fn gives_no_roles(draft: &Draft<'_>) -> bool {
    draft.seen.missing.contains(ASSIGNMENT)
}

/// The reference of one of K-ORC's objects.
pub(super) fn named(draft: &Draft<'_>, kind: &str, name: &str) -> Reference {
    let own =
        json!({"apiVersion": GROUP, "kind": kind, "metadata": {"namespace": draft.namespace, "name": name}});
    reference(&own)
}

fn object(draft: &Draft<'_>, kind: &str, name: &str, fields: &Value) -> Value {
    let cloud = secrets::clouds(draft.spec);
    let mut spec =
        json!({"cloudCredentialsRef": {"cloudName": cloud.cloud_name, "secretName": cloud.secret_name}});
    if let (Some(spec), Some(fields)) = (spec.as_object_mut(), fields.as_object()) {
        spec.extend(fields.clone());
    }
    json!({"apiVersion": GROUP, "kind": kind, "metadata": {"namespace": draft.namespace, "name": name}, "spec": spec})
}

fn import(draft: &Draft<'_>, kind: &str, name: &str, filter: &Value) -> Value {
    object(
        draft,
        kind,
        name,
        &json!({"managementPolicy": "unmanaged", "import": {"filter": filter}}),
    )
}

fn managed(draft: &Draft<'_>, kind: &str, name: &str, resource: &Value) -> Value {
    object(
        draft,
        kind,
        name,
        &json!({"managementPolicy": "managed", "resource": resource}),
    )
}

fn imports(draft: &Draft<'_>, resource: BootstrapResource) -> bool {
    let listed = &draft.spec.korc.bootstrap_resources;
    listed.is_empty() || listed.contains(&resource)
}

/// Without an imported domain the one of K-ORC's own login is meant.
fn in_domain(draft: &Draft<'_>, mut fields: Value) -> Value {
    if imports(draft, BootstrapResource::Domains) {
        fields["domainRef"] = json!("default");
    }
    fields
}

/// What a thing of ours is called in Keystone. K-ORC takes over what has the same name and deletes it
/// with its object; in a Keystone of others that may be anybody's, so there our names have a mark.
fn called(draft: &Draft<'_>, name: &str) -> String {
    if keystone().runs(draft.spec) {
        return name.to_owned();
    }
    // A project's name has 64 characters at the most.
    let namespace: String = draft.namespace.chars().take(40).collect();
    // Two clusters may have a cloud of the same namespace in one Keystone.
    let mark = draft.uid.split('-').next().unwrap_or_default();
    format!("{namespace}-{name}-{mark}")
}

/// What Keystone's bootstrap made, and the project of the services.
fn base(draft: &Draft<'_>) -> Vec<Value> {
    let mut all = Vec::new();
    if imports(draft, BootstrapResource::Domains) {
        all.push(import(draft, "Domain", "default", &json!({"name": "Default"})));
    }
    if imports(draft, BootstrapResource::Projects) {
        all.push(import(
            draft,
            "Project",
            "admin",
            &in_domain(draft, json!({"name": "admin"})),
        ));
    }
    // The roles of the service users are imported in any case: without them no assignment would end
    // its wait.
    let roles = IMPORTED_ROLES
        .into_iter()
        .filter(|role| imports(draft, BootstrapResource::Roles) || SERVICE_ROLES.contains(role));
    all.extend(roles.map(|role| import(draft, "Role", role, &json!({"name": role}))));
    let name = called(draft, SERVICE_PROJECT);
    let project = json!({"name": name, "description": "Users of the OpenStack services"});
    all.push(managed(
        draft,
        "Project",
        SERVICE_PROJECT,
        &in_domain(draft, project),
    ));
    all
}

fn catalogue(draft: &Draft<'_>, service: &Service) -> Vec<Value> {
    let name = called(draft, service.name);
    let mut all = Vec::new();
    if !service.catalogue.0.is_empty() {
        all = entries(draft, service, &name);
    }
    // While the password is not known, K-ORC waits for the Secret that should have it.
    let password = draft.passwords.get(service.name).cloned();
    let password = password.unwrap_or_else(|| secrets::service_user(service.name));
    let user = json!({
        "name": name,
        "defaultProjectRef": SERVICE_PROJECT,
        "passwordRef": password,
        "enabled": true,
    });
    let mut user = managed(draft, "User", service.name, &in_domain(draft, user));
    user["metadata"]["annotations"] = json!({ROLES: SERVICE_ROLES.join(",")});
    all.push(user);
    if !gives_no_roles(draft) {
        all.extend(SERVICE_ROLES.map(|role| granted(draft, service, role)));
    }
    all
}

/// What clients find the service by.
fn entries(draft: &Draft<'_>, service: &Service, name: &str) -> Vec<Value> {
    let (type_, description) = service.catalogue;
    let entry = json!({"name": name, "type": type_, "description": description, "enabled": true});
    let mut all = vec![managed(draft, "Service", service.name, &entry)];
    let internal = services::internal_url(draft, service);
    let public = services::public_url(draft, service);
    for (interface, url) in [("public", &public), ("internal", &internal), ("admin", &internal)] {
        // An Endpoint of K-ORC has no region: it is set afterwards.
        let endpoint =
            json!({"serviceRef": service.name, "interface": interface, "url": url, "enabled": true});
        all.push(managed(
            draft,
            "Endpoint",
            &format!("{}-{interface}", service.name),
            &endpoint,
        ));
    }
    all
}

/// The RoleAssignment of a user.
pub fn assignment(user: &str, role: &str) -> String {
    format!("{user}-{role}")
}

fn granted(draft: &Draft<'_>, service: &Service, role: &str) -> Value {
    let grant = json!({"roleRef": role, "userRef": service.name, "projectRef": SERVICE_PROJECT});
    managed(draft, "RoleAssignment", &assignment(service.name, role), &grant)
}

fn rotation(draft: &Draft<'_>, service: &Service) -> Value {
    let terms = &draft.spec.korc.credentials;
    json!({
        "apiVersion": "c5c3.io/v1alpha1", "kind": "CredentialRotation",
        "metadata": {"namespace": draft.namespace, "name": service.name},
        "spec": {
            "targetServiceUser": service.name,
            "rotationType": "applicationCredential",
            "schedule": {"intervalDays": terms.interval_days, "preRotationDays": terms.pre_rotation_days},
            "gracePeriodDays": terms.grace_period_days,
        },
    })
}
