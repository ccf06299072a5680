//! Reads what a decision needs: the objects referred to, the login, the thing in Keystone.

use std::sync::Arc;

use c5c3_api::foreign::korc;
use c5c3_kit::Reader;
use k8s_openapi::api::core::v1::Secret;
use openstack_client::{Class, Cloud, Entity, Fields, Identity, Kind};
use serde_json::Value;

use super::decide::Seen;
use super::resource::{
    Head, Ids, Look, Miss, Need, Resource, Search, Target, import_needs, import_query, usable,
};
use super::sessions::Sessions;
use super::trouble::Trouble;

/// The value of one key of a Secret.
pub(crate) fn value(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}

/// The session of the object's login, as the Secret says now.
pub(crate) async fn session(
    head: &Head<'_>,
    namespace: &str,
    reader: &Reader,
    sessions: &Sessions,
) -> Result<Arc<dyn Identity>, Miss> {
    let name = &head.credentials.secret_name;
    let secret: Option<Secret> = reader.get(namespace, name).await?;
    let missing = || Trouble::Waits(format!("Waiting for Secret/{name} to be created"));
    let secret = secret.ok_or_else(missing)?;
    let clouds = value(&secret, "clouds.yaml")
        .ok_or_else(|| Trouble::Waits(format!("Secret/{name} has no key clouds.yaml")))?;
    let cloud = Cloud::parse(&clouds, &head.credentials.cloud_name, value(&secret, "cacert"))
        .map_err(|error| Trouble::Invalid(format!("Secret/{name}: {error}")))?;
    Ok(sessions.open(cloud)?)
}

async fn id_of(need: &Need, namespace: &str, reader: &Reader) -> Result<Option<String>, Miss> {
    async fn read<R: Resource>(reader: &Reader, namespace: &str, name: &str) -> Result<Option<String>, Miss> {
        let object: Option<R> = reader.get(namespace, name).await?;
        let kind = R::kind(&());
        let object =
            object.ok_or_else(|| Trouble::Waits(format!("Waiting for {kind}/{name} to be created")))?;
        Ok(usable(&object.head()))
    }
    match need.target {
        Target::Domain => read::<korc::Domain>(reader, namespace, &need.name).await,
        Target::Project => read::<korc::Project>(reader, namespace, &need.name).await,
        Target::Role => read::<korc::Role>(reader, namespace, &need.name).await,
        Target::Service => read::<korc::Service>(reader, namespace, &need.name).await,
        Target::User => read::<korc::User>(reader, namespace, &need.name).await,
    }
}

/// The ids of everything that is needed, or the first that is missing.
async fn resolve(needs: &[Need], namespace: &str, reader: &Reader) -> Result<Ids, Miss> {
    let mut ids = Ids::default();
    for need in needs {
        let id = id_of(need, namespace, reader).await?;
        let id = id.ok_or_else(|| {
            let (kind, name) = (&need.target.kind().resource.kind, &need.name);
            Trouble::Waits(format!("Waiting for {kind}/{name} to be ready"))
        })?;
        ids.0.insert((need.field, need.name.clone()), id);
    }
    Ok(ids)
}

/// A look at one object's thing. The session is told apart: an error may be about it.
pub(crate) struct Looked<R: Resource> {
    pub cloud: Option<Arc<dyn Identity>>,
    pub seen: Result<Seen<R>, Miss>,
}

pub(crate) async fn look<R: Resource>(
    object: &R,
    deleting: bool,
    reader: &Reader,
    sessions: &Sessions,
) -> Looked<R> {
    let (namespace, _) = object.namespaced();
    let head = object.head();
    match session(&head, &namespace, reader, sessions).await {
        Err(miss) => Looked {
            cloud: None,
            seen: Err(miss),
        },
        Ok(cloud) => Looked {
            seen: inside(object, deleting, reader, sessions, cloud.clone()).await,
            cloud: Some(cloud),
        },
    }
}

async fn inside<R: Resource>(
    object: &R,
    deleting: bool,
    reader: &Reader,
    sessions: &Sessions,
    cloud: Arc<dyn Identity>,
) -> Result<Seen<R>, Miss> {
    let head = object.head();
    let (namespace, _) = object.namespaced();
    let nothing = |cloud| Seen {
        cloud,
        collection: None,
        ids: Ids::default(),
        live: None,
        extra: R::Extra::default(),
    };
    if deleting && !head.managed() {
        return Ok(nothing(cloud));
    }
    if let Some(trouble) = object.refusal().filter(|_| !deleting) {
        return Err(trouble.into());
    }
    let needs = needs(object, &head)?;
    let (ids, orphan) = match resolve(&needs, &namespace, reader).await {
        Ok(ids) => (ids, false),
        // What it refers to is gone; its own id is enough to delete it.
        Err(Miss::Trouble(_)) if deleting => (Ids::default(), true),
        Err(miss) => return Err(miss),
    };
    let search = Search {
        cloud: &*cloud,
        ids: &ids,
        deleting,
    };
    let live = match object.find(&search).await {
        Err(Miss::OpenStack(error)) if orphan && R::OWN_LOGIN && error.class() == Class::Unauthorized => None,
        found => found?,
    };
    let extra = if deleting || !head.managed() {
        R::Extra::default()
    } else {
        let look = Look {
            cloud: &*cloud,
            reader,
            sessions,
            ids: &ids,
            live: live.as_ref(),
        };
        object.look(&look).await?
    };
    Ok(Seen {
        cloud,
        collection: object.collection(&ids),
        ids,
        live,
        extra,
    })
}

