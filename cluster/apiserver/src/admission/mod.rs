//! Admission: webhooks of other programs change or refuse what is about to be written, and policies refuse it.

mod cached;
mod check;
mod hook;
mod matching;
mod policy;
mod post;
mod review;

use std::{
    borrow::Cow,
    io,
    sync::{Arc, PoisonError, RwLock},
};

use apimachinery::patch;
use futures::future::join_all;
use serde_json::Value;

use crate::{
    cluster::Cluster,
    pods::Connection,
    registry::Kind,
    resource::{BINDING, Target, scale_of},
    semantics,
    serve::Call,
    status::{ApiError, Result},
};

use cached::Cached;
pub(crate) use check::check;
use hook::Hook;
use matching::Subject;
pub(crate) use policy::check as check_policy;
use policy::{Binding, Policy, Verdict};
use review::Answer;

const GROUP: &str = "admissionregistration.k8s.io";
const SCALE: &str = "scale";
/// What a webhook cannot change.
const SERVER_FIELDS: [&str; 8] = [
    "name",
    "namespace",
    "uid",
    "creationTimestamp",
    "deletionTimestamp",
    "deletionGracePeriodSeconds",
    "generation",
    "resourceVersion",
];

/// Connections into a cluster's network, for webhooks that run there.
#[async_trait::async_trait]
pub trait Network: Send + Sync {
    /// `host` is `service.namespace.svc` or an address. `None`: it is not one of the cluster.
    async fn connect(&self, host: &str, port: u16) -> io::Result<Option<Box<dyn Connection>>>;
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Mutating,
    Validating,
}

impl Phase {
    fn resource(self) -> &'static str {
        match self {
            Phase::Mutating => "mutatingwebhookconfigurations",
            Phase::Validating => "validatingwebhookconfigurations",
        }
    }
}

/// Webhooks, or why one cannot be used.
type Hooks = Vec<std::result::Result<Hook, (String, String)>>;

const POLICIES: &str = "validatingadmissionpolicies";
const BINDINGS: &str = "validatingadmissionpolicybindings";

/// The webhooks and policies of a cluster.
#[derive(Default)]
pub struct Admission {
    network: RwLock<Option<Arc<dyn Network>>>,
    mutating: Cached<Hooks>,
    validating: Cached<Hooks>,
    policies: Cached<Option<Policy>>,
    bindings: Cached<Option<Binding>>,
}

impl Admission {
    pub fn set_network(&self, network: Arc<dyn Network>) {
        *self.network.write().unwrap_or_else(PoisonError::into_inner) = Some(network);
    }

    fn network(&self) -> Option<Arc<dyn Network>> {
        self.network
            .read()
            .unwrap_or_else(PoisonError::into_inner)
            .clone()
    }

    fn hooks(&self, cluster: &Cluster, phase: Phase) -> Vec<Arc<Hooks>> {
        let known = match phase {
            Phase::Mutating => &self.mutating,
            Phase::Validating => &self.validating,
        };
        known.all(cluster, phase.resource(), hooks)
    }
}

/// Policies are checked when they are written: what cannot be read is none.
fn readable<T>(read: std::result::Result<T, String>) -> Option<T> {
    read.inspect_err(|why| tracing::warn!("an admission policy cannot be used: {why}"))
        .ok()
}

fn hooks(configuration: &Value) -> Hooks {
    let entries = configuration["webhooks"].as_array().into_iter().flatten();
    let name = |entry: &Value| entry["name"].as_str().unwrap_or_default().to_owned();
    entries
        .map(|entry| hook::read(entry).map_err(|why| (name(entry), why)))
        .collect()
}

/// What a write does with an object, as webhooks and policies know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    Create,
    Update,
    Delete,
}

impl Operation {
    pub fn as_str(self) -> &'static str {
        match self {
            Operation::Create => "CREATE",
            Operation::Update => "UPDATE",
            Operation::Delete => "DELETE",
        }
    }
}

/// A write on its way to the store.
pub struct Passage<'a> {
    pub call: &'a Call,
    pub target: &'a Target,
    pub operation: Operation,
    pub name: &'a str,
    pub old: Option<&'a Value>,
    pub dry_run: bool,
}

