//! CephClient: a user of Ceph, whose key is kept in a Secret.

use std::time::Duration;

use c5c3_api::foreign::rook::{CephClient, CephCluster};
use c5c3_kit::{
    Applied, Controller, Decision, Finalizer, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
    Wanted,
};
use k8s_openapi::api::core::v1::{Pod, Secret};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::commands::{self, Answer, Command, Orders};
use super::home::Home;
use super::keyring::{Mint, entry};
use super::names;
use super::view::Account;
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::objects::secret_value;

const READY: &str = "Authorized";
/// A cluster that is not there yet is nowhere watched.
const SOON: Duration = Duration::from_secs(2);

/// The controller.
pub struct CephClients {
    client: Client,
}

impl CephClients {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[derive(Debug)]
pub struct Facts {
    namespace: String,
    home: Home,
    /// The key that the Secret holds.
    key: Option<String>,
    mint: Mint,
    /// Who was asked, and what he knows of this user.
    account: Option<(ExecTarget, Option<Account>)>,
}

/// Somebody asks for a newer key than it has.
fn is_outdated(object: &CephClient) -> bool {
    object
        .wanted_generation()
        .is_some_and(|wanted| wanted > object.key_generation())
}

fn entity(object: &CephClient) -> String {
    format!("client.{}", object.user())
}

impl Controller for CephClients {
    type Kind = CephClient;
    type Facts = Facts;
    /// Why it is refused.
    type Plan = Option<Error>;
    type Action = Orders;
    type Error = Error;

    const NAME: &'static str = "stand-in-ceph-client";
    const PARTS: &'static [Part] = &[Part::required(READY)];
    const FINALIZER: Option<Finalizer> = Some(Finalizer {
        name: "cephclient.ceph.rook.io",
        within: Duration::from_secs(60),
    });

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<CephCluster>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched(), Touch::of::<Pod>(&["list"])]
    }

    fn found(facts: &Facts) -> Vec<Reference> {
        facts.home.reference(&facts.namespace).into_iter().collect()
    }

    async fn observe(&self, object: &CephClient, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let home = Home::find(reader, &namespace).await?;
        let secret: Option<Secret> = reader.get(&namespace, &object.secret()).await?;
        let question = Command::ask("auth get")
            .with("entity", entity(object))
            .or_nothing();
        let account = match home.ask(&self.client, vec![question]).await? {
            None => None,
            Some((place, answers)) => {
                let found = answers
                    .first()
                    .map(Answer::read::<Vec<Account>>)
                    .transpose()?
                    .flatten();
                Some((place, found.and_then(|all| all.into_iter().next())))
            }
        };
        Ok(Facts {
            key: secret_value(secret, "userKey"),
            mint: Mint::new(rand::random()),
            namespace,
            home,
            account,
        })
    }

    fn plan(observed: &Observed<Self>) -> Option<Error> {
        // What was refused was never made: it may go.
        let deleting = observed.deleting();
        check(&observed.object).err().filter(|_| !deleting)
    }

    fn refusal(plan: &Option<Error>) -> Option<&Error> {
        plan.as_ref()
    }

    fn decide(observed: &Observed<Self>, plan: &Option<Error>) -> Result<Decision<Orders>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        let Some((place, account)) = facts.account.as_ref().filter(|_| plan.is_none()) else {
            return Ok(Decision::hold());
        };
        let orders = |commands: Vec<Command>, hidden: Vec<String>| Orders {
            place: place.clone(),
            commands,
            hidden,
        };
        let name = entity(object);
        if observed.deleting() && check(object).is_err() {
            return Ok(Decision::hold());
        }
        if observed.deleting() {
            let remove = Command::new("auth rm").with("entity", name).or_nothing();
            return Ok(Decision::hold().act(account.is_some().then(|| orders(vec![remove], Vec::new()))));
        }
        let kept = match (is_outdated(object), object.spec.remove_secret) {
            (true, _) => None,
            // Where no Secret is kept, Ceph alone knows the key.
            (false, Some(true)) => account.as_ref().map(|account| account.key.clone()),
            (false, _) => facts.key.clone(),
        };
        let key = kept.unwrap_or_else(|| facts.mint.key(&name));
        let same = account
            .as_ref()
            .is_some_and(|found| found.key == key && found.caps == object.spec.caps);
        let import = Command::new("auth import").input(entry(&name, &key, &object.spec.caps));
        let told = (!same).then(|| orders(vec![import], vec![key.clone()]));
        Ok(Decision::want(secret(object, &key).iter().map(Wanted::of)).act(told))
    }

    async fn act(&self, orders: &Orders) -> Result<(), Error> {
        commands::execute(&self.client, orders).await.map(drop)
    }

    fn report(observed: &Observed<Self>, plan: &Option<Error>, applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        let failed = applied.outcomes().iter().any(|outcome| outcome.result.is_err());
        let secret = (object.spec.remove_secret != Some(true)).then(|| object.secret());
        let before = object.key_generation();
        let said = |phase: &str, generation: u32| json!({"phase": phase, "info": {"secretName": secret}, "cephx": {"keyGeneration": generation}});
        let states = States::default();
        if observed.deleting() {
            return Report::new(states).status(&said("Deleting", before));
        }
        if let Some(refused) = plan {
            let states = states.unmet(READY, "Invalid", refused.to_string());
            return Report::new(states).status(&said("Failure", before));
        }
        if let Some(why) = facts.home.waits() {
            let states = states.unmet(READY, "Waiting", why);
            return Report::new(states)
                .status(&said("Progressing", before))
                .again_in(SOON);
        }
        if failed {
            let states = states.unmet(READY, "Refused", "Ceph rejected it");
            return Report::new(states).status(&said("Failure", before));
        }
        let states = states.met(READY, "Authorized", format!("{} has its key", entity(object)));
        Report::new(states).status(&said(
            "Ready",
            object.wanted_generation().unwrap_or(before).max(before),
        ))
    }
}

