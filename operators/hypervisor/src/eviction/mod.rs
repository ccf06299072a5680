//! Eviction: all servers leave a host.

mod estimate;
mod planner;
mod report;
#[cfg(test)]
mod tests;
mod view;

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use c5c3_api::conditions::eviction::{HYPERVISOR_RE_ENABLED, MIGRATING_INSTANCE, PREFLIGHT_CHECKS_SUCCEEDED};
use c5c3_api::conditions::hypervisor::{EVICTING, HYPERVISOR_DISABLED};
use c5c3_api::hypervisor::{Eviction, Hypervisor};
use c5c3_kit::{Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report};
use futures::future::try_join_all;
use jiff::Timestamp;
use kube::ResourceExt;
use openstack_client::Guest;

use crate::Error;
use crate::login::Clouds;
use crate::names;
use crate::nova::{Amounts, Found, Nova};

pub use planner::plan;
pub use view::{Action, HostView, Step, View};

/// Migrations under way are waited for when an Eviction is deleted, but not forever.
const WITHIN: Duration = Duration::from_secs(2 * 3600);

/// The controller.
#[derive(Clone)]
pub struct Evictions {
    clouds: Clouds,
    refusals: Refusals,
}

/// Messages of refused calls, by server, until the next observation. One server that Nova refuses must
/// not slow down the others, so a refusal is no error of the pass.
#[derive(Clone, Debug, Default)]
pub struct Refusals(Arc<Mutex<HashMap<String, String>>>);

impl Refusals {
    pub(crate) fn keep(&self, server: &str, words: String) {
        self.lock().insert(server.to_owned(), words);
    }

    /// Of these servers; what is taken is not there the next time.
    pub(crate) fn take<'a>(&self, servers: impl Iterator<Item = &'a str>) -> BTreeMap<String, String> {
        let mut all = self.lock();
        let of = |server: &str| all.remove(server).map(|words| (server.to_owned(), words));
        servers.filter_map(of).collect()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, HashMap<String, String>> {
        // Each change is one insert or remove.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl fmt::Debug for Evictions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Evictions").field("clouds", &self.clouds).finish()
    }
}

impl Evictions {
    pub(crate) fn new(clouds: Clouds) -> Self {
        Evictions {
            clouds,
            refusals: Refusals::default(),
        }
    }
}

impl Controller for Evictions {
    type Kind = Eviction;
    type Facts = View;
    type Plan = Step;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "eviction";
    const PARTS: &'static [Part] = &[
        Part::informative(PREFLIGHT_CHECKS_SUCCEEDED),
        Part::informative(HYPERVISOR_DISABLED),
        Part::informative(MIGRATING_INSTANCE),
        Part::informative(EVICTING),
        Part::informative(HYPERVISOR_RE_ENABLED),
    ];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "hypervisor.c5c3.io/eviction",
        within: WITHIN,
    });

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Hypervisor>()]
    }

    fn references(object: &Eviction) -> Vec<Reference> {
        vec![Kind::of::<Hypervisor>().named(None, &object.spec.hypervisor)]
    }

    async fn observe(&self, object: &Eviction, reader: &Reader) -> Result<View, Error> {
        let host: Option<Hypervisor> = reader.get_global(&object.spec.hypervisor).await?;
        let nova = self.clouds.of(reader).await?;
        let view = look(object, host.as_ref(), &nova, &self.refusals, Timestamp::now()).await;
        if let Err(error) = &view {
            self.clouds.failed(error);
        }
        Ok(view?)
    }

    fn plan(observed: &Observed<Self>) -> Step {
        plan(&observed.facts)
    }

    fn decide(_: &Observed<Self>, step: &Step) -> Result<Decision<Action>, Error> {
        Ok(Decision::hold().act(step.actions.clone()))
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        let nova = self.clouds.current()?;
        carry_out(&nova, action, &self.refusals).await
    }

    fn report(_: &Observed<Self>, step: &Step, _: &Applied<Self>) -> Report {
        Report::new(step.states.clone())
            .status(&step.status)
            .again_in(step.again)
            .left(step.left.clone())
    }
}

