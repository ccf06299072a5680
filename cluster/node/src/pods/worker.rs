//! One task for each pod: look, decide, report, act, wait.

use std::collections::BTreeMap;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::FutureExt;
use jiff::Timestamp;
use k8s_openapi::api::core::v1::Pod;
use tokio::sync::{Notify, mpsc, watch};
use tokio::task::JoinHandle;
use tokio::time::Instant;

use crate::pods::backoff;
use crate::pods::decide::{Action, Decision, Input, decide, due_after};
use crate::pods::execute::Context;
use crate::pods::host::{Event, Host};
use crate::pods::memory::{Failure, Memory, Task};
use crate::pods::observe::observed::{Observed, State};
use crate::pods::observe::view;
use crate::pods::observe::{Cache, observe};
use crate::pods::probes::handlers::Subject;
use crate::pods::probes::prober::{Past, Probes, Verdict, remember};
use crate::pods::start::{self, Trouble};
use crate::pods::status::report::Report;
use crate::pods::steps::next_streak;
use crate::pods::volumes::{self, needs};

/// After an error of the runtime or the API.
const RETRY: Duration = Duration::from_secs(1);

/// A pod's worker. Dropping it ends the task and touches nothing that runs.
pub struct Worker {
    pod: watch::Sender<Arc<Pod>>,
    poke: Arc<Notify>,
    refresh: Arc<Notify>,
    done: Arc<AtomicBool>,
    task: JoinHandle<()>,
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Worker {
    pub fn start(host: Arc<Host>, pod: Pod) -> Self {
        let (tell, told) = watch::channel(Arc::new(pod));
        let (poke, refresh) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let done = Arc::new(AtomicBool::new(false));
        let (end, work) = (
            done.clone(),
            watch_over(host, told, poke.clone(), refresh.clone()),
        );
        let task = tokio::spawn(async move {
            work.await;
            end.store(true, Ordering::Release);
        });
        Self {
            pod: tell,
            poke,
            refresh,
            done,
            task,
        }
    }

    /// The object changed.
    pub fn update(&self, pod: Pod) {
        self.pod.send_replace(Arc::new(pod));
    }

    /// Something of the pod changed in the runtime.
    pub fn poke(&self) {
        self.poke.notify_one();
    }

    /// An object that the pod names has changed.
    pub fn refresh(&self) {
        self.refresh.notify_one();
    }

    /// The pod is gone and the worker has nothing left to do. One that broke is not finished:
    /// its pod must not be taken for one that nobody knows.
    pub fn finished(&self) -> bool {
        self.done.load(Ordering::Acquire)
    }

    /// Nobody works any more, for whatever reason.
    pub fn ended(&self) -> bool {
        self.finished() || self.task.is_finished()
    }
}

/// A panic is trouble like any other: the end of every action is heard of.
async fn whole(work: impl Future<Output = Result<(), Trouble>>) -> Result<(), Trouble> {
    let done = AssertUnwindSafe(work).catch_unwind().await;
    done.unwrap_or_else(|_| Err(Trouble::new("RuntimeError", "the node's own program panicked")))
}

/// A worker that panicked is logged and starts over: its pod must not be taken for one that
/// nobody knows.
async fn watch_over(
    host: Arc<Host>,
    pods: watch::Receiver<Arc<Pod>>,
    poke: Arc<Notify>,
    refresh: Arc<Notify>,
) {
    loop {
        let work = Work::new(host.clone(), pods.clone(), poke.clone(), refresh.clone());
        if AssertUnwindSafe(work.run()).catch_unwind().await.is_ok() {
            return;
        }
        let name = view::name(&pods.borrow()).to_owned();
        tracing::error!(pod = name, "the pod's worker panicked; another takes over");
        tokio::time::sleep(RETRY).await;
    }
}

struct Work {
    host: Arc<Host>,
    pods: watch::Receiver<Arc<Pod>>,
    poke: Arc<Notify>,
    refresh: Arc<Notify>,
    memory: Memory,
    cache: Cache,
    probes: BTreeMap<String, Probes>,
    reported: Option<Report>,
    node_ready: watch::Receiver<bool>,
    /// Failures to bring the volumes up to date, and when to try again.
    behind: Option<(u32, Instant)>,
    verdicts: (mpsc::Sender<Verdict>, mpsc::Receiver<Verdict>),
    news: (mpsc::Sender<News>, mpsc::Receiver<News>),
}

enum News {
    Ended(Outcome),
    /// A task that failed may be tried again.
    Again(Task),
}

struct Outcome {
    action: Action,
    result: Result<(), Trouble>,
}

impl Work {
    fn new(
        host: Arc<Host>,
        pods: watch::Receiver<Arc<Pod>>,
        poke: Arc<Notify>,
        refresh: Arc<Notify>,
    ) -> Self {
        Self {
            node_ready: host.ready.subscribe(),
            behind: None,
            host,
            pods,
            poke,
            refresh,
            memory: Memory::default(),
            cache: Cache::default(),
            probes: BTreeMap::new(),
            reported: None,
            verdicts: mpsc::channel(16),
            news: mpsc::channel(16),
        }
    }

