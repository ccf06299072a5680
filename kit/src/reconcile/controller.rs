//! What a controller is: data about what it watches and owns, and five steps.
//!
//! Observe → plan → decide → apply → report. The types keep the order: [`Controller::plan`] needs
//! what was [`Observed`], [`Controller::decide`] needs the plan, and [`Controller::report`] needs
//! what was [`Applied`], which only the kit makes from a [`Decision`]. `plan`, `decide` and `report`
//! have no `self`, so no client is in reach: they are pure.

use std::convert::Infallible;
use std::fmt::{self, Debug};
use std::time::Duration;

use jiff::Timestamp;
use kube::Resource;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::access::Touch;
use crate::clusters::{ClusterName, HOME};
use crate::fault::Fault;
use crate::kinds::{Key, Kind, Reference};
use crate::read::Reader;
use crate::reconcile::finalizers::is_over;
use crate::report::conditions::{Part, States};
use crate::report::events::Note;

/// A kind that a controller can reconcile.
pub trait Object:
    Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}
impl<K> Object for K where
    K: Resource<DynamicType = ()> + DeserializeOwned + Clone + Debug + Send + Sync + 'static
{
}

/// Holds an object's deletion until what it made outside Kubernetes is gone, but not forever.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Finalizer {
    pub name: &'static str,
    /// After this long the object goes anyway, and an event names what is left behind.
    pub within: Duration,
}

pub trait Controller: Send + Sync + Sized + 'static {
    type Kind: Object;
    /// What [`observe`](Self::observe) read.
    type Facts: Send + Sync;
    /// What [`plan`](Self::plan) worked out; `()` where deciding and reporting share nothing.
    type Plan: Send + Sync;
    /// A call to an outside system; [`std::convert::Infallible`] when there is none.
    type Action: Debug + Send + Sync;
    type Error: Fault;

    /// Field manager, label of owned objects and of metrics.
    const NAME: &'static str;
    /// The conditions beside `Ready`, in order of importance.
    const PARTS: &'static [Part];
    /// `false`: no `Ready` is written, for kinds of others whose conditions have another shape.
    const READY: bool = true;
    /// `false`: `observedGeneration` is left to the controller that acts on the spec; this one only
    /// adds to the same status.
    const GENERATION: bool = true;
    /// `true`: the status has `blockedBy`, the object that keeps this one from being ready.
    const BLOCKED_BY: bool = false;
    /// `false`: no status is written at all, for kinds whose status belongs to others alone.
    const STATUS: bool = true;
    const FINALIZER: Option<Finalizer> = None;

    /// Whether this object needs the finalizer: one that makes nothing elsewhere may go at once.
    fn is_held(_object: &Self::Kind) -> bool {
        true
    }

    /// The kinds that it makes. No other is applied, and of these what is no longer wanted is pruned.
    fn owns() -> Vec<Kind> {
        Vec::new()
    }

    /// The kinds that [`references`](Self::references) and [`found`](Self::found) can name. Only
    /// their metadata is watched, and none of it is kept.
    fn watches() -> Vec<Kind> {
        Vec::new()
    }

    /// What `observe` and `act` use beside the kinds above: for the controller's role.
    fn touches() -> Vec<Touch> {
        Vec::new()
    }

    /// The objects on which this one depends: a change of any of them brings a new pass.
    fn references(_object: &Self::Kind) -> Vec<Reference> {
        Vec::new()
    }

    /// More of them, whose names stand only in what was read.
    fn found(_facts: &Self::Facts) -> Vec<Reference> {
        Vec::new()
    }

    /// Reads what the decision needs.
    fn observe(
        &self,
        object: &Self::Kind,
        reader: &Reader,
    ) -> impl Future<Output = Result<Self::Facts, Self::Error>> + Send;

    /// Pure. Everything that follows from what was observed, worked out once per pass. A wrong input
    /// is a value of the plan, see [`refusal`](Self::refusal).
    fn plan(observed: &Observed<Self>) -> Self::Plan;

    /// A wrong input that the plan carries. It is told like any error, after the decision was
    /// applied: what can go on goes on.
    fn refusal(_plan: &Self::Plan) -> Option<&Self::Error> {
        None
    }

    /// Pure. What should be there. An error leaves everything as it is.
    fn decide(observed: &Observed<Self>, plan: &Self::Plan) -> Result<Decision<Self::Action>, Self::Error>;

    /// Carries out one action. One that fails does not keep the others from being tried.
    fn act(&self, action: &Self::Action) -> impl Future<Output = Result<(), Self::Error>> + Send;

    /// Pure. How things are, seen from what was applied.
    fn report(observed: &Observed<Self>, plan: &Self::Plan, applied: &Applied<Self>) -> Report;
}