/// One call. What concerns one server alone is kept for the next look.
pub async fn carry_out(nova: &Nova, action: &Action, refusals: &Refusals) -> Result<(), Error> {
    let done = match action {
        Action::Disable { service, reason } => return Ok(nova.disable(service, reason).await?),
        Action::Enable { service } => return Ok(nova.enable(service).await?),
        Action::Live { server } => nova.fleet.live_migrate(server).await,
        Action::Cold { server } => nova.fleet.cold_migrate(server).await,
        Action::Confirm { server } => nova.fleet.confirm_migration(server).await,
        Action::Force { server, migration } => nova.fleet.force_complete(server, *migration).await,
        Action::Abort { server, migration } => nova.fleet.abort_migration(server, *migration).await,
    };
    if let (Err(error), Some(server)) = (done, action.server()) {
        tracing::warn!(server, "{error}");
        refusals.keep(server, error.to_string());
    }
    Ok(())
}

/// Asks Nova and Placement.
pub async fn look(
    object: &Eviction,
    hypervisor: Option<&Hypervisor>,
    nova: &Nova,
    refusals: &Refusals,
    now: Timestamp,
) -> Result<View, openstack_client::Error> {
    let name = &object.spec.hypervisor;
    let mut view = View {
        name: object.name_any(),
        spec: object.spec.clone(),
        before: object.status.clone().unwrap_or_default(),
        deleting: object.metadata.deletion_timestamp.is_some(),
        host: Err(format!("there is no Hypervisor {name}")),
        now,
    };
    let Some(hypervisor) = hypervisor else {
        return Ok(view);
    };
    let known = hypervisor.status.clone().unwrap_or_default();
    let found = nova.host(known.service_id.as_deref(), name, now).await?;
    let service = match found.service {
        Found::One(service) => Some(service),
        Found::Nothing => None,
        Found::Several(hosts) => {
            view.host = Err(format!("Nova has several hosts for {name}: {}", hosts.join(", ")));
            return Ok(view);
        }
    };
    let Some(host) = service.as_ref().map(|one| one.host.clone()).or(known.host) else {
        view.host = Err(format!("Nova does not know {name} yet"));
        return Ok(view);
    };
    let mut guests = nova.fleet.guests_on(&host).await?;
    // The operator deletes these itself.
    let prefix = format!("{}-", names::TEST);
    let test = known.onboarding.and_then(|one| one.test_server);
    guests.retain(|guest| test.as_ref() != Some(&guest.id) || !guest.name.starts_with(&prefix));
    let moves = nova.fleet.moves_from(&host).await?;
    let live = guests
        .iter()
        .filter(|guest| guest.task.as_deref() == Some("migrating"));
    let progress = try_join_all(live.map(async |guest| {
        let all = nova.fleet.progress(&guest.id).await?;
        Ok::<_, openstack_client::Error>(all.into_iter().next().map(|one| (guest.id.clone(), one)))
    }))
    .await?;
    let provider = found.provider.or(known.hypervisor_id);
    let no_room = match provider {
        Some(provider) => no_room(nova, &provider, &guests).await?,
        None => BTreeMap::new(),
    };
    let refused = refusals.take(guests.iter().map(|guest| guest.id.as_str()));
    view.host = Ok(HostView {
        service,
        name: host,
        guests,
        moves,
        progress: progress.into_iter().flatten().collect(),
        no_room,
        refused,
    });
    Ok(view)
}

/// Servers for which no other host has room, with what they need. Asks Placement once for each shape of server.
pub(crate) async fn no_room(
    nova: &Nova,
    provider: &str,
    guests: &[Guest],
) -> Result<BTreeMap<String, String>, openstack_client::Error> {
    let idle = |guest: &&Guest| guest.task.is_none();
    if !guests.iter().any(|guest| idle(&guest)) {
        return Ok(BTreeMap::new());
    }
    let held = nova.fleet.consumers(provider).await?;
    let mut shapes: HashMap<&Amounts, bool> = HashMap::new();
    let mut lacking = BTreeMap::new();
    for guest in guests.iter().filter(idle) {
        // Without an allocation nothing is known: Nova will say.
        let Some(needs) = held.get(&guest.id) else {
            continue;
        };
        let room = match shapes.get(needs) {
            Some(room) => *room,
            None => {
                let found = nova.fleet.candidates(needs).await?;
                let room = found.iter().any(|other| other != provider);
                shapes.insert(needs, room);
                room
            }
        };
        if !room {
            let words: Vec<String> = needs.iter().map(|(class, n)| format!("{class} {n}")).collect();
            lacking.insert(guest.id.clone(), words.join(", "));
        }
    }
    Ok(lacking)
}
