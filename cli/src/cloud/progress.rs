//! Follows a cloud until it is Ready: reports each part that becomes ready, and what is being waited
//! for.

use std::collections::BTreeSet;
use std::time::Duration;

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::common::Blocker;
use c5c3_api::conditions::reason::NOT_REQUIRED;
use c5c3_api::conditions::{READY, control_plane as part};
use futures::{TryStreamExt, pin_mut};
use kube::Api;
use kube::runtime::{WatchStreamExt, watcher};

use super::sight::Sight;
use super::{pods, snapshot};
use crate::failure::Failure;

/// What has been said already.
#[derive(Debug, Default)]
pub(crate) struct Follower {
    met: BTreeSet<String>,
    waits: Option<Waiting>,
}

/// What keeps a cloud from being ready.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Waiting {
    pub message: String,
    /// It waits for something else than before, not only with other words.
    pub new: bool,
    blocker: Option<Blocker>,
}

/// One thing to show.
pub(crate) enum Shown<'a> {
    Done(&'a str),
    Waiting(&'a Waiting),
}

/// Parts of a cloud beside its services, in words. Services are told one by one.
const PARTS: [(&str, &str); 4] = [
    (part::INFRASTRUCTURE_READY, "the infrastructure is ready"),
    (part::KORC_READY, "the service catalogue is ready"),
    (part::CREDENTIALS_READY, "the services have their credentials"),
    (
        part::CROSS_CLUSTER_SYNC_READY,
        "hypervisors in the other cluster can reach the services",
    ),
];

/// What a look at the cloud adds.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct News {
    pub lines: Vec<String>,
    pub waiting: Option<Waiting>,
    pub ready: bool,
}

impl Follower {
    /// Pure but for what it remembers. What was said about an older generation is no news.
    pub(crate) fn look(&mut self, plane: &ControlPlane) -> News {
        let mut news = News::default();
        let generation = plane.metadata.generation;
        let status = plane.status.as_ref();
        let Some(status) = status.filter(|status| status.observed_generation == generation) else {
            return news;
        };
        for (name, service) in status.services.iter().filter(|(_, service)| service.ready) {
            if self.met.insert(format!("service {name}")) {
                let version = service.version.as_deref().unwrap_or_default();
                news.lines.push(format!("{name} {version} is ready"));
            }
        }
        let condition = |name: &str| status.conditions.iter().find(|one| one.type_ == name);
        for (name, words) in PARTS {
            let met = condition(name).filter(|one| one.status == "True" && one.reason != NOT_REQUIRED);
            if met.is_some() && self.met.insert(name.to_owned()) {
                news.lines.push(words.to_owned());
            }
        }
        let ready = condition(READY);
        // Several controllers report on a cloud: what one of them has seen, another may not have.
        let seen = ready.and_then(|condition| condition.observed_generation);
        news.ready = ready.is_some_and(|condition| condition.status == "True")
            && seen.is_none_or(|seen| Some(seen) == generation);
        if let Some(ready) = ready.filter(|_| !news.ready) {
            news.waiting = self.wait(&ready.message, status.blocked_by.as_ref());
        }
        news
    }

    /// What is waited for, unless that was the last that was said.
    fn wait(&mut self, message: &str, blocker: Option<&Blocker>) -> Option<Waiting> {
        let before = self.waits.as_ref();
        if before.is_some_and(|before| before.message == message) {
            return None;
        }
        let same = before.is_some_and(|before| blocker.is_some() && before.blocker.as_ref() == blocker);
        self.waits = Some(Waiting {
            message: message.to_owned(),
            new: !same,
            blocker: blocker.cloned(),
        });
        self.waits.clone()
    }
}

/// How often the pods of a cloud that says Ready are looked at.
const LOOK: Duration = Duration::from_secs(1);

