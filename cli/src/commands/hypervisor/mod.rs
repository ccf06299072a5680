//! `c5c3 hypervisor …`: look at hosts, drain them, take them back.

mod progress;
mod steer;

use std::fmt::Debug;
use std::time::{Duration, Instant};

use c5c3_api::hypervisor::{Eviction, Hypervisor, Maintenance};
use clap::{Args, Subcommand};
use kube::api::{ListParams, Patch, PatchParams};
use kube::{Api, Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

use crate::cloud::access::Target;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values, say, say_when};
use progress::{Progress, Row, row};

/// Seconds between checks of values that change by themselves.
const POLL: Duration = Duration::from_secs(1);
const MANAGER: &str = "c5c3-hypervisor-command";

#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 hypervisor list
  c5c3 hypervisor drain node-2 --reason 'replacing a memory module'
  c5c3 hypervisor watch node-2
  c5c3 hypervisor pause node-2
  c5c3 hypervisor enable node-2")]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// List the hosts: whether they are in service, and if not, why.
    #[command(after_help = "Examples:
  c5c3 hypervisor list
  c5c3 hypervisor list -o json --context production")]
    List(List),
    /// Drain a host: it accepts no new servers, and its servers move to other hosts.
    #[command(after_help = "Examples:
  c5c3 hypervisor drain node-2 --reason 'replacing a memory module'
  c5c3 hypervisor drain node-2 --reason upgrade --parallel 20 --deadline 600
  c5c3 hypervisor drain node-2 --reason upgrade --no-wait

Exit codes:
  0  the host is empty        3  no such host
  4  some servers could not be moved in time")]
    Drain(Drain),
    /// Return a host to service, or stop draining it.
    #[command(after_help = "Examples:
  c5c3 hypervisor enable node-2
  c5c3 hypervisor enable node-2 --no-wait")]
    Enable(Enable),
    /// Pause a drain: no new migration starts, those in progress finish.
    #[command(after_help = "Examples:
  c5c3 hypervisor pause node-2
  c5c3 hypervisor resume node-2")]
    Pause(steer::Named),
    /// Continue a drain that was paused.
    #[command(after_help = "Examples:
  c5c3 hypervisor resume node-2")]
    Resume(steer::Named),
    /// Stop a drain: servers that have not moved yet stay, and the host returns to service.
    #[command(after_help = "Examples:
  c5c3 hypervisor cancel node-2")]
    Cancel(Enable),
    /// Try the onboarding of a host again after its fault was fixed.
    #[command(after_help = "Examples:
  c5c3 hypervisor retry node-2")]
    Retry(Enable),
    /// Follow a host until it is in service or drained.
    #[command(after_help = "Examples:
  c5c3 hypervisor watch node-2
  c5c3 hypervisor watch node-2 -o json     print the current state once")]
    Watch(Watch),
}

#[derive(Args)]
struct List {
    #[command(flatten)]
    target: Target,
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Args)]
struct Drain {
    #[command(flatten)]
    target: Target,
    /// Name of the host.
    name: String,
    /// Reason, shown to other operators.
    #[arg(long)]
    reason: String,
    /// Number of migrations at a time [default: 4]
    #[arg(long, value_parser = clap::value_parser!(i32).range(1..=100))]
    parallel: Option<i32>,
    /// Time limit for one migration, in seconds [default: 1800]
    #[arg(long, value_parser = clap::value_parser!(i32).range(30..=86400))]
    deadline: Option<i32>,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Args)]
struct Enable {
    #[command(flatten)]
    target: Target,
    /// Name of the host.
    name: String,
    #[command(flatten)]
    patience: Patience,
}

#[derive(Args)]
struct Watch {
    #[command(flatten)]
    target: Target,
    /// Name of the host.
    name: String,
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
    /// How long to follow the host, in seconds.
    #[arg(long, default_value_t = 3600)]
    timeout: u64,
}

#[derive(Args)]
struct Patience {
    /// Return at once instead of waiting until it is done.
    #[arg(long)]
    no_wait: bool,
    /// How long to wait, in seconds.
    #[arg(long, default_value_t = 3600)]
    timeout: u64,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        match &arguments.command {
            Command::List(arguments) => list(arguments).await,
            Command::Drain(arguments) => drain(arguments).await,
            Command::Enable(arguments) => enable(arguments).await,
            Command::Pause(arguments) => steer::pause(arguments, true).await,
            Command::Resume(arguments) => steer::pause(arguments, false).await,
            Command::Cancel(arguments) => steer::cancel(arguments).await,
            Command::Retry(arguments) => steer::retry(arguments).await,
            Command::Watch(arguments) => watch(arguments).await,
        }
    })
}

async fn list(arguments: &List) -> Result<(), Failure> {
    let client = fleet(&arguments.target).await?;
    let api: Api<Hypervisor> = Api::all(client);
    let rows: Vec<Row> = api.list(&Default::default()).await?.iter().map(row).collect();
    if arguments.output != Format::Table {
        return print_values(&[json!(rows)], arguments.output);
    }
    let mut table = Table::new(&["NAME", "READY", "STATE", "MAINTENANCE", "ADDRESS", "MESSAGE"]);
    for row in rows {
        let ready = if row.ready { "yes" } else { "no" }.to_owned();
        let cells = [
            row.name,
            ready,
            row.state,
            row.maintenance,
            row.address,
            row.message,
        ];
        table.row(cells.map(|cell| if cell.is_empty() { "-".to_owned() } else { cell }));
    }
    print_table(&table)
}