fn needs<R: Resource>(object: &R, head: &Head<'_>) -> Result<Vec<Need>, Trouble> {
    if head.managed() {
        if !head.has_resource {
            return Err(Trouble::Invalid(
                "spec.resource is missing: a managed object says what it wants".to_owned(),
            ));
        }
        return Ok(object.needs());
    }
    match head.import {
        Some(import) if import.id.is_some() => {
            Ok(import.filter.as_ref().map(import_needs).unwrap_or_default())
        }
        Some(import) if import.filter.is_some() => {
            Ok(import.filter.as_ref().map(import_needs).unwrap_or_default())
        }
        _ => Err(Trouble::Invalid(
            "spec.import is missing: an unmanaged object names an id or a filter".to_owned(),
        )),
    }
}

/// The thing, as K-ORC finds it: by the id of the status, by what is imported, or the same one
/// that is there already.
pub(crate) async fn find<R: Resource>(object: &R, search: &Search<'_>) -> Result<Option<Entity>, Miss> {
    let Search { cloud, ids, deleting } = *search;
    let head = object.head();
    let Some(kind) = &object.collection(ids) else {
        if deleting {
            return Ok(None);
        }
        let text = "spec.import.filter.userRef is missing: name the user of the credential";
        return Err(Trouble::Invalid(text.to_owned()).into());
    };
    if let Some(id) = head.id {
        match cloud.get(kind, id).await? {
            Some(live) => return Ok(Some(live)),
            None if deleting => return Ok(None),
            None => {}
        }
    }
    if head.managed() {
        let wanted = object.wanted(ids, cloud.cloud());
        let same: Fields = R::SAME
            .iter()
            .filter_map(|field| Some(((*field).to_owned(), wanted.0.get(*field)?.clone())))
            .collect();
        return match matching(kind, &same, cloud).await?.as_slice() {
            [] => Ok(None),
            [one] => Ok(Some(one.clone())),
            many => Err(several(kind, &same, many.len(), "during adoption").into()),
        };
    }
    let import = head.import.cloned().unwrap_or_default();
    if let Some(id) = &import.id {
        let text = format!(
            "referenced resource does not exist in OpenStack: no {} {id}",
            kind.thing()
        );
        let live = cloud.get(kind, id).await?;
        return live.map(Some).ok_or_else(|| Trouble::Unrecoverable(text).into());
    }
    let query = import_query(&import.filter.unwrap_or_default(), ids);
    match matching(kind, &query, cloud).await?.as_slice() {
        [one] => Ok(Some(one.clone())),
        [] if head.id.is_some() => {
            let text = format!(
                "resource has been deleted from OpenStack: no {}",
                said(kind, &query)
            );
            Err(Trouble::Unrecoverable(text).into())
        }
        [] => {
            let text = format!(
                "Waiting for OpenStack resource to be created externally: no {}",
                said(kind, &query)
            );
            Err(Trouble::Waits(text).into())
        }
        many => Err(several(kind, &query, many.len(), "during import").into()),
    }
}

fn several(kind: &Kind, query: &Fields, count: usize, when: &str) -> Trouble {
    Trouble::Invalid(format!(
        "found more than one matching OpenStack resource {when}: {count} are a {}",
        said(kind, query)
    ))
}

fn said(kind: &Kind, query: &Fields) -> String {
    let pairs = query.0.iter().map(|(field, value)| format!("{field} {value}"));
    format!("{} with {}", kind.thing(), pairs.collect::<Vec<_>>().join(", "))
}

/// Lists by what Keystone can filter, and checks all of it: parameters it does not know are ignored.
async fn matching(kind: &Kind, query: &Fields, cloud: &dyn Identity) -> Result<Vec<Entity>, Miss> {
    let own = ["name", "domain_id", "service_id", "interface", "type"];
    let filter: Vec<(&str, &str)> = query
        .0
        .iter()
        .filter(|(field, _)| own.contains(&field.as_str()))
        .filter_map(|(field, value)| Some((field.as_str(), value.as_str()?)))
        .collect();
    let mut found = cloud.list(kind, &filter).await?;
    found.retain(|live| {
        query
            .0
            .iter()
            .all(|(field, wanted)| match (live.fields.0.get(field), wanted) {
                (Some(Value::Array(live)), Value::Array(wanted)) => {
                    wanted.iter().all(|tag| live.contains(tag))
                }
                (live, wanted) => live == Some(wanted),
            })
    });
    Ok(found)
}
