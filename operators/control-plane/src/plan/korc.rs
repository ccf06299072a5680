//! What has to be in Keystone, as objects of K-ORC: the catalogue, and a user for each service.

use c5c3_api::c5c3::{
    BootstrapResource, CredentialRotation, CredentialRotationSpec, RotationSchedule, RotationType,
};
use c5c3_api::conditions::control_plane::{CREDENTIALS_READY, KORC_READY};
use c5c3_api::foreign::korc;
use c5c3_api::services::{SERVICES, Service, keystone};
use serde_json::Value;

use super::{Draft, Start, State, Step, secrets, services, whole};

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

fn login(draft: &Draft<'_>) -> korc::CloudCredentialsRef {
    let cloud = secrets::clouds(draft.spec);
    korc::CloudCredentialsRef {
        cloud_name: cloud.cloud_name,
        secret_name: cloud.secret_name,
    }
}

/// An object of K-ORC: its kinds differ in their resource alone.
macro_rules! object {
    ($draft:expr, $kind:ident, $spec:ident, $name:expr, $policy:ident, $import:expr, $resource:expr) => {
        korc::$kind {
            metadata: $draft.metadata($name),
            spec: korc::$spec {
                cloud_credentials_ref: login($draft),
                management_policy: korc::ManagementPolicy::$policy,
                import: $import,
                resource: $resource,
            },
            status: None,
        }
    };
}

/// What is in Keystone by this name.
macro_rules! imported {
    ($draft:expr, $kind:ident, $spec:ident, $name:expr, $filter:expr) => {
        whole(&object!(
            $draft,
            $kind,
            $spec,
            $name,
            Unmanaged,
            found_by($filter),
            None
        ))
    };
}

/// What K-ORC makes and deletes.
macro_rules! managed {
    ($draft:expr, $kind:ident, $spec:ident, $name:expr, $resource:expr) => {
        object!($draft, $kind, $spec, $name, Managed, None, Some($resource))
    };
}

fn found_by(filter: korc::Filter) -> Option<korc::Import> {
    Some(korc::Import {
        id: None,
        filter: Some(filter),
    })
}

fn called_so(name: &str) -> korc::Filter {
    korc::Filter {
        name: Some(name.to_owned()),
        ..korc::Filter::default()
    }
}

fn imports(draft: &Draft<'_>, resource: BootstrapResource) -> bool {
    let listed = &draft.spec.korc.bootstrap_resources;
    listed.is_empty() || listed.contains(&resource)
}

/// Without an imported domain the one of K-ORC's own login is meant.
fn domain(draft: &Draft<'_>) -> Option<String> {
    imports(draft, BootstrapResource::Domains).then(|| "default".to_owned())
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
        let filter = called_so("Default");
        all.push(imported!(draft, Domain, DomainSpec, "default", filter));
    }
    if imports(draft, BootstrapResource::Projects) {
        let filter = korc::Filter {
            domain_ref: domain(draft),
            ..called_so("admin")
        };
        all.push(imported!(draft, Project, ProjectSpec, "admin", filter));
    }
    // The roles of the service users are imported in any case: without them no assignment would end
    // its wait.
    let roles = IMPORTED_ROLES
        .into_iter()
        .filter(|role| imports(draft, BootstrapResource::Roles) || SERVICE_ROLES.contains(role));
    all.extend(roles.map(|role| imported!(draft, Role, RoleSpec, role, called_so(role))));
    let project = korc::ProjectResource {
        name: Some(called(draft, SERVICE_PROJECT)),
        domain_ref: domain(draft),
        description: Some("Users of the OpenStack services".to_owned()),
        ..korc::ProjectResource::default()
    };
    all.push(whole(&managed!(
        draft,
        Project,
        ProjectSpec,
        SERVICE_PROJECT,
        project
    )));
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
    let user = korc::UserResource {
        name: Some(name),
        domain_ref: domain(draft),
        default_project_ref: Some(SERVICE_PROJECT.to_owned()),
        password_ref: Some(korc::PasswordRef::new(password)),
        enabled: Some(true),
        ..korc::UserResource::default()
    };
    let mut user = managed!(draft, User, UserSpec, service.name, user);
    user.metadata.annotations = Some([(ROLES.to_owned(), SERVICE_ROLES.join(","))].into());
    all.push(whole(&user));
    if !gives_no_roles(draft) {
        all.extend(SERVICE_ROLES.map(|role| granted(draft, service, role)));
    }
    all
}

/// What clients find the service by.
fn entries(draft: &Draft<'_>, service: &Service, name: &str) -> Vec<Value> {
    let (type_, description) = service.catalogue;
    let entry = korc::ServiceResource {
        name: Some(name.to_owned()),
        type_: type_.to_owned(),
        description: Some(description.to_owned()),
        enabled: Some(true),
    };
    let mut all = vec![whole(&managed!(draft, Service, ServiceSpec, service.name, entry))];
    let internal = services::internal_url(draft, service);
    let public = services::public_url(draft, service);
    for (interface, url) in [("public", &public), ("internal", &internal), ("admin", &internal)] {
        // An Endpoint of K-ORC has no region: it is set afterwards.
        let endpoint = korc::EndpointResource {
            service_ref: service.name.to_owned(),
            interface: interface.to_owned(),
            url: url.clone(),
            enabled: Some(true),
            ..korc::EndpointResource::default()
        };
        let name = format!("{}-{interface}", service.name);
        all.push(whole(&managed!(draft, Endpoint, EndpointSpec, &name, endpoint)));
    }
    all
}

/// The RoleAssignment of a user.
pub fn assignment(user: &str, role: &str) -> String {
    format!("{user}-{role}")
}

fn granted(draft: &Draft<'_>, service: &Service, role: &str) -> Value {
    let grant = korc::RoleAssignmentResource {
        role_ref: role.to_owned(),
        user_ref: Some(service.name.to_owned()),
        project_ref: Some(SERVICE_PROJECT.to_owned()),
        ..korc::RoleAssignmentResource::default()
    };
    let name = assignment(service.name, role);
    whole(&managed!(draft, RoleAssignment, RoleAssignmentSpec, &name, grant))
}

fn rotation(draft: &Draft<'_>, service: &Service) -> Value {
    let terms = &draft.spec.korc.credentials;
    whole(&CredentialRotation {
        metadata: draft.metadata(service.name),
        spec: CredentialRotationSpec {
            target_service_user: service.name.to_owned(),
            rotation_type: RotationType::ApplicationCredential,
            schedule: RotationSchedule {
                interval_days: terms.interval_days,
                pre_rotation_days: terms.pre_rotation_days,
            },
            grace_period_days: terms.grace_period_days,
            ceph_client: None,
        },
        status: None,
    })
}
