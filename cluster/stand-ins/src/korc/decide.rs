//! Pure: what follows from what was seen.

use std::fmt;
use std::sync::{Arc, OnceLock};

use c5c3_kit::Wanted;
use openstack_client::{Assignment, Entity, Fields, Identity, Kind};
use serde_json::{Map, Value};

use super::resource::{Ids, Resource};
use super::trouble::Trouble;

/// What was seen of an object's thing, when nothing was in the way.
pub(crate) struct Seen<R: Resource> {
    pub cloud: Arc<dyn Identity>,
    /// `None`: in none, or under deletion, and what is needed to look is gone.
    pub collection: Option<Kind>,
    pub ids: Ids,
    pub live: Option<Entity>,
    pub extra: R::Extra,
}

/// The thing as Keystone answered to a write. The report reads what the action left here.
#[derive(Clone, Default)]
pub(crate) struct Made(pub Arc<OnceLock<Entity>>);

impl fmt::Debug for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Made")
    }
}

impl PartialEq for Made {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// A password that a call sets: after it, the version of the Secret needs no proof.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Proof {
    pub user: String,
    pub version: String,
}

#[derive(Clone, PartialEq)]
pub(crate) enum Call {
    Create {
        kind: Kind,
        fields: Fields,
        proof: Option<Proof>,
        made: Made,
    },
    Update {
        kind: Kind,
        id: String,
        changes: Fields,
        proof: Option<Proof>,
        made: Made,
    },
    Delete {
        kind: Kind,
        id: String,
    },
    Assign(Assignment),
    Revoke(Assignment),
}

/// Fields by name only: a password is one of them.
impl fmt::Debug for Call {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = |fields: &Fields| fields.0.keys().cloned().collect::<Vec<_>>().join(", ");
        match self {
            Call::Create { kind, fields, .. } => write!(f, "Create {} ({})", kind.thing(), names(fields)),
            Call::Update {
                kind, id, changes, ..
            } => write!(f, "Update {} {id} ({})", kind.thing(), names(changes)),
            Call::Delete { kind, id } => write!(f, "Delete {} {id}", kind.thing()),
            Call::Assign(assignment) => write!(f, "Assign {assignment:?}"),
            Call::Revoke(assignment) => write!(f, "Revoke {assignment:?}"),
        }
    }
}

/// A call and the session that makes it.
#[derive(Clone, Debug)]
pub(crate) struct Action {
    pub cloud: Arc<dyn Identity>,
    pub call: Call,
}

#[derive(Default)]
pub(crate) struct Plan {
    pub wanted: Vec<Wanted>,
    pub actions: Vec<Action>,
    pub trouble: Option<Trouble>,
    /// Another pass must follow at once.
    pub unfinished: bool,
}

impl Plan {
    pub(crate) fn trouble(trouble: Trouble) -> Self {
        Self {
            trouble: Some(trouble),
            ..Self::default()
        }
    }

    /// Make it, change what differs, or leave it alone.
    pub(crate) fn simple<R: Resource>(object: &R, seen: &Seen<R>) -> Self {
        Self::with_fields(object, seen, None)
    }

    /// The same with a password, when one is to be set.
    pub(crate) fn with_fields<R: Resource>(
        object: &R,
        seen: &Seen<R>,
        password: Option<(String, Proof)>,
    ) -> Self {
        let Some(kind) = seen.collection.clone() else {
            return Self::default();
        };
        let wanted = object.wanted(&seen.ids, seen.cloud.cloud());
        let (password, proof) = password.unzip();
        let with_password = |fields: Fields| match password {
            Some(password) => fields.with("password", password),
            None => fields,
        };
        let call = match &seen.live {
            None => Call::Create {
                kind,
                fields: with_password(wanted),
                proof,
                made: Made::default(),
            },
            Some(live) => {
                let odd = live.differs(&wanted);
                if let Some(trouble) = fixed::<R>(live, &odd) {
                    return Self::trouble(trouble);
                }
                let changes = with_password(odd);
                if changes.is_empty() {
                    return Self::default();
                }
                Call::Update {
                    kind,
                    id: live.id.clone(),
                    changes,
                    proof,
                    made: Made::default(),
                }
            }
        };
        Self {
            actions: vec![Action {
                cloud: seen.cloud.clone(),
                call,
            }],
            ..Self::default()
        }
    }
}

