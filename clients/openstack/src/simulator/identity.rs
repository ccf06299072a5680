//! Keystone in memory: unique names, required fields, passwords, what goes with what is deleted.

use async_trait::async_trait;
use serde_json::{Value, json};
use uuid::Uuid;

use super::{Act, Simulator, World};
use crate::clouds::{Auth, Cloud, DomainName, Scope, UserName};
use crate::error::Result;
use crate::identity::{Assignment, Entity, Fields, Identified, Identity, Kind};
use crate::secret::Secret;

type Refused = (u16, String);

fn key(kind: &Kind) -> String {
    kind.plural()
}

fn fresh() -> String {
    Uuid::new_v4().simple().to_string()
}

impl World {
    fn put(&mut self, collection: &str, id: &str, fields: Fields) {
        let fields = fields.with("id", id);
        self.things
            .entry(collection.to_owned())
            .or_default()
            .insert(id.to_owned(), fields);
    }

    fn find(&self, collection: &str, matches: impl Fn(&Fields) -> bool) -> Option<(&String, &Fields)> {
        let things = self.things.get(collection)?;
        things.iter().find(|(_, fields)| matches(fields))
    }

    fn domain(&self, domain: &DomainName) -> Option<String> {
        match domain {
            DomainName::Id(id) => Some(id.clone()),
            DomainName::Name(name) => self
                .find("domains", |fields| fields.text("name") == Some(name))
                .map(|(id, _)| id.clone()),
        }
    }

    fn named(&self, collection: &str, name: &str, domain: &DomainName) -> Option<String> {
        let domain = self.domain(domain)?;
        let same =
            |fields: &Fields| fields.text("name") == Some(name) && fields.text("domain_id") == Some(&domain);
        self.find(collection, same).map(|(id, _)| id.clone())
    }

    fn login(&self, auth: &Auth) -> std::result::Result<Identified, Refused> {
        let refused = || {
            (
                401,
                "The request you have made requires authentication.".to_owned(),
            )
        };
        match auth {
            Auth::Password {
                user,
                password,
                scope,
            } => {
                let user = match user {
                    UserName::Id(id) => Some(id.clone()),
                    UserName::Name { name, domain } => self.named("users", name, domain),
                };
                let user = user.ok_or_else(refused)?;
                let enabled = self.find("users", |fields| {
                    fields.text("id") == Some(&user) && fields.0.get("enabled") != Some(&json!(false))
                });
                if enabled.is_none()
                    || self.passwords.get(&user).map(String::as_str) != Some(password.reveal())
                {
                    return Err(refused());
                }
                let project = match scope {
                    Scope::ProjectId(id) => Some(id.clone()),
                    Scope::Project { name, domain } => {
                        Some(self.named("projects", name, domain).ok_or_else(refused)?)
                    }
                    _ => None,
                };
                if let Some(project) = &project {
                    let has = |a: &Assignment| a.user == user && a.project == *project;
                    if !self.assignments.iter().any(has) {
                        return Err(refused());
                    }
                }
                Ok(Identified { user, project })
            }
            Auth::ApplicationCredential { id, secret } => {
                let found = self.find("application_credentials", |fields| fields.text("id") == Some(id));
                let (_, fields) = found.ok_or_else(refused)?;
                if self.secrets.get(id).map(String::as_str) != Some(secret.reveal()) {
                    return Err(refused());
                }
                let text = |name: &str| fields.text(name).map(str::to_owned);
                // As in Keystone: a credential is worth what roles its user still has.
                let has = |a: &Assignment| {
                    fields.text("user_id") == Some(&a.user) && fields.text("project_id") == Some(&a.project)
                };
                if !self.assignments.iter().any(has) {
                    return Err(refused());
                }
                Ok(Identified {
                    user: text("user_id").ok_or_else(refused)?,
                    project: text("project_id"),
                })
            }
        }
    }

