//! Passwords: made once, never changed afterwards. A Secret that somebody else made is used as it is.
//!
//! Messages name Secrets and keys, never values.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::c5c3::{CloudCredentialsRef, ControlPlaneSpec};
use c5c3_api::conditions::control_plane::CREDENTIALS_READY;
use c5c3_api::conditions::reason;
use c5c3_api::services::{SERVICES, keystone};
use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret;
use serde_json::Value;

use crate::clouds_yaml::{self, Cloud};

use super::catalogue;
use super::{Draft, Object, State, Step, passwords, services, whole};

pub const PASSWORD_BYTES: usize = 24;

pub(crate) const ADMIN: &str = "keystone-admin-credentials";
/// What metadata agents prove themselves with to Nova.
pub(crate) const METADATA: &str = "nova-metadata-secret";
/// What hypervisors copy disks with.
pub(crate) const MIGRATION: &str = "nova-migration-secret";
/// The password of the database's root: of no use without the volumes, and they are of none without it.
pub(crate) const ROOT: &str = "mariadb-root";
/// RabbitMQ's topology operator reads Secrets with this label only.
const TOPOLOGY: &str = "rabbitmq.com/topology-operator";
const CLOUDS: &str = "k-orc-clouds-yaml";
const APP_CREDENTIAL_KEYS: [&str; 2] = ["application_credential_id", "application_credential_secret"];

pub(crate) fn database(service: &str) -> String {
    format!("{service}-db-credentials")
}

pub(crate) fn messaging(service: &str) -> String {
    format!("{service}-rabbitmq-credentials")
}

/// The account of a cell's message bus.
pub(crate) fn cell_messaging(cell: &str) -> String {
    messaging(&format!("nova-{cell}"))
}

pub(crate) fn service_user(service: &str) -> String {
    format!("{service}-service-user")
}

pub(crate) fn app_credential(service: &str) -> String {
    format!("{service}-app-credential")
}

/// A Secret as it was read.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct SeenSecret {
    pub data: BTreeMap<String, Vec<u8>>,
    /// Made for this cloud by this controller.
    pub ours: bool,
}

/// Without the values.
impl std::fmt::Debug for SeenSecret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let keys: Vec<&String> = self.data.keys().collect();
        f.debug_struct("SeenSecret")
            .field("keys", &keys)
            .field("ours", &self.ours)
            .finish()
    }
}

