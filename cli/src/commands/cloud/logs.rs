//! `c5c3 logs SERVICE`.

use clap::Args;
use futures::{AsyncBufReadExt, TryStreamExt};
use k8s_openapi::api::core::v1::Pod;
use kube::api::{ListParams, LogParams};
use kube::{Api, ResourceExt};

use crate::cloud::access::Target;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print, say_aside};

const EXAMPLES: &str = "\
Examples:
  c5c3 logs keystone               the last lines of every pod of Keystone
  c5c3 logs glance -f              keep following
  c5c3 logs mariadb --tail 500";

/// Print the logs of all pods of a service.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// A service such as keystone or mariadb, or a pod.
    service: String,
    /// Follow new lines.
    #[arg(long, short)]
    follow: bool,
    /// Number of past lines to print for each pod.
    #[arg(long, default_value_t = 50)]
    tail: i64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        let target = &arguments.target;
        let sight = target.sight().await?;
        for (cluster, why) in &sight.blind {
            say_aside(&format!("cannot read cluster {cluster}: {why}"));
        }
        let mut pods: Vec<Pod> = Vec::new();
        let mut wanted: Vec<(Api<Pod>, Pod)> = Vec::new();
        for cluster in sight.clusters() {
            let api: Api<Pod> = Api::namespaced(cluster.client.clone(), &target.namespace);
            let found = api.list(&ListParams::default()).await?.items;
            let belonging = found.iter().filter(|pod| belongs(pod, &arguments.service));
            wanted.extend(belonging.map(|pod| (api.clone(), pod.clone())));
            pods.extend(found);
        }
        if wanted.is_empty() {
            return Err(Failure::NotFound(format!(
                "no pods of {} in namespace {}; services with pods there: {}",
                arguments.service,
                target.namespace,
                services(&pods).join(", ")
            )));
        }
        let several = wanted.len() > 1;
        let streams = wanted.iter().flat_map(|(api, pod)| {
            let names = pod.spec.iter().flat_map(|spec| spec.containers.iter());
            names.map(move |container| (api, pod.name_any(), container.name.clone()))
        });
        let reads = streams.map(|(api, pod, container)| follow(api, pod, container, arguments, several));
        for outcome in futures::future::join_all(reads).await {
            outcome?;
        }
        Ok(())
    })
}

fn label<'a>(pod: &'a Pod, name: &str) -> &'a str {
    pod.labels().get(name).map_or("", String::as_str)
}

/// By its service, its object, or its own name.
fn belongs(pod: &Pod, service: &str) -> bool {
    let service = service.to_lowercase();
    label(pod, "app.kubernetes.io/name") == service
        || label(pod, "app.kubernetes.io/instance") == service
        || pod.name_any() == service
}

fn services(pods: &[Pod]) -> Vec<String> {
    let mut names: Vec<String> = pods
        .iter()
        .map(|pod| match label(pod, "app.kubernetes.io/name") {
            "" => pod.name_any(),
            name => name.to_owned(),
        })
        .collect();
    names.sort();
    names.dedup();
    names
}

async fn follow(
    api: &Api<Pod>,
    pod: String,
    container: String,
    arguments: &Arguments,
    several: bool,
) -> Result<(), Failure> {
    let params = LogParams {
        container: Some(container),
        follow: arguments.follow,
        tail_lines: Some(arguments.tail),
        ..LogParams::default()
    };
    let mut lines = match api.log_stream(&pod, &params).await {
        Ok(stream) => stream.lines(),
        Err(kube::Error::Api(status)) => {
            // One that has not started must not hide the others.
            say_aside(&format!("{pod}: {}", status.message));
            return Ok(());
        }
        Err(error) => return Err(error.into()),
    };
    while let Some(line) = lines.try_next().await? {
        if several {
            print(&format!("{pod}: {line}\n"))?;
        } else {
            print(&format!("{line}\n"))?;
        }
    }
    Ok(())
}
