//! CephObjectStoreUser: a user of S3, whose keys Ceph makes and a Secret keeps.

use std::collections::BTreeMap;
use std::time::Duration;

use c5c3_api::foreign::rook::{CephObjectStore, CephObjectStoreUser};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
    Wanted,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Client, ResourceExt};
use serde::Deserialize;
use serde_json::json;

use super::{gateway, names, size};
use crate::error::Error;
use crate::exec::{self, ExecError, ExecTarget};

const READY: &str = "UserReady";
const SOON: Duration = Duration::from_secs(2);

/// The controller.
pub struct CephObjectStoreUsers {
    client: Client,
}

impl CephObjectStoreUsers {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

/// What `radosgw-admin user info` says.
#[derive(Clone, Default, Deserialize)]
pub(crate) struct User {
    #[serde(default)]
    display_name: String,
    #[serde(default)]
    max_buckets: i64,
    #[serde(default)]
    keys: Vec<Keys>,
    #[serde(default)]
    caps: Vec<Cap>,
    #[serde(default)]
    user_quota: Quota,
}

#[derive(Clone, Default, Deserialize)]
struct Keys {
    access_key: String,
    secret_key: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Cap {
    #[serde(rename = "type")]
    kind: String,
    perm: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
struct Quota {
    #[serde(default)]
    enabled: bool,
    #[serde(default)]
    max_size: i64,
    #[serde(default)]
    max_objects: i64,
}

/// Its keys show nowhere.
impl std::fmt::Debug for User {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.display_name)
    }
}

#[derive(Debug)]
pub struct Facts {
    store: Option<CephObjectStore>,
    place: Option<ExecTarget>,
    user: Option<User>,
}

/// Words for `radosgw-admin`, one call after the other.
#[derive(Clone, Debug)]
pub struct Calls {
    place: ExecTarget,
    calls: Vec<Vec<String>>,
}

fn namespace_of(object: &CephObjectStoreUser) -> String {
    let elsewhere = object
        .spec
        .cluster_namespace
        .clone()
        .filter(|name| !name.is_empty());
    elsewhere.unwrap_or_else(|| object.namespace().unwrap_or_default())
}

impl Controller for CephObjectStoreUsers {
    type Kind = CephObjectStoreUser;
    type Facts = Facts;
    /// Why it is refused.
    type Plan = Option<Error>;
    type Action = Calls;
    type Error = Error;

    const NAME: &'static str = "stand-in-ceph-object-user";
    const PARTS: &'static [Part] = &[Part::required(READY)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "cephobjectstoreuser.ceph.rook.io",
        within: Duration::from_secs(600),
    });

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<CephObjectStore>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched(), Touch::of::<Pod>(&["list"])]
    }

    fn references(object: &CephObjectStoreUser) -> Vec<Reference> {
        vec![Kind::of::<CephObjectStore>().named(Some(&namespace_of(object)), &object.spec.store)]
    }

    async fn observe(&self, object: &CephObjectStoreUser, reader: &Reader) -> Result<Facts, Error> {
        let namespace = namespace_of(object);
        let store: Option<CephObjectStore> = reader.get(&namespace, &object.spec.store).await?;
        let place = gateway::place(reader, &namespace, &object.spec.store).await?;
        let name = object.name_any();
        let user = match &place {
            Some(place) => gateway::ask(&self.client, place, &["user", "info", "--uid", &name]).await?,
            None => None,
        };
        Ok(Facts { store, place, user })
    }

    fn plan(observed: &Observed<Self>) -> Option<Error> {
        let deleting = observed.deleting();
        check(&observed.object).err().filter(|_| !deleting)
    }

    fn refusal(plan: &Option<Error>) -> Option<&Error> {
        plan.as_ref()
    }

    fn decide(observed: &Observed<Self>, plan: &Option<Error>) -> Result<Decision<Calls>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        let Some(place) = facts.place.as_ref().filter(|_| plan.is_none()) else {
            return Ok(Decision::hold());
        };
        let calls = if observed.deleting() {
            let remove = ["user", "rm", "--uid", &object.name_any()]
                .map(str::to_owned)
                .to_vec();
            facts.user.iter().map(|_| remove.clone()).collect()
        } else {
            calls(object, facts.user.as_ref())
        };
        let action = (!calls.is_empty()).then(|| Calls {
            place: place.clone(),
            calls,
        });
        let secret = facts.store.as_ref().zip(facts.user.as_ref());
        let secret = secret.and_then(|(store, user)| secret_of(object, store, user));
        Ok(Decision::only(secret.iter().map(Wanted::of)).act(action))
    }

    async fn act(&self, action: &Calls) -> Result<(), Error> {
        for call in &action.calls {
            let words: Vec<&str> = call.iter().map(String::as_str).collect();
            gateway::admin(&self.client, &action.place, &words)
                .await
                .map_err(told)?;
        }
        Ok(())
    }

    fn report(observed: &Observed<Self>, plan: &Option<Error>, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        let states = States::default();
        let phase = |phase: &str| json!({"phase": phase});
        if observed.deleting() {
            let there =
                facts.user.is_some() && !applied.outcomes().iter().all(|outcome| outcome.result.is_ok());
            let left = there.then(|| format!("user {} of the store", object.name_any()));
            return Report::new(states).status(&phase("Deleting")).left(left);
        }
        if let Some(refused) = plan {
            let states = states.unmet(READY, "Invalid", refused.to_string());
            return Report::new(states).status(&phase("Failure"));
        }
        let store = &object.spec.store;
        let waits = match (&facts.store, &facts.place, &facts.user) {
            (None, ..) => Some(format!("there is no CephObjectStore {store}")),
            (_, None, _) => Some(format!("no gateway of CephObjectStore {store} is up")),
            (_, _, None) => Some("the user is being created".to_owned()),
            _ => None,
        };
        if let Some(why) = waits {
            let states = states.unmet(READY, "Waiting", why);
            return Report::new(states).status(&phase("Progressing")).again_in(SOON);
        }
        if applied.outcomes().iter().any(|outcome| outcome.result.is_err()) {
            let states = states.unmet(READY, "Refused", "the gateway rejected it");
            return Report::new(states).status(&phase("Failure"));
        }
        let info = json!({"secretName": secret_name(object)});
        let states = states.met(READY, "Ready", "the user has its keys");
        Report::new(states).status(&json!({"phase": "Ready", "info": info}))
    }
}

