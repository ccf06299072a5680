//! `c5c3 cortex …`: serve placements, ask why, replay, and see what would be.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context as _;
use c5c3_api::cortex::{Pipeline, SchedulingDomain};
use c5c3_cortex::controllers::{self, Shared};
use c5c3_cortex::engine::{self, Context, Explanation, compile, defaults};
use c5c3_cortex::fleet::{Draft, Fleet};
use c5c3_cortex::plan::{self, Plan};
use c5c3_cortex::request::{Intent, Request};
use c5c3_cortex::service::http::Server;
use c5c3_cortex::service::{Scheduler, Source, World};
use c5c3_cortex::sources::{kubernetes, openstack, web};
use c5c3_kit::{Clusters, Metrics, Stop, telemetry};
use clap::{Args, Subcommand};
use openstack_client::{Cloud, Session};
use serde_json::{Value, json};
use tokio::sync::mpsc;

use super::block_on;
use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values};

/// Decisions that wait to be written.
const WAITING: usize = 4096;

/// Choose hosts for servers, volumes and shares, and say why.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 cortex serve --clouds clouds.yaml --cloud admin       answer Nova, without Kubernetes
  c5c3 cortex serve --context production                     with its kinds in a cluster
  c5c3 cortex why 9f1c8f4e-0c0d-4f0e-8f38-6d9f0e8b7a11       why a server is where it is
  c5c3 cortex what-if --lose node-2                          would the others take its servers
  c5c3 cortex replay asked.jsonl --state state.json --pipeline changed.yaml")]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Answer Nova, Cinder and Manila.
    #[command(after_help = "Examples:
  c5c3 cortex serve --clouds clouds.yaml --cloud admin
  c5c3 cortex serve --context production --namespace openstack
  c5c3 cortex serve --state state.json --record asked.jsonl --listen 127.0.0.1:8080")]
    Serve(Serve),
    /// Say why a server, volume or share was placed where it is.
    #[command(after_help = "Examples:
  c5c3 cortex why 9f1c8f4e-0c0d-4f0e-8f38-6d9f0e8b7a11
  c5c3 cortex why 9f1c8f4e-0c0d-4f0e-8f38-6d9f0e8b7a11 --endpoint http://cortex:8080 -o json")]
    Why(Why),
    /// Ask recorded questions again, of a pipeline that was changed.
    #[command(after_help = "Examples:
  c5c3 cortex replay asked.jsonl --state state.json
  c5c3 cortex replay asked.jsonl --state state.json --pipeline changed.yaml -o json")]
    Replay(Replay),
    /// See what would become of servers when hosts are drained or lost.
    #[command(after_help = "Examples:
  c5c3 cortex what-if --drain node-2
  c5c3 cortex what-if --lose node-2 --lose node-3 --state state.json

Exit codes:
  0  every server finds a host        4  some do not")]
    WhatIf(WhatIf),
    /// See which servers would have to move to empty as many hosts as possible.
    #[command(after_help = "Examples:
  c5c3 cortex pack
  c5c3 cortex pack --most 50 --state state.json -o yaml")]
    Pack(Pack),
    /// Print what a running Cortex knows, for --state of the others.
    #[command(after_help = "Examples:
  c5c3 cortex state > state.json")]
    State(State),
}

