//! How a service user itself logs in: Keystone lets nobody else make its application credentials,
//! and gives them no role that the user has not got by then.

use std::collections::BTreeMap;

use c5c3_api::conditions::korc::{AVAILABLE, PROGRESSING};
use c5c3_api::foreign::is_true;
use c5c3_api::foreign::korc::{PasswordRef, Project, RoleAssignment, Status, User, UserResource};
use c5c3_kit::{Kind, ReadError, Reader, Reference};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;

use super::facts::{Hidden, encoded, value};
use crate::clouds_yaml::{self, Cloud, Person};

/// The key under which K-ORC reads a certificate authority.
const CA: &str = "cacert";
/// The roles of a user that names none; it is taken to have them.
const DEFAULT_ROLE: &str = "service";
const NOT_MADE: &str = "K-ORC has not created it yet";

/// The Secret with the login.
pub(crate) fn login_secret(rotation: &str) -> String {
    format!("{rotation}-login")
}

/// What a login is made from, as it was read.
#[derive(Clone, Default)]
pub(crate) struct Sources {
    /// With the login of the user's own object.
    pub clouds: Option<Secret>,
    pub password: Option<Secret>,
    pub project: Option<Project>,
    pub assignments: Vec<RoleAssignment>,
}

/// What the Secret holds.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    pub clouds: Hidden,
    pub ca: Option<Hidden>,
}

/// Why nothing can be made yet. Never tells a secret.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Lack {
    NoPassword,
    NoProject,
    /// A watch tells when it is there.
    Waits(String),
}

pub(crate) async fn read(user: &User, namespace: &str, reader: &Reader) -> Result<Sources, ReadError> {
    let clouds = &user.spec.cloud_credentials_ref.secret_name;
    let (password, project) = (password_ref(user), project_ref(user));
    let read_password = async {
        match password {
            Some(password) => reader.get::<Secret>(namespace, &password.name).await,
            None => Ok(None),
        }
    };
    let read_project = async {
        match project {
            Some(project) => reader.get::<Project>(namespace, project).await,
            None => Ok(None),
        }
    };
    let read_assignments = async {
        match asked_roles(user) {
            Some(_) => reader.list::<RoleAssignment>(namespace, "").await,
            None => Ok(Vec::new()),
        }
    };
    let (clouds, password, project, mut assignments) = futures::try_join!(
        reader.get::<Secret>(namespace, clouds),
        read_password,
        read_project,
        read_assignments
    )?;
    assignments.retain(|assignment| Grant::of(assignment).user == Some(&user.name_any()));
    Ok(Sources {
        clouds,
        password,
        project,
        assignments,
    })
}

/// Of all that is read, what the User names and not the rotation.
pub(crate) fn references(user: &User) -> Vec<Reference> {
    let namespace = user.namespace();
    let namespace = namespace.as_deref();
    let secret = |name: &str| Kind::of::<Secret>().named(namespace, name);
    let mut all = vec![secret(&user.spec.cloud_credentials_ref.secret_name)];
    all.extend(password_ref(user).map(|password| secret(&password.name)));
    all.extend(project_ref(user).map(|project| Kind::of::<Project>().named(namespace, project)));
    // One that is not there yet may come under any name.
    all.push(Kind::of::<RoleAssignment>().any_in(namespace));
    all
}

/// Where the user's Keystone is.
pub(crate) fn cloud(user: &User, sources: &Sources) -> Result<Cloud, String> {
    let (text, name) = clouds(user, sources)?;
    clouds_yaml::find(&text.0, name).map_err(|problem| in_secret(user, &problem))
}

fn clouds<'u>(user: &'u User, sources: &Sources) -> Result<(Hidden, &'u str), String> {
    let wanted = &user.spec.cloud_credentials_ref;
    let text = sources
        .clouds
        .as_ref()
        .and_then(|secret| value(secret, clouds_yaml::KEY));
    let text = text.ok_or_else(|| {
        format!(
            "Secret {} has no clouds.yaml: create it, or correct cloudCredentialsRef of User {}",
            wanted.secret_name,
            user.name_any()
        )
    })?;
    Ok((text, &wanted.cloud_name))
}

fn in_secret(user: &User, problem: &clouds_yaml::Unreadable) -> String {
    format!(
        "Secret {}: {problem}",
        user.spec.cloud_credentials_ref.secret_name
    )
}

/// Pure: the login, or what is missing of it.
pub(crate) fn login(user: &User, sources: &Sources) -> Result<Login, Lack> {
    let wanted = password_ref(user).ok_or(Lack::NoPassword)?;
    let project = project_ref(user).ok_or(Lack::NoProject)?;
    let (text, name) = clouds(user, sources).map_err(Lack::Waits)?;
    let user_id = id("User", &user.name_any(), Some(user.status.as_ref()))?;
    let live = sources.project.as_ref().map(|project| project.status.as_ref());
    let project_id = id("Project", project, live)?;
    if applied(user).is_some_and(|applied| applied != wanted.name) {
        let text = format!(
            "User {}: K-ORC has not set the password of Secret {} yet",
            user.name_any(),
            wanted.name
        );
        return Err(Lack::Waits(text));
    }
    let password = sources.password.as_ref();
    let password = password.and_then(|secret| value(secret, &wanted.key));
    let password = password.ok_or_else(|| {
        let (secret, key) = (&wanted.name, &wanted.key);
        Lack::Waits(format!("Secret {secret} has no key {key}: create it"))
    })?;
    let person = Person {
        user_id,
        password: &password.0,
        project_id,
    };
    let clouds = clouds_yaml::of_person(&text.0, name, &person)
        .map_err(|problem| Lack::Waits(in_secret(user, &problem)))?;
    Ok(Login {
        clouds: Hidden(clouds),
        ca: sources.clouds.as_ref().and_then(|secret| value(secret, CA)),
    })
}

