//! `c5c3 test`.

use std::time::{Duration, Instant};

use anyhow::anyhow;
use c5c3_api::openstack::{RUN_NOW, RUN_ONLY, Tempest};
use clap::Args;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::batch::v1::Job;
use k8s_openapi::api::core::v1::{ContainerStateTerminated, Pod};
use kube::api::{ListParams, LogParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::cloud::access::Target;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print, say_aside};

const NAME: &str = "tempest";
const POLL: Duration = Duration::from_secs(1);

/// Run the cloud's tests now and show their progress.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 test                                        the tests selected by the Tempest object
  c5c3 test --smoke                                only Tempest's smoke tests
  c5c3 test --regex 'tempest.api.compute.servers'  tests that match

The ControlPlane must have `tempest: {enabled: true}`.
Reports are kept on the volume tempest-reports.

Exit codes:
  0  all passed               3  the cloud has no Tempest
  1  some failed              4  the run did not start in time")]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Run only Tempest's smoke tests.
    #[arg(long, conflicts_with = "regex")]
    smoke: bool,
    /// Only tests whose names match this regular expression.
    #[arg(long, value_name = "REGEX")]
    regex: Option<String>,
    /// How long to wait for the start; a run that is already active finishes first.
    #[arg(long, value_name = "SECONDS", default_value_t = 600)]
    wait: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        let target = &arguments.target;
        let client = target.client().await?;
        let mark = ask(&client, target, arguments).await?;
        let deadline = Instant::now() + Duration::from_secs(arguments.wait);
        let pods: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
        let pod = started(&client, target, &mark, deadline).await?;
        follow(&pods, &pod).await?;
        loop {
            let Some(seen) = pods.get_opt(&pod).await? else {
                return Err(Failure::Failed(anyhow!("pod {pod} was deleted before it ended")));
            };
            if let Some(ended) = ended(&seen) {
                return judged(ended);
            }
            sleep(POLL).await;
        }
    })
}

/// Asks for a run; the answer is its mark.
async fn ask(client: &Client, target: &Target, arguments: &Arguments) -> Result<String, Failure> {
    let api: Api<Tempest> = Api::namespaced(client.clone(), &target.namespace);
    if api.get_opt(NAME).await?.is_none() {
        return Err(Failure::NotFound(format!(
            "the cloud in namespace {0} has no Tempest: enable it with `kubectl -n {0} patch controlplane cloud --type=merge \
             -p '{{\"spec\":{{\"tempest\":{{\"enabled\":true}}}}}}'`, then `c5c3 up`",
            target.namespace
        )));
    }
    let mark = jiff::Timestamp::now().to_string();
    let only = if arguments.smoke {
        Some("smoke")
    } else {
        arguments.regex.as_deref()
    };
    // One that is left out is taken away: an earlier one would count on.
    let notes = json!({"metadata": {"annotations": {RUN_NOW: mark, RUN_ONLY: only}}});
    api.patch(NAME, &PatchParams::default(), &Patch::Merge(&notes))
        .await?;
    Ok(mark)
}

/// The pod of the run, once it has started.
async fn started(client: &Client, target: &Target, mark: &str, deadline: Instant) -> Result<String, Failure> {
    let jobs: Api<Job> = Api::namespaced(client.clone(), &target.namespace);
    let pods: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
    let labels = ListParams::default().labels("app.kubernetes.io/name=tempest");
    let mut told = String::new();
    loop {
        let all = jobs.list(&labels).await?.items;
        let ours = all
            .iter()
            .find(|job| job.annotations().get(RUN_NOW).is_some_and(|found| found == mark));
        let waits = match ours {
            None if all.iter().any(is_at_work) => "waiting for the current run to finish".to_owned(),
            None => "the run is being created".to_owned(),
            Some(job) => {
                let uid = job.uid().unwrap_or_default();
                let owned = |pod: &&Pod| pod.owner_references().iter().any(|owner| owner.uid == uid);
                let found = pods.list(&labels).await?.items;
                match found.iter().find(owned) {
                    Some(pod) if has_begun(pod) => return Ok(pod.name_any()),
                    Some(pod) => format!("pod {} is starting", pod.name_any()),
                    None => "the run's pod is being created".to_owned(),
                }
            }
        };
        if waits != told {
            say_aside(&waits);
        }
        if Instant::now() > deadline {
            return Err(Failure::NotReady(format!(
                "the run did not start in time: {waits}; `kubectl -n {} describe tempest {NAME}` says more",
                target.namespace
            )));
        }
        told = waits;
        sleep(POLL).await;
    }
}

fn is_at_work(job: &Job) -> bool {
    let conditions = job
        .status
        .iter()
        .flat_map(|status| status.conditions.iter().flatten());
    let mut ends = conditions.filter(|c| ["Complete", "Failed"].contains(&c.type_.as_str()));
    !ends.any(|c| c.status == "True")
}

fn states(pod: &Pod) -> impl Iterator<Item = &k8s_openapi::api::core::v1::ContainerState> {
    let statuses = pod
        .status
        .iter()
        .flat_map(|status| status.container_statuses.iter().flatten());
    statuses.filter_map(|status| status.state.as_ref())
}

fn has_begun(pod: &Pod) -> bool {
    states(pod).any(|state| state.running.is_some() || state.terminated.is_some())
}

fn ended(pod: &Pod) -> Option<&ContainerStateTerminated> {
    states(pod).find_map(|state| state.terminated.as_ref())
}

async fn follow(pods: &Api<Pod>, pod: &str) -> Result<(), Failure> {
    let params = LogParams {
        follow: true,
        ..LogParams::default()
    };
    let mut lines = pods.log_stream(pod, &params).await?.lines();
    while let Some(line) = lines.try_next().await? {
        print(&format!("{line}\n"))?;
    }
    Ok(())
}

/// Every line was shown already: only the verdict is left.
fn judged(ended: &ContainerStateTerminated) -> Result<(), Failure> {
    if ended.exit_code == 0 {
        return Ok(());
    }
    let said = ended.message.as_deref().unwrap_or_default();
    let results: Value = serde_json::from_str(said).unwrap_or_default();
    Err(Failure::Failed(match results["failed"].as_u64() {
        Some(failed) => anyhow!("{failed} of {} tests failed", results["total"]),
        None => anyhow!(
            "the run ended without results: {}",
            said.lines().last().unwrap_or("no message")
        ),
    }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_verdict_is_that_of_the_run() {
        let ended = |code: i32, said: &str| ContainerStateTerminated {
            exit_code: code,
            message: Some(said.to_owned()),
            ..ContainerStateTerminated::default()
        };
        assert!(judged(&ended(0, r#"{"failed":0,"total":3}"#)).is_ok());
        for (said, words) in [
            (r#"{"failed":2,"total":140}"#, "2 of 140 tests failed"),
            (
                "first\nno hypervisor is up",
                "the run ended without results: no hypervisor is up",
            ),
            ("", "no message"),
        ] {
            let verdict = judged(&ended(1, said)).expect_err("failed").to_string();
            assert!(verdict.contains(words), "{verdict}");
        }
    }

    #[test]
    fn a_job_without_an_end_is_at_work() {
        let job = |conditions: Value| -> Job {
            serde_json::from_value(json!({"status": {"conditions": conditions}})).expect("a Job")
        };
        assert!(is_at_work(&job(json!([]))));
        assert!(is_at_work(&job(json!([{"type": "Complete", "status": "False"}]))));
        assert!(!is_at_work(&job(json!([{"type": "Failed", "status": "True"}]))));
    }
}
