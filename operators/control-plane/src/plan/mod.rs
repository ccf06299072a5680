//! The plan of a cloud: from what is wanted and what is seen to an ordered list of steps.
//!
//! Pure. Each step names what it waits for, how far it is, and its objects; whoever carries it out
//! has no choice left. What need not wait does not: a service's object is made at once, because the
//! operator of the service waits for its database and its credential by itself, but the step says
//! honestly what it waits for. Objects that only make sense in a running Keystone are held back
//! until it runs.

mod catalogue;
mod child;
mod completion;
mod infrastructure;
mod korc;
mod missing;
mod ovn;
mod passwords;
mod policies;
mod progress;
mod projection;
mod release;
mod removal;
mod rollout;
mod secrets;
mod services;

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, ServiceReadiness, UpdatePhase};
use c5c3_api::conditions::control_plane::SERVICES_READY;
use c5c3_api::conditions::reason;
use c5c3_api::services::keystone;
use c5c3_catalogue::Release;
use c5c3_kit::{Kind, Reference};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Resource, ResourceExt};
use serde_json::Value;

use crate::clouds_yaml;
use crate::verification::Login;

pub use c5c3_api::services::{SERVICES, Service};
pub use catalogue::hypervisors;
use child::whole;
pub use child::{Child, Health, reference};
pub use completion::{COMPLETED, Fix, Gap, given};
pub use infrastructure::MESSAGING;
pub use korc::{ROLES, assignment};
pub use progress::Progress;
pub use release::Refusal;
pub use removal::{DELETE_VOLUMES, Removal, Volume, volumes_go};
pub use secrets::{PASSWORD_BYTES, SeenSecret, lasts, names as secret_names};

/// What was read before planning. It holds secrets, so it is never shown.
#[derive(Clone, Default)]
pub struct Seen {
    /// The objects of an earlier pass.
    pub children: BTreeMap<Reference, Child>,
    /// Of [`secret_names`], those that exist.
    pub secrets: BTreeMap<String, SeenSecret>,
    /// Everything that belongs to this cloud, and whether it is being deleted.
    pub owned: Vec<(Reference, bool)>,
    pub releases: Vec<Release>,
    /// Fresh bytes for each of [`secret_names`].
    pub random: BTreeMap<String, [u8; PASSWORD_BYTES]>,
    /// Kinds, with their groups, that the cluster does not have.
    pub missing: BTreeSet<String>,
}

/// The state of a step.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum State {
    Done,
    NotRequired(String),
    /// It works on it.
    Running(String),
    /// Steps that have to be done before.
    Waiting(Vec<String>),
    /// Somebody has to do something.
    Failed {
        reason: String,
        text: String,
    },
}

impl State {
    pub fn is_done(&self) -> bool {
        matches!(self, State::Done | State::NotRequired(_))
    }

    fn failed(reason: &str, text: impl Into<String>) -> Self {
        State::Failed {
            reason: reason.to_owned(),
            text: text.into(),
        }
    }
}

/// An object of a step.
#[derive(Clone, PartialEq)]
pub enum Object {
    Apply(Value),
    /// It stays as it is: what it would look like is not known, or nothing is to be changed.
    Keep(Reference),
}

/// Without the fields: those of a Secret are secret.
impl std::fmt::Debug for Object {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Object::Apply(value) => write!(f, "Apply({})", reference(value)),
            Object::Keep(reference) => write!(f, "Keep({reference})"),
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub name: String,
    /// For people.
    pub title: String,
    /// The condition that reports it.
    pub part: &'static str,
    pub needs: Vec<String>,
    pub state: State,
    /// The object of this step of which the state tells, while it is not well.
    pub blocker: Option<Reference>,
    /// What is to be known of it although it is done.
    pub note: Option<String>,
    pub objects: Vec<Object>,
}

impl Step {
    /// A step without objects.
    fn bare(name: &str, title: &str, part: &'static str, state: State) -> Self {
        Step {
            name: name.to_owned(),
            title: title.to_owned(),
            part,
            needs: Vec::new(),
            state,
            blocker: None,
            note: None,
            objects: Vec::new(),
        }
    }

    /// What the step is doing, for a condition's message. Empty when it is done.
    pub fn text(&self) -> String {
        match &self.state {
            State::Done => String::new(),
            State::NotRequired(text) | State::Running(text) | State::Failed { text, .. } => text.clone(),
            State::Waiting(steps) => format!("{} is waiting for {}", self.title, steps.join(", ")),
        }
    }

