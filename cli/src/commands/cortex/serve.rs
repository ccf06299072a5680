//! `c5c3 cortex serve`: answers, and the kinds of Cortex where a cluster has them.

use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use c5c3_cortex::controllers::{self, Shared};
use c5c3_cortex::service::http::Server;
use c5c3_cortex::service::{Scheduler, Source, World};
use c5c3_cortex::sources::{file, openstack};
use c5c3_kit::{Clusters, Metrics, Stop, telemetry};
use clap::Args;
use openstack_client::{Auth, Cloud, Interface, Secret, Session};
use tokio::sync::mpsc;

use super::{read, state_of};
use crate::failure::Failure;

/// Decisions that wait to be written.
const WAITING: usize = 4096;

#[derive(Args)]
pub(super) struct Arguments {
    /// Address that serves requests, /metrics, /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// clouds.yaml with the credentials for Nova and Placement.
    #[arg(long, value_name = "FILE")]
    clouds: Option<PathBuf>,
    /// Name of the cloud in that file.
    #[arg(long, default_value = "openstack", requires = "clouds")]
    cloud: String,
    /// Keystone's address: Nova and Placement are read with the application credential of the variables
    /// OS_KEYSTONE__APPLICATION_CREDENTIAL_ID and OS_KEYSTONE__APPLICATION_CREDENTIAL_SECRET.
    #[arg(long, value_name = "URL", conflicts_with = "clouds")]
    auth_url: Option<String>,
    /// Certificates in PEM form that vouch for Keystone and the others, instead of the machine's.
    #[arg(long, value_name = "FILE", requires = "auth_url")]
    ca: Option<PathBuf>,
    /// File with a list of Pipelines to use instead of the default ones.
    #[arg(long, value_name = "FILE")]
    pipelines: Option<PathBuf>,
    /// Seconds between two reads of this cloud.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// Initial state, as printed by `c5c3 cortex state`.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Record every request in this file, for `c5c3 cortex replay`. Requests name projects and servers.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use the kinds of this context's cluster: Pipelines, Datasources, Reservations and others.
    #[arg(long)]
    context: Option<String>,
    /// Use the kinds of the cluster it runs in, or of the current context.
    #[arg(long)]
    kubernetes: bool,
    /// Namespace of the Secrets of Datasources.
    #[arg(long, short, default_value = "c5c3-system")]
    namespace: String,
    /// Carry out Deschedulings; without this they are only recorded.
    #[arg(long)]
    migrate: bool,
    /// Log filter, such as info or c5c3_cortex=debug,warn.
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

pub(super) fn run(arguments: Arguments) -> Result<(), Failure> {
    telemetry::start(&arguments.log).map_err(|error| Failure::Usage(error.to_string()))?;
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    runtime.block_on(serve(arguments))
}

async fn serve(arguments: Arguments) -> Result<(), Failure> {
    let stop = Stop::on_signal().context("signals")?;
    let metrics = Metrics::default();
    let scheduler = Arc::new(Scheduler {
        world: world(arguments.pipelines.as_deref())?,
        ..Scheduler::default()
    });
    if let Some(file) = &arguments.state {
        let draft = state_of(file)?;
        scheduler.world.start_with(draft);
    }
    if let Some(path) = &arguments.record {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(path);
        let file = file.with_context(|| format!("cannot record to {}", path.display()))?;
        scheduler.memory.record_to(file)?;
    }
    let clusters = if arguments.kubernetes || arguments.context.is_some() {
        Some(Clusters::connect(arguments.kubeconfig.as_deref(), arguments.context.as_deref(), &[]).await?)
    } else {
        None
    };
    let (sender, receiver) = mpsc::channel(WAITING);
    let decisions = clusters.is_some().then_some(sender);
    let server = Server::bind(arguments.listen, scheduler.clone(), metrics.clone(), decisions)
        .await
        .with_context(|| {
            format!(
                "cannot listen on {}: choose another address with --listen",
                arguments.listen
            )
        })?;
    tracing::info!("answers on http://{}/scheduler/nova/external", server.address()?);
    let serving = tokio::spawn(server.serve(stop.clone()));
    if let Some(cloud) = cloud(&arguments)? {
        let session = Session::new(cloud).map_err(anyhow::Error::from)?;
        let every = Duration::from_secs(arguments.every);
        tokio::spawn(read_cloud(scheduler.clone(), session, every, stop.clone()));
    }
    if let Some(clusters) = clusters {
        tokio::spawn(controllers::keep_decisions(clusters.home().clone(), receiver));
        let dial = Arc::new(openstack_client::Tcp);
        let shared = Shared::new(scheduler, arguments.namespace, dial, arguments.migrate);
        controllers::run(clusters, metrics, shared, stop).await?;
    }
    serving.await.context("the server ended")?;
    Ok(())
}

/// Ready to answer, of pipelines that all work.
fn world(pipelines: Option<&Path>) -> Result<World, Failure> {
    let Some(path) = pipelines else {
        return Ok(World::usual());
    };
    let pipelines = file::pipelines(&read(path)?);
    let pipelines =
        pipelines.map_err(|error| Failure::Usage(format!("--pipelines {}: {error}", path.display())))?;
    Ok(World::with(pipelines))
}

/// The cloud that is read, where one is named.
fn cloud(arguments: &Arguments) -> Result<Option<Cloud>, Failure> {
    if let Some(path) = &arguments.clouds {
        let cloud = Cloud::parse(&read(path)?, &arguments.cloud, None);
        return Ok(Some(cloud.map_err(|error| Failure::Usage(error.to_string()))?));
    }
    let Some(auth_url) = &arguments.auth_url else {
        return Ok(None);
    };
    let variable = |name: &str| {
        let value = std::env::var(name).ok().filter(|value| !value.is_empty());
        value.ok_or_else(|| Failure::Usage(format!("--auth-url needs the environment variable {name}")))
    };
    Ok(Some(Cloud {
        auth_url: auth_url.clone(),
        auth: Auth::ApplicationCredential {
            id: variable("OS_KEYSTONE__APPLICATION_CREDENTIAL_ID")?,
            secret: Secret::new(variable("OS_KEYSTONE__APPLICATION_CREDENTIAL_SECRET")?),
        },
        region: None,
        // It runs beside what it asks.
        interface: Interface::Internal,
        ca: arguments.ca.as_deref().map(read).transpose()?,
    }))
}

/// Reads Nova and Placement again and again. What was read last stays while they are away.
async fn read_cloud(scheduler: Arc<Scheduler>, session: Session, every: Duration, stop: Stop) {
    loop {
        match openstack::read(&session).await {
            Ok((hosts, servers)) => {
                tracing::info!("{} hosts with {} servers", hosts.len(), servers.len());
                scheduler.world.tell(Source::OpenStack { hosts, servers });
            }
            Err(error) => tracing::warn!("{error}"),
        }
        tokio::select! {
            () = stop.requested() => return,
            () = tokio::time::sleep(every) => {}
        }
    }
}