    fn create(
        &mut self,
        kind: &Kind,
        fields: &Fields,
        who: &Identified,
    ) -> std::result::Result<Entity, Refused> {
        let required: &[&str] = match kind {
            Kind::Service => &["type"],
            Kind::Endpoint => &["service_id", "interface", "url"],
            _ => &["name"],
        };
        for name in required {
            if fields.text(name).is_none_or(str::is_empty) {
                return Err((400, format!("'{name}' is a required property")));
            }
        }
        let not_held = self.not_held(fields.0.get("roles"), who);
        let mut fields = fields.clone();
        let mut fill = |name: &str, value: Value| {
            fields.0.entry(name).or_insert(value);
        };
        match kind {
            Kind::User | Kind::Project | Kind::Group => fill("domain_id", json!("default")),
            Kind::ApplicationCredential { user } => {
                if *user != who.user {
                    return Err((
                        403,
                        "You are not authorized to perform the requested action.".to_owned(),
                    ));
                }
                if let Some(role) = not_held {
                    return Err((
                        400,
                        format!(
                            "Invalid application credential: Could not find role assignment with role: {role}"
                        ),
                    ));
                }
                fill("user_id", json!(user));
                fill("project_id", json!(who.project));
            }
            _ => {}
        }
        if matches!(
            kind,
            Kind::User | Kind::Project | Kind::Domain | Kind::Service | Kind::Endpoint
        ) {
            fill("enabled", json!(true));
        }
        let unique: &[&str] = match kind {
            Kind::User | Kind::Project | Kind::Group => &["name", "domain_id"],
            Kind::ApplicationCredential { .. } => &["name", "user_id"],
            Kind::Domain | Kind::Role => &["name"],
            Kind::Service | Kind::Endpoint => &[],
        };
        let same = |other: &Fields| unique.iter().all(|name| other.text(name) == fields.text(name));
        if !unique.is_empty() && self.find(&key(kind), same).is_some() {
            let name = fields.text("name").unwrap_or_default();
            return Err((409, format!("Duplicate entry found with name {name}")));
        }
        let id = fresh();
        let mut shown = fields.clone();
        if let Some(Value::String(password)) = shown.0.remove("password") {
            self.passwords.insert(id.clone(), password);
        }
        let secret = shown.0.remove("secret");
        if let Kind::ApplicationCredential { .. } = kind {
            let secret = secret
                .as_ref()
                .and_then(Value::as_str)
                .map_or_else(fresh, str::to_owned);
            self.secrets.insert(id.clone(), secret);
        }
        self.put(&key(kind), &id, shown);
        self.entity(kind, &id).ok_or((500, "it vanished".to_owned()))
    }

    /// The first of these roles that the user has not got on the project of the login.
    fn not_held(&self, roles: Option<&Value>, who: &Identified) -> Option<String> {
        let asked = roles.and_then(Value::as_array).into_iter().flatten();
        let mut asked = asked.filter_map(|role| role.get("id").and_then(Value::as_str));
        let held = |role: &str| {
            self.assignments
                .iter()
                .any(|a| a.user == who.user && Some(&a.project) == who.project.as_ref() && a.role == role)
        };
        asked.find(|role| !held(role)).map(str::to_owned)
    }

    fn entity(&self, kind: &Kind, id: &str) -> Option<Entity> {
        let fields = self.things.get(&key(kind))?.get(id)?;
        Some(Entity {
            id: id.to_owned(),
            fields: fields.clone(),
        })
    }

    fn update(&mut self, kind: &Kind, id: &str, changes: &Fields) -> std::result::Result<Entity, Refused> {
        let missing = || (404, format!("Could not find {}: {id}.", kind.thing()));
        let live = self
            .things
            .get_mut(&key(kind))
            .and_then(|things| things.get_mut(id));
        let live = live.ok_or_else(missing)?;
        for (name, value) in &changes.0 {
            match (name.as_str(), value) {
                ("password", Value::String(password)) => {
                    self.passwords.insert(id.to_owned(), password.clone());
                }
                ("domain_id", value) if live.0.get("domain_id") != Some(value) => {
                    return Err((400, "domain_id cannot be changed".to_owned()));
                }
                _ => {
                    live.0.insert(name.clone(), value.clone());
                }
            }
        }
        self.entity(kind, id).ok_or_else(missing)
    }

    fn delete(&mut self, kind: &Kind, id: &str) -> std::result::Result<(), Refused> {
        let live = self.entity(kind, id);
        if *kind == Kind::Domain && live.is_some_and(|e| e.fields.0.get("enabled") != Some(&json!(false))) {
            return Err((
                403,
                "Cannot delete a domain that is enabled, please disable it first.".to_owned(),
            ));
        }
        if let Some(things) = self.things.get_mut(&key(kind)) {
            things.remove(id);
        }
        let (collection, field) = match kind {
            Kind::Service => ("endpoints", "service_id"),
            Kind::User => ("application_credentials", "user_id"),
            Kind::Project => ("application_credentials", "project_id"),
            _ => return Ok(()),
        };
        if let Some(things) = self.things.get_mut(collection) {
            things.retain(|_, fields| fields.text(field) != Some(id));
        }
        self.assignments.retain(|a| a.user != id && a.project != id);
        Ok(())
    }
}

/// What is there before anybody made anything.
pub(super) fn bootstrap(world: &mut World, password: &str) {
    let named = |name: &str| Fields::new().with("name", name).with("enabled", true);
    world.put("domains", "default", named("Default"));
    for role in ["admin", "manager", "member", "reader", "service"] {
        world.put("roles", &format!("role-{role}"), Fields::new().with("name", role));
    }
    world.put(
        "projects",
        "project-admin",
        named("admin").with("domain_id", "default"),
    );
    world.put("users", "user-admin", named("admin").with("domain_id", "default"));
    world
        .passwords
        .insert("user-admin".to_owned(), password.to_owned());
    world.assignments.insert(Assignment {
        user: "user-admin".to_owned(),
        project: "project-admin".to_owned(),
        role: "role-admin".to_owned(),
    });
}