enum Fill {
    Fixed(&'static str),
    Text(String),
    Random,
}

struct Need {
    name: String,
    keys: Vec<(&'static str, Fill)>,
    /// Why it is not ours to make.
    given: Option<&'static str>,
}

fn needs(spec: &ControlPlaneSpec) -> Vec<Need> {
    let mut all = Vec::new();
    let outside = |is: bool, why: &'static str| is.then_some(why);
    if spec.infrastructure.database.host.is_none() {
        all.push(Need {
            name: ROOT.to_owned(),
            keys: vec![("password", Fill::Random)],
            given: None,
        });
    }
    for service in SERVICES.iter().filter(|service| service.runs(spec)) {
        if service.keeps {
            all.push(Need {
                name: database(service.name),
                keys: vec![
                    ("username", Fill::Fixed(service.name)),
                    ("password", Fill::Random),
                ],
                given: outside(
                    spec.infrastructure.database.host.is_some(),
                    "the user is managed on infrastructure.database.host",
                ),
            });
        }
        if service.messaging {
            all.push(Need {
                name: messaging(service.name),
                keys: vec![
                    ("username", Fill::Fixed(service.name)),
                    ("password", Fill::Random),
                ],
                given: outside(
                    !spec.infrastructure.messaging.hosts.is_empty(),
                    "the user is managed on infrastructure.messaging.hosts",
                ),
            });
        }
        if service.name == "nova" {
            all.extend([METADATA, MIGRATION].map(|name| Need {
                name: name.to_owned(),
                keys: vec![("secret", Fill::Random)],
                given: None,
            }));
            // With brokers of others a cell shares the account of the API.
            let managed = spec.infrastructure.messaging.hosts.is_empty();
            let cells = catalogue::cells(spec);
            all.extend(cells.iter().filter(|_| managed).map(|cell| Need {
                name: cell_messaging(cell),
                keys: vec![
                    ("username", Fill::Text(format!("nova-{cell}"))),
                    ("password", Fill::Random),
                ],
                given: None,
            }));
        }
        if service.name == keystone().name {
            all.push(Need {
                name: ADMIN.to_owned(),
                keys: vec![("password", Fill::Random)],
                given: None,
            });
        } else if spec.korc.enabled {
            all.push(Need {
                name: service_user(service.name),
                keys: vec![(passwords::PASSWORD, Fill::Random)],
                given: None,
            });
        } else {
            all.push(Need {
                name: app_credential(service.name),
                keys: APP_CREDENTIAL_KEYS.map(|key| (key, Fill::Random)).into(),
                given: Some("korc.enabled is false"),
            });
        }
    }
    if spec.korc.enabled {
        all.push(Need {
            name: passwords::NAMES.to_owned(),
            keys: vec![(passwords::KEY, Fill::Random)],
            given: None,
        });
    }
    all
}

/// The Secret with which K-ORC logs in.
pub(crate) fn clouds(spec: &ControlPlaneSpec) -> CloudCredentialsRef {
    spec.korc
        .cloud_credentials_ref
        .clone()
        .unwrap_or_else(|| CloudCredentialsRef {
            cloud_name: "admin".to_owned(),
            secret_name: CLOUDS.to_owned(),
        })
}

/// Every Secret that the plan reads.
pub fn names(spec: &ControlPlaneSpec) -> BTreeSet<String> {
    let mut names: BTreeSet<String> = needs(spec).into_iter().map(|need| need.name).collect();
    names.insert(clouds(spec).secret_name);
    names
}

pub(super) fn plan(draft: &mut Draft<'_>) {
    let mut objects = Vec::new();
    let mut problem = None;
    let mut known = BTreeMap::new();
    for need in needs(draft.spec) {
        match settle(draft, &need) {
            Ok((data, write)) => {
                known.insert(need.name.clone(), data.clone());
                match write {
                    Write::All => objects.push(Object::Apply(secret(draft, &need.name, data))),
                    Write::Nothing => objects.push(Object::Keep(draft.named::<Secret>(&need.name))),
                    Write::NotOurs => {}
                }
            }
            Err(state) => problem = problem.or(Some(state)),
        }
    }
    for copy in passwords::copies(&known) {
        let data = [(passwords::PASSWORD.to_owned(), copy.password)].into();
        objects.push(Object::Apply(secret(draft, &copy.name, data)));
        draft.passwords.insert(copy.service, copy.name);
    }
    let admin = known.get(ADMIN).and_then(|data| data.get("password"));
    let wants_clouds = draft.spec.korc.enabled && draft.spec.korc.cloud_credentials_ref.is_none();
    if wants_clouds && draft.seen.secrets.get(CLOUDS).is_none_or(|secret| secret.ours) {
        objects.push(match admin {
            Some(password) => {
                let cloud = Cloud {
                    auth_url: services::internal_url(draft, keystone()),
                    // K-ORC runs beside it; the public address may be meant for others.
                    interface: Some("internal".to_owned()),
                };
                let text = clouds_yaml::of_admin(&cloud, &String::from_utf8_lossy(password));
                Object::Apply(secret(
                    draft,
                    CLOUDS,
                    [(clouds_yaml::KEY.to_owned(), text.into_bytes())].into(),
                ))
            }
            None => Object::Keep(draft.named::<Secret>(CLOUDS)),
        });
    }
    let state = problem.unwrap_or(State::Done);
    draft.push(Step {
        objects,
        ..Step::bare("secrets", "Secrets", CREDENTIALS_READY, state)
    });
}

type Data = BTreeMap<String, Vec<u8>>;

/// What is to be sent of a Secret.
enum Write {
    All,
    /// It is complete: what was read may be older than what somebody just wrote.
    Nothing,
    NotOurs,
}

/// What the Secret holds or will hold.
fn settle(draft: &Draft<'_>, need: &Need) -> Result<(Data, Write), State> {
    let seen = draft.seen.secrets.get(&need.name);
    let ours = seen.is_none_or(|secret| secret.ours);
    let mut data = seen.map(|secret| secret.data.clone()).unwrap_or_default();
    let lacking: Vec<&(&str, Fill)> = need
        .keys
        .iter()
        .filter(|(key, _)| data.get(*key).is_none_or(Vec::is_empty))
        .collect();
    if lacking.is_empty() {
        let write = if ours { Write::Nothing } else { Write::NotOurs };
        return Ok((data, write));
    }
    let keys: Vec<&str> = lacking.iter().map(|(key, _)| *key).collect();
    if let (None, Some(why)) = (seen, need.given) {
        let text = format!(
            "Secret {} is missing: create it with {}; {why}",
            need.name,
            keys.join(" and ")
        );
        return Err(State::failed(reason::SECRET_MISSING, text));
    }
    if !ours || need.given.is_some() {
        let text = format!(
            "Secret {} has no value under {}: add it",
            need.name,
            keys.join(" and ")
        );
        return Err(State::failed(reason::KEY_MISSING, text));
    }
    let random = draft.seen.random.get(&need.name).copied().unwrap_or_default();
    // Without fresh bytes a password would be known to everybody.
    if random == [0; PASSWORD_BYTES] {
        let text = format!(
            "Secret {} cannot be created: the system provides no random bytes",
            need.name
        );
        return Err(State::failed(reason::FAILED, text));
    }
    for (key, fill) in &need.keys {
        let value = match fill {
            Fill::Fixed(text) => (*text).to_owned(),
            Fill::Text(text) => text.clone(),
            Fill::Random => hex::encode(random),
        };
        data.entry((*key).to_owned())
            .and_modify(|kept| {
                if kept.is_empty() {
                    *kept = value.clone().into_bytes();
                }
            })
            .or_insert_with(|| value.clone().into_bytes());
    }
    Ok((data, Write::All))
}

/// Whether an object outlives its cloud, as the volumes do.
pub fn lasts(object: &Value) -> bool {
    object["kind"] == "Secret" && object["metadata"]["name"] == ROOT
}

fn secret(draft: &Draft<'_>, name: &str, data: Data) -> Value {
    let data = data.into_iter().map(|(key, value)| (key, ByteString(value)));
    let mut metadata = draft.metadata(name);
    if name.ends_with(&messaging("")) {
        metadata.labels = Some([(TOPOLOGY.to_owned(), "true".to_owned())].into());
    }
    whole(&Secret {
        metadata,
        data: Some(data.collect()),
        ..Secret::default()
    })
}

/// Where an existing Keystone answers: `auth_url` of the cloud that korc.cloudCredentialsRef names.
pub(super) fn existing_keystone(draft: &Draft<'_>) -> Result<String, State> {
    let wanted = clouds(draft.spec);
    let text = given_clouds(draft)?;
    let cloud = clouds_yaml::find(&text, &wanted.cloud_name).map_err(|problem| {
        let text = format!("Secret {}: {problem}", wanted.secret_name);
        State::failed(reason::INVALID, text)
    })?;
    Ok(cloud.auth_url)
}

/// clouds.yaml of a Secret that korc.cloudCredentialsRef names.
pub(super) fn given_clouds(draft: &Draft<'_>) -> Result<String, State> {
    let name = clouds(draft.spec).secret_name;
    let secret = draft.seen.secrets.get(&name).ok_or_else(|| {
        let text = format!(
            "Secret {name} is missing: create it with clouds.yaml, or correct korc.cloudCredentialsRef"
        );
        State::failed(reason::SECRET_MISSING, text)
    })?;
    let bytes = secret.data.get(clouds_yaml::KEY).ok_or_else(|| {
        State::failed(
            reason::KEY_MISSING,
            format!("Secret {name} has no value under clouds.yaml: add it"),
        )
    })?;
    Ok(String::from_utf8_lossy(bytes).into_owned())
}
