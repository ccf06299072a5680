//! Application credentials, and the Secrets that they are handed out in.
//!
//! Only Keystone knows who a credential is for, and only its maker knows the secret. We choose the
//! secret, write it to the Secret, make the credential with it, then add its id: a crash anywhere
//! between leaves nothing that the next pass cannot finish.

use std::collections::BTreeSet;

use c5c3_api::foreign::korc::{ApplicationCredential, ApplicationCredentialResource};
use c5c3_kit::ownership::OWNER_UID;
use c5c3_kit::{Finalizer, Wanted};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use kube::api::ObjectMeta;
use openstack_client::{Cloud, Entity, Fields, Kind};
use serde_json::{Map, Value, json};

use super::decide::{Action, Call, Made, Plan, Seen, shown};
use super::kinds::{finalizer, head, maybe, named};
use super::observe::value;
use super::resource::{Head, Ids, Look, Miss, Need, Resource, Target};
use super::trouble::Trouble;
use crate::objects::opaque;
use crate::random;

const ID: &str = "application_credential_id";
const SECRET: &str = "application_credential_secret";
const CLOUDS: &str = "clouds.yaml";
/// Annotation of the Secret: the roles asked for. Keystone adds those that they imply, so the
/// credential itself does not tell.
const ROLES: &str = "openstack.k-orc.cloud/role-refs";

/// What is known of the secret.
#[derive(Clone, Default, PartialEq, Eq)]
pub(crate) enum Stored {
    #[default]
    Absent,
    /// Our Secret, with the secret in it and the roles that the credential was made with.
    Ours { secret: String, roles: Option<String> },
    /// A Secret that we did not make, with a key `value`, which K-ORC accepts too: read, never written.
    Given(String),
}

#[derive(Default)]
pub(crate) struct Credential {
    stored: Stored,
    /// For a new one.
    random: String,
}

fn resource(object: &ApplicationCredential) -> ApplicationCredentialResource {
    object.spec.resource.clone().unwrap_or_default()
}