impl Passage<'_> {
    /// Asks the mutating webhooks, one after the other; each sees what those before it made.
    pub async fn mutate(&self, object: &mut Value) -> Result<()> {
        let known = self.known(Phase::Mutating);
        // Of a Scale nothing but the number could be changed: that is left to its writer.
        if known.is_empty() || self.target.subresource == SCALE {
            return Ok(());
        }
        let hooks = usable(&known)?;
        let mut changes = 0;
        let mut seen: Vec<Option<usize>> = Vec::with_capacity(hooks.len());
        for hook in &hooks {
            let asked = self.change(hook, object, &mut changes).await?;
            seen.push(asked.then_some(changes));
        }
        for (hook, seen) in hooks.iter().zip(seen) {
            if hook.reinvoke && seen.is_some_and(|seen| seen < changes) {
                self.change(hook, object, &mut changes).await?;
            }
        }
        Ok(())
    }

    /// Asks the policies, then the validating webhooks, all at once.
    pub async fn validate(&self, object: Option<&Value>) -> Result<()> {
        self.obey(object)?;
        let known = self.known(Phase::Validating);
        if known.is_empty() {
            return Ok(());
        }
        let hooks = usable(&known)?;
        let asked = hooks.iter().map(|hook| async move {
            match self.ask(hook, object).await? {
                Some(answer) if answer.patch.is_some() => {
                    let why = "validating webhook may not return response.patch";
                    self.unanswered(hook, why).map(drop)
                }
                _ => Ok(()),
            }
        });
        join_all(asked).await.into_iter().collect()
    }

    fn known(&self, phase: Phase) -> Vec<Arc<Hooks>> {
        // A webhook that refuses everything must not keep itself from being removed.
        if self.target.kind.group == GROUP {
            return Vec::new();
        }
        let cluster = &self.call.cluster;
        cluster.admission.hooks(cluster, phase)
    }

    /// The policies that are in force. The first refusal is the answer.
    fn obey(&self, object: Option<&Value>) -> Result<()> {
        let (call, target) = (self.call, self.target);
        if target.kind.group == GROUP {
            let unknown = object.filter(|_| target.kind.plural == POLICIES);
            if let Some(part) = unknown.and_then(policy::beyond) {
                let text =
                    format!("{part} is not known to this server: the policy is kept, and not enforced");
                call.warnings.tell(text);
            }
            return Ok(());
        }
        let (cluster, admission) = (&call.cluster, &call.cluster.admission);
        let bindings = admission
            .bindings
            .all(cluster, BINDINGS, |object| readable(policy::binding(object)));
        if bindings.is_empty() {
            return Ok(());
        }
        let policies = admission.policies.all(cluster, POLICIES, |object| {
            readable(policy::read(object)).flatten()
        });
        let (object, old) = (shown(target, object)?, shown(target, self.old)?);
        let namespace = self.namespace();
        let subject = self.subject(object.as_deref(), old.as_deref(), namespace.as_ref());
        for binding in bindings.iter().filter_map(|one| one.as_ref().as_ref()) {
            let mut named = policies.iter().filter_map(|one| one.as_ref().as_ref());
            let Some(policy) = named.find(|policy| policy.name == binding.policy) else {
                continue;
            };
            let Some(version) = policy.version(binding, &subject) else {
                continue;
            };
            let request = self.request(&subject, &version);
            for verdict in policy.judge(binding, &subject, &request) {
                match verdict {
                    Verdict::Refused(error) => return Err(error),
                    Verdict::Warned(text) => call.warnings.tell(text),
                }
            }
        }
        Ok(())
    }

    /// The namespace that the object is in.
    fn namespace(&self) -> Option<Value> {
        let place = &self.target.namespace;
        let stored = (!place.is_empty()).then(|| self.call.cluster.get("", "namespaces", "", place));
        stored.flatten().map(|stored| stored.value())
    }

    fn subject<'a>(
        &'a self,
        object: Option<&'a Value>,
        old: Option<&'a Value>,
        namespace: Option<&'a Value>,
    ) -> Subject<'a> {
        Subject {
            kind: &self.target.kind,
            subresource: &self.target.subresource,
            name: self.name,
            operation: self.operation,
            object,
            old,
            namespace,
        }
    }

    fn request(&self, subject: &Subject<'_>, version: &str) -> Value {
        let (place, identity) = (&self.target.namespace, &self.call.identity);
        review::request(subject, version, place, self.name, identity, self.dry_run)
    }

    /// What the object is one of: to the pod of a path a Binding is sent.
    fn shape(&self) -> Result<Arc<Kind>> {
        if self.target.subresource != BINDING {
            return Ok(self.target.kind.clone());
        }
        let registry = self.call.cluster.registry();
        let kind = registry.find("", "v1", "bindings");
        kind.cloned().ok_or_else(ApiError::no_route)
    }

    /// Whether the webhook was asked.
    async fn change(&self, hook: &Hook, object: &mut Value, changes: &mut usize) -> Result<bool> {
        let deleting = self.operation == Operation::Delete;
        let Some(answer) = self.ask(hook, (!deleting).then_some(&*object)).await? else {
            return Ok(false);
        };
        let Some(patch) = answer.patch.filter(|_| !deleting) else {
            return Ok(true);
        };
        let kind = &self.shape()?;
        let patched = patch::json::apply(object.clone(), &patch).map_err(|error| {
            let name = &hook.name;
            ApiError::internal(format!(
                "admission webhook {name:?}: its patch does not fit: {error:?}"
            ))
        })?;
        let mut patched = restored(patched, object);
        semantics::decode(kind, &mut patched)?;
        semantics::default(kind, &mut patched);
        if patched != *object {
            *object = patched;
            *changes += 1;
        }
        Ok(true)
    }

    /// The answer of a webhook that is concerned and lets the object pass.
    async fn ask(&self, hook: &Hook, object: Option<&Value>) -> Result<Option<Answer>> {
        let (call, target) = (self.call, self.target);
        let (object, old) = (shown(target, object)?, shown(target, self.old)?);
        let namespace = self.namespace();
        let subject = self.subject(object.as_deref(), old.as_deref(), namespace.as_ref());
        let Some(version) = matching::version(&hook.reach, &subject) else {
            return Ok(None);
        };
        let request = self.request(&subject, &version);
        match holds(hook, &subject, &request) {
            Ok(true) => {}
            Ok(false) => return Ok(None),
            Err(why) => return self.unanswered(hook, &why),
        }
        if self.dry_run && !hook.dry_run {
            let name = &hook.name;
            return Err(ApiError::bad_request(format!(
                "admission webhook {name:?} does not support dry run"
            )));
        }
        let uid = request["uid"].clone();
        let question = review::question(request, &subject, &version);
        let network = call.cluster.admission.network();
        let seconds = hook.timeout.as_secs();
        let posted = post::post(network.as_deref(), &hook.place, seconds, &question);
        let answered = match tokio::time::timeout(hook.timeout, posted).await {
            Ok(answered) => answered.and_then(|review| review::answer(&review, &uid)),
            Err(_) => Err(format!("no answer in {seconds} s: context deadline exceeded")),
        };
        match answered {
            Ok(answer) => {
                for warning in &answer.warnings {
                    call.warnings.tell(warning.clone());
                }
                if answer.allowed {
                    Ok(Some(answer))
                } else {
                    Err(answer.refusal(&hook.name))
                }
            }
            Err(why) => self.unanswered(hook, &why),
        }
    }

    /// What becomes of the write is the configuration's choice.
    fn unanswered(&self, hook: &Hook, why: &str) -> Result<Option<Answer>> {
        let text = format!("failed calling webhook {:?}: {why}", hook.name);
        if hook.fail {
            return Err(ApiError::internal(text));
        }
        tracing::warn!("{text}; it is ignored");
        Ok(None)
    }
}