/// The cluster with the hosts: the cloud's own, or that of its hypervisors.
async fn fleet(target: &Target) -> Result<Client, Failure> {
    let sight = target.sight().await?;
    for cluster in &sight.others {
        let hosts: Api<Hypervisor> = Api::all(cluster.client.clone());
        if !hosts
            .list(&ListParams::default().limit(1))
            .await?
            .items
            .is_empty()
        {
            return Ok(cluster.client.clone());
        }
    }
    Ok(sight.home.client)
}

/// A host and its eviction, as they are.
async fn seen(client: &Client, name: &str) -> Result<(Hypervisor, Option<Eviction>), Failure> {
    let hosts: Api<Hypervisor> = Api::all(client.clone());
    let host = hosts.get_opt(name).await?.ok_or_else(|| {
        Failure::NotFound(format!(
            "there is no hypervisor {name}: `c5c3 hypervisor list` names them"
        ))
    })?;
    let evictions: Api<Eviction> = Api::all(client.clone());
    Ok((host, evictions.get_opt(name).await?))
}

/// Changes what a person may say in the spec of `name`.
async fn set<K>(objects: &Api<K>, name: &str, spec: Value) -> Result<(), Failure>
where
    K: Clone + DeserializeOwned + Debug,
{
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let patch = Patch::Merge(json!({"spec": spec}));
    objects.patch(name, &params, &patch).await?;
    Ok(())
}

async fn drain(arguments: &Drain) -> Result<(), Failure> {
    let (name, client) = (&arguments.name, fleet(&arguments.target).await?);
    let (host, _) = seen(&client, name).await?;
    if host.spec.maintenance == Maintenance::Termination {
        return Err(Failure::Usage(format!(
            "{name} is being decommissioned (maintenance termination) and is emptied already"
        )));
    }
    let spec = json!({"maintenance": Maintenance::Manual, "maintenanceReason": arguments.reason});
    set(&Api::<Hypervisor>::all(client.clone()), name, spec).await?;
    let start = Instant::now();
    say_when(
        start,
        &format!("{name} accepts no new servers until `c5c3 hypervisor enable {name}`"),
    );
    let wishes = json!({"parallel": arguments.parallel, "deadlineSeconds": arguments.deadline});
    if arguments.parallel.is_some() || arguments.deadline.is_some() {
        wish(
            &client,
            name,
            wishes,
            Duration::from_secs(arguments.patience.timeout),
        )
        .await?;
    }
    if arguments.patience.no_wait {
        return Ok(());
    }
    follow(
        &client,
        name,
        start,
        arguments.patience.timeout,
        Progress::drained,
    )
    .await
}

/// Budget and deadline are the Eviction's, which the operator makes.
async fn wish(client: &Client, name: &str, spec: Value, patience: Duration) -> Result<(), Failure> {
    let evictions: Api<Eviction> = Api::all(client.clone());
    let start = Instant::now();
    while evictions.get_opt(name).await?.is_none() {
        if start.elapsed() > patience {
            return Err(Failure::NotReady(format!(
                "there is no Eviction {name} yet: is the hypervisor operator running?"
            )));
        }
        tokio::time::sleep(POLL / 2).await;
    }
    set(&evictions, name, spec).await
}

async fn enable(arguments: &Enable) -> Result<(), Failure> {
    let (name, client) = (&arguments.name, fleet(&arguments.target).await?);
    let (host, _) = seen(&client, name).await?;
    if host.spec.maintenance == Maintenance::Termination {
        return Err(Failure::Usage(format!(
            "{name} is being decommissioned (maintenance termination): to use it again, delete the Hypervisor; it is recreated from its Node"
        )));
    }
    let spec = json!({"maintenance": Maintenance::None, "maintenanceReason": null});
    set(&Api::<Hypervisor>::all(client.clone()), name, spec).await?;
    let start = Instant::now();
    say_when(start, &format!("{name} is returning to service"));
    if arguments.patience.no_wait {
        return Ok(());
    }
    follow(
        &client,
        name,
        start,
        arguments.patience.timeout,
        Progress::enabled,
    )
    .await
}

async fn watch(arguments: &Watch) -> Result<(), Failure> {
    let (name, client) = (&arguments.name, fleet(&arguments.target).await?);
    if arguments.output != Format::Table {
        let (host, eviction) = seen(&client, name).await?;
        return print_values(&[json!(Progress::of(&host, eviction.as_ref()))], arguments.output);
    }
    let start = Instant::now();
    follow(&client, name, start, arguments.timeout, |progress| {
        progress.drained().or_else(|| progress.enabled())
    })
    .await
}

/// Says each change, until `end` says how it ended.
async fn follow(
    client: &Client,
    name: &str,
    start: Instant,
    timeout: u64,
    mut end: impl FnMut(&Progress) -> Option<Result<(), String>>,
) -> Result<(), Failure> {
    let mut last = Vec::new();
    loop {
        let (host, eviction) = seen(client, name).await?;
        // What was told before the last edit says nothing of it.
        let told = host.status.as_ref().and_then(|status| status.observed_generation);
        let fresh = told.is_some() && told == host.metadata.generation;
        let progress = Progress::of(&host, eviction.as_ref());
        let lines = progress.lines();
        for line in lines.iter().filter(|line| !last.contains(*line)) {
            say_when(start, line);
        }
        last = lines;
        match end(&progress).filter(|_| fresh) {
            Some(Ok(())) => return Ok(()),
            Some(Err(why)) => {
                for stuck in &progress.stuck {
                    say(&format!("          {stuck}"));
                }
                return Err(Failure::NotReady(why));
            }
            None if start.elapsed() > Duration::from_secs(timeout) => {
                let name = host.name_any();
                return Err(Failure::NotReady(format!(
                    "not done within {timeout} s, but it continues: follow it with `c5c3 hypervisor watch {name}`"
                )));
            }
            None => tokio::time::sleep(POLL).await,
        }
    }
}