/// A change of what cannot be changed.
pub(crate) fn fixed<R: Resource>(live: &Entity, odd: &Fields) -> Option<Trouble> {
    let (field, named) = R::FIXED.iter().find(|(field, _)| odd.0.contains_key(*field))?;
    let is = live.fields.0.get(*field).cloned().unwrap_or_default();
    let wanted = odd.0.get(*field).cloned().unwrap_or_default();
    Some(Trouble::Invalid(format!(
        "spec.resource.{named} cannot be changed: it is {is} in OpenStack and {wanted} is wanted. \
         Change it back, or make a new object"
    )))
}

/// `.status.resource`, under K-ORC's names; empty fields are left out. Lists are sets, and Keystone
/// answers them in any order: sorted, the same set is the same status.
pub(crate) fn shown<R: Resource>(live: &Entity) -> Map<String, Value> {
    let fields = R::SHOWN.iter().filter_map(|(field, name)| {
        let mut value = live.fields.0.get(*field)?.clone();
        if let Value::Array(list) = &mut value {
            list.sort_by_cached_key(Value::to_string);
        }
        let empty = match &value {
            Value::Null => true,
            Value::String(text) => text.is_empty(),
            Value::Array(list) => list.is_empty(),
            _ => false,
        };
        (!empty).then(|| ((*name).to_owned(), value))
    });
    fields.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::foreign::korc::Project;
    use openstack_client::{Connect, Simulator};
    use serde_json::json;

    fn project(resource: &Value) -> Project {
        let spec =
            json!({"cloudCredentialsRef": {"cloudName": "a", "secretName": "b"}, "resource": resource});
        let object = json!({"metadata": {"name": "service", "namespace": "n"}, "spec": spec});
        serde_json::from_value(object).expect("a Project")
    }

    fn seen(live: Option<Fields>) -> Seen<Project> {
        let cloud = Simulator::default().connect(Simulator::admin("admin"));
        Seen {
            cloud: cloud.expect("a session"),
            collection: Some(Kind::Project),
            ids: Ids([(("domain_id", "default".to_owned()), "d1".to_owned())].into()),
            live: live.map(|fields| Entity {
                id: "p1".to_owned(),
                fields,
            }),
            extra: (),
        }
    }

    fn fields(description: &str, domain: &str) -> Fields {
        Fields::new()
            .with("name", "service")
            .with("enabled", true)
            .with("description", description)
            .with("tags", json!(["b", "a"]))
            .with("domain_id", domain)
    }

    #[test]
    fn made_changed_or_left_alone() {
        let object = project(&json!({"domainRef": "default", "description": "x", "tags": ["a", "b"]}));
        let calls = |live: Option<Fields>| {
            let plan = Plan::simple(&object, &seen(live));
            let calls: Vec<Call> = plan.actions.into_iter().map(|action| action.call).collect();
            (calls, plan.trouble)
        };
        let (made, _) = calls(None);
        let wanted = fields("x", "d1").with("tags", json!(["a", "b"]));
        assert_eq!(
            made,
            [Call::Create {
                kind: Kind::Project,
                fields: wanted,
                proof: None,
                made: Made::default()
            }]
        );
        assert_eq!(
            calls(Some(fields("x", "d1").with("parent_id", "d1"))),
            (vec![], None)
        );
        let (changed, _) = calls(Some(fields("by hand", "d1").with("enabled", false)));
        assert_eq!(
            changed,
            [Call::Update {
                kind: Kind::Project,
                id: "p1".to_owned(),
                changes: Fields::new().with("description", "x").with("enabled", true),
                proof: None,
                made: Made::default()
            }]
        );
        let (none, trouble) = calls(Some(fields("x", "d2")));
        assert!(none.is_empty());
        let text = trouble.expect("it cannot be moved").text().to_owned();
        assert!(
            text.starts_with("spec.resource.domainRef cannot be changed"),
            "{text}"
        );
    }

    #[test]
    fn a_call_shows_no_value() {
        let call = Call::Create {
            kind: Kind::User,
            fields: Fields::new().with("name", "glance").with("password", "hush"),
            proof: None,
            made: Made::default(),
        };
        let told = format!("{call:?}");
        assert!(told.contains("password") && !told.contains("hush"), "{told}");
    }

    #[test]
    fn a_status_has_the_names_of_k_orc_nothing_empty_and_sets_in_one_order() {
        let expected = json!({"name": "service", "enabled": true, "tags": ["a", "b"], "domainID": "d1"});
        for tags in [json!(["a", "b"]), json!(["b", "a"])] {
            let answered = fields("", "d1").with("tags", tags);
            let live = seen(Some(answered)).live.expect("there");
            assert_eq!(Value::Object(shown::<Project>(&live)), expected);
        }
    }
}