impl Simulator {
    /// How its admin logs in.
    pub fn admin(password: &str) -> Cloud {
        let domain = || DomainName::Name("Default".to_owned());
        Cloud {
            auth_url: "http://simulator:5000/v3".to_owned(),
            auth: Auth::Password {
                user: UserName::Name {
                    name: "admin".to_owned(),
                    domain: domain(),
                },
                password: Secret::new(password),
                scope: Scope::Project {
                    name: "admin".to_owned(),
                    domain: domain(),
                },
            },
            region: None,
            interface: crate::catalogue::Interface::Internal,
            ca: None,
        }
    }

    fn auth(&self) -> Auth {
        let nobody = || Auth::ApplicationCredential {
            id: String::new(),
            secret: Secret::new(""),
        };
        self.cloud
            .as_ref()
            .map_or_else(nobody, |cloud| cloud.auth.clone())
    }

    async fn known<T: Send>(
        &self,
        doing: String,
        act: Act,
        work: impl FnOnce(&mut World, &Identified) -> std::result::Result<T, Refused> + Send,
    ) -> Result<T> {
        let auth = self.auth();
        self.call(doing, act, move |world| {
            let who = world.login(&auth)?;
            work(world, &who)
        })
        .await
    }
}

#[async_trait]
impl Identity for Simulator {
    fn cloud(&self) -> &Cloud {
        static NONE: std::sync::LazyLock<Cloud> = std::sync::LazyLock::new(|| Simulator::admin(""));
        self.cloud.as_ref().unwrap_or(&NONE)
    }

    async fn ping(&self) -> Result<()> {
        self.call("reach simulator".to_owned(), Act::Read, |_| Ok(()))
            .await
    }

    async fn identify(&self) -> Result<Identified> {
        self.known("log in to simulator".to_owned(), Act::Login, |_, who| {
            Ok(who.clone())
        })
        .await
    }

    async fn list(&self, kind: &Kind, filter: &[(&str, &str)]) -> Result<Vec<Entity>> {
        self.known(format!("list {}s", kind.thing()), Act::Read, |world, _| {
            let things = world.things.get(&key(kind)).into_iter().flatten();
            let user = match kind {
                Kind::ApplicationCredential { user } => Some(("user_id", user.as_str())),
                _ => None,
            };
            let matching = things.filter(|(_, fields)| {
                filter
                    .iter()
                    .copied()
                    .chain(user)
                    .all(|(name, value)| fields.text(name) == Some(value))
            });
            Ok(matching
                .map(|(id, fields)| Entity {
                    id: id.clone(),
                    fields: fields.clone(),
                })
                .collect())
        })
        .await
    }

    async fn get(&self, kind: &Kind, id: &str) -> Result<Option<Entity>> {
        self.known(format!("read {} {id}", kind.thing()), Act::Read, |world, _| {
            Ok(world.entity(kind, id))
        })
        .await
    }

    async fn create(&self, kind: &Kind, fields: &Fields) -> Result<Entity> {
        let name = fields.text("name").unwrap_or_default();
        let doing = format!("create {} {name}", kind.thing());
        self.known(doing, Act::Write, |world, who| world.create(kind, fields, who))
            .await
    }

    async fn update(&self, kind: &Kind, id: &str, changes: &Fields) -> Result<Entity> {
        let doing = format!("update {} {id}", kind.thing());
        self.known(doing, Act::Write, |world, _| world.update(kind, id, changes))
            .await
    }

    async fn delete(&self, kind: &Kind, id: &str) -> Result<()> {
        let doing = format!("delete {} {id}", kind.thing());
        self.known(doing, Act::Write, |world, _| world.delete(kind, id))
            .await
    }

    async fn assignments(&self, user: &str, project: &str) -> Result<Vec<Assignment>> {
        self.known("list role assignments".to_owned(), Act::Read, |world, _| {
            let own = world.assignments.iter();
            Ok(own
                .filter(|a| a.user == user && a.project == project)
                .cloned()
                .collect())
        })
        .await
    }

    async fn assign(&self, assignment: &Assignment) -> Result<()> {
        self.known("give a role".to_owned(), Act::Write, |world, _| {
            world.assignments.insert(assignment.clone());
            Ok(())
        })
        .await
    }

    async fn revoke(&self, assignment: &Assignment) -> Result<()> {
        self.known("take a role".to_owned(), Act::Write, |world, _| {
            world.assignments.remove(assignment);
            Ok(())
        })
        .await
    }
}
