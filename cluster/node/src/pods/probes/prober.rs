//! Probes of one container instance. Each has a task that asks, counts and tells; the
//! tasks end when the instance does.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::{Container, Pod, Probe};
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until};

use crate::pods::host::{Event, Host};
use crate::pods::memory::Probed;
use crate::pods::observe::observed::{Observed, State};
use crate::pods::probes::handlers::{self, Subject};
use crate::pods::status;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::pods) enum Kind {
    Startup,
    Liveness,
    Readiness,
}

impl Kind {
    fn name(self) -> &'static str {
        match self {
            Self::Startup => "Startup",
            Self::Liveness => "Liveness",
            Self::Readiness => "Readiness",
        }
    }
}

/// A verdict of a probe of the container with this id.
#[derive(Clone, Debug)]
pub(in crate::pods) struct Verdict {
    pub id: String,
    pub name: String,
    pub kind: Kind,
    pub good: bool,
    pub message: String,
}

impl Verdict {
    pub(in crate::pods) fn apply(self, to: &mut Probed) {
        match (self.kind, self.good) {
            (Kind::Startup, true) => to.started = true,
            (Kind::Readiness, good) => to.ready = good,
            (Kind::Liveness, true) => {}
            (kind, false) => {
                to.unhealthy = Some(format!(
                    "Container {} failed {} probe, will be restarted",
                    self.name,
                    kind.name().to_lowercase()
                ));
            }
        }
    }
}

/// Counts answers; says when the verdict changes.
#[derive(Debug)]
struct Count {
    last: Option<bool>,
    run: i32,
    success: i32,
    failure: i32,
    verdict: Option<bool>,
}

impl Count {
    fn new(probe: &Probe) -> Self {
        Self {
            last: None,
            run: 0,
            success: probe.success_threshold.unwrap_or(1).max(1),
            failure: probe.failure_threshold.unwrap_or(3).max(1),
            verdict: None,
        }
    }

    fn answer(&mut self, good: bool) -> Option<bool> {
        self.run = if self.last == Some(good) {
            self.run.saturating_add(1)
        } else {
            1
        };
        self.last = Some(good);
        let needed = if good { self.success } else { self.failure };
        if self.run < needed || self.verdict == Some(good) {
            return None;
        }
        self.verdict = Some(good);
        Some(good)
    }
}

/// What is known of an instance before its first probe here.
#[derive(Clone, Copy, Debug, Default)]
pub(in crate::pods) struct Past {
    pub since: Option<Timestamp>,
    /// Its startup probe has succeeded.
    pub started: bool,
}

/// After a restart of this program, what was reported of an instance that still runs holds
/// until its probes say otherwise.
pub(in crate::pods) fn remember(pod: &Pod, observed: &Observed, probes: &mut BTreeMap<String, Probed>) {
    let running = observed.containers.iter().filter(|c| c.state == State::Running);
    for container in running
        .filter(|c| !probes.contains_key(&c.id))
        .collect::<Vec<_>>()
    {
        let id = status::id(container);
        let known = status::reported(pod, &container.name)
            .filter(|s| s.container_id.as_deref() == Some(id.as_str()))
            .map(|s| Probed {
                started: s.started == Some(true),
                ready: s.ready,
                unhealthy: None,
            });
        probes.insert(container.id.clone(), known.unwrap_or_default());
    }
}

/// Tasks of one instance.
pub(in crate::pods) struct Probes {
    tasks: JoinSet<()>,
    liveness: bool,
}

impl Probes {
    /// Starts what the container has. Liveness and readiness wait for startup.
    pub(in crate::pods) fn start(
        host: &Arc<Host>,
        pod: &Arc<Pod>,
        container: &Container,
        subject: Subject,
        past: Past,
        verdicts: &mpsc::Sender<Verdict>,
    ) -> Self {
        let mut tasks = JoinSet::new();
        let (open, gate) = tokio::sync::watch::channel(container.startup_probe.is_none() || past.started);
        let list = [
            (Kind::Startup, &container.startup_probe),
            (Kind::Liveness, &container.liveness_probe),
            (Kind::Readiness, &container.readiness_probe),
        ];
        let open = Arc::new(open);
        for (kind, probe) in list {
            let Some(probe) = probe.clone() else { continue };
            if kind == Kind::Startup && past.started {
                continue;
            }
            let run = Run {
                host: host.clone(),
                pod: pod.clone(),
                name: container.name.clone(),
                subject: subject.clone(),
                kind,
                since: past.since,
                probe,
                verdicts: verdicts.clone(),
            };
            let (open, mut gate) = (open.clone(), gate.clone());
            tasks.spawn(async move {
                if kind == Kind::Startup {
                    run.until_started(&open).await;
                } else if gate.wait_for(|open| *open).await.is_ok() {
                    run.for_ever().await;
                }
            });
        }
        Self {
            tasks,
            liveness: container.liveness_probe.is_some() || container.startup_probe.is_some(),
        }
    }

    /// A pod that is ending is not probed any more: a failed probe would only restart it.
    pub(in crate::pods) fn stop(&mut self) {
        if self.liveness || !self.tasks.is_empty() {
            self.tasks.abort_all();
        }
    }
}

struct Run {
    host: Arc<Host>,
    pod: Arc<Pod>,
    name: String,
    subject: Subject,
    kind: Kind,
    probe: Probe,
    since: Option<Timestamp>,
    verdicts: mpsc::Sender<Verdict>,
}

impl Run {
    /// Counts from the start of the container, not from that of this program.
    fn delay(&self) -> Duration {
        let lived = self.since.map(|at| Timestamp::now().duration_since(at));
        let lived = lived.and_then(|d| Duration::try_from(d).ok());
        seconds(self.probe.initial_delay_seconds, 0).saturating_sub(lived.unwrap_or_default())
    }