    pub fn reason(&self) -> &str {
        match &self.state {
            State::Done => reason::READY,
            State::NotRequired(_) => reason::NOT_REQUIRED,
            State::Running(_) => reason::PROGRESSING,
            State::Waiting(_) => reason::WAITING,
            State::Failed { reason, .. } => reason,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub steps: Vec<Step>,
    /// While there is one nothing is made, removed or updated; what runs is still scaled.
    pub refusal: Option<Refusal>,
    pub removal: Removal,
    pub update: UpdatePhase,
    /// The release that all run whose images are not named in the spec.
    pub installed: Option<String>,
    pub services: BTreeMap<String, ServiceReadiness>,
    /// By service, why it has another image than that of the release.
    notes: BTreeMap<String, String>,
    /// What Keystone has to be told beside K-ORC.
    pub gaps: Vec<Gap>,
}

/// The step that matters most: a failed one before a running one before a waiting one.
pub fn blocker<'a>(steps: impl Iterator<Item = &'a Step> + Clone) -> Option<&'a Step> {
    let first = |wanted: fn(&State) -> bool| steps.clone().find(|step| wanted(&step.state));
    first(|state| matches!(state, State::Failed { .. }))
        .or_else(|| first(|state| matches!(state, State::Running(_))))
        .or_else(|| first(|state| matches!(state, State::Waiting(_))))
}

impl Plan {
    /// The update is done, but the cloud has not been verified yet.
    pub fn awaits_verification(&self) -> bool {
        self.steps.iter().any(|step| step.name == VERIFICATION)
    }

    pub fn blocker(&self) -> Option<&Step> {
        blocker(self.steps.iter())
    }

    /// The wanted objects that exist already. A refused release does not stop scaling or a change of a
    /// password.
    pub fn goes_on<'a>(&'a self, owned: &'a [(Reference, bool)]) -> impl Iterator<Item = &'a Value> {
        let there = |value: &&Value| {
            let own = reference(value);
            owned.iter().any(|(known, _)| *known == own) || (value["kind"] == "Secret" && !owned.is_empty())
        };
        self.wanted().filter(there)
    }

    /// What should be there, in this order.
    pub fn wanted(&self) -> impl Iterator<Item = &Value> {
        self.steps
            .iter()
            .flat_map(|step| &step.objects)
            .filter_map(|object| match object {
                Object::Apply(value) => Some(value),
                Object::Keep(_) => None,
            })
    }

    /// What is neither applied nor removed now.
    pub fn kept(&self) -> impl Iterator<Item = &Reference> {
        let steps = self.steps.iter().flat_map(|step| &step.objects);
        steps
            .filter_map(|object| match object {
                Object::Keep(reference) => Some(reference),
                Object::Apply(_) => None,
            })
            .chain(&self.removal.later)
    }
}

/// The plan of a cloud that should be there.
pub fn plan(object: &ControlPlane, seen: &Seen) -> Plan {
    let mut draft = Draft::new(object, seen);
    let rollout = rollout::Rollout::of(object, seen);
    draft.push(rollout.step(&draft));
    secrets::plan(&mut draft);
    infrastructure::plan(&mut draft, &rollout);
    services::plan_keystone(&mut draft, &rollout);
    korc::plan(&mut draft);
    let gaps = completion::plan(&mut draft);
    services::plan_others(&mut draft, &rollout);
    services::plan_global(&mut draft);
    let removal = match rollout.refusal {
        Some(_) => Removal::default(),
        None => Removal::of(&seen.owned, &draft.steps),
    };
    draft.steps.extend(removal::report(&removal, &seen.owned));
    let (services, notes) = services::readiness(&draft, &rollout);
    let (update, installed) = rollout.progress(object, &draft);
    draft.steps.extend(verification(update, &draft));
    Plan {
        steps: draft.steps,
        refusal: rollout.refusal,
        removal,
        update,
        installed,
        services,
        notes,
        gaps,
    }
}

/// The name of the last step of an update.
pub(crate) const VERIFICATION: &str = "verification";

/// All is done but the proof that the cloud serves.
fn verification(update: UpdatePhase, draft: &Draft<'_>) -> Option<Step> {
    let done = draft.steps.iter().all(|step| step.state.is_done());
    let text = "checking each service through its public and its internal endpoint";
    (update == UpdatePhase::Verifying && done).then(|| {
        let state = State::Running(text.to_owned());
        Step::bare(VERIFICATION, "Verification", SERVICES_READY, state)
    })
}

/// The types of the services that are asked.
pub fn asked(spec: &ControlPlaneSpec) -> Vec<&'static str> {
    let running = SERVICES.iter().filter(|service| service.runs(spec));
    let types = running.map(|service| service.catalogue.0);
    types.filter(|type_| !type_.is_empty()).collect()
}

/// How to log in to the cloud: as K-ORC does, or as the administrator of our own Keystone.
pub fn login(object: &ControlPlane, seen: &Seen) -> Option<Login> {
    let draft = Draft::new(object, seen);
    let wanted = secrets::clouds(draft.spec);
    let value = |secret: &str, key: &str| {
        let bytes = seen.secrets.get(secret)?.data.get(key)?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    };
    if let Some(text) = value(&wanted.secret_name, clouds_yaml::KEY) {
        return Some(Login {
            text,
            cloud: wanted.cloud_name,
            ca: value(&wanted.secret_name, "cacert"),
        });
    }
    let keystone = keystone();
    let password = value(secrets::ADMIN, "password").filter(|_| keystone.runs(draft.spec))?;
    let cloud = clouds_yaml::Cloud {
        auth_url: services::internal_url(&draft, keystone),
        ..clouds_yaml::Cloud::default()
    };
    Some(Login {
        text: clouds_yaml::of_admin(&cloud, &password),
        cloud: "admin".to_owned(),
        ca: None,
    })
}

