//! Carries out one action. Every action can be repeated.

use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, Instant};

use k8s_openapi::api::core::v1::{Container, LifecycleHandler, Pod, PodSpec};

use crate::beneath::Beneath;
use crate::cgroups;
use crate::enter;
use crate::error::Error;
use crate::pods::decide::Action;
use crate::pods::host::{Event, Host};
use crate::pods::observe::view;
use crate::pods::probes::handlers::{self, Subject};
use crate::pods::start::sandbox;
use crate::pods::start::{self, Trouble};
use crate::pods::status::traces;
use crate::pods::volumes::{place, pod_directory};

/// A pod as it is while an action runs.
pub(super) struct Context {
    pub host: Arc<Host>,
    pub pod: Arc<Pod>,
    pub address: Option<String>,
    /// Attempt of the current sandbox.
    pub sandbox_attempt: u32,
}

impl Context {
    fn spec(&self) -> PodSpec {
        self.pod.spec.clone().unwrap_or_default()
    }

    pub(super) async fn carry_out(&self, action: &Action) -> Result<(), Trouble> {
        let other = |e: Error| Trouble::new("RuntimeError", e.to_string());
        match action {
            Action::RunSandbox { attempt } => self.run_sandbox(*attempt).await,
            Action::StopSandbox { id } => self.host.cri.stop_sandbox(id).await.map_err(other),
            Action::RemoveSandbox { id } => self.host.cri.remove_sandbox(id).await.map_err(other),
            Action::Remove { id } => self.host.cri.remove_container(id).await.map_err(other),
            Action::Start {
                name,
                attempt,
                sandbox,
            } => self.start(name, *attempt, sandbox).await,
            Action::Stop { id, name, grace, why } => self.stop(id, name, *grace, why).await.map_err(other),
            Action::Hurry { id, grace } => {
                let grace = Duration::from_secs(u64::try_from(*grace).unwrap_or(0));
                self.host.cri.stop_container(id, grace).await.map_err(other)
            }
            Action::Finish => self.finish().await.map_err(other),
        }
    }

    async fn run_sandbox(&self, attempt: u32) -> Result<(), Trouble> {
        let (host, pod, spec) = (&self.host, &self.pod, self.spec());
        let not_yet = |message: String| {
            host.event(pod, Event::warning("FailedMount", message.clone()));
            Trouble::new("ContainerCreating", message)
        };
        let found = start::find(host, pod, &spec)
            .await
            .map_err(|e| not_yet(e.to_string()))?;
        start::volumes(host, pod, &spec, &found, None)
            .await
            .map_err(not_yet)?;
        if attempt > 0 {
            let text = "Pod sandbox changed, it will be killed and re-created.";
            host.event(pod, Event::normal("SandboxChanged", text));
        }
        let logs = host.node.layout.logs();
        let config = sandbox::config(pod, &spec, attempt, &logs, &host.dns);
        let own = Path::new(&config.log_directory);
        let own = own.strip_prefix(&logs).unwrap_or(own);
        Beneath::made(&logs)
            .and_then(|logs| logs.make(own, 0o755))
            .map_err(|e| Trouble::new("ContainerCreating", format!("make log directory: {e}")))?;
        match host.cri.run_sandbox(config.clone()).await {
            Ok(_) => Ok(()),
            Err(e) => {
                // Made by this program before it was killed: the next look finds it, or a
                // half of it is in the way.
                if let Some(id) = reserved_for(&e.to_string()) {
                    let _ = host.cri.stop_sandbox(&id).await;
                    let _ = host.cri.remove_sandbox(&id).await;
                }
                let message = format!("Failed to create pod sandbox: {e}");
                host.event(pod, Event::warning("FailedCreatePodSandBox", message.clone()));
                Err(Trouble::new("ContainerCreating", message))
            }
        }
    }

    async fn start(&self, name: &str, attempt: u32, sandbox: &str) -> Result<(), Trouble> {
        let (host, pod, spec) = (&self.host, &self.pod, self.spec());
        let Some(wanted) = view::find(&spec, name) else {
            return Err(Trouble::new(
                "CreateContainerError",
                format!("no container {name:?}"),
            ));
        };
        let address = match spec.host_network {
            Some(true) => host.address.as_str(),
            _ => self.address.as_deref().unwrap_or_default(),
        };
        let config = start::config(host, pod, &spec, wanted, attempt, address).await?;
        let logs = host.node.layout.logs();
        let around = sandbox::config(pod, &spec, self.sandbox_attempt, &logs, &host.dns);
        let failed = |reason: &str, e: &Error| {
            host.event(pod, Event::warning("Failed", format!("Error: {e}")).about(name));
            Trouble::new(reason, e.to_string())
        };
        traces::prune(&Path::new(&around.log_directory).join(name), attempt);
        let last_words = pod_directory(&host.node.layout.pods(), pod).join("containers");
        traces::prune(&last_words.join(name), attempt);
        let id = match host.cri.create_container(sandbox, config, around).await {
            Ok(id) => id,
            Err(e) => {
                if let Some(id) = reserved_for(&e.to_string()) {
                    let _ = host.cri.remove_container(&id).await;
                }
                return Err(failed("CreateContainerError", &e));
            }
        };
        let text = format!("Container created: {name}");
        host.event(pod, Event::normal("Created", text).about(name));
        if let Err(e) = host.cri.start_container(&id).await {
            // The runtime keeps it as ended, with this reason.
            failed("RunContainerError", &e);
            return Ok(());
        }
        let text = format!("Container started: {name}");
        host.event(pod, Event::normal("Started", text).about(name));
        if let Some(hook) = wanted.lifecycle.as_ref().and_then(|l| l.post_start.as_ref()) {
            let subject = Subject::new(wanted, &id, address);
            if let Err(e) = run_hook(host, &subject, hook, Duration::from_secs(600)).await {
                let text = format!("PostStartHook failed: {e}");
                host.event(pod, Event::warning("FailedPostStartHook", text).about(name));
                let grace = u64::try_from(view::grace(pod)).unwrap_or(0);
                let _ = host.cri.stop_container(&id, Duration::from_secs(grace)).await;
            }
        }
        Ok(())
    }

