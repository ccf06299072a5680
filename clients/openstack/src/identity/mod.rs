//! Keystone. Its things are all alike: an id, a few fields, the same five calls; so is the trait.

mod keystone;

pub(crate) use keystone::{piece, query, unwrap, unwrap_all};

use std::fmt::{self, Debug};
use std::sync::Arc;

use async_trait::async_trait;
use serde_json::{Map, Value};

use crate::clouds::Cloud;
use crate::error::Result;

/// What can be listed, read, made, changed and removed.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Kind {
    Domain,
    Project,
    Role,
    Group,
    User,
    Service,
    Endpoint,
    /// Of the user with this id.
    ApplicationCredential {
        user: String,
    },
}

impl Kind {
    /// As Keystone names one in a body.
    pub fn singular(&self) -> &'static str {
        match self {
            Kind::Domain => "domain",
            Kind::Project => "project",
            Kind::Role => "role",
            Kind::Group => "group",
            Kind::User => "user",
            Kind::Service => "service",
            Kind::Endpoint => "endpoint",
            Kind::ApplicationCredential { .. } => "application_credential",
        }
    }

    pub fn plural(&self) -> String {
        format!("{}s", self.singular())
    }

    /// For people.
    pub fn thing(&self) -> String {
        self.singular().replace('_', " ")
    }
}

/// Fields of a thing. Passwords and secrets among them are not shown.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Fields(pub Map<String, Value>);

impl Fields {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.0.insert(name.to_owned(), value.into());
        self
    }

    pub fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

impl FromIterator<(String, Value)> for Fields {
    fn from_iter<I: IntoIterator<Item = (String, Value)>>(fields: I) -> Self {
        Self(fields.into_iter().collect())
    }
}

impl Debug for Fields {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = self.0.iter().map(|(name, value)| {
            let hidden = matches!(name.as_str(), "password" | "secret" | "original_password");
            (
                name,
                if hidden {
                    "(secret)".to_owned()
                } else {
                    value.to_string()
                },
            )
        });
        f.debug_map().entries(shown).finish()
    }
}

/// A thing that is there.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entity {
    pub id: String,
    pub fields: Fields,
}

impl Entity {
    pub fn text(&self, name: &str) -> Option<&str> {
        self.fields.text(name)
    }

    pub fn name(&self) -> &str {
        self.text("name").unwrap_or_default()
    }

    /// Of what should be, the part that is not so. A missing text is an empty one.
    pub fn differs(&self, wanted: &Fields) -> Fields {
        let same = |name: &str, wanted: &Value| match (self.fields.0.get(name), wanted) {
            (None | Some(Value::Null), Value::String(text)) => text.is_empty(),
            (None | Some(Value::Null), Value::Null) => true,
            (Some(Value::String(text)), Value::Null) => text.is_empty(),
            // Keystone keeps no order in lists such as tags.
            (Some(Value::Array(live)), Value::Array(wanted)) => {
                live.len() == wanted.len() && wanted.iter().all(|item| live.contains(item))
            }
            (live, wanted) => live == Some(wanted),
        };
        let odd = wanted.0.iter().filter(|(name, value)| !same(name, value));
        odd.map(|(name, value)| (name.clone(), value.clone())).collect()
    }
}

/// A role that a user has on a project.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Assignment {
    pub user: String,
    pub project: String,
    pub role: String,
}

/// Who is logged in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identified {
    pub user: String,
    pub project: Option<String>,
}

#[async_trait]
pub trait Identity: Debug + Send + Sync {
    fn cloud(&self) -> &Cloud;
    /// Does it answer at all? Needs no login.
    async fn ping(&self) -> Result<()>;
    /// Logs in, if that has not happened yet.
    async fn identify(&self) -> Result<Identified>;
    /// Those whose fields are as the filter says, by the names of Keystone's query parameters.
    async fn list(&self, kind: &Kind, filter: &[(&str, &str)]) -> Result<Vec<Entity>>;
    async fn get(&self, kind: &Kind, id: &str) -> Result<Option<Entity>>;
    async fn create(&self, kind: &Kind, fields: &Fields) -> Result<Entity>;
    async fn update(&self, kind: &Kind, id: &str, changes: &Fields) -> Result<Entity>;
    /// One that is gone already is as good as deleted.
    async fn delete(&self, kind: &Kind, id: &str) -> Result<()>;
    /// Roles that the user itself has on the project.
    async fn assignments(&self, user: &str, project: &str) -> Result<Vec<Assignment>>;
    async fn assign(&self, assignment: &Assignment) -> Result<()>;
    async fn revoke(&self, assignment: &Assignment) -> Result<()>;
}

/// Opens sessions: to real clouds, or to a simulated one.
pub trait Connect: Debug + Send + Sync {
    fn connect(&self, cloud: Cloud) -> Result<Arc<dyn Identity>>;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_differs_is_to_be_changed() {
        let entity = Entity {
            id: "1".to_owned(),
            fields: Fields::new()
                .with("name", "a")
                .with("enabled", true)
                .with("description", Value::Null),
        };
        let wanted = Fields::new()
            .with("name", "a")
            .with("enabled", false)
            .with("description", "")
            .with("email", "x");
        assert_eq!(
            entity.differs(&wanted),
            Fields::new().with("enabled", false).with("email", "x")
        );
        assert!(entity.differs(&entity.fields.clone()).is_empty());
    }

    #[test]
    fn secrets_are_not_shown() {
        let fields = Fields::new()
            .with("password", "hunter2")
            .with("secret", "hunter3")
            .with("name", "n");
        let text = format!("{fields:?}");
        assert!(!text.contains("hunter") && text.contains('n'), "{text}");
    }
}
