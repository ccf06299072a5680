//! The apply step: makes the cluster say what the decision says, with as few writes as that takes.

use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Mutex;

use futures::future::try_join_all;
use serde_json::Value;

use crate::clusters::ClusterError;
use crate::controller::{Applied, AppliedObject, Controller, Decision, Outcome};
use crate::fault::{Fault, plain};
use crate::fields;
use crate::kinds::{Key, Kind, Reference, resource_of};
use crate::lock;
use crate::ownership::Owner;
use crate::pass::Context;
use crate::raw::Store;

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{object} belongs to {owner}; it is left alone. Delete it, or choose another name")]
    NotOwned { object: Reference, owner: String },
    #[error("{kind:?} is not among the kinds that this controller declares to own")]
    UndeclaredKind { kind: String },
    #[error("cannot {verb} {object}: {}", plain(.source))]
    ApplyFailed {
        verb: &'static str,
        object: Reference,
        source: Box<kube::Error>,
    },
    #[error(transparent)]
    UnknownCluster(#[from] ClusterError),
}

impl Fault for ApplyError {
    fn part(&self) -> Option<&'static str> {
        None
    }
}

/// Remembers applies after which the object does not read as it was sent: the server wrote a quantity
/// its own way, or filled in a default. While both sides stay the same, sending again is pointless.
#[derive(Default)]
pub(crate) struct Settled(Mutex<HashMap<Key, Digests>>);

/// Of each object, as wanted and as it is.
type Digests = HashMap<Reference, (u64, u64)>;

impl Settled {
    pub fn forget(&self, owner: &Key) {
        lock(&self.0).remove(owner);
    }

    pub fn holds(&self, owner: &Key, object: &Reference, wanted: &Value, live: &Value) -> bool {
        let memory = lock(&self.0);
        memory.get(owner).and_then(|objects| objects.get(object)) == Some(&(digest(wanted), still(live)))
    }

    pub fn remember(&self, owner: &Key, object: &Reference, wanted: &Value, live: &Value) {
        let entry = (digest(wanted), still(live));
        lock(&self.0)
            .entry(owner.clone())
            .or_default()
            .insert(object.clone(), entry);
    }
}

fn digest(value: &Value) -> u64 {
    let mut hasher = DefaultHasher::new();
    value.to_string().hash(&mut hasher);
    hasher.finish()
}

/// A digest of what only a writer changes: not the status, not the versions.
fn still(live: &Value) -> u64 {
    let mut live = live.clone();
    if let Some(fields) = live.as_object_mut() {
        fields.remove("status");
        if let Some(Value::Object(meta)) = fields.get_mut("metadata") {
            meta.remove("managedFields");
            meta.remove("resourceVersion");
            meta.remove("generation");
        }
    }
    digest(&live)
}

struct Step<'a> {
    reference: Reference,
    kind: &'a Kind,
    body: Value,
}

pub(crate) async fn carry_out<C: Controller>(
    ctx: &Context<C>,
    owner: &Owner,
    decision: Decision<C::Action>,
) -> Result<Applied<C>, ApplyError> {
    let kinds = ctx.owned.kinds();
    let mut steps = Vec::with_capacity(decision.wanted.len());
    for wanted in decision.wanted {
        let kind = resource_of(&wanted.object, kinds, &wanted.cluster).ok_or_else(|| {
            let kind = wanted
                .object
                .get("kind")
                .and_then(Value::as_str)
                .unwrap_or("null");
            ApplyError::UndeclaredKind {
                kind: kind.to_owned(),
            }
        })?;
        let key = wanted.key();
        let mut body = wanted.object;
        if wanted.lasting {
            owner.sign(&mut body);
        } else {
            owner.mark(&mut body, kind.cluster == crate::HOME);
        }
        steps.push(Step {
            reference: kind.named(key.namespace.as_deref(), &key.name),
            kind,
            body,
        });
    }

    // All is read before anything is written: one object of somebody else stops the whole decision.
    let reads: Vec<_> = steps.iter().map(|step| read(ctx, step)).collect();
    let lives: Vec<Option<Value>> = try_join_all(reads).await?;
    for (step, live) in steps.iter().zip(&lives) {
        if let Some(stranger) = live.as_ref().and_then(|live| owner.stranger(live)) {
            return Err(ApplyError::NotOwned {
                object: step.reference.clone(),
                owner: stranger,
            });
        }
    }

    let mut objects = Vec::with_capacity(steps.len());
    for (step, live) in steps.iter().zip(lives) {
        objects.push(write(ctx, owner, step, live).await?);
    }
    let pruned = if decision.prune {
        let wanted: HashSet<&Reference> = steps
            .iter()
            .map(|step| &step.reference)
            .chain(&decision.keep)
            .collect();
        prune(ctx, owner, &wanted).await?
    } else {
        Vec::new()
    };
    let mut outcomes = Vec::with_capacity(decision.actions.len());
    for action in decision.actions {
        let result = ctx.controller.act(&action).await;
        outcomes.push(Outcome { action, result });
    }
    Ok(Applied {
        objects,
        pruned,
        outcomes,
    })
}