/// Waits until the cloud is Ready, and so is each of its pods; `false` when the patience ended first.
pub(crate) async fn follow(
    sight: &Sight,
    namespace: &str,
    name: &str,
    patience: Duration,
    show: &mut (dyn FnMut(Shown<'_>) + Send),
) -> Result<bool, Failure> {
    let api: Api<ControlPlane> = Api::namespaced(sight.home.client.clone(), namespace);
    let config = watcher::Config::default().fields(&format!("metadata.name={name}"));
    let changes = watcher(api, config).default_backoff().applied_objects();
    pin_mut!(changes);
    let mut follower = Follower::default();
    let until_ready = async {
        let mut says_ready: Option<ControlPlane> = None;
        loop {
            let change = match says_ready.take() {
                None => changes.try_next().await?,
                Some(plane) => match tokio::time::timeout(LOOK, changes.try_next()).await {
                    Ok(change) => change?,
                    Err(_) => Some(plane),
                },
            };
            let plane = change.ok_or_else(|| {
                anyhow::anyhow!("the watch on the ControlPlane ended; run the command again")
            })?;
            let news = follower.look(&plane);
            for line in &news.lines {
                show(Shown::Done(line));
            }
            if let Some(waiting) = &news.waiting {
                show(Shown::Waiting(waiting));
            }
            if news.ready {
                let seen = snapshot::read(sight, namespace).await?;
                let uid = plane.metadata.uid.as_deref().unwrap_or_default();
                let Some(pod) = pods::not_ready(&seen, uid) else {
                    return Ok(());
                };
                if let Some(waiting) = follower.wait(&pod, None) {
                    show(Shown::Waiting(&waiting));
                }
                says_ready = Some(plane);
            }
        }
    };
    match tokio::time::timeout(patience, until_ready).await {
        Ok(outcome) => outcome.map(|()| true),
        Err(_) => Ok(false),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn plane(ready: &str, message: &str, services: serde_json::Value) -> ControlPlane {
        let value = json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane",
            "metadata": {"name": "cloud", "generation": 1}, "spec": {"openStackRelease": "2025.2"},
            "status": {"observedGeneration": 1, "services": services, "conditions": [
                {"type": "Ready", "status": ready, "reason": "R", "message": message,
                    "lastTransitionTime": "2026-01-01T00:00:00Z"}]}});
        serde_json::from_value(value).expect("a ControlPlane")
    }

    #[test]
    fn each_thing_is_said_once() {
        let mut follower = Follower::default();
        let waiting = plane("False", "Keystone: db-sync runs", json!({}));
        let news = follower.look(&waiting);
        assert_eq!(
            news.waiting.map(|waiting| waiting.message).as_deref(),
            Some("Keystone: db-sync runs")
        );
        assert_eq!(follower.look(&waiting), News::default());
        let done = plane(
            "True",
            "",
            json!({"keystone": {"ready": true, "version": "28.1.0"}}),
        );
        let news = follower.look(&done);
        assert_eq!(
            (news.lines, news.ready),
            (vec!["keystone 28.1.0 is ready".to_owned()], true)
        );
    }

    #[test]
    fn an_old_generation_is_no_news() {
        let mut follower = Follower::default();
        let services = json!({"keystone": {"ready": true, "version": "28.1.0"}});
        for (ready, message) in [("True", ""), ("False", "Keystone: db-sync runs")] {
            let mut old = plane(ready, message, services.clone());
            old.metadata.generation = Some(2);
            assert_eq!(follower.look(&old), News::default());
        }
        // What is true of the new one is told then.
        let news = follower.look(&plane("True", "", services));
        assert_eq!(news.lines, ["keystone 28.1.0 is ready"]);
    }

    #[test]
    fn what_is_waited_for_is_said_when_it_changes() {
        let mut follower = Follower::default();
        let mut new = |message: &str, blocker: Option<&str>| {
            let blocker = blocker.map(|name| Blocker {
                kind: "Keystone".to_owned(),
                name: name.to_owned(),
                ..Blocker::default()
            });
            follower
                .wait(message, blocker.as_ref())
                .map(|waiting| waiting.new)
        };
        assert_eq!(new("Pod a", None), Some(true));
        assert_eq!(new("Pod a", None), None);
        assert_eq!(new("Pod b", None), Some(true));
        assert_eq!(new("Keystone: starts", Some("keystone")), Some(true));
        assert_eq!(new("Keystone: db-sync runs", Some("keystone")), Some(false));
        assert_eq!(new("Glance: db-sync runs", Some("glance")), Some(true));
    }
}