fn told(error: ExecError) -> Error {
    match error {
        ExecError::Failed { said, .. } => {
            Error::Ceph(said.trim().lines().last().unwrap_or_default().to_owned())
        }
        other => Error::Command(other),
    }
}

fn secret_name(object: &CephObjectStoreUser) -> String {
    format!(
        "rook-ceph-object-user-{}-{}",
        object.spec.store,
        object.name_any()
    )
}

fn secret_of(object: &CephObjectStoreUser, store: &CephObjectStore, user: &User) -> Option<Secret> {
    let keys = user.keys.first()?;
    let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
    let labels = names::map(&[
        ("app", names::RGW),
        ("user", &name),
        ("rook_cluster", &namespace),
        ("rook_object_store", &object.spec.store),
    ]);
    Some(names::secret(
        names::meta(&namespace, &secret_name(object), labels),
        &[
            ("AccessKey", &keys.access_key),
            ("SecretKey", &keys.secret_key),
            ("Endpoint", &gateway::endpoint(store)),
        ],
    ))
}

/// What differs, as calls. Pure.
fn calls(object: &CephObjectStoreUser, user: Option<&User>) -> Vec<Vec<String>> {
    let name = object.name_any();
    let shown = object.spec.display_name.clone().unwrap_or_else(|| name.clone());
    let call = |words: &[&str], more: &[String]| {
        let words = words.iter().map(|word| (*word).to_owned());
        words
            .chain(["--uid".to_owned(), name.clone()])
            .chain(more.iter().cloned())
            .collect::<Vec<_>>()
    };
    let show = format!("--display-name={shown}");
    let Some(user) = user else {
        return vec![call(&["user", "create"], &[show])];
    };
    let mut calls = Vec::new();
    let quotas = object.spec.quotas.clone().unwrap_or_default();
    let buckets = quotas.max_buckets.unwrap_or(user.max_buckets);
    if user.display_name != shown || user.max_buckets != buckets {
        calls.push(call(
            &["user", "modify"],
            &[show, format!("--max-buckets={buckets}")],
        ));
    }
    let size = quotas.max_size.and_then(|quantity| size::bytes(&quantity.0));
    let size = size.and_then(|bytes| i64::try_from(bytes).ok()).unwrap_or(-1);
    let objects = quotas.max_objects.unwrap_or(-1);
    let limited = size >= 0 || objects >= 0;
    let now = &user.user_quota;
    if limited && (!now.enabled || now.max_size != size || now.max_objects != objects) {
        let limits = [format!("--max-size={size}"), format!("--max-objects={objects}")];
        calls.push(call(&["quota", "set", "--quota-scope=user"], &limits));
        calls.push(call(&["quota", "enable", "--quota-scope=user"], &[]));
    } else if !limited && now.enabled {
        calls.push(call(&["quota", "disable", "--quota-scope=user"], &[]));
    }
    let has: BTreeMap<&str, &str> = user
        .caps
        .iter()
        .map(|cap| (cap.kind.as_str(), cap.perm.as_str()))
        .collect();
    let wanted: BTreeMap<&str, &str> = object
        .spec
        .capabilities
        .iter()
        .map(|(kind, right)| (right_of(kind), right.as_str()))
        .collect();
    let text = |caps: &BTreeMap<&str, &str>| {
        let one: Vec<String> = caps.iter().map(|(kind, perm)| format!("{kind}={perm}")).collect();
        format!("--caps={}", one.join(";"))
    };
    if has != wanted {
        if !has.is_empty() {
            calls.push(call(&["caps", "rm"], &[text(&has)]));
        }
        if !wanted.is_empty() {
            calls.push(call(&["caps", "add"], &[text(&wanted)]));
        }
    }
    calls
}