/// An object and what was read about it.
pub struct Observed<C: Controller> {
    pub object: C::Kind,
    pub facts: C::Facts,
    pub now: Timestamp,
}

impl<C: Controller> Observed<C> {
    /// The object is being deleted; only controllers with a finalizer see this.
    pub fn deleting(&self) -> bool {
        self.object.meta().deletion_timestamp.is_some()
    }

    /// The object is being deleted and the finalizer's time is up: it is released after this pass,
    /// whatever is left.
    pub fn overdue(&self) -> bool {
        let since = self.object.meta().deletion_timestamp.as_ref();
        C::FINALIZER
            .zip(since)
            .is_some_and(|(finalizer, since)| is_over(since.0, finalizer.within, self.now))
    }

    /// Plans and decides, as a pass does. For tests and for showing a plan.
    pub fn decide(&self) -> Result<Decision<C::Action>, C::Error> {
        C::decide(self, &C::plan(self))
    }

    /// Plans and reports on what was applied. For tests and for showing a plan.
    pub fn report(&self, applied: &Applied<C>) -> Report {
        C::report(self, &C::plan(self), applied)
    }
}

/// The desired state of an object: only the fields that the controller sets.
#[derive(Clone, PartialEq)]
pub struct Wanted {
    pub(crate) cluster: ClusterName,
    pub(crate) object: Value,
    pub(crate) lasting: bool,
}

/// The name alone: it may be a Secret.
impl Debug for Wanted {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, &self.object)
    }
}

fn named(f: &mut fmt::Formatter<'_>, object: &Value) -> fmt::Result {
    let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default();
    write!(f, "{} {}", text("/kind"), text("/metadata/name"))
}

impl Wanted {
    pub fn of<K: Resource<DynamicType = ()> + Serialize>(object: &K) -> Self {
        // A Kubernetes type has string keys only, so this cannot fail; were it to, apply refuses null.
        let mut value = serde_json::to_value(object).unwrap_or_default();
        if let Some(fields) = value.as_object_mut() {
            fields.remove("status");
            fields.insert("apiVersion".to_owned(), K::api_version(&()).into());
            fields.insert("kind".to_owned(), K::kind(&()).into());
        }
        Wanted::untyped(value)
    }

    /// An object without a type of ours.
    pub fn untyped(object: Value) -> Self {
        Wanted {
            cluster: HOME,
            object,
            lasting: false,
        }
    }

    /// Outlives its owner and is never pruned: data, and the keys to it. An owner that is made
    /// again under the same name takes it over.
    pub fn lasting(mut self) -> Self {
        self.lasting = true;
        self
    }

    pub fn is_lasting(&self) -> bool {
        self.lasting
    }

    pub fn in_cluster(mut self, name: impl Into<ClusterName>) -> Self {
        self.cluster = name.into();
        self
    }

    pub fn object(&self) -> &Value {
        &self.object
    }

    pub fn into_object(self) -> Value {
        self.object
    }

    /// The cluster that it belongs in.
    pub fn cluster(&self) -> &str {
        &self.cluster
    }

    pub(crate) fn key(&self) -> Key {
        let text = |path: &str| self.object.pointer(path).and_then(Value::as_str);
        Key::new(
            text("/metadata/namespace"),
            text("/metadata/name").unwrap_or_default(),
        )
    }
}

/// The objects that should exist and the actions to take, complete: carrying it out needs no further
/// choice.
#[derive(Clone, Debug, PartialEq)]
pub struct Decision<A> {
    pub(crate) wanted: Vec<Wanted>,
    pub(crate) keep: Vec<Reference>,
    pub(crate) actions: Vec<A>,
    pub(crate) prune: bool,
}

impl<A> Decision<A> {
    /// Exactly these objects, applied in this order; any other object of this controller is pruned.
    pub fn want(objects: impl IntoIterator<Item = Wanted>) -> Self {
        Decision {
            wanted: objects.into_iter().collect(),
            keep: Vec::new(),
            actions: Vec::new(),
            prune: true,
        }
    }

    /// Leave every object as it is.
    pub fn hold() -> Self {
        Self::only([])
    }

    /// These objects; every other is left as it is.
    pub fn only(objects: impl IntoIterator<Item = Wanted>) -> Self {
        Decision {
            prune: false,
            ..Self::want(objects)
        }
    }

    /// Neither apply nor prune this one.
    pub fn keep(mut self, reference: Reference) -> Self {
        self.keep.push(reference);
        self
    }

    pub fn act(mut self, actions: impl IntoIterator<Item = A>) -> Self {
        self.actions.extend(actions);
        self
    }

