//! What Keystone has to be told beside K-ORC: it gives endpoints no region, and its releases up to v2.6.0 give
//! users no roles. What was told is remembered by an annotation of K-ORC's object.

use c5c3_api::conditions::control_plane::KORC_READY;
use c5c3_api::foreign::korc::{Endpoint, Project, Role, User};
use c5c3_api::services::{SERVICES, keystone};
use c5c3_kit::Reference;
use kube::Resource;

use super::korc::{self, SERVICE_PROJECT, SERVICE_ROLES};
use super::{Child, Draft, Health, State, Step};

/// Annotation of a K-ORC object: ids in Keystone, and what was set there.
pub const COMPLETED: &str = "c5c3.io/completed";

/// Something that is to be set in Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// K-ORC's object, and what its annotation says afterwards.
    pub object: Reference,
    pub mark: String,
    pub fix: Fix,
}

/// Ids are those of Keystone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fix {
    Region {
        endpoint: String,
        region: String,
    },
    Roles {
        user: String,
        project: String,
        roles: Vec<String>,
    },
}

/// A step while there is something to set; gives what that is.
pub(super) fn plan(draft: &mut Draft<'_>) -> Vec<Gap> {
    let gaps = gaps(draft);
    if let Some(first) = gaps.first() {
        let what = match &first.fix {
            Fix::Region { region, .. } => format!("region {region} of Endpoint {}", first.object.key.name),
            Fix::Roles { .. } => format!("roles of User {}", first.object.key.name),
        };
        let state = State::Running(format!("sets {what} in Keystone"));
        draft.push(Step::bare("completion", "regions and roles", KORC_READY, state));
    }
    gaps
}

/// What is not set yet of what K-ORC has made.
fn gaps(draft: &Draft<'_>) -> Vec<Gap> {
    if !draft.spec.korc.enabled {
        return Vec::new();
    }
    let mut all = Vec::new();
    for service in SERVICES.iter().skip(1).filter(|service| service.runs(draft.spec)) {
        // A Keystone of others need not have our region.
        if keystone().runs(draft.spec) {
            let interfaces = ["public", "internal", "admin"];
            all.extend(interfaces.map(|interface| region(draft, &format!("{}-{interface}", service.name))));
        }
        if korc::gives_no_roles(draft) {
            all.push(roles(draft, service.name));
        }
    }
    all.into_iter().flatten().collect()
}

/// One of K-ORC's objects and its id in Keystone, when it is made.
fn made<'d, K: Resource<DynamicType = ()>>(
    draft: &'d Draft<'_>,
    name: &str,
) -> Option<(Reference, &'d Child, &'d str)> {
    let object = draft.named::<K>(name);
    let child = draft.seen.children.get(&object)?;
    let id = child.id.as_deref().filter(|_| child.health == Health::Ready)?;
    Some((object, child, id))
}

fn region(draft: &Draft<'_>, endpoint: &str) -> Option<Gap> {
    let (object, child, id) = made::<Endpoint>(draft, endpoint)?;
    let region = draft.spec.region.clone();
    let fix = Fix::Region {
        endpoint: id.to_owned(),
        region: region.clone(),
    };
    open(object, child, format!("{id} {region}"), fix)
}

fn roles(draft: &Draft<'_>, user: &str) -> Option<Gap> {
    let (object, child, id) = made::<User>(draft, user)?;
    let (_, _, project) = made::<Project>(draft, SERVICE_PROJECT)?;
    let roles: Option<Vec<String>> = SERVICE_ROLES
        .iter()
        .map(|role| made::<Role>(draft, role).map(|(_, _, id)| id.to_owned()))
        .collect();
    let fix = Fix::Roles {
        user: id.to_owned(),
        project: project.to_owned(),
        roles: roles?,
    };
    let mark = format!("{id} {project} {}", SERVICE_ROLES.join(","));
    open(object, child, mark, fix)
}

/// Another id is another thing: it has nothing of what the one before had.
fn open(object: Reference, child: &Child, mark: String, fix: Fix) -> Option<Gap> {
    let done = child.completed.as_deref() == Some(&mark);
    (!done).then_some(Gap { object, mark, fix })
}

