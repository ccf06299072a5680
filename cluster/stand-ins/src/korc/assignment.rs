//! Roles of users on projects. Keystone gives them no ids: role, user and project say which one is
//! meant. Roles of groups and roles on domains are refused.

use c5c3_api::foreign::korc::RoleAssignment;
use c5c3_kit::Finalizer;
use jiff::Timestamp;
use openstack_client::{Assignment, Class, Cloud, Entity, Fields, Identity, Kind};
use serde_json::Value;

use super::decide::{Action, Call, Plan, Seen, fixed};
use super::kinds::{finalizer, head, maybe};
use super::resource::{Head, Ids, Miss, Need, Resource, Search, Target};
use super::trouble::Trouble;

/// Fields of an assignment, and K-ORC's names for them.
const FIELDS: &[(&str, &str)] = &[
    ("role_id", "roleID"),
    ("user_id", "userID"),
    ("project_id", "projectID"),
];

/// What a spec names, and where.
struct Refs<'a> {
    place: &'static str,
    role: Option<&'a String>,
    user: Option<&'a String>,
    group: Option<&'a String>,
    project: Option<&'a String>,
    domain: Option<&'a String>,
}

impl<'a> Refs<'a> {
    fn of(object: &'a RoleAssignment) -> Option<Self> {
        let spec = &object.spec;
        if let Some(made) = spec.resource.as_ref().filter(|_| object.head().managed()) {
            return Some(Self {
                place: "spec.resource",
                role: Some(&made.role_ref).filter(|role| !role.is_empty()),
                user: made.user_ref.as_ref(),
                group: made.group_ref.as_ref(),
                project: made.project_ref.as_ref(),
                domain: made.domain_ref.as_ref(),
            });
        }
        let found = spec.import.as_ref()?.filter.as_ref()?;
        Some(Self {
            place: "spec.import.filter",
            role: found.role_ref.as_ref(),
            user: found.user_ref.as_ref(),
            group: found.group_ref.as_ref(),
            project: found.project_ref.as_ref(),
            domain: found.domain_ref.as_ref(),
        })
    }

    fn refusal(&self) -> Option<String> {
        let place = self.place;
        let other = [
            (self.group, "groupRef", "userRef"),
            (self.domain, "domainRef", "projectRef"),
        ];
        if let Some((_, field, instead)) = other.iter().find(|(given, ..)| given.is_some()) {
            return Some(format!(
                "{place}.{field} is not supported here: name {instead} instead"
            ));
        }
        let needed = [
            (self.role, "roleRef"),
            (self.user, "userRef"),
            (self.project, "projectRef"),
        ];
        let missing = needed.iter().find(|(given, _)| given.is_none());
        missing.map(|(_, field)| format!("{place}.{field} is missing"))
    }
}

impl Resource for RoleAssignment {
    type Extra = ();
    const CONTROLLER: &'static str = "k-orc-roleassignment";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/roleassignment");
    const SHOWN: &'static [(&'static str, &'static str)] = FIELDS;
    const FIXED: &'static [(&'static str, &'static str)] = &[
        ("role_id", "roleRef"),
        ("user_id", "userRef"),
        ("project_id", "projectRef"),
    ];
    head!();

    fn refusal(&self) -> Option<Trouble> {
        let by_id = self
            .spec
            .import
            .as_ref()
            .is_some_and(|import| import.id.is_some());
        if by_id {
            let text = "spec.import.id: a role assignment has no id. Name roleRef, userRef and projectRef in \
                        spec.import.filter";
            return Some(Trouble::Invalid(text.to_owned()));
        }
        Refs::of(self)?.refusal().map(Trouble::Invalid)
    }

    /// It is in none that is asked by id.
    fn collection(&self, _ids: &Ids) -> Option<Kind> {
        None
    }

    fn needs(&self) -> Vec<Need> {
        let Some(refs) = Refs::of(self) else {
            return Vec::new();
        };
        let needs = [
            Need::of("role_id", Target::Role, refs.role),
            Need::of("user_id", Target::User, refs.user),
            Need::of("project_id", Target::Project, refs.project),
        ];
        needs.into_iter().flatten().collect()
    }

    fn watches() -> Vec<Target> {
        vec![Target::Role, Target::User, Target::Project]
    }

    fn wanted(&self, ids: &Ids, _cloud: &Cloud) -> Fields {
        FIELDS.iter().fold(Fields::new(), |fields, (field, _)| {
            maybe(fields, field, ids.get(field))
        })
    }

    /// That of the status, as with the other kinds, or the one that is wanted.
    async fn find(&self, search: &Search<'_>) -> Result<Option<Entity>, Miss> {
        let head = self.head();
        let before = head.shown.and_then(|shown| {
            let id = |name: &str| shown.get(name).and_then(Value::as_str);
            assignment(id("roleID"), id("userID"), id("projectID"))
        });
        let id = |field: &str| search.ids.get(field);
        let wanted = assignment(id("role_id"), id("user_id"), id("project_id"));
        if let Some(before) = &before
            && has(search.cloud, before).await?
        {
            return Ok(Some(entity(before)));
        }
        // What was made is gone: there is nothing to take away.
        let wanted = wanted.filter(|_| !(search.deleting && before.is_some()));
        if let Some(wanted) = &wanted
            && before.as_ref() != Some(wanted)
            && has(search.cloud, wanted).await?
        {
            return Ok(Some(entity(wanted)));
        }
        match before {
            _ if head.managed() => Ok(None),
            Some(_) => {
                let text = "role assignment has been deleted from OpenStack".to_owned();
                Err(Trouble::Unrecoverable(text).into())
            }
            None => {
                let text = "Waiting for OpenStack resource to be created externally: no such role assignment";
                Err(Trouble::Waits(text.to_owned()).into())
            }
        }
    }

    fn plan(&self, seen: &Seen<Self>, _now: Timestamp) -> Plan {
        let wanted = self.wanted(&seen.ids, seen.cloud.cloud());
        if let Some(live) = &seen.live {
            let trouble = fixed::<Self>(live, &live.differs(&wanted));
            return trouble.map(Plan::trouble).unwrap_or_default();
        }
        let id = |field: &str| wanted.text(field);
        let wanted = assignment(id("role_id"), id("user_id"), id("project_id"));
        let actions = wanted.map(|wanted| Action {
            cloud: seen.cloud.clone(),
            call: Call::Assign(wanted),
        });
        Plan {
            actions: actions.into_iter().collect(),
            ..Plan::default()
        }
    }

    fn removal(&self, seen: &Seen<Self>) -> Option<Call> {
        let live = seen.live.as_ref()?;
        let id = |field: &str| live.text(field);
        assignment(id("role_id"), id("user_id"), id("project_id")).map(Call::Revoke)
    }
}