fn store<'a, C: Controller>(ctx: &'a Context<C>, kind: &'a Kind) -> Result<Store<'a>, ApplyError> {
    Ok(Store {
        client: ctx.clusters.get(&kind.cluster)?,
        resource: &kind.resource,
        controller: C::NAME,
        metrics: &ctx.metrics,
    })
}

async fn read<C: Controller>(ctx: &Context<C>, step: &Step<'_>) -> Result<Option<Value>, ApplyError> {
    let live = store(ctx, step.kind)?.get(&step.reference.key).await;
    live.map_err(|source| failed("read", &step.reference, source))
}

async fn write<C: Controller>(
    ctx: &Context<C>,
    owner: &Owner,
    step: &Step<'_>,
    live: Option<Value>,
) -> Result<AppliedObject, ApplyError> {
    let Step {
        reference,
        kind,
        body,
    } = step;
    let cluster = kind.cluster.clone();
    if let Some(live) = live {
        let as_wanted = !fields::differs(body, &live, C::NAME, None)
            || ctx.settled.holds(&owner.key, reference, body, &live);
        if as_wanted {
            return Ok(AppliedObject {
                cluster,
                live,
                written: false,
            });
        }
    }
    let applied = store(ctx, kind)?.apply(&reference.key, body).await;
    let live = applied.map_err(|source| failed("apply", reference, source))?;
    ctx.echoes.expect(reference, &live);
    ctx.owned.wrote(kind, &live);
    if fields::differs(body, &live, C::NAME, None) {
        ctx.settled.remember(&owner.key, reference, body, &live);
    }
    tracing::debug!(object = %reference, "applied");
    Ok(AppliedObject {
        cluster,
        live,
        written: true,
    })
}

async fn prune<C: Controller>(
    ctx: &Context<C>,
    owner: &Owner,
    wanted: &HashSet<&Reference>,
) -> Result<Vec<Reference>, ApplyError> {
    let mut pruned = Vec::new();
    for (reference, owned) in ctx.owned.of(&owner.uid) {
        if owned.deleting || wanted.contains(&reference) {
            continue;
        }
        let Some(kind) = ctx.owned.kinds().iter().find(|kind| kind.is_of(&reference)) else {
            continue;
        };
        let deleted = store(ctx, kind)?.delete(&reference.key, &owned.uid).await;
        match deleted {
            Ok(there) => ctx.owned.deleted(&reference, !there),
            // Another object has the name by now: not the one that we made.
            Err(kube::Error::Api(status)) if status.code == 409 => continue,
            Err(source) => return Err(failed("delete", &reference, source)),
        }
        tracing::info!(object = %reference, "pruned");
        pruned.push(reference);
    }
    Ok(pruned)
}

fn failed(verb: &'static str, object: &Reference, source: kube::Error) -> ApplyError {
    ApplyError::ApplyFailed {
        verb,
        object: object.clone(),
        source: Box::new(source),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::api::core::v1::Secret;
    use serde_json::json;

    #[test]
    fn what_the_server_rewrites_is_sent_once() {
        let settled = Settled::default();
        let (owner, object) = (Key::new(None, "a"), Kind::of::<Secret>().named(None, "b"));
        let wanted = json!({"spec": {"cpu": "1000m"}});
        let live = |cpu: &str, version: &str, ready: i64| json!({"metadata": {"resourceVersion": version}, "spec": {"cpu": cpu}, "status": {"ready": ready}});
        assert!(!settled.holds(&owner, &object, &wanted, &live("1", "5", 0)));
        settled.remember(&owner, &object, &wanted, &live("1", "5", 0));
        assert!(
            settled.holds(&owner, &object, &wanted, &live("1", "6", 1)),
            "only the status moved"
        );
        assert!(
            !settled.holds(&owner, &object, &wanted, &live("2", "7", 1)),
            "somebody changed it"
        );
        assert!(!settled.holds(
            &owner,
            &object,
            &json!({"spec": {"cpu": "2"}}),
            &live("1", "6", 1)
        ));
        settled.forget(&owner);
        assert!(!settled.holds(&owner, &object, &wanted, &live("1", "5", 0)));
    }
}