    /// What is to be applied, and what is to be done after it.
    pub(crate) fn split(self) -> (Decision<Infallible>, Vec<A>) {
        let decision = Decision {
            wanted: self.wanted,
            keep: self.keep,
            actions: Vec::new(),
            prune: self.prune,
        };
        (decision, self.actions)
    }

    pub fn wanted(&self) -> &[Wanted] {
        &self.wanted
    }

    pub fn kept(&self) -> &[Reference] {
        &self.keep
    }

    pub fn actions(&self) -> &[A] {
        &self.actions
    }
}

/// A wanted object as the API server has it after the apply.
#[derive(Clone)]
pub struct AppliedObject {
    pub cluster: ClusterName,
    pub live: Value,
    /// `false`: it was so already and nothing was sent.
    pub written: bool,
}

impl Debug for AppliedObject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        named(f, &self.live)
    }
}

/// An action and its result.
pub struct Outcome<C: Controller> {
    pub action: C::Action,
    pub result: Result<(), C::Error>,
}

/// What has been applied and done. Only an applied decision becomes one.
pub struct Applied<C: Controller> {
    pub(crate) objects: Vec<AppliedObject>,
    pub(crate) pruned: Vec<Reference>,
    pub(crate) outcomes: Vec<Outcome<C>>,
}

impl<C: Controller> Applied<C> {
    /// As if the decision had been applied to an empty cluster and every action had worked.
    /// For tests and for showing a plan.
    pub fn rehearse(decision: Decision<C::Action>) -> Self {
        let objects = decision.wanted.into_iter().map(|wanted| AppliedObject {
            cluster: wanted.cluster,
            live: wanted.object,
            written: true,
        });
        Applied {
            objects: objects.collect(),
            pruned: Vec::new(),
            outcomes: decision
                .actions
                .into_iter()
                .map(|action| Outcome {
                    action,
                    result: Ok(()),
                })
                .collect(),
        }
    }

    pub fn objects(&self) -> &[AppliedObject] {
        &self.objects
    }

    /// The live object of that type and name, in any cluster.
    pub fn get<K: Object>(&self, namespace: Option<&str>, name: &str) -> Option<K> {
        let object = self.find::<K>(namespace, name)?;
        serde_json::from_value(object.live.clone()).ok()
    }

    pub fn written<K: Object>(&self, namespace: Option<&str>, name: &str) -> bool {
        self.find::<K>(namespace, name)
            .is_some_and(|object| object.written)
    }

    pub fn pruned(&self) -> &[Reference] {
        &self.pruned
    }

    pub fn outcomes(&self) -> &[Outcome<C>] {
        &self.outcomes
    }

    fn find<K: Object>(&self, namespace: Option<&str>, name: &str) -> Option<&AppliedObject> {
        self.objects.iter().find(|object| {
            let is = |path: &str, text: &str| {
                object
                    .live
                    .pointer(path)
                    .and_then(Value::as_str)
                    .unwrap_or_default()
                    == text
            };
            is("/kind", &K::kind(&()))
                && is("/apiVersion", &K::api_version(&()))
                && is("/metadata/name", name)
                && is("/metadata/namespace", namespace.unwrap_or_default())
        })
    }
}

/// The result of a pass. Conditions come from the states; the kit adds `Ready` and
/// `observedGeneration`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Report {
    pub(crate) states: States,
    pub(crate) status: Value,
    pub(crate) again: Option<Duration>,
    pub(crate) notes: Vec<Note>,
    pub(crate) left: Vec<String>,
    /// Something was done that cannot be seen by looking again.
    pub(crate) acted: bool,
}

impl Report {
    pub fn new(states: States) -> Self {
        Report {
            states,
            ..Report::default()
        }
    }

    /// The fields of `.status` that this controller writes, conditions aside. A field that is
    /// left out is removed.
    pub fn status(mut self, status: &impl Serialize) -> Self {
        self.status = serde_json::to_value(status).unwrap_or_default();
        self
    }

    /// Run another pass after this time, for changes that no watch reports. It is spread by a tenth.
    pub fn again_in(mut self, interval: Duration) -> Self {
        self.again = Some(interval);
        self
    }

    pub fn note(mut self, note: Note) -> Self {
        self.notes.push(note);
        self
    }

    /// For an object that is being deleted: what still exists. If empty, the finalizer is removed.
    pub fn left(mut self, names: impl IntoIterator<Item = String>) -> Self {
        self.left.extend(names);
        self
    }

    pub fn states(&self) -> &States {
        &self.states
    }

    pub fn status_fields(&self) -> &Value {
        &self.status
    }
}