fn secret(object: &CephClient, key: &str) -> Option<Secret> {
    if object.spec.remove_secret == Some(true) {
        return None;
    }
    let namespace = object.namespace().unwrap_or_default();
    let (user, name) = (object.user(), object.name_any());
    Some(names::secret(
        names::meta(&namespace, &object.secret(), names::Labels::new()),
        &[(&user, key), ("userID", &name), ("userKey", key)],
    ))
}

/// Names of Ceph's own, as Rook keeps them from users.
fn is_reserved(name: &str) -> bool {
    let own = ["admin", "rbd-mirror", "rbd-mirror-peer"];
    let bootstrap = name.strip_prefix("bootstrap-");
    own.contains(&name) || name.starts_with("rgw") || name.starts_with("osd.") || bootstrap.is_some()
}

fn check(object: &CephClient) -> Result<(), Error> {
    let wrong = |field, reason: String| Err(Error::Invalid { field, reason });
    let name = object.user();
    let fits = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    if is_reserved(&name) || name.is_empty() || !name.chars().all(fits) {
        return wrong(
            "spec.name",
            format!("{name:?} is reserved by Ceph or not a valid name: choose another"),
        );
    }
    if object.spec.caps.is_empty() {
        return wrong(
            "spec.caps",
            "is empty: name what this user may do, like mon: profile rbd".to_owned(),
        );
    }
    for (daemon, cap) in &object.spec.caps {
        if !["mon", "osd", "mgr", "mds"].contains(&daemon.as_str()) {
            return wrong(
                "spec.caps",
                format!("{daemon:?} is not a daemon: use mon, osd, mgr or mds"),
            );
        }
        if cap.trim().is_empty() || cap.contains(['"', '\n', '\r', '\\']) {
            return wrong(
                "spec.caps",
                format!("{daemon}: {cap:?} cannot be written into a keyring: use single quotes"),
            );
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::Value;

    fn client(spec: Value) -> CephClient {
        let mut client = CephClient::new("cinder", serde_json::from_value(spec).expect("a spec"));
        client.metadata.namespace = Some("rook-ceph".to_owned());
        client
    }

    fn observed(spec: Value, key: Option<&str>, account: Option<Account>) -> Observed<CephClients> {
        let place = ExecTarget {
            namespace: "rook-ceph".to_owned(),
            pod: "mon".to_owned(),
            container: "mon",
        };
        let home = Home {
            name: Some("c".to_owned()),
            ready: true,
            places: vec![place.clone()],
            ..Home::default()
        };
        Observed {
            object: client(spec),
            facts: Facts {
                namespace: "rook-ceph".to_owned(),
                home,
                key: key.map(str::to_owned),
                mint: Mint {
                    seed: [1; 32],
                    seconds: 1,
                },
                account: Some((place, account)),
            },
            now: jiff::Timestamp::UNIX_EPOCH,
        }
    }

    fn cinder() -> Value {
        json!({"caps": {"mon": "profile rbd", "osd": "profile rbd pool=volumes"}})
    }

    fn account(key: &str) -> Account {
        Account {
            key: key.to_owned(),
            caps: client(cinder()).spec.caps,
        }
    }

    #[test]
    fn the_secret_has_the_shape_of_rooks() {
        let decision = observed(cinder(), Some("KEY"), None)
            .decide()
            .expect("a decision");
        let secret = decision.wanted()[0].object();
        assert_eq!(secret["metadata"]["name"], "rook-ceph-client-cinder");
        assert_eq!(secret["type"], "kubernetes.io/rook");
        let key = crate::objects::encode("KEY");
        let id = crate::objects::encode("cinder");
        assert_eq!(
            secret["data"],
            json!({"cinder": key, "userID": id, "userKey": key})
        );
        assert_eq!(decision.actions().len(), 1);
        assert!(!format!("{:?}", decision.actions()).contains("KEY"));
    }

    #[test]
    fn ceph_is_told_when_key_or_rights_differ() {
        let mut other = account("KEY");
        other.caps.insert("mgr".to_owned(), "allow *".to_owned());
        for (found, told) in [
            (None, 1),
            (Some(account("KEY")), 0),
            (Some(account("OLD")), 1),
            (Some(other), 1),
        ] {
            let decision = observed(cinder(), Some("KEY"), found.clone())
                .decide()
                .expect("a decision");
            assert_eq!(decision.actions().len(), told, "{found:?}");
        }
    }

    #[test]
    fn a_lost_secret_means_a_new_key() {
        let decision = observed(cinder(), None, Some(account("OLD")))
            .decide()
            .expect("a decision");
        assert_eq!(decision.actions().len(), 1);
        assert_ne!(
            decision.wanted()[0].object()["data"]["userKey"],
            crate::objects::encode("OLD")
        );
    }

    #[test]
    fn a_refused_user_goes_and_takes_nothing_along() {
        let gone = |spec: Value, account: Option<Account>| {
            let mut seen = observed(spec, None, account);
            let now = k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(jiff::Timestamp::UNIX_EPOCH);
            seen.object.metadata.deletion_timestamp = Some(now);
            assert!(CephClients::plan(&seen).is_none());
            seen.decide().expect("a decision").actions().len()
        };
        let admin = json!({"name": "admin", "caps": {"mon": "allow r"}});
        assert_eq!(gone(admin, Some(account("KEY"))), 0);
        assert_eq!(gone(cinder(), Some(account("KEY"))), 1);
        assert_eq!(gone(cinder(), None), 0);
    }

    #[test]
    fn a_new_generation_means_a_new_key_once() {
        let mut spec = cinder();
        spec["security"] = json!({"cephx": {"keyRotationPolicy": "KeyGeneration", "keyGeneration": 2}});
        let mut seen = observed(spec.clone(), Some("KEY"), Some(account("KEY")));
        let decision = seen.decide().expect("a decision");
        assert_eq!(decision.actions().len(), 1);
        assert_ne!(
            decision.wanted()[0].object()["data"]["userKey"],
            crate::objects::encode("KEY")
        );
        let status = seen.report(&Applied::rehearse(decision)).status_fields().clone();
        assert_eq!(status["cephx"]["keyGeneration"], 2);
        seen.object.status = serde_json::from_value(status).expect("a status");
        assert_eq!(seen.decide().expect("a decision").actions().len(), 0);
        // A policy that does not ask for it changes nothing.
        spec["security"]["cephx"]["keyRotationPolicy"] = "Disabled".into();
        let seen = observed(spec, Some("KEY"), Some(account("KEY")));
        assert_eq!(seen.decide().expect("a decision").actions().len(), 0);
    }

    #[test]
    fn wrong_users_are_refused_by_field() {
        for (spec, field) in [
            (json!({}), "spec.caps"),
            (json!({"caps": {"mon": ""}}), "spec.caps"),
            (json!({"caps": {"mon": "allow r\"\n[client.admin]"}}), "spec.caps"),
            (json!({"caps": {"moon": "allow r"}}), "spec.caps"),
            (json!({"name": "admin", "caps": {"mon": "allow r"}}), "spec.name"),
            (json!({"name": "rgw.x", "caps": {"mon": "allow r"}}), "spec.name"),
            (json!({"name": "a b", "caps": {"mon": "allow r"}}), "spec.name"),
        ] {
            let seen = observed(spec.clone(), None, None);
            let said = check(&seen.object).expect_err("refused").to_string();
            assert!(said.starts_with(field), "{spec}: {said}");
            let decision = seen.decide().expect("a decision");
            assert_eq!((decision.wanted().len(), decision.actions().len()), (0, 0));
            let report = seen.report(&Applied::rehearse(decision));
            assert_eq!(report.status_fields()["phase"], "Failure");
        }
    }
}