    async fn run(mut self) {
        let pod = self.pods.borrow().clone();
        if let Some(spec) = &pod.spec {
            self.host.objects.used(&pod, &needs(spec));
        }
        let mut before = pod;
        loop {
            let pod = self.pods.borrow_and_update().clone();
            if volumes::shows_otherwise(&before, &pod) {
                self.bring_up_to_date().await;
            }
            before = pod.clone();
            let wake = match self.turn(&pod).await {
                Ok(decision) => decision.wake.map(|at| {
                    let left = at.duration_since(Timestamp::now());
                    Duration::try_from(left).unwrap_or_default() + Duration::from_millis(5)
                }),
                Err(e) if e.is_conflict() => Some(RETRY),
                Err(e) => {
                    tracing::warn!(pod = view::name(&pod), "{e}");
                    Some(RETRY)
                }
            };
            if self.memory.cleaned || !self.wait(wake).await {
                return;
            }
        }
    }

    async fn turn(&mut self, pod: &Arc<Pod>) -> crate::Result<Decision> {
        let observed = observe(&self.host, view::uid(pod), &mut self.cache).await?;
        remember(pod, &observed, &mut self.memory.probes);
        let node_ready = *self.node_ready.borrow_and_update();
        let seen = self.with_own_report(pod);
        let mut decision = decide(&Input {
            pod: &seen,
            observed: &observed,
            memory: &self.memory,
            node_address: &self.host.address,
            node_ready,
            now: Timestamp::now(),
        });
        self.probe(pod, &observed);
        for action in &decision.actions {
            self.begin(pod, &observed, action.clone());
        }
        self.report(pod, &mut decision).await?;
        Ok(decision)
    }

    /// The pod as it will be stored: the watch may not have brought the last report yet.
    fn with_own_report(&self, pod: &Arc<Pod>) -> Arc<Pod> {
        match &self.reported {
            Some(report) if !report.is_shown(pod) => Arc::new(report.over(pod)),
            _ => pod.clone(),
        }
    }

    /// Writes what is new; an unchanged status is not written, one that somebody else
    /// changed is said again.
    async fn report(&mut self, pod: &Pod, decision: &mut Decision) -> crate::Result<()> {
        if pod.status.as_ref() == Some(&decision.status) {
            return Ok(());
        }
        if let Some(last) = self.reported.as_ref().filter(|r| r.status == decision.status) {
            if !last.is_shown(pod) {
                return Ok(());
            }
            // Not without a pause: whoever changed it may insist.
            let now = Timestamp::now();
            if let Some(at) = last.again_at().filter(|at| *at > now) {
                decision.wake = Some(decision.wake.map_or(at, |w| w.min(at)));
                return Ok(());
            }
        }
        let version = self.host.reporter.status(pod, &decision.status).await?;
        self.reported = Some(Report::new(decision.status.clone(), version));
        Ok(())
    }

