//! The apply step: brings the cluster to the decided state with as few writes as possible.

use std::collections::HashSet;
use std::convert::Infallible;

use futures::future::try_join_all;
use serde_json::Value;

use crate::clusters::ClusterError;
use crate::fault::{Fault, plain};
use crate::kinds::{Kind, Reference, resource_of};
use crate::reconcile::controller::{AppliedObject, Decision};
use crate::reconcile::pass::Context;
use crate::write::fields;
use crate::write::ownership::Owner;
use crate::write::rewritten::still;
use crate::write::store::{Store, TRIES, is_conflict};

#[derive(Debug, thiserror::Error)]
pub(crate) enum ApplyError {
    #[error("{object} belongs to {owner} and is not changed. Delete it, or choose another name")]
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

struct Step<'a> {
    reference: Reference,
    kind: &'a Kind,
    body: Value,
}

/// Applies what is wanted, and deletes what no longer is.
pub(crate) async fn carry_out(
    ctx: &Context,
    owner: &Owner,
    decision: Decision<Infallible>,
) -> Result<(Vec<AppliedObject>, Vec<Reference>), ApplyError> {
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
        refuse_strangers(owner, step, live.as_ref())?;
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
    Ok((objects, pruned))
}

fn store<'a>(ctx: &'a Context, kind: &'a Kind) -> Result<Store<'a>, ApplyError> {
    Ok(Store {
        client: ctx.clusters.get(&kind.cluster)?,
        resource: &kind.resource,
        controller: ctx.declared.name,
        metrics: &ctx.metrics,
    })
}

async fn read(ctx: &Context, step: &Step<'_>) -> Result<Option<Value>, ApplyError> {
    let live = store(ctx, step.kind)?.get(&step.reference.key).await;
    live.map_err(|source| failed("read", &step.reference, source))
}

fn refuse_strangers(owner: &Owner, step: &Step<'_>, live: Option<&Value>) -> Result<(), ApplyError> {
    match live.and_then(|live| owner.stranger(live)) {
        Some(stranger) => Err(ApplyError::NotOwned {
            object: step.reference.clone(),
            owner: stranger,
        }),
        None => Ok(()),
    }
}

async fn write(
    ctx: &Context,
    owner: &Owner,
    step: &Step<'_>,
    mut live: Option<Value>,
) -> Result<AppliedObject, ApplyError> {
    let Step {
        reference,
        kind,
        body,
    } = step;
    let cluster = kind.cluster.clone();
    let mut tries = 0;
    let after = loop {
        if let Some(live) = live.take_if(|live| {
            !fields::differs(body, live, ctx.declared.name, None)
                || ctx.rewritten.holds(reference, body, &still(live))
        }) {
            return Ok(AppliedObject {
                cluster,
                live,
                written: false,
            });
        }
        tries += 1;
        let applied = store(ctx, kind)?.apply(&reference.key, body, live.as_ref()).await;
        match applied {
            // It is not what was read any more, or another object of the same name.
            Err(error) if tries < TRIES && is_conflict(&error) => {
                live = read(ctx, step).await?;
                refuse_strangers(owner, step, live.as_ref())?;
            }
            applied => break applied.map_err(|source| failed("apply", reference, source))?,
        }
    };
    ctx.own_writes.expect(reference, live.as_ref(), &after);
    ctx.owned.wrote(kind, &after);
    if fields::differs(body, &after, ctx.declared.name, None) {
        ctx.rewritten
            .remember(&owner.key, reference, body, &still(&after));
    }
    tracing::debug!(object = %reference, "applied");
    Ok(AppliedObject {
        cluster,
        live: after,
        written: true,
    })
}

async fn prune(
    ctx: &Context,
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
            Err(error) if is_conflict(&error) => continue,
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
