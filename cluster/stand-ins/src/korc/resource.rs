//! What the nine kinds have in common, and where they differ: names and fields.

use std::collections::BTreeMap;
use std::future::{Future, ready};

use c5c3_api::foreign::korc::{self, CloudCredentialsRef, Filter, Import, ManagementPolicy};
use c5c3_api::foreign::{LooseCondition, is_true};
use c5c3_kit::controller::Object;
use c5c3_kit::{Finalizer, Reader, Reference};
use k8s_openapi::NamespaceResourceScope;
use kube::ResourceExt;
use openstack_client::{Cloud, Entity, Fields, Identity, Kind};
use serde_json::{Map, Value};

use super::decide::{Call, Plan, Seen, shown};
use super::sessions::Sessions;
use super::trouble::{Failure, Trouble};

/// The part of spec and status that is the same for all.
pub(crate) struct Head<'a> {
    pub credentials: &'a CloudCredentialsRef,
    pub policy: ManagementPolicy,
    pub import: Option<&'a Import>,
    pub has_resource: bool,
    pub id: Option<&'a str>,
    pub shown: Option<&'a Map<String, Value>>,
    pub conditions: &'a [LooseCondition],
}

impl Head<'_> {
    pub(crate) fn managed(&self) -> bool {
        self.policy == ManagementPolicy::Managed
    }
}

/// A kind that another object can refer to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Domain,
    Project,
    Role,
    Service,
    User,
}

impl Target {
    pub(crate) fn kind(self) -> c5c3_kit::Kind {
        match self {
            Target::Domain => c5c3_kit::Kind::of::<korc::Domain>(),
            Target::Project => c5c3_kit::Kind::of::<korc::Project>(),
            Target::Role => c5c3_kit::Kind::of::<korc::Role>(),
            Target::Service => c5c3_kit::Kind::of::<korc::Service>(),
            Target::User => c5c3_kit::Kind::of::<korc::User>(),
        }
    }
}

/// Another object whose id goes into a field.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Need {
    pub field: &'static str,
    pub target: Target,
    pub name: String,
}

impl Need {
    pub(crate) fn new(field: &'static str, target: Target, name: &str) -> Self {
        Self {
            field,
            target,
            name: name.to_owned(),
        }
    }

    pub(crate) fn of(field: &'static str, target: Target, name: Option<&String>) -> Option<Self> {
        name.map(|name| Self::new(field, target, name))
    }
}

/// Ids of the objects referred to, by field and name.
#[derive(Clone, Debug, Default)]
pub(crate) struct Ids(pub BTreeMap<(&'static str, String), String>);

impl Ids {
    /// The id for a field that has one at the most.
    pub(crate) fn get(&self, field: &str) -> Option<&str> {
        let found = self.0.iter().find(|((own, _), _)| *own == field);
        found.map(|(_, id)| id.as_str())
    }

    /// All ids for a field.
    pub(crate) fn all(&self, field: &str) -> impl Iterator<Item = &str> {
        let own = self.0.iter().filter(move |((own, _), _)| *own == field);
        own.map(|(_, id)| id.as_str())
    }
}

/// Where a thing is looked for.
pub(crate) struct Search<'a> {
    pub cloud: &'a dyn Identity,
    pub ids: &'a Ids,
    pub deleting: bool,
}

/// What a kind may look at beside the thing itself.
pub(crate) struct Look<'a> {
    pub cloud: &'a dyn Identity,
    pub reader: &'a Reader,
    pub sessions: &'a Sessions,
    pub ids: &'a Ids,
    pub live: Option<&'a Entity>,
}

/// A look that did not work.
pub(crate) enum Miss {
    Trouble(Trouble),
    OpenStack(openstack_client::Error),
    Failure(Failure),
}

impl From<Trouble> for Miss {
    fn from(trouble: Trouble) -> Self {
        Miss::Trouble(trouble)
    }
}

impl From<openstack_client::Error> for Miss {
    fn from(error: openstack_client::Error) -> Self {
        Miss::OpenStack(error)
    }
}

impl From<c5c3_kit::ReadError> for Miss {
    fn from(error: c5c3_kit::ReadError) -> Self {
        Miss::Failure(error.into())
    }
}

pub(crate) trait Resource: Object + kube::Resource<Scope = NamespaceResourceScope> {
    /// What only this kind looks at.
    type Extra: Default + Send + Sync;