    fn begin(&mut self, pod: &Arc<Pod>, observed: &Observed, action: Action) {
        if !self.memory.running.insert(action.task()) {
            return;
        }
        if let Action::Start { name, sandbox, .. } = &action {
            let ended = observed
                .latest(sandbox, name)
                .filter(|c| c.state == State::Exited);
            if let Some(ended) = ended {
                let streak = next_streak(ended, &self.memory);
                self.memory.streaks.insert(name.clone(), streak);
            }
        }
        if let Action::Stop { id, grace, .. } | Action::Hurry { id, grace } = &action {
            let due = due_after(Timestamp::now(), *grace);
            self.memory.stopping.insert(id.clone(), due);
        }
        let context = Context {
            host: self.host.clone(),
            pod: pod.clone(),
            address: observed.newest().and_then(|s| s.ip.clone()),
            sandbox_attempt: observed.newest().map_or(0, |s| s.attempt),
        };
        let tell = self.news.0.clone();
        // Not ended with the worker: half an action is worse than one too many.
        tokio::spawn(async move {
            let result = whole(context.carry_out(&action)).await;
            let _ = tell.send(News::Ended(Outcome { action, result })).await;
        });
    }

    fn hear(&mut self, news: News) {
        match news {
            News::Ended(outcome) => self.end(outcome),
            News::Again(task) => {
                self.memory.running.remove(&task);
            }
        }
    }

    fn end(&mut self, outcome: Outcome) {
        let Outcome { action, result } = outcome;
        self.memory.running.remove(&action.task());
        if let Action::Stop { id, .. } = &action {
            self.memory.stopping.remove(id);
        }
        let key = match &action {
            Action::RunSandbox { .. } => Some(String::new()),
            Action::Start { name, .. } => Some(name.clone()),
            _ => None,
        };
        match (result, key) {
            (Ok(()), key) => {
                if let Some(key) = key {
                    self.memory.failures.remove(&key);
                }
                match action {
                    Action::StopSandbox { id } => {
                        self.memory.stopped.insert(id);
                    }
                    Action::RemoveSandbox { id } => {
                        self.memory.stopped.remove(&id);
                    }
                    Action::Stop { id, .. } => {
                        self.memory.probes.remove(&id);
                    }
                    Action::Finish => self.memory.cleaned = true,
                    _ => {}
                }
            }
            (Err(trouble), Some(key)) => {
                let count = self.memory.failures.get(&key).map_or(0, |f| f.count) + 1;
                let failure = Failure {
                    reason: trouble.reason,
                    message: trouble.message,
                    count,
                    retry_at: Timestamp::now() + backoff::retry(count),
                };
                self.memory.failures.insert(key, failure);
            }
            (Err(trouble), None) => {
                let pod = self.pods.borrow().clone();
                tracing::warn!(pod = view::name(&pod), "{}", trouble.message);
                let task = action.task();
                if task != Task::Finish {
                    let event = Event::warning("FailedKillPod", trouble.message);
                    self.host.event(&pod, event);
                }
                // Not at once: the same error would come back.
                self.memory.running.insert(task.clone());
                let tell = self.news.0.clone();
                tokio::spawn(async move {
                    tokio::time::sleep(RETRY).await;
                    let _ = tell.send(News::Again(task)).await;
                });
            }
        }
    }