fn id<'s>(kind: &str, name: &str, live: Option<Option<&'s Status>>) -> Result<&'s str, Lack> {
    let Some(status) = live else {
        return Err(Lack::Waits(format!("{kind} {name} is missing: create it")));
    };
    let id = status.and_then(|status| status.id.as_deref());
    id.filter(|id| !id.is_empty())
        .ok_or_else(|| Lack::Waits(format!("{kind} {name}: {}", said(status))))
}

/// What K-ORC says of it.
fn said(status: Option<&Status>) -> &str {
    let conditions = status.map(|status| status.conditions.as_slice());
    let progressing = conditions
        .unwrap_or_default()
        .iter()
        .find(|condition| condition.type_ == PROGRESSING);
    progressing
        .and_then(|condition| condition.message.as_deref())
        .filter(|words| !words.is_empty())
        .unwrap_or(NOT_MADE)
}

/// Pure: the first role that the user has not got yet.
pub(crate) fn missing_role(user: &User, assignments: &[RoleAssignment]) -> Option<String> {
    let asked = asked_roles(user)?;
    // Where K-ORC has no RoleAssignment, the ControlPlane assigned them.
    let mark = user.annotations().get(crate::plan::COMPLETED).map(String::as_str);
    let id = user.status.as_ref().and_then(|status| status.id.as_deref());
    let given = crate::plan::given(mark, id.unwrap_or_default());
    let missing = |role: &&str| missing(user, role, assignments);
    asked
        .iter()
        .filter(|role| !given.contains(role))
        .find_map(missing)
}

fn missing(user: &User, role: &str, assignments: &[RoleAssignment]) -> Option<String> {
    let name = user.name_any();
    let wanted = Grant {
        role: Some(role),
        user: Some(&name),
        project: project_ref(user),
    };
    let found: Vec<&RoleAssignment> = assignments
        .iter()
        .filter(|assignment| Grant::of(assignment) == wanted)
        .collect();
    if found.iter().any(|assignment| is_there(assignment)) {
        return None;
    }
    Some(match found.first() {
        Some(first) => format!(
            "RoleAssignment {}: {}",
            first.name_any(),
            said(first.status.as_ref())
        ),
        None => format!(
            "User {name} has no RoleAssignment of Role {role} on Project {}: create one",
            project_ref(user).unwrap_or_default()
        ),
    })
}

fn is_there(assignment: &RoleAssignment) -> bool {
    let conditions = assignment.status.as_ref().map(|status| &status.conditions);
    let available = conditions.is_some_and(|conditions| is_true(conditions, AVAILABLE));
    available && assignment.metadata.deletion_timestamp.is_none()
}

/// What an assignment says, whether it is made or found.
#[derive(Debug, PartialEq, Eq)]
struct Grant<'a> {
    role: Option<&'a str>,
    user: Option<&'a str>,
    project: Option<&'a str>,
}

impl<'a> Grant<'a> {
    fn of(assignment: &'a RoleAssignment) -> Self {
        let spec = &assignment.spec;
        let filter = spec.import.as_ref().and_then(|import| import.filter.as_ref());
        match (&spec.resource, filter) {
            (Some(made), _) => Self {
                role: Some(&made.role_ref),
                user: made.user_ref.as_deref(),
                project: made.project_ref.as_deref(),
            },
            (None, Some(found)) => Self {
                role: found.role_ref.as_deref(),
                user: found.user_ref.as_deref(),
                project: found.project_ref.as_deref(),
            },
            (None, None) => Self {
                role: None,
                user: None,
                project: None,
            },
        }
    }
}

/// The roles of a credential.
pub(crate) fn roles(user: &User) -> Vec<&str> {
    asked_roles(user).unwrap_or_else(|| vec![DEFAULT_ROLE])
}

fn asked_roles(user: &User) -> Option<Vec<&str>> {
    let text = user.annotations().get(crate::plan::ROLES)?;
    let roles = text.split(',').map(str::trim);
    Some(roles.filter(|role| !role.is_empty()).collect())
}

fn resource(user: &User) -> Option<&UserResource> {
    user.spec.resource.as_ref()
}

fn password_ref(user: &User) -> Option<&PasswordRef> {
    resource(user)?.password_ref.as_ref()
}

/// The Secret whose password Keystone has, if K-ORC tells.
fn applied(user: &User) -> Option<&str> {
    let resource = user.status.as_ref()?.resource.as_ref()?;
    let applied = resource.get("appliedPasswordRef")?.as_str();
    applied.filter(|applied| !applied.is_empty())
}

fn project_ref(user: &User) -> Option<&str> {
    resource(user)?.default_project_ref.as_deref()
}

/// The keys of the Secret.
pub(crate) fn data(login: &Login) -> BTreeMap<String, ByteString> {
    let clouds = [(clouds_yaml::KEY, &login.clouds)].into_iter();
    let all = clouds.chain(login.ca.as_ref().map(|ca| (CA, ca)));
    all.map(|(key, value)| (key.to_owned(), encoded(&value.0)))
        .collect()
}

#[cfg(test)]
#[path = "login_tests.rs"]
mod tests;