impl Resource for ApplicationCredential {
    type Extra = Credential;
    const CONTROLLER: &'static str = "k-orc-applicationcredential";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/applicationcredential");
    const SHOWN: &'static [(&'static str, &'static str)] = &[
        ("name", "name"),
        ("description", "description"),
        ("unrestricted", "unrestricted"),
        ("project_id", "projectID"),
        ("user_id", "userID"),
        ("roles", "roles"),
        ("expires_at", "expiresAt"),
    ];
    const FIXED: &'static [(&'static str, &'static str)] = &[
        ("name", "name"),
        ("description", "description"),
        ("unrestricted", "unrestricted"),
    ];
    const SAME: &'static [&'static str] = &["name"];
    const OWN_LOGIN: bool = true;
    head!();

    fn collection(&self, ids: &Ids) -> Option<Kind> {
        // Of a user whose object is gone, the status still knows the id.
        let shown = self.head().shown;
        let before = shown
            .and_then(|shown| shown.get("userID"))
            .and_then(Value::as_str);
        let user = ids.get("user_id").or(before)?.to_owned();
        Some(Kind::ApplicationCredential { user })
    }

    fn needs(&self) -> Vec<Need> {
        let resource = resource(self);
        let user = Need::new("user_id", Target::User, &resource.user_ref);
        let roles = resource.role_refs.iter();
        let roles = roles.map(|role| Need::new("roles", Target::Role, role));
        std::iter::once(user).chain(roles).collect()
    }

    fn watches() -> Vec<Target> {
        vec![Target::User, Target::Role]
    }

    fn owns() -> Vec<c5c3_kit::Kind> {
        vec![c5c3_kit::Kind::of::<Secret>()]
    }

    fn shown(live: &Entity) -> Map<String, Value> {
        let mut shown = shown::<Self>(live);
        if let Some(at) = live.text("expires_at").and_then(read) {
            shown.insert("expiresAt".to_owned(), json!(at.to_string()));
        }
        if let Some(Value::Array(roles)) = shown.get_mut("roles") {
            for role in roles {
                *role = json!({"id": role.get("id"), "name": role.get("name")});
            }
        }
        shown
    }

    /// What the credential is made of; roles, expiry and secret are added when it is made.
    fn wanted(&self, _ids: &Ids, _cloud: &Cloud) -> Fields {
        let resource = resource(self);
        named(resource.name.as_ref(), self)
            .with("description", resource.description.unwrap_or_default())
            .with("unrestricted", resource.unrestricted.unwrap_or(false))
    }

    async fn look(&self, look: &Look<'_>) -> Result<Credential, Miss> {
        let resource = resource(self);
        let (namespace, _) = self.namespaced();
        let name = &resource.secret_ref;
        if name.is_empty() {
            return Err(Trouble::Invalid("spec.resource.secretRef is missing".to_owned()).into());
        }
        let secret: Option<Secret> = look.reader.get(&namespace, name).await?;
        let stored = stored(self, secret.as_ref())?;
        if look.live.is_none() {
            as_itself(self, look).await?;
        }
        let random: [u8; 32] = std::array::from_fn(|_| rand::random());
        Ok(Credential {
            stored,
            random: random::password(&random),
        })
    }

    fn plan(&self, seen: &Seen<Self>, now: Timestamp) -> Plan {
        let resource = resource(self);
        let extra = &seen.extra;
        let expires = resource.expires_at.as_ref().map(|time| time.0);
        let expired = expires.filter(|at| *at <= now);
        let roles: BTreeSet<String> = seen.ids.all("roles").map(str::to_owned).collect();
        if let Some(live) = &seen.live
            && let Some(trouble) = changed(self, seen, live, &roles, expires)
        {
            return Plan::trouble(trouble);
        }
        if let Some(at) = expired {
            return Plan::trouble(Trouble::Unrecoverable(format!("the credential expired at {at}")));
        }
        let Some(kind) = seen.collection.clone() else {
            return Plan::default();
        };
        let mut plan = Plan::default();
        match (&seen.live, &extra.stored) {
            (Some(_), Stored::Given(_)) => {}
            (Some(live), Stored::Ours { secret, .. }) => {
                plan.wanted = vec![handed_out(self, secret, Some((live, seen.cloud.cloud())))];
            }
            (Some(live), Stored::Absent) if self.head().id == Some(&live.id) => {
                // Its secret is lost with the Secret: only a new one can be handed out.
                let call = Call::Delete {
                    kind,
                    id: live.id.clone(),
                };
                let cloud = seen.cloud.clone();
                plan.actions.push(Action { cloud, call });
                plan.unfinished = true;
            }
            (Some(live), Stored::Absent) => {
                return Plan::trouble(Trouble::Invalid(format!(
                    "User/{} already has an application credential {} ({}) whose secret is not known: \
                     delete it, or choose another name",
                    resource.user_ref,
                    live.name(),
                    live.id
                )));
            }
            (None, stored) => {
                let secret = match stored {
                    Stored::Ours { secret, .. } | Stored::Given(secret) => secret,
                    Stored::Absent => &extra.random,
                };
                if !matches!(stored, Stored::Given(_)) {
                    plan.wanted = vec![handed_out(self, secret, None)];
                    plan.unfinished = true;
                }
                let ids: Vec<Value> = roles.iter().map(|id| json!({"id": id})).collect();
                let fields = self
                    .wanted(&seen.ids, seen.cloud.cloud())
                    .with("secret", secret.as_str());
                let fields = maybe(fields, "roles", (!ids.is_empty()).then_some(ids));
                let fields = maybe(fields, "expires_at", expires.map(written));
                plan.actions.push(Action {
                    cloud: seen.cloud.clone(),
                    call: Call::Create {
                        kind,
                        fields,
                        proof: None,
                        made: Made::default(),
                    },
                });
            }
        }
        plan
    }
}

/// Only the user itself may create a credential in Keystone. Checked beforehand for a clear message.
async fn as_itself(object: &ApplicationCredential, look: &Look<'_>) -> Result<(), Miss> {
    let who = look.cloud.identify().await?;
    if look.ids.get("user_id") == Some(&who.user) {
        return Ok(());
    }
    let credentials = object.head().credentials;
    let text = format!(
        "cloud {} of Secret/{} belongs to another user: only User/{} itself can create its credentials",
        credentials.cloud_name,
        credentials.secret_name,
        resource(object).user_ref
    );
    Err(Trouble::Invalid(text).into())
}