    /// Waits for a reason to look again; false when nobody can give one any more.
    async fn wait(&mut self, wake: Option<Duration>) -> bool {
        let alarm = async |at: Option<Instant>| match at {
            Some(at) => tokio::time::sleep_until(at).await,
            None => std::future::pending().await,
        };
        let wake = wake.and_then(|after| Instant::now().checked_add(after));
        let catch_up = self.behind.map(|(_, at)| at);
        tokio::select! {
            changed = self.pods.changed() => return changed.is_ok(),
            Ok(()) = self.node_ready.changed() => {}
            () = self.poke.notified() => {}
            () = alarm(wake) => {}
            () = alarm(catch_up) => self.bring_up_to_date().await,
            () = self.refresh.notified() => self.bring_up_to_date().await,
            Some(news) = self.news.1.recv() => self.hear(news),
            Some(verdict) = self.verdicts.1.recv() => self.judge(verdict),
        }
        // Several things often happen together; they need one look.
        while let Ok(news) = self.news.1.try_recv() {
            self.hear(news);
        }
        while let Ok(verdict) = self.verdicts.1.try_recv() {
            self.judge(verdict);
        }
        true
    }

    fn judge(&mut self, verdict: Verdict) {
        if !verdict.message.is_empty() {
            tracing::debug!(container = verdict.id, "{}", verdict.message);
        }
        let entry = self.memory.probes.entry(verdict.id.clone()).or_default();
        verdict.apply(entry);
    }

    /// Mounted Secrets, ConfigMaps and tokens follow their objects. Before the pod has a
    /// sandbox there is nothing to follow, but something it waits for may exist now.
    async fn bring_up_to_date(&mut self) {
        let failed = self.behind.take().map_or(0, |(count, _)| count);
        for failure in self.memory.failures.values_mut() {
            failure.retry_at = Timestamp::now();
        }
        let pod = self.pods.borrow().clone();
        let Some(spec) = &pod.spec else { return };
        let over = view::is_final(view::phase(&pod));
        if over || pod.metadata.deletion_timestamp.is_some() || self.cache.is_empty() {
            return;
        }
        let address = pod.status.as_ref().and_then(|s| s.pod_ip.clone());
        let done = match start::find(&self.host, &pod, spec).await {
            Ok(found) => start::volumes(&self.host, &pod, spec, &found, address.as_deref())
                .await
                .map(drop),
            Err(e) => Err(e.to_string()),
        };
        if let Err(message) = done {
            self.host.event(&pod, Event::warning("FailedMount", message));
            let pause = Duration::try_from(backoff::retry(failed.saturating_add(1))).unwrap_or(RETRY);
            self.behind = Some((failed.saturating_add(1), Instant::now() + pause));
        }
    }

    /// Probes run for exactly the containers that run.
    fn probe(&mut self, pod: &Arc<Pod>, observed: &Observed) {
        let ending = pod.metadata.deletion_timestamp.is_some();
        let Some(spec) = &pod.spec else { return };
        let address = match spec.host_network {
            Some(true) => self.host.address.clone(),
            _ => observed.current().and_then(|s| s.ip.clone()).unwrap_or_default(),
        };
        let runs = |id: &str| {
            observed
                .containers
                .iter()
                .any(|c| c.id == id && c.state == State::Running)
        };
        self.probes.retain(|id, probes| {
            let keep = runs(id) && !ending;
            if !keep {
                probes.stop();
            }
            keep
        });
        self.memory.probes.retain(|id, _| runs(id));
        if ending {
            return;
        }
        for container in observed.containers.iter().filter(|c| c.state == State::Running) {
            let starting = self.memory.is_running(&Task::Start(container.name.clone()));
            if starting || self.probes.contains_key(&container.id) {
                continue;
            }
            let Some(wanted) = view::find(spec, &container.name) else {
                continue;
            };
            let subject = Subject::new(wanted, &container.id, &address);
            let started = self.memory.probes.get(&container.id).is_some_and(|p| p.started);
            let past = Past {
                since: container.started,
                started,
            };
            let probes = Probes::start(&self.host, pod, wanted, subject, past, &self.verdicts.0);
            self.probes.insert(container.id.clone(), probes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_of_an_action_is_heard_of() {
        let trouble = whole(async { panic!("at the disco") }).await;
        assert_eq!(trouble.map_err(|t| t.reason), Err("RuntimeError".to_owned()));
        assert_eq!(whole(async { Ok(()) }).await, Ok(()));
    }
}