    async fn until_started(&self, open: &tokio::sync::watch::Sender<bool>) {
        let mut count = Count::new(&self.probe);
        let mut next = Instant::now() + self.delay();
        loop {
            sleep_until(next).await;
            let verdict = self.once(&mut count).await;
            next = Instant::now() + period(&self.probe);
            match verdict {
                Some(true) => {
                    let _ = open.send(true);
                    return;
                }
                Some(false) => return,
                None => {}
            }
        }
    }

    async fn for_ever(&self) {
        let mut count = Count::new(&self.probe);
        let mut next = Instant::now() + self.delay();
        loop {
            sleep_until(next).await;
            let verdict = self.once(&mut count).await;
            next = Instant::now() + period(&self.probe);
            if self.kind == Kind::Liveness && verdict == Some(false) {
                return;
            }
        }
    }

    async fn once(&self, count: &mut Count) -> Option<bool> {
        let answer = ask(&self.host, &self.subject, &self.probe).await;
        if let Err(message) = &answer {
            let text = format!("{} probe failed: {}", self.kind.name(), cut(message));
            let event = Event::warning("Unhealthy", text).about(&self.name);
            self.host.event(&self.pod, event);
        }
        let verdict = count.answer(answer.is_ok())?;
        let verdict = Verdict {
            id: self.subject.id.clone(),
            name: self.name.clone(),
            kind: self.kind,
            good: verdict,
            message: answer.err().unwrap_or_default(),
        };
        let good = verdict.good;
        let _ = self.verdicts.send(verdict).await;
        Some(good)
    }
}

fn cut(text: &str) -> String {
    text.trim_end().chars().take(1024).collect()
}

/// Never without a pause, whatever a stored object says.
fn period(probe: &Probe) -> Duration {
    seconds(probe.period_seconds, 10).max(Duration::from_secs(1))
}

fn seconds(given: Option<i32>, default: u64) -> Duration {
    Duration::from_secs(given.and_then(|s| u64::try_from(s).ok()).unwrap_or(default))
}

/// Every command in a container starts several programs beside its own. On a machine whose pods all start at once
/// nothing else would run: more of them wait for their turn, and their time counts from there.
static COMMANDS: Semaphore = Semaphore::const_new(4);

async fn ask(host: &Host, subject: &Subject, probe: &Probe) -> Result<(), String> {
    let limit = seconds(probe.timeout_seconds, 1).max(Duration::from_secs(1));
    if let Some(action) = &probe.exec {
        // It is never closed.
        let _turn = COMMANDS.acquire().await;
        return handlers::exec(host, subject, action, limit).await.map(drop);
    }
    if let Some(action) = &probe.http_get {
        let status = handlers::http(host, subject, action, limit).await?;
        return match status {
            200..400 => Ok(()),
            code => Err(format!("HTTP probe failed with statuscode: {code}")),
        };
    }
    if let Some(action) = &probe.tcp_socket {
        return handlers::tcp(host, subject, action.host.as_deref(), &action.port, limit).await;
    }
    if let Some(action) = &probe.grpc {
        let service = action.service.as_deref().unwrap_or_default();
        return crate::pods::probes::health::check(host, subject, action.port, service, limit).await;
    }
    Err("the probe names no handler".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn thresholds() {
        let probe = Probe {
            success_threshold: Some(2),
            failure_threshold: Some(3),
            ..Probe::default()
        };
        let mut count = Count::new(&probe);
        let said: Vec<_> = [
            true, true, true, false, false, true, false, false, false, false, true, true,
        ]
        .into_iter()
        .map(|a| count.answer(a))
        .collect();
        let mut expected = vec![None; 12];
        expected[1] = Some(true);
        expected[8] = Some(false);
        expected[11] = Some(true);
        assert_eq!(said, expected);
    }

    #[test]
    fn there_is_a_pause_between_probes() {
        for (given, expected) in [(None, 10), (Some(3), 3), (Some(0), 1), (Some(-4), 10)] {
            let probe = Probe {
                period_seconds: given,
                ..Probe::default()
            };
            assert_eq!(period(&probe), Duration::from_secs(expected), "{given:?}");
        }
    }

    #[test]
    fn what_was_reported_of_the_same_instance_holds() {
        let pod: Pod = serde_json::from_value(serde_json::json!({ "status": { "containerStatuses": [
            { "name": "a", "containerID": "containerd://1", "started": true, "ready": true,
                "image": "", "imageID": "", "restartCount": 0 },
            { "name": "b", "containerID": "containerd://old", "started": true, "ready": true,
                "image": "", "imageID": "", "restartCount": 0 }] } }))
        .unwrap();
        let container = |id: &str, name: &str, state| crate::pods::observe::observed::Container {
            id: id.into(),
            name: name.into(),
            attempt: 0,
            sandbox: String::new(),
            state,
            created: Timestamp::UNIX_EPOCH,
            started: None,
            finished: None,
            exit_code: 0,
            reason: String::new(),
            message: String::new(),
            image: String::new(),
            image_id: String::new(),
        };
        let observed = Observed {
            sandboxes: Vec::new(),
            containers: vec![
                container("1", "a", State::Running),
                container("2", "b", State::Running),
                container("3", "c", State::Exited),
            ],
        };
        let mut probes = BTreeMap::new();
        remember(&pod, &observed, &mut probes);
        let good = Probed {
            started: true,
            ready: true,
            unhealthy: None,
        };
        assert_eq!(
            probes,
            BTreeMap::from([("1".into(), good), ("2".into(), Probed::default())])
        );
        // A probe's own word is newer.
        probes.get_mut("1").unwrap().ready = false;
        remember(&pod, &observed, &mut probes);
        assert!(!probes["1"].ready);
    }
}