#[derive(Args)]
struct Serve {
    /// Where questions are answered, and /metrics, /healthz and /readyz.
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:8080")]
    listen: SocketAddr,
    /// A clouds.yaml: Nova and Placement are read without Kubernetes.
    #[arg(long, value_name = "FILE", conflicts_with = "context")]
    clouds: Option<PathBuf>,
    /// The cloud of that file.
    #[arg(long, default_value = "openstack", requires = "clouds")]
    cloud: String,
    /// Seconds between two reads of that cloud.
    #[arg(long, value_name = "SECONDS", default_value_t = 60, value_parser = clap::value_parser!(u64).range(1..))]
    every: u64,
    /// What is known at the start, as `c5c3 cortex state` printed it.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Keep every question there, for `c5c3 cortex replay`. Questions name projects and servers.
    #[arg(long, value_name = "FILE")]
    record: Option<PathBuf>,
    /// Kubeconfig file [default: KUBECONFIG, ~/.kube/config, or the cluster it runs in]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Use the kinds of this context's cluster: Pipelines, Datasources, Reservations and others.
    #[arg(long)]
    context: Option<String>,
    /// Use those of the cluster it runs in, or of the current context.
    #[arg(long, conflicts_with = "clouds")]
    kubernetes: bool,
    /// Where the Secrets of Datasources are.
    #[arg(long, short, default_value = "c5c3-system")]
    namespace: String,
    /// Carry Deschedulings out: without it they are only written down.
    #[arg(long)]
    migrate: bool,
    /// Log filter, such as info or c5c3_cortex=debug,warn.
    #[arg(long, env = "C5C3_LOG", default_value = "info")]
    log: String,
}

#[derive(Args)]
struct Why {
    /// Its id.
    resource: String,
    /// A Cortex that runs.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    endpoint: String,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What is known of the world: of a file, or of a Cortex that runs.
#[derive(Args)]
struct Known {
    /// As `c5c3 cortex state` printed it.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// A Cortex that runs, where no file is given.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    endpoint: String,
}

#[derive(Args)]
struct State {
    /// A Cortex that runs.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    endpoint: String,
}

#[derive(Args)]
struct Replay {
    /// What `c5c3 cortex serve --record` kept.
    record: PathBuf,
    /// A Pipeline object that is asked instead of the usual one.
    #[arg(long, value_name = "FILE")]
    pipeline: Option<PathBuf>,
    #[command(flatten)]
    known: Known,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Args)]
struct WhatIf {
    /// A host that is emptied: its servers move while they run.
    #[arg(long, value_name = "HOST", required_unless_present = "lose")]
    drain: Vec<String>,
    /// A host that is lost: its servers are started anew elsewhere, also in room kept for that.
    #[arg(long, value_name = "HOST", conflicts_with = "drain")]
    lose: Vec<String>,
    #[command(flatten)]
    known: Known,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Args)]
struct Pack {
    /// Move no more servers than this.
    #[arg(long, default_value_t = 100)]
    most: usize,
    #[command(flatten)]
    known: Known,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Serve(arguments) => {
            telemetry::start(&arguments.log).map_err(|error| Failure::Usage(error.to_string()))?;
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
            runtime.block_on(serve(arguments))
        }
        Command::Why(arguments) => why(&arguments),
        Command::Replay(arguments) => replay(&arguments),
        Command::WhatIf(arguments) => what_if(&arguments),
        Command::Pack(arguments) => pack(&arguments),
        Command::State(arguments) => {
            let text = fetch(&arguments.endpoint, "/state")?;
            crate::output::print(&format!("{}\n", String::from_utf8_lossy(&text)))
        }
    }
}