/// Of the roles of a user, those that an annotation says it has.
pub fn given<'m>(mark: Option<&'m str>, user_id: &str) -> Vec<&'m str> {
    let mut words = mark.unwrap_or_default().split(' ');
    let same = words.next() == Some(user_id);
    let roles = words.nth(1).filter(|_| same).unwrap_or_default();
    roles.split(',').filter(|role| !role.is_empty()).collect()
}

#[cfg(test)]
mod tests {
    use super::super::golden::world::{running, small};
    use super::super::{Seen, plan};
    use super::*;
    use c5c3_api::c5c3::ControlPlane;
    use serde_json::json;

    /// Everything of K-ORC is made: its id is its name.
    fn made(object: &ControlPlane, without_assignments: bool) -> Seen {
        let mut seen = running(object);
        if without_assignments {
            seen.missing = [korc::ASSIGNMENT.to_owned()].into();
            seen.children.retain(|child, _| child.kind != korc::ASSIGNMENT);
        }
        for (reference, child) in &mut seen.children {
            if reference.kind.ends_with(korc::DOMAIN) {
                child.id = Some(format!("id-{}", reference.key.name));
            }
        }
        seen
    }

    fn gaps(object: &ControlPlane, seen: &Seen) -> Vec<Gap> {
        plan(object, seen).gaps
    }

    fn told(seen: &Seen, object: &ControlPlane) -> Vec<String> {
        let all = gaps(object, seen).into_iter();
        all.map(|gap| format!("{} {}: {}", gap.object.kind, gap.object.key.name, gap.mark))
            .collect()
    }

    #[test]
    fn endpoints_get_their_region_and_users_their_roles_once() {
        let object = small(&json!({"region": "north", "services": {"placement": {"enabled": false}}}));
        let mut seen = made(&object, true);
        let endpoint = "Endpoint.openstack.k-orc.cloud";
        assert_eq!(
            told(&seen, &object),
            [
                format!("{endpoint} glance-public: id-glance-public north"),
                format!("{endpoint} glance-internal: id-glance-internal north"),
                format!("{endpoint} glance-admin: id-glance-admin north"),
                "User.openstack.k-orc.cloud glance: id-glance id-service admin,service".to_owned(),
            ]
        );
        let blocker = plan(&object, &seen).blocker().expect("not done").text();
        assert_eq!(blocker, "sets region north of Endpoint glance-public in Keystone");
        for gap in gaps(&object, &seen) {
            let child = seen.children.get_mut(&gap.object).expect("there");
            child.completed = Some(gap.mark);
        }
        assert_eq!(told(&seen, &object), Vec::<String>::new());
        assert!(plan(&object, &seen).blocker().is_none());
        // Made again in Keystone, it has no role.
        let user = seen
            .children
            .iter_mut()
            .find(|(child, _)| child.kind.starts_with("User."));
        user.expect("there").1.id = Some("another".to_owned());
        assert_eq!(told(&seen, &object).len(), 1);
    }

    #[test]
    fn a_k_orc_that_gives_roles_gives_them() {
        let object = small(&json!({}));
        let seen = made(&object, false);
        assert!(told(&seen, &object).iter().all(|gap| gap.starts_with("Endpoint")));
    }

    #[test]
    fn without_the_kind_no_assignment_is_made_and_nothing_waits_for_it() {
        let object = small(&json!({}));
        let seen = made(&object, true);
        let plan = plan(&object, &seen);
        assert!(plan.wanted().all(|value| value["kind"] != "RoleAssignment"));
        assert!(!plan.blocker().expect("regions").text().contains("no kind"));
    }

    #[test]
    fn what_a_mark_says_is_of_one_user() {
        let mark = Some("u p admin,service");
        assert_eq!(given(mark, "u"), ["admin", "service"]);
        assert!(given(mark, "v").is_empty() && given(None, "u").is_empty());
        assert!(given(Some("u p"), "u").is_empty());
    }
}
