//! The calls as Keystone's API v3 wants them.

use async_trait::async_trait;
use http::Method;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::{Map, Value, json};

use super::{Assignment, Entity, Fields, Identified, Identity, Kind};
use crate::clouds::Cloud;
use crate::error::{Cause, Error, Result, optional};
use crate::session::{Asked, Destination, Session};

const PLAIN: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'_').remove(b'.');

/// One piece of a path.
pub(crate) fn piece(text: &str) -> String {
    utf8_percent_encode(text, PLAIN).to_string()
}

pub(crate) fn query(path: &str, filter: &[(&str, &str)]) -> String {
    if filter.is_empty() {
        return path.to_owned();
    }
    let pairs = form_urlencoded::Serializer::new(String::new())
        .extend_pairs(filter)
        .finish();
    format!("{path}?{pairs}")
}

fn path(kind: &Kind) -> String {
    match kind {
        Kind::ApplicationCredential { user } => {
            format!("/users/{}/application_credentials", piece(user))
        }
        other => format!("/{}", other.plural()),
    }
}

fn one(kind: &Kind, id: &str) -> String {
    format!("{}/{}", path(kind), piece(id))
}

fn entity(doing: &str, fields: Map<String, Value>) -> Result<Entity> {
    let id = fields.get("id").and_then(Value::as_str).map(str::to_owned);
    let id = id.ok_or_else(|| Error::new(doing, Cause::Garbled("no id".to_owned())))?;
    Ok(Entity {
        id,
        fields: Fields(fields),
    })
}

/// The one thing of an answer, below this name.
pub(crate) fn unwrap(doing: &str, name: &str, mut body: Map<String, Value>) -> Result<Entity> {
    match body.remove(name) {
        Some(Value::Object(fields)) => entity(doing, fields),
        _ => Err(Error::new(doing, Cause::Garbled(format!("no {name}")))),
    }
}

/// The things of an answer, in a list below this name.
pub(crate) fn unwrap_all(doing: &str, name: &str, mut body: Map<String, Value>) -> Result<Vec<Entity>> {
    let Some(Value::Array(list)) = body.remove(name) else {
        return Err(Error::new(doing, Cause::Garbled(format!("no {name}"))));
    };
    let things = list.into_iter().filter_map(|thing| match thing {
        Value::Object(fields) => Some(entity(doing, fields)),
        _ => None,
    });
    things.collect()
}

fn said(kind: &Kind, fields: &Fields) -> String {
    let name = fields.text("name").or_else(|| fields.text("url"));
    match name {
        Some(name) => format!("{} {name}", kind.thing()),
        None => kind.thing(),
    }
}

#[async_trait]
impl Identity for Session {
    fn cloud(&self) -> &Cloud {
        Session::cloud(self)
    }

    async fn ping(&self) -> Result<()> {
        Session::ping(self).await
    }

    async fn identify(&self) -> Result<Identified> {
        Session::identify(self).await
    }

    async fn list(&self, kind: &Kind, filter: &[(&str, &str)]) -> Result<Vec<Entity>> {
        let doing = format!("list {}s", kind.thing());
        let path = query(&path(kind), filter);
        let body = self
            .read(Destination::Identity, Asked::new(&doing, Method::GET, &path))
            .await?;
        unwrap_all(&doing, &kind.plural(), body)
    }

    async fn get(&self, kind: &Kind, id: &str) -> Result<Option<Entity>> {
        let doing = format!("read {} {id}", kind.thing());
        let path = one(kind, id);
        let asked = Asked::new(&doing, Method::GET, &path);
        let body = optional(self.read(Destination::Identity, asked).await)?;
        body.map(|body| unwrap(&doing, kind.singular(), body)).transpose()
    }

    async fn create(&self, kind: &Kind, fields: &Fields) -> Result<Entity> {
        let doing = format!("create {}", said(kind, fields));
        let path = path(kind);
        let body = json!({kind.singular(): fields.0});
        let asked = Asked::new(&doing, Method::POST, &path).body(&body);
        unwrap(
            &doing,
            kind.singular(),
            self.read(Destination::Identity, asked).await?,
        )
    }

    async fn update(&self, kind: &Kind, id: &str, changes: &Fields) -> Result<Entity> {
        let doing = format!("update {} {id}", kind.thing());
        let path = one(kind, id);
        let body = json!({kind.singular(): changes.0});
        let asked = Asked::new(&doing, Method::PATCH, &path).body(&body);
        unwrap(
            &doing,
            kind.singular(),
            self.read(Destination::Identity, asked).await?,
        )
    }

    async fn delete(&self, kind: &Kind, id: &str) -> Result<()> {
        let doing = format!("delete {} {id}", kind.thing());
        let path = one(kind, id);
        let asked = Asked::new(&doing, Method::DELETE, &path);
        optional(self.send(Destination::Identity, asked).await).map(drop)
    }

    async fn assignments(&self, user: &str, project: &str) -> Result<Vec<Assignment>> {
        let doing = format!("list role assignments of user {user}");
        let filter = [("user.id", user), ("scope.project.id", project)];
        let path = query("/role_assignments", &filter);
        let body: Value = self
            .read(Destination::Identity, Asked::new(&doing, Method::GET, &path))
            .await?;
        let list = body.get("role_assignments").and_then(Value::as_array);
        let list =
            list.ok_or_else(|| Error::new(&doing, Cause::Garbled("no role_assignments".to_owned())))?;
        let roles = list
            .iter()
            .filter_map(|entry| entry.pointer("/role/id").and_then(Value::as_str));
        Ok(roles
            .map(|role| Assignment {
                user: user.to_owned(),
                project: project.to_owned(),
                role: role.to_owned(),
            })
            .collect())
    }

    async fn assign(&self, assignment: &Assignment) -> Result<()> {
        let doing = format!("give role {} to user {}", assignment.role, assignment.user);
        let path = grant(assignment);
        let asked = Asked::new(&doing, Method::PUT, &path);
        self.send(Destination::Identity, asked).await.map(drop)
    }

    async fn revoke(&self, assignment: &Assignment) -> Result<()> {
        let doing = format!("take role {} from user {}", assignment.role, assignment.user);
        let path = grant(assignment);
        let asked = Asked::new(&doing, Method::DELETE, &path);
        optional(self.send(Destination::Identity, asked).await).map(drop)
    }
}

fn grant(assignment: &Assignment) -> String {
    format!(
        "/projects/{}/users/{}/roles/{}",
        piece(&assignment.project),
        piece(&assignment.user),
        piece(&assignment.role)
    )
}