    async fn stop(&self, id: &str, name: &str, grace: i64, why: &str) -> Result<(), Error> {
        let (host, pod) = (&self.host, &self.pod);
        let text = match why {
            "Stopping container" => format!("Stopping container {name}"),
            why => why.to_owned(),
        };
        host.event(pod, Event::normal("Killing", text).about(name));
        let grace = Duration::from_secs(u64::try_from(grace).unwrap_or(0));
        let started = Instant::now();
        let spec = self.spec();
        let wanted: Option<&Container> = view::find(&spec, name);
        let hook = wanted.and_then(|c| c.lifecycle.as_ref()?.pre_stop.as_ref());
        if let (Some(wanted), Some(hook)) = (wanted, hook)
            && !grace.is_zero()
        {
            let address = self.address.as_deref().unwrap_or(&host.address);
            let subject = Subject::new(wanted, id, address);
            if let Err(e) = run_hook(host, &subject, hook, grace).await {
                let text = format!("PreStopHook failed: {e}");
                host.event(pod, Event::warning("FailedPreStopHook", text).about(name));
            }
        }
        // A hook that used up the time still leaves the container two seconds.
        let left = if grace.is_zero() {
            grace
        } else {
            grace
                .saturating_sub(started.elapsed())
                .max(Duration::from_secs(2))
        };
        host.cri.stop_container(id, left).await
    }

    /// Nothing of the pod stays on the node; then its object may go.
    async fn finish(&self) -> Result<(), Error> {
        clean(&self.host, view::uid(&self.pod)).await?;
        let logs = sandbox::log_directory(&self.host.node.layout.logs(), &self.pod);
        let _ = tokio::fs::remove_dir_all(&logs).await;
        self.host.objects.unused(&self.pod);
        self.host.reporter.finish(&self.pod).await
    }
}

/// Removes volumes and cgroup of a pod that has no sandbox any more.
pub async fn clean(host: &Host, uid: &str) -> Result<(), Error> {
    let mut pod = Pod::default();
    pod.metadata.uid = Some(uid.into());
    let directory = pod_directory(&host.node.layout.pods(), &pod);
    enter::mounts_of(host.node.init, move || place::remove(&directory)).await?;
    let cgroup = format!("{}{}", host.node.layout.cgroup, sandbox::cgroup(&pod));
    let removed = tokio::task::spawn_blocking(move || cgroups::remove(&cgroup, Duration::from_secs(2))).await;
    if let Ok(Err(e)) = removed {
        tracing::warn!("{e}");
    }
    Ok(())
}

async fn run_hook(
    host: &Host,
    subject: &Subject,
    hook: &LifecycleHandler,
    limit: Duration,
) -> Result<(), String> {
    if let Some(action) = &hook.exec {
        return handlers::exec(host, subject, action, limit).await.map(drop);
    }
    if let Some(action) = &hook.http_get {
        return handlers::http(host, subject, action, limit).await.map(drop);
    }
    if let Some(action) = &hook.sleep {
        let wanted = Duration::from_secs(u64::try_from(action.seconds).unwrap_or(0));
        tokio::time::sleep(wanted.min(limit)).await;
        return Ok(());
    }
    if let Some(action) = &hook.tcp_socket {
        return handlers::tcp(host, subject, action.host.as_deref(), &action.port, limit).await;
    }
    Ok(())
}

/// The holder of a name: `name "…" is reserved for "ID"`.
fn reserved_for(message: &str) -> Option<String> {
    let (_, tail) = message.split_once("is reserved for ")?;
    let id: String = tail
        .trim_start_matches(['"', '\\'])
        .chars()
        .take_while(char::is_ascii_alphanumeric)
        .collect();
    (!id.is_empty()).then_some(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn holders_of_names() {
        let text =
            "failed to reserve container name \"a_b_c_d_0\": name \"a_b_c_d_0\" is reserved for \"0123abc\"";
        assert_eq!(reserved_for(text).as_deref(), Some("0123abc"));
        assert_eq!(reserved_for("no such container"), None);
    }
}