/// An object as webhooks see it.
fn shown<'a>(target: &Target, object: Option<&'a Value>) -> Result<Option<Cow<'a, Value>>> {
    match (object, target.subresource.as_str()) {
        (Some(object), SCALE) => scale_of(target, object).map(|scale| Some(Cow::Owned(scale))),
        (object, _) => Ok(object.map(Cow::Borrowed)),
    }
}

/// Configurations are checked when they are written; one that an earlier version let pass stops
/// what it might be meant to stop.
fn usable(known: &[Arc<Hooks>]) -> Result<Vec<&Hook>> {
    let all = known.iter().flat_map(|hooks| hooks.iter());
    all.map(|hook| {
        hook.as_ref()
            .map_err(|(name, why)| ApiError::internal(format!("webhook {name:?} cannot be used: {why}")))
    })
    .collect()
}

/// A condition that says no counts more than one that has no answer.
fn holds(hook: &Hook, subject: &Subject<'_>, request: &Value) -> std::result::Result<bool, String> {
    let variables = [
        ("object", subject.object.unwrap_or(&Value::Null)),
        ("oldObject", subject.old.unwrap_or(&Value::Null)),
        ("request", request),
    ];
    let mut wrong = None;
    for (name, condition) in &hook.conditions {
        match condition.holds(&variables) {
            Ok(true) => {}
            Ok(false) => return Ok(false),
            Err(why) => wrong = Some(format!("match condition {name:?}: {why}")),
        }
    }
    wrong.map_or(Ok(true), Err)
}

fn restored(mut patched: Value, before: &Value) -> Value {
    for field in ["apiVersion", "kind"] {
        if let Some(value) = before.get(field) {
            patched[field] = value.clone();
        }
    }
    if let Some(metadata) = patched["metadata"].as_object_mut() {
        for field in SERVER_FIELDS {
            match before["metadata"].get(field) {
                Some(value) => metadata.insert(field.into(), value.clone()),
                None => metadata.remove(field),
            };
        }
    }
    patched
}