fn assignment(role: Option<&str>, user: Option<&str>, project: Option<&str>) -> Option<Assignment> {
    Some(Assignment {
        user: user?.to_owned(),
        project: project?.to_owned(),
        role: role?.to_owned(),
    })
}

/// As a thing, which has no id.
pub(crate) fn entity(assignment: &Assignment) -> Entity {
    let fields = Fields::new()
        .with("role_id", assignment.role.as_str())
        .with("user_id", assignment.user.as_str())
        .with("project_id", assignment.project.as_str());
    Entity {
        id: String::new(),
        fields,
    }
}

async fn has(cloud: &dyn Identity, wanted: &Assignment) -> Result<bool, Miss> {
    match cloud.assignments(&wanted.user, &wanted.project).await {
        Ok(all) => Ok(all.contains(wanted)),
        // The user or the project is gone, and its roles with it.
        Err(error) if error.class() == Class::NotFound => Ok(false),
        Err(error) => Err(error.into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn what_is_not_supported_is_refused() {
        let all = json!({"roleRef": "r", "userRef": "u", "projectRef": "p"});
        let on_domain = json!({"roleRef": "r", "userRef": "u", "domainRef": "d"});
        let of_group = json!({"roleRef": "r", "groupRef": "g", "projectRef": "p"});
        let refused = |policy: &str, fields: &Value| {
            let mut spec = json!({"cloudCredentialsRef": {"cloudName": "a", "secretName": "b"},
                "managementPolicy": policy});
            let place = if policy == "managed" { "resource" } else { "import" };
            spec[place] = fields.clone();
            let object = json!({"metadata": {"name": "x"}, "spec": spec});
            let object: RoleAssignment = serde_json::from_value(object).expect("a RoleAssignment");
            object.refusal().map(|trouble| trouble.text().to_owned())
        };
        let filter = |fields: &Value| json!({"filter": fields});
        for (policy, fields, words) in [
            ("managed", all.clone(), None),
            (
                "managed",
                on_domain.clone(),
                Some("spec.resource.domainRef is not supported here: name projectRef"),
            ),
            (
                "managed",
                of_group,
                Some("spec.resource.groupRef is not supported here: name userRef"),
            ),
            (
                "managed",
                json!({"roleRef": "r", "userRef": "u"}),
                Some("spec.resource.projectRef is missing"),
            ),
            (
                "managed",
                json!({"userRef": "u", "projectRef": "p"}),
                Some("spec.resource.roleRef is missing"),
            ),
            ("unmanaged", filter(&all), None),
            (
                "unmanaged",
                filter(&on_domain),
                Some("spec.import.filter.domainRef is not supported"),
            ),
            (
                "unmanaged",
                filter(&json!({"userRef": "u"})),
                Some("spec.import.filter.roleRef is missing"),
            ),
            (
                "unmanaged",
                json!({"id": "7"}),
                Some("spec.import.id: a role assignment has no id"),
            ),
        ] {
            match (refused(policy, &fields), words) {
                (None, None) => {}
                (Some(text), Some(words)) => assert!(text.starts_with(words), "{text}"),
                (text, words) => panic!("{fields}: {text:?} instead of {words:?}"),
            }
        }
    }
}
