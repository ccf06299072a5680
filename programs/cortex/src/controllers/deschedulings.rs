//! Descheduling: moves a server off its host, unless Cortex runs without `--migrate`.

use std::time::Duration;

use c5c3_api::cortex::Descheduling;
use c5c3_kit::{Applied, Controller, Decision, Observed, Part, Reader, Report, States, Touch};
use jiff::SignedDuration;
use kube::{Api, ResourceExt, api::DeleteParams};
use openstack_client::{Fleet, Guest};
use serde_json::json;

use super::{Error, Shared};

/// After this long an instruction is worth nothing.
const EXPIRES: SignedDuration = SignedDuration::from_hours(24);
const AGAIN: Duration = Duration::from_secs(60);

/// The client is for instructions that are worth nothing any more.
#[derive(Clone)]
pub(crate) struct Deschedulings(pub Shared, pub kube::Client);

#[derive(Debug)]
pub(crate) struct Facts {
    /// `None`: nobody can be asked. `Some(None)`: it is gone.
    server: Option<Option<Guest>>,
    migrate: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum Action {
    Migrate(String),
    Forget(String),
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    /// Expired, or the server is gone.
    Forget,
    Migrate,
    /// It is on its way.
    Moving,
    Done(String),
    Waits(&'static str, String),
}

fn plan(object: &Descheduling, server: Option<&Option<Guest>>, migrate: bool, age: SignedDuration) -> Plan {
    if age >= EXPIRES {
        return Plan::Forget;
    }
    let guest = match server {
        None => return Plan::Waits("NoNova", "no Datasource reads Nova yet".to_owned()),
        Some(None) => return Plan::Forget,
        Some(Some(guest)) => guest,
    };
    if guest.task.as_deref().is_some_and(|task| task.contains("migrat")) || guest.status == "MIGRATING" {
        return Plan::Moving;
    }
    if guest.host != object.spec.prev_host {
        return Plan::Done(guest.host.clone());
    }
    if guest.status != "ACTIVE" {
        return Plan::Waits(
            "NotActive",
            format!(
                "the server is {}, and only a running server can be moved",
                guest.status
            ),
        );
    }
    if !migrate {
        return Plan::Waits("DryRun", "would be moved if Cortex ran with --migrate".to_owned());
    }
    Plan::Migrate
}

impl Controller for Deschedulings {
    type Kind = Descheduling;
    type Facts = Facts;
    type Plan = Plan;
    type Action = Action;
    type Error = Error;

    const NAME: &'static str = "cortex-deschedulings";
    const PARTS: &'static [Part] = &[];

    fn touches() -> Vec<Touch> {
        vec![Touch::of::<Descheduling>(&["delete"])]
    }

    async fn observe(&self, object: &Descheduling, _: &Reader) -> Result<Facts, Error> {
        let server = match self.0.nova() {
            Some(nova) => Some(nova.guest(&object.spec.ref_).await?),
            None => None,
        };
        Ok(Facts {
            server,
            migrate: self.0.migrate,
        })
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        let (object, facts) = (&observed.object, &observed.facts);
        let made = object.creation_timestamp().map_or(observed.now, |time| time.0);
        plan(
            object,
            facts.server.as_ref(),
            facts.migrate,
            observed.now.duration_since(made),
        )
    }

    fn decide(observed: &Observed<Self>, plan: &Plan) -> Result<Decision<Action>, Error> {
        let action = match plan {
            Plan::Forget => Some(Action::Forget(observed.object.name_any())),
            Plan::Migrate => Some(Action::Migrate(observed.object.spec.ref_.clone())),
            _ => None,
        };
        Ok(Decision::hold().act(action))
    }

    async fn act(&self, action: &Action) -> Result<(), Error> {
        match action {
            Action::Migrate(server) => match self.0.nova() {
                Some(nova) => Ok(nova.live_migrate(server).await?),
                None => Ok(()),
            },
            Action::Forget(name) => {
                let api: Api<Descheduling> = Api::all(self.1.clone());
                match api.delete(name, &DeleteParams::default()).await {
                    Err(kube::Error::Api(status)) if status.code == 404 => Ok(()),
                    Err(error) => Err(Error::Delete(Box::new(error))),
                    Ok(_) => Ok(()),
                }
            }
        }
    }

    fn report(_: &Observed<Self>, plan: &Plan, _: &Applied<Self>) -> Report {
        let waits = |reason: &str, text: &str| States::default().blocked_by(reason, text);
        let (states, host) = match plan {
            Plan::Done(host) => (States::default(), Some(host.clone())),
            Plan::Forget => (waits("Expired", "is forgotten"), None),
            Plan::Migrate | Plan::Moving => (waits("InProgress", "the server is being moved"), None),
            Plan::Waits(reason, text) => (waits(reason, text), None),
        };
        Report::new(states)
            .status(&json!({"newHost": host}))
            .again_in(AGAIN)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::cortex::DeschedulingSpec;

    #[test]
    fn a_server_moves_only_when_it_runs_where_it_was_seen_and_all_is_real() {
        let spec = DeschedulingSpec {
            ref_: "s".into(),
            prev_host: "a".into(),
            reason: "r".into(),
        };
        let object = Descheduling::new("nova-s", spec);
        let guest = |host: &str, status: &str, task: Option<&str>| {
            Some(Guest {
                host: host.into(),
                status: status.into(),
                task: task.map(str::to_owned),
                ..Guest::default()
            })
        };
        let minute = SignedDuration::from_mins(1);
        let of = |server: &Option<Guest>, migrate| plan(&object, Some(server), migrate, minute);
        assert_eq!(of(&guest("a", "ACTIVE", None), true), Plan::Migrate);
        assert!(matches!(
            of(&guest("a", "ACTIVE", None), false),
            Plan::Waits("DryRun", _)
        ));
        assert!(matches!(
            of(&guest("a", "SHUTOFF", None), true),
            Plan::Waits("NotActive", _)
        ));
        assert_eq!(
            of(&guest("a", "MIGRATING", Some("migrating")), true),
            Plan::Moving
        );
        assert_eq!(of(&guest("b", "ACTIVE", None), true), Plan::Done("b".into()));
        assert_eq!(of(&None, true), Plan::Forget);
        assert!(matches!(
            plan(&object, None, true, minute),
            Plan::Waits("NoNova", _)
        ));
        assert_eq!(plan(&object, None, true, EXPIRES), Plan::Forget);
    }
}