/// RadosGW's name of a right; Rook knows some in the singular too, and writes others together.
fn right_of(field: &str) -> &str {
    match field {
        "user" => "users",
        "bucket" => "buckets",
        "amzCache" => "amz-cache",
        "userPolicy" => "user-policy",
        "oidcProvider" => "oidc-provider",
        other => other,
    }
}

fn check(object: &CephObjectStoreUser) -> Result<(), Error> {
    let wrong = |field, reason: String| Err(Error::Invalid { field, reason });
    if object.spec.store.is_empty() {
        return wrong("spec.store", "is missing: name a CephObjectStore".to_owned());
    }
    for (kind, perm) in &object.spec.capabilities {
        let known = ["read", "write", "read, write", "*"].contains(&perm.as_str());
        if !known || !kind.chars().all(|c| c.is_ascii_alphanumeric() || c == '-') {
            return wrong(
                "spec.capabilities",
                format!("{kind}: {perm:?} is not a permission: use read, write or *"),
            );
        }
    }
    let size = object
        .spec
        .quotas
        .as_ref()
        .and_then(|quotas| quotas.max_size.as_ref());
    match size {
        Some(quantity) if size::bytes(&quantity.0).is_none() => wrong(
            "spec.quotas.maxSize",
            format!("{:?} is not a size: write it like 10Gi", quantity.0),
        ),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn object(spec: Value) -> CephObjectStoreUser {
        CephObjectStoreUser::new("u", serde_json::from_value(spec).expect("a spec"))
    }

    fn user(value: Value) -> User {
        serde_json::from_value(value).expect("a user")
    }

    fn lines(spec: Value, found: Option<Value>) -> Vec<String> {
        let found = found.map(user);
        let calls = calls(&object(spec), found.as_ref());
        calls.iter().map(|call| call.join(" ")).collect()
    }

    #[test]
    fn a_user_is_made_and_then_brought_to_what_is_wanted() {
        let spec = json!({"store": "s", "displayName": "U", "capabilities": {"bucket": "read"},
            "quotas": {"maxSize": "1Ki", "maxBuckets": 3}});
        assert_eq!(
            lines(spec.clone(), None),
            ["user create --uid u --display-name=U"]
        );
        let fresh = json!({"display_name": "U", "max_buckets": 1000, "keys": []});
        assert_eq!(
            lines(spec.clone(), Some(fresh)),
            [
                "user modify --uid u --display-name=U --max-buckets=3",
                "quota set --quota-scope=user --uid u --max-size=1024 --max-objects=-1",
                "quota enable --quota-scope=user --uid u",
                "caps add --uid u --caps=buckets=read",
            ]
        );
        let done = json!({"display_name": "U", "max_buckets": 3, "caps": [{"type": "buckets", "perm": "read"}],
            "user_quota": {"enabled": true, "max_size": 1024, "max_objects": -1}});
        assert_eq!(lines(spec, Some(done.clone())), Vec::<String>::new());
        assert_eq!(
            lines(json!({"store": "s", "displayName": "U"}), Some(done)),
            [
                "quota disable --quota-scope=user --uid u",
                "caps rm --uid u --caps=buckets=read"
            ]
        );
    }

    #[test]
    fn the_secret_has_the_shape_of_rooks() {
        let mut store = CephObjectStore::new("s", Default::default());
        store.metadata.namespace = Some("n".to_owned());
        let found = user(json!({"keys": [{"access_key": "A", "secret_key": "S"}]}));
        assert!(!format!("{found:?}").contains('S'));
        let secret = secret_of(&object(json!({"store": "s"})), &store, &found).expect("a Secret");
        assert_eq!(secret.name_any(), "rook-ceph-object-user-s-u");
        let text = |key: &str| crate::objects::secret_value(Some(secret.clone()), key);
        assert_eq!(text("AccessKey").as_deref(), Some("A"));
        assert_eq!(text("SecretKey").as_deref(), Some("S"));
        assert_eq!(
            text("Endpoint").as_deref(),
            Some("http://rook-ceph-rgw-s.n.svc:80")
        );
    }

    #[test]
    fn wrong_users_are_refused_by_field() {
        for (spec, field) in [
            (json!({}), "spec.store"),
            (
                json!({"store": "s", "capabilities": {"users": "all"}}),
                "spec.capabilities",
            ),
            (
                json!({"store": "s", "capabilities": {"a;b": "*"}}),
                "spec.capabilities",
            ),
            (
                json!({"store": "s", "quotas": {"maxSize": "big"}}),
                "spec.quotas.maxSize",
            ),
        ] {
            let said = check(&object(spec.clone())).expect_err("refused").to_string();
            assert!(said.starts_with(field), "{spec}: {said}");
        }
    }
}
