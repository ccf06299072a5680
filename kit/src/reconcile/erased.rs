//! A controller without its types. Watches, queue, passes and writes are the same for all kinds, so they are compiled
//! once; only what a controller observes, decides and reports knows its kind.

use futures::FutureExt;
use futures::future::BoxFuture;
use jiff::Timestamp;
use kube::core::DynamicObject;
use serde_json::Value;

use crate::kinds::{Key, Reference};
use crate::lock;
use crate::read::Reader;
use crate::reconcile::controller::{Applied, Controller, Finalizer, Observed, Outcome, Report};
use crate::reconcile::pass::{Context, Failed, PassError};
use crate::report::conditions::Part;
use crate::write::apply::carry_out;
use crate::write::ownership::Owner;

/// What a controller declares.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Declared {
    pub name: &'static str,
    pub parts: &'static [Part],
    pub ready: bool,
    pub generation: bool,
    pub blocked_by: bool,
    pub status: bool,
    pub finalizer: Option<Finalizer>,
}

impl Declared {
    pub(crate) fn of<C: Controller>() -> Self {
        Declared {
            name: C::NAME,
            parts: C::PARTS,
            ready: C::READY,
            generation: C::GENERATION,
            blocked_by: C::BLOCKED_BY,
            status: C::STATUS,
            finalizer: C::FINALIZER,
        }
    }
}

/// What became of the steps of a pass.
pub(crate) type Stepped = Result<(Report, Option<Failed>), Failed>;

/// What only a controller with its types can do.
pub(crate) trait Erased: Send + Sync {
    /// What an object refers to. One that does not parse refers to nothing; its pass will say what is wrong with it.
    fn references(&self, object: &DynamicObject) -> Vec<Reference>;

    /// One that does not parse makes nothing yet.
    fn is_held(&self, live: &Value) -> bool;

    /// Observe, plan, decide, apply, report.
    fn steps<'a>(&'a self, ctx: &'a Context, live: &'a Value, now: Timestamp) -> BoxFuture<'a, Stepped>;
}

/// A controller as [`Erased`].
pub(crate) struct Typed<C>(pub C);

impl<C: Controller> Erased for Typed<C> {
    fn references(&self, object: &DynamicObject) -> Vec<Reference> {
        let parsed = object.clone().try_parse::<C::Kind>().ok();
        parsed.as_ref().map(C::references).unwrap_or_default()
    }

    fn is_held(&self, live: &Value) -> bool {
        let object = serde_json::from_value(live.clone()).ok();
        object.is_some_and(|object| C::is_held(&object))
    }

    fn steps<'a>(&'a self, ctx: &'a Context, live: &'a Value, now: Timestamp) -> BoxFuture<'a, Stepped> {
        steps(&self.0, ctx, live, now).boxed()
    }
}

/// The five steps. The types allow no other order.
async fn steps<C: Controller>(controller: &C, ctx: &Context, live: &Value, now: Timestamp) -> Stepped {
    let malformed = |text: String| Failed::from(&PassError::Malformed(text));
    let object: C::Kind = serde_json::from_value(live.clone()).map_err(|e| malformed(e.to_string()))?;
    let owner = Owner::of(C::NAME, &object).ok_or_else(|| malformed("it has no uid".to_owned()))?;
    let reader = Reader::new(ctx.clusters.clone(), ctx.owned.clone(), &owner.uid);
    let facts = look(controller, ctx, &object, &reader).await;
    let facts = facts.map_err(|e| Failed::from(&e))?;
    let observed = Observed { object, facts, now };
    let plan = C::plan(&observed);
    let decision = C::decide(&observed, &plan).map_err(|e| Failed::from(&e))?;
    let (wanted, actions) = decision.split();
    let (objects, pruned) = carry_out(ctx, &owner, wanted)
        .await
        .map_err(|e| Failed::from(&e))?;
    let mut outcomes = Vec::with_capacity(actions.len());
    for action in actions {
        let result = controller.act(&action).await;
        outcomes.push(Outcome { action, result });
    }
    let applied = Applied {
        objects,
        pruned,
        outcomes,
    };
    let mut report = C::report(&observed, &plan, &applied);
    let outcomes = applied.outcomes.iter();
    report.acted = outcomes.clone().any(|outcome| outcome.result.is_ok());
    let failed = outcomes
        .filter_map(|outcome| outcome.result.as_ref().err())
        .chain(C::refusal(&plan))
        .next();
    Ok((report, failed.map(Failed::from)))
}

/// Retries per pass.
const LOOKS: u32 = 4;

/// Observes, and once more when that named an object which was not watched until then.
async fn look<C: Controller>(
    controller: &C,
    ctx: &Context,
    object: &C::Kind,
    reader: &Reader,
) -> Result<C::Facts, C::Error> {
    let mut facts = controller.observe(object, reader).await?;
    // A world that names something else at every look is looked at again with the next change.
    for _ in 0..LOOKS {
        if !lock(&ctx.index).learn(&Key::of(object), C::found(&facts)) {
            break;
        }
        facts = controller.observe(object, reader).await?;
    }
    Ok(facts)
}