    const CONTROLLER: &'static str;
    const FINALIZER: Finalizer;
    /// Fields of the thing that the status shows, and K-ORC's names for them.
    const SHOWN: &'static [(&'static str, &'static str)];
    /// Fields that cannot be changed, and their names in the spec.
    const FIXED: &'static [(&'static str, &'static str)] = &[];

    /// It logs in as the user whose thing it is: without the user there is neither.
    const OWN_LOGIN: bool = false;

    fn head(&self) -> Head<'_>;

    /// What of the spec is not done here.
    fn refusal(&self) -> Option<Trouble> {
        None
    }

    /// The collection in Keystone. `ids` is empty for an object under deletion whose others are gone.
    fn collection(&self, ids: &Ids) -> Option<Kind>;

    /// Objects that the wanted thing refers to.
    fn needs(&self) -> Vec<Need>;

    /// The thing as the spec wants it.
    fn wanted(&self, ids: &Ids, cloud: &Cloud) -> Fields;

    /// By which of these fields one that is there already is known to be the same.
    const SAME: &'static [&'static str] = &["name", "domain_id"];

    /// Other objects that a pass depends on, Secrets mostly.
    fn references(&self) -> Vec<Reference> {
        Vec::new()
    }

    fn watches() -> Vec<Target>;

    fn owns() -> Vec<c5c3_kit::Kind> {
        Vec::new()
    }

    /// The thing as it is.
    fn find(&self, search: &Search<'_>) -> impl Future<Output = Result<Option<Entity>, Miss>> + Send {
        super::observe::find(self, search)
    }

    fn look(&self, _look: &Look<'_>) -> impl Future<Output = Result<Self::Extra, Miss>> + Send {
        ready(Ok(Self::Extra::default()))
    }

    /// Pure: what to do about a managed thing.
    fn plan(&self, seen: &Seen<Self>, _now: jiff::Timestamp) -> Plan {
        Plan::simple(self, seen)
    }

    /// Pure: what takes the thing away.
    fn removal(&self, seen: &Seen<Self>) -> Option<Call> {
        Some(Call::Delete {
            kind: seen.collection.clone()?,
            id: seen.live.as_ref()?.id.clone(),
        })
    }

    /// `.status.resource`.
    fn shown(live: &Entity) -> Map<String, Value> {
        shown::<Self>(live)
    }

    /// Further fields of `.status.resource` that Keystone does not tell; `done`: all is as wanted.
    fn marks(&self, _done: bool) -> Map<String, Value> {
        Map::new()
    }

    fn namespaced(&self) -> (String, String) {
        (self.namespace().unwrap_or_default(), self.name_any())
    }
}

/// The needs of an import by filter.
pub(crate) fn import_needs(filter: &Filter) -> Vec<Need> {
    [
        Need::of("domain_id", Target::Domain, filter.domain_ref.as_ref()),
        Need::of("service_id", Target::Service, filter.service_ref.as_ref()),
        Need::of("user_id", Target::User, filter.user_ref.as_ref()),
        Need::of("role_id", Target::Role, filter.role_ref.as_ref()),
        Need::of("project_id", Target::Project, filter.project_ref.as_ref()),
    ]
    .into_iter()
    .flatten()
    .collect()
}

/// The filter in Keystone's words.
pub(crate) fn import_query(filter: &Filter, ids: &Ids) -> Fields {
    let mut query = Fields::new();
    let texts = [
        ("name", &filter.name),
        ("type", &filter.type_),
        ("interface", &filter.interface),
    ];
    for (field, text) in texts {
        if let Some(text) = text {
            query = query.with(field, text.as_str());
        }
    }
    for field in ["domain_id", "service_id", "user_id"] {
        if let Some(id) = ids.get(field) {
            query = query.with(field, id);
        }
    }
    if !filter.tags.is_empty() {
        query = query.with("tags", filter.tags.clone());
    }
    query
}

/// Has an id that can be used: a Keystone that does not answer for a moment does not take it away.
pub(crate) fn usable(head: &Head<'_>) -> Option<String> {
    let unknown = |c: &LooseCondition| c.type_ == "Available" && c.status == "Unknown";
    let usable = is_true(head.conditions, "Available") || head.conditions.iter().any(unknown);
    head.id.filter(|_| usable).map(str::to_owned)
}