async fn serve(arguments: Serve) -> Result<(), Failure> {
    let stop = Stop::on_signal().context("signals")?;
    let metrics = Metrics::default();
    let scheduler = Arc::new(Scheduler {
        world: World::usual(),
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
    let clusters = match arguments.kubernetes || arguments.context.is_some() {
        true => {
            Some(Clusters::connect(arguments.kubeconfig.as_deref(), arguments.context.as_deref(), &[]).await?)
        }
        false => None,
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
    if let Some(path) = &arguments.clouds {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        let cloud =
            Cloud::parse(&text, &arguments.cloud, None).map_err(|error| Failure::Usage(error.to_string()))?;
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

fn fetch(endpoint: &str, path: &str) -> Result<Vec<u8>, Failure> {
    let url = format!("{}{path}", endpoint.trim_end_matches('/'));
    let answer = block_on(async { Ok(web::get(&url).await) })?;
    match answer {
        Ok(body) => Ok(body.to_vec()),
        Err(error @ web::WebError::Address(_)) => Err(Failure::Usage(format!("--endpoint: {error}"))),
        Err(error) => Err(Failure::NotReady(format!(
            "{error}. Is Cortex running? See `c5c3 cortex serve`"
        ))),
    }
}

fn state_of(file: &Path) -> Result<Draft, Failure> {
    let text = std::fs::read(file).with_context(|| format!("cannot read {}", file.display()))?;
    let draft = serde_json::from_slice(&text);
    Ok(draft.with_context(|| format!("{} is no state of Cortex", file.display()))?)
}

impl Known {
    fn fleet(&self) -> Result<Fleet, Failure> {
        let draft = match &self.state {
            Some(file) => state_of(file)?,
            None => {
                serde_json::from_slice(&fetch(&self.endpoint, "/state")?).context("the state of Cortex")?
            }
        };
        Ok(Fleet::pack(draft))
    }
}

fn why(arguments: &Why) -> Result<(), Failure> {
    let path = format!("/why/{}", arguments.resource);
    let answer: Value = serde_json::from_slice(&fetch(&arguments.endpoint, &path)?).context("the answer")?;
    let decisions = answer["decisions"].as_array().cloned().unwrap_or_default();
    if decisions.is_empty() {
        let text = format!("Cortex remembers no decision about {}", arguments.resource);
        return Err(Failure::NotFound(text));
    }
    if arguments.output != Format::Table {
        return print_values(&decisions, arguments.output);
    }
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let mut table = Table::new(&["WHEN", "INTENT", "HOST", "WHY"]);
    for one in &decisions {
        table.row([
            text(&one["at"]),
            text(&one["intent"]),
            text(&one["orderedHosts"][0]),
            text(&one["text"]),
        ]);
    }
    print_table(&table)?;
    let dropped = decisions[0]["dropped"].as_array().cloned().unwrap_or_default();
    if dropped.is_empty() {
        return Ok(());
    }
    crate::output::print("\n")?;
    let mut table = Table::new(&["NOT", "STEP", "BECAUSE IT"]);
    for one in &dropped {
        table.row([text(&one["host"]), text(&one["step"]), text(&one["reason"])]);
    }
    print_table(&table)
}

fn changed(file: Option<&PathBuf>) -> Result<Option<engine::Pipeline>, Failure> {
    let Some(file) = file else { return Ok(None) };
    let text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    let object: Pipeline =
        serde_saphyr::from_str(&text).with_context(|| format!("{} is no Pipeline", file.display()))?;
    let Some(draft) = kubernetes::pipeline(&object) else {
        return Err(Failure::Usage(
            "--pipeline: only type filter-weigher places".to_owned(),
        ));
    };
    let compiled = compile(&draft);
    if let Some((step, why)) = compiled
        .broken_filters
        .iter()
        .chain(&compiled.broken_weighers)
        .next()
    {
        return Err(Failure::Usage(format!("--pipeline: {step}: {why}")));
    }
    if let Some(step) = compiled.unknown.first() {
        return Err(Failure::Usage(format!(
            "--pipeline: nobody knows the step {step}"
        )));
    }
    Ok(Some(compiled.pipeline))
}

fn replay(arguments: &Replay) -> Result<(), Failure> {
    let fleet = arguments.known.fleet()?;
    let changed = changed(arguments.pipeline.as_ref())?;
    let record = std::fs::read_to_string(&arguments.record)
        .with_context(|| format!("cannot read {}", arguments.record.display()))?;
    let usual: BTreeMap<String, engine::Pipeline> = defaults::all()
        .iter()
        .map(|draft| (draft.name.clone(), compile(draft).pipeline))
        .collect();
    let mut rows = Vec::new();
    for (number, line) in record.lines().enumerate() {
        let asked: Value = serde_json::from_str(line)
            .with_context(|| format!("{}, line {}", arguments.record.display(), number + 1))?;
        let domain: SchedulingDomain = serde_json::from_value(asked["domain"].clone()).unwrap_or_default();
        let body = asked["request"].to_string();
        let request = Request::parse(domain, body.as_bytes()).map_err(|error| {
            anyhow::anyhow!("{}, line {}: {error}", arguments.record.display(), number + 1)
        })?;
        let name = request
            .pipeline()
            .unwrap_or_else(|_| defaults::GENERAL.to_owned());
        let before = usual.get(&name).or_else(|| usual.get(defaults::GENERAL));
        let context = Context {
            fleet: &fleet,
            request: &request,
        };
        let of = |pipeline: Option<&engine::Pipeline>| {
            pipeline
                .map(|pipeline| Explanation::of(&engine::run(pipeline, context)))
                .unwrap_or_default()
        };
        let (old, new) = (of(before), of(changed.as_ref().or(before)));
        let first = |one: &Explanation| one.ordered_hosts.first().cloned().unwrap_or_default();
        rows.push(json!({
            "resource": request.spec.instance, "before": first(&old), "after": first(&new),
            "same": old.ordered_hosts == new.ordered_hosts, "why": new.text,
        }));
    }
    if arguments.output != Format::Table {
        return print_values(&rows, arguments.output);
    }
    let mut table = Table::new(&["RESOURCE", "BEFORE", "AFTER", "ORDER", "WHY"]);
    for row in &rows {
        let text = |key: &str| row[key].as_str().unwrap_or_default().to_owned();
        let order = if row["same"] == true { "same" } else { "other" };
        table.row([
            text("resource"),
            text("before"),
            text("after"),
            order.to_owned(),
            text("why"),
        ]);
    }
    print_table(&table)
}

fn show(plan: &Plan, output: Format) -> Result<(), Failure> {
    if output != Format::Table {
        return print_values(&[serde_json::to_value(plan)?], output);
    }
    let mut table = Table::new(&["SERVER", "NAME", "FROM", "TO", "WHY NOT"]);
    for one in &plan.moves {
        table.row(
            [&one.server, &one.name, &one.from, &one.to]
                .map(String::clone)
                .into_iter()
                .chain([String::new()]),
        );
    }
    for one in &plan.stuck {
        let none = String::new();
        table.row([&one.server, &one.name, &one.from, &none, &one.why].map(String::clone));
    }
    print_table(&table)?;
    let emptied = match plan.emptied.is_empty() {
        true => "no host".to_owned(),
        false => plan.emptied.join(", "),
    };
    crate::output::print(&format!(
        "{} servers move, {} cannot; empty: {emptied}\n",
        plan.moves.len(),
        plan.stuck.len()
    ))
}

fn what_if(arguments: &WhatIf) -> Result<(), Failure> {
    let fleet = arguments.known.fleet()?;
    let (hosts, intent) = match arguments.lose.is_empty() {
        true => (&arguments.drain, Intent::LiveMigrate),
        false => (&arguments.lose, Intent::Evacuate),
    };
    if let Some(unknown) = hosts
        .iter()
        .find(|host| !fleet.hosts.iter().any(|name| name == *host))
    {
        return Err(Failure::NotFound(format!("there is no host {unknown}")));
    }
    let plan = plan::without(&fleet, &compile(&defaults::general()).pipeline, hosts, intent);
    show(&plan, arguments.output)?;
    if plan.stuck.is_empty() {
        Ok(())
    } else {
        Err(Failure::Unwell)
    }
}

fn pack(arguments: &Pack) -> Result<(), Failure> {
    let fleet = arguments.known.fleet()?;
    let plan = plan::pack(&fleet, &compile(&defaults::hana()).pipeline, arguments.most);
    show(&plan, arguments.output)
}