/// The plan for deleting a cloud: in reverse order, one kind after the other.
pub fn teardown(seen: &Seen) -> Removal {
    Removal::of(&seen.owned, &[])
}

/// A plan in the making.
struct Draft<'a> {
    spec: &'a ControlPlaneSpec,
    namespace: String,
    uid: String,
    seen: &'a Seen,
    steps: Vec<Step>,
    /// By service, the copy of its user's password that K-ORC reads.
    passwords: BTreeMap<&'static str, String>,
    /// Infrastructure gets other images than it has.
    changes_infrastructure: bool,
}

/// When the objects of a step are made.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Start {
    AtOnce,
    /// Not before what it needs is done; what is there already stays.
    AfterNeeds,
}

impl<'a> Draft<'a> {
    fn new(object: &'a ControlPlane, seen: &'a Seen) -> Self {
        Draft {
            spec: &object.spec,
            namespace: object.namespace().unwrap_or_default(),
            uid: object.uid().unwrap_or_default(),
            seen,
            steps: Vec::new(),
            passwords: BTreeMap::new(),
            changes_infrastructure: false,
        }
    }

    /// Of an object of this name.
    fn metadata(&self, name: &str) -> ObjectMeta {
        ObjectMeta {
            namespace: Some(self.namespace.clone()),
            name: Some(name.to_owned()),
            ..ObjectMeta::default()
        }
    }

    /// The object of this kind and name.
    fn named<K: Resource<DynamicType = ()>>(&self, name: &str) -> Reference {
        Kind::of::<K>().named(Some(&self.namespace), name)
    }

    fn push(&mut self, step: Step) {
        self.steps.push(step);
    }

    fn state(&self, name: &str) -> Option<&State> {
        self.steps
            .iter()
            .find(|step| step.name == name)
            .map(|step| &step.state)
    }

    /// Of these steps, those that are not done. A step that is not in the plan is none to wait for.
    fn open(&self, needs: &[String]) -> Vec<String> {
        let open = |name: &&String| self.state(name).is_some_and(|state| !state.is_done());
        needs.iter().filter(open).cloned().collect()
    }

    fn child(&self, object: &Value) -> Option<&Child> {
        self.seen.children.get(&reference(object))
    }

    /// A step whose state is that of its objects.
    fn add(
        &mut self,
        name: &str,
        title: &str,
        part: &'static str,
        needs: &[&str],
        start: Start,
        objects: Vec<Value>,
    ) {
        let needs: Vec<String> = needs.iter().map(|need| (*need).to_owned()).collect();
        let open = self.open(&needs);
        let (state, blocker) = match missing::state(self, &objects) {
            Some(state) => (state, None),
            None => state_of(&objects, &open, |object| self.child(object)),
        };
        let held_back = |object: &Value| {
            let early = start == Start::AfterNeeds && !open.is_empty() && self.child(object).is_none();
            early || missing::is_missing(self, object)
        };
        let objects = objects
            .into_iter()
            .filter(|object| !held_back(object))
            .map(Object::Apply)
            .collect();
        self.push(Step {
            name: name.to_owned(),
            title: title.to_owned(),
            part,
            needs,
            state,
            blocker,
            note: None,
            objects,
        });
    }

    fn add_not_required(&mut self, name: &str, title: &str, part: &'static str, text: impl Into<String>) {
        self.push(Step::bare(name, title, part, State::NotRequired(text.into())));
    }
}

/// The state of a step with these objects, and which of them it reports.
fn state_of<'a, 'o>(
    objects: impl IntoIterator<Item = &'o Value>,
    open: &[String],
    child: impl Fn(&Value) -> Option<&'a Child>,
) -> (State, Option<Reference>) {
    let mut running = None;
    for object in objects.into_iter().filter(|object| has_state(object)) {
        let name = said(object);
        let about = || Some(reference(object));
        match child(object).map(|child| &child.health) {
            Some(Health::Ready) => {}
            // What is missing explains what fails.
            _ if !open.is_empty() => return (State::Waiting(open.to_vec()), None),
            Some(Health::Failed(trouble)) => {
                let text = format!("{name}: {}", trouble.message);
                return (State::failed(&trouble.reason, text), about());
            }
            Some(Health::Progressing(trouble)) => {
                running = running.or_else(|| Some((format!("{name}: {}", trouble.message), about())));
            }
            None => running = running.or_else(|| Some((format!("{name} is being created"), about()))),
        }
    }
    running.map_or((State::Done, None), |(text, about)| (State::Running(text), about))
}

/// Whether an object has a state to wait for; others are done as soon as they are applied.
pub fn has_state(object: &Value) -> bool {
    !["Secret", "NetworkPolicy"].contains(&object["kind"].as_str().unwrap_or_default())
}

/// `Keystone`, for what there is one of; `User glance` for others.
fn said(object: &Value) -> String {
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let (kind, name) = (text(&object["kind"]), text(&object["metadata"]["name"]));
    if kind.to_lowercase() == name {
        kind
    } else {
        format!("{kind} {name}")
    }
}

#[cfg(test)]
pub(crate) mod golden;