fn stored(object: &ApplicationCredential, secret: Option<&Secret>) -> Result<Stored, Trouble> {
    let Some(secret) = secret else {
        return Ok(Stored::Absent);
    };
    let uid = object.uid().unwrap_or_default();
    if secret.labels().get(OWNER_UID) == Some(&uid) {
        let roles = secret.annotations().get(ROLES).cloned();
        let secret = value(secret, SECRET);
        return Ok(secret.map_or(Stored::Absent, |secret| Stored::Ours { secret, roles }));
    }
    value(secret, "value").map(Stored::Given).ok_or_else(|| {
        Trouble::Invalid(format!(
            "Secret/{} is not ours and has no key value: delete it, or name another in spec.resource.secretRef",
            secret.name_any()
        ))
    })
}

/// Nothing of a credential can be changed.
fn changed(
    object: &ApplicationCredential,
    seen: &Seen<ApplicationCredential>,
    live: &Entity,
    roles: &BTreeSet<String>,
    expires: Option<Timestamp>,
) -> Option<Trouble> {
    let odd = live.differs(&object.wanted(&seen.ids, seen.cloud.cloud()));
    if let Some(trouble) = super::decide::fixed::<ApplicationCredential>(live, &odd) {
        return Some(trouble);
    }
    let list = live.fields.0.get("roles").and_then(Value::as_array);
    let own: BTreeSet<String> = list
        .into_iter()
        .flatten()
        .filter_map(|role| role.get("id").and_then(Value::as_str).map(str::to_owned))
        .collect();
    let asked = match &seen.extra.stored {
        Stored::Ours {
            roles: Some(roles), ..
        } => *roles == role_refs(object),
        _ => true,
    };
    let until = live.text("expires_at").and_then(read).map(Timestamp::as_second);
    let field = if !asked || !own.is_superset(roles) {
        "roleRefs"
    } else if until != expires.map(Timestamp::as_second) {
        "expiresAt"
    } else {
        return None;
    };
    Some(Trouble::Invalid(format!(
        "spec.resource.{field} is not what the credential was made with, and a credential cannot be changed: \
         change it back, or make a new object"
    )))
}

/// As Keystone reads it: UTC, without saying so.
fn written(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H:%M:%S.000000").to_string()
}

fn read(text: &str) -> Option<Timestamp> {
    let text = text.trim_end_matches('Z');
    format!("{text}Z").parse().ok()
}

fn role_refs(object: &ApplicationCredential) -> String {
    let mut roles = resource(object).role_refs;
    roles.sort();
    roles.join(",")
}

fn handed_out(object: &ApplicationCredential, secret: &str, live: Option<(&Entity, &Cloud)>) -> Wanted {
    let mut data = vec![(SECRET, secret.to_owned())];
    if let Some((live, cloud)) = live {
        data.push((ID, live.id.clone()));
        data.push((CLOUDS, clouds(cloud, &live.id, secret)));
    }
    let (namespace, _) = object.namespaced();
    let metadata = ObjectMeta {
        namespace: Some(namespace),
        name: Some(resource(object).secret_ref),
        annotations: Some([(ROLES.to_owned(), role_refs(object))].into()),
        ..ObjectMeta::default()
    };
    Wanted::of(&opaque(metadata, data))
}

/// A `clouds.yaml` with this one cloud. JSON strings are YAML strings.
fn clouds(cloud: &Cloud, id: &str, secret: &str) -> String {
    let quoted = |text: &str| json!(text).to_string();
    let region = cloud.region.as_deref().map(quoted);
    let region = region.map(|region| format!("    region_name: {region}\n"));
    format!(
        "clouds:\n  openstack:\n    auth_type: v3applicationcredential\n    auth:\n      auth_url: {}\n      \
         {ID}: {}\n      {SECRET}: {}\n{}    interface: {}\n    identity_api_version: 3\n",
        quoted(&cloud.auth_url),
        quoted(id),
        quoted(secret),
        region.unwrap_or_default(),
        cloud.interface,
    )
}
