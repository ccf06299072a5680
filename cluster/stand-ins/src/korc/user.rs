//! Users: fields, and a password that is kept as the Secret has it.
//!
//! Whether the password is right is asked of Keystone, by a login as the user, when the Secret is
//! another one than last time and now and then; nothing made from the password is stored anywhere.

use c5c3_api::foreign::korc::User;
use c5c3_kit::{Finalizer, Reference};
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use openstack_client::{Auth, Class, Cloud, Fields, Kind, Scope, UserName};
use serde_json::{Map, Value};

use super::decide::{Plan, Proof, Seen};
use super::kinds::{finalizer, head, maybe, named};
use super::observe::value;
use super::resource::{Head, Ids, Look, Miss, Need, Resource, Target};
use super::trouble::Trouble;

/// K-ORC's name for the Secret whose password was set last.
const APPLIED: &str = "appliedPasswordRef";

/// A password that has to be set.
#[derive(Default)]
pub(crate) struct Password(Option<(String, Proof)>);

impl Resource for User {
    type Extra = Password;
    const CONTROLLER: &'static str = "k-orc-user";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/user");
    const SHOWN: &'static [(&'static str, &'static str)] = &[
        ("name", "name"),
        ("description", "description"),
        ("domain_id", "domainID"),
        ("default_project_id", "defaultProjectID"),
        ("enabled", "enabled"),
        ("password_expires_at", "passwordExpiresAt"),
    ];
    const FIXED: &'static [(&'static str, &'static str)] = &[("domain_id", "domainRef")];
    head!();

    fn collection(&self, _ids: &Ids) -> Option<Kind> {
        Some(Kind::User)
    }

    fn needs(&self) -> Vec<Need> {
        let resource = self.spec.resource.as_ref();
        let domain = resource.and_then(|resource| resource.domain_ref.as_ref());
        let project = resource.and_then(|resource| resource.default_project_ref.as_ref());
        let domain = Need::of("domain_id", Target::Domain, domain);
        let project = Need::of("default_project_id", Target::Project, project);
        domain.into_iter().chain(project).collect()
    }

    fn watches() -> Vec<Target> {
        vec![Target::Domain, Target::Project]
    }

    fn references(&self) -> Vec<Reference> {
        let resource = self.spec.resource.as_ref();
        let password = resource.and_then(|resource| resource.password_ref.as_ref());
        let namespace = self.namespace();
        let secret = |name: &str| c5c3_kit::Kind::of::<Secret>().named(namespace.as_deref(), name);
        password.iter().map(|password| secret(&password.name)).collect()
    }

    fn wanted(&self, ids: &Ids, _cloud: &Cloud) -> Fields {
        let resource = self.spec.resource.clone().unwrap_or_default();
        let fields = named(resource.name.as_ref(), self)
            .with("enabled", resource.enabled.unwrap_or(true))
            .with("description", resource.description.unwrap_or_default());
        let fields = maybe(fields, "domain_id", ids.get("domain_id"));
        maybe(fields, "default_project_id", ids.get("default_project_id"))
    }

    async fn look(&self, look: &Look<'_>) -> Result<Password, Miss> {
        let resource = self.spec.resource.clone().unwrap_or_default();
        let Some(reference) = resource.password_ref else {
            return Ok(Password(None));
        };
        let (namespace, _) = self.namespaced();
        let secret: Option<Secret> = look.reader.get(&namespace, &reference.name).await?;
        let missing = || Trouble::Waits(format!("Waiting for Secret/{} to be created", reference.name));
        let secret = secret.ok_or_else(missing)?;
        let password = value(&secret, &reference.key)
            .filter(|password| !password.is_empty())
            .ok_or_else(|| {
                Trouble::Waits(format!("Secret/{} has no key {}", reference.name, reference.key))
            })?;
        let version = secret.metadata.resource_version.clone().unwrap_or_default();
        let proof = Proof {
            user: self.uid().unwrap_or_default(),
            version: format!("{}/{version}", secret.uid().unwrap_or_default()),
        };
        let Some(live) = look.live else {
            return Ok(Password(Some((password, proof))));
        };
        // One that is switched off cannot log in with any password.
        let off = resource.enabled == Some(false) || live.fields.0.get("enabled") == Some(&false.into());
        if off || look.sessions.is_proven(&proof.user, &proof.version) {
            return Ok(Password(None));
        }
        let auth = Auth::Password {
            user: UserName::Id(live.id.clone()),
            password: openstack_client::Secret::new(password.clone()),
            scope: Scope::Unscoped,
        };
        let own = look.sessions.once(look.cloud.cloud().with_auth(auth))?;
        match own.identify().await {
            Ok(_) => {
                look.sessions.prove(&proof.user, &proof.version);
                Ok(Password(None))
            }
            Err(error) if error.class() == Class::Unauthorized => Ok(Password(Some((password, proof)))),
            Err(error) => Err(error.into()),
        }
    }

    /// The Secret whose password Keystone has. One that is switched off gets none.
    fn marks(&self, done: bool) -> Map<String, Value> {
        let resource = self.spec.resource.as_ref();
        let wanted = resource.and_then(|resource| resource.password_ref.as_ref());
        let wanted = wanted.map(|password| Value::from(password.name.clone()));
        let off = resource.is_some_and(|resource| resource.enabled == Some(false));
        let before = self.head().shown.and_then(|shown| shown.get(APPLIED)).cloned();
        let applied = if done && !off { wanted.or(before) } else { before };
        applied
            .map(|name| (APPLIED.to_owned(), name))
            .into_iter()
            .collect()
    }

    fn plan(&self, seen: &Seen<Self>, _now: Timestamp) -> Plan {
        Plan::with_fields(self, seen, seen.extra.0.clone())
    }
}
