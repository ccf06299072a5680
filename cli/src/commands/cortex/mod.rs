//! `c5c3 cortex …`: serve placements, explain them, replay them, and try out changes.

mod serve;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use anyhow::Context as _;
use c5c3_api::cortex::SchedulingDomain;
use c5c3_cortex::engine::{self, Context, Explanation, compile, defaults};
use c5c3_cortex::fleet::{Draft, Fleet};
use c5c3_cortex::plan::{self, Plan};
use c5c3_cortex::request::{Intent, Request};
use c5c3_cortex::sources::{file, web};
use clap::{Args, Subcommand};
use serde_json::{Value, json};

use super::block_on;
use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values};

/// Choose hosts for servers, volumes and shares, and say why.
#[derive(Args)]
#[command(after_help = "Examples:
  c5c3 cortex serve --clouds clouds.yaml --cloud admin       serve Nova without Kubernetes
  c5c3 cortex serve --context production                     with pipelines from a cluster
  c5c3 cortex why 9f1c8f4e-0c0d-4f0e-8f38-6d9f0e8b7a11       why a server is where it is
  c5c3 cortex what-if --lose node-2                          is there room for its servers elsewhere
  c5c3 cortex replay asked.jsonl --state state.json --pipeline changed.yaml")]
pub(crate) struct Arguments {
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
    Serve(Box<serve::Arguments>),
    /// Say why a server, volume or share was placed where it is.
    #[command(after_help = "Examples:
  c5c3 cortex why 9f1c8f4e-0c0d-4f0e-8f38-6d9f0e8b7a11
  c5c3 cortex why 9f1c8f4e-0c0d-4f0e-8f38-6d9f0e8b7a11 --endpoint http://cortex:8080 -o json")]
    Why(Why),
    /// Replay recorded requests against a changed pipeline.
    #[command(after_help = "Examples:
  c5c3 cortex replay asked.jsonl --state state.json
  c5c3 cortex replay asked.jsonl --state state.json --pipeline changed.yaml -o json")]
    Replay(Replay),
    /// Show what would happen to servers if hosts were drained or lost.
    #[command(after_help = "Examples:
  c5c3 cortex what-if --drain node-2
  c5c3 cortex what-if --lose node-2 --lose node-3 --state state.json

Exit codes:
  0  every server finds a host        4  some servers do not")]
    WhatIf(WhatIf),
    /// Show which servers to move to empty as many hosts as possible.
    #[command(after_help = "Examples:
  c5c3 cortex pack
  c5c3 cortex pack --most 50 --state state.json -o yaml")]
    Pack(Pack),
    /// Print the state of a running Cortex, for --state of the other commands.
    #[command(after_help = "Examples:
  c5c3 cortex state > state.json")]
    State(State),
}

#[derive(Args)]
struct Why {
    /// Id of the server, volume or share.
    resource: String,
    /// Address of a running Cortex.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    endpoint: String,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

/// What is known of the world: of a file, or of a Cortex that runs.
#[derive(Args)]
struct Known {
    /// State as printed by `c5c3 cortex state`.
    #[arg(long, value_name = "FILE")]
    state: Option<PathBuf>,
    /// Address of a running Cortex, if no file is given.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    endpoint: String,
}

#[derive(Args)]
struct State {
    /// Address of a running Cortex.
    #[arg(long, default_value = "http://127.0.0.1:8080")]
    endpoint: String,
}

#[derive(Args)]
struct Replay {
    /// File written by `c5c3 cortex serve --record`.
    record: PathBuf,
    /// Pipeline object to use instead of the default one.
    #[arg(long, value_name = "FILE")]
    pipeline: Option<PathBuf>,
    #[command(flatten)]
    known: Known,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Args)]
struct WhatIf {
    /// Host to drain: its servers move while running.
    #[arg(long, value_name = "HOST", required_unless_present = "lose")]
    drain: Vec<String>,
    /// Host to lose: its servers are restarted elsewhere, also in capacity reserved for failover.
    #[arg(long, value_name = "HOST", conflicts_with = "drain")]
    lose: Vec<String>,
    #[command(flatten)]
    known: Known,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

#[derive(Args)]
struct Pack {
    /// Move at most this many servers.
    #[arg(long, default_value_t = 100)]
    most: usize,
    #[command(flatten)]
    known: Known,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(arguments: Arguments) -> Result<(), Failure> {
    match arguments.command {
        Command::Serve(arguments) => serve::run(*arguments),
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
    Ok(draft.with_context(|| {
        format!(
            "{} is not a state file of Cortex: write one with `c5c3 cortex state`",
            file.display()
        )
    })?)
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
        let text = format!("Cortex has no record of a decision about {}", arguments.resource);
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

fn changed(path: Option<&PathBuf>) -> Result<Option<engine::Pipeline>, Failure> {
    let Some(path) = path else { return Ok(None) };
    let pipeline = file::pipeline(&read(path)?);
    let pipeline =
        pipeline.map_err(|error| Failure::Usage(format!("--pipeline {}: {error}", path.display())))?;
    Ok(Some(pipeline))
}

fn read(path: &Path) -> Result<String, Failure> {
    Ok(std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?)
}

fn replay(arguments: &Replay) -> Result<(), Failure> {
    let fleet = arguments.known.fleet()?;
    let changed = changed(arguments.pipeline.as_ref())?;
    let record = std::fs::read_to_string(&arguments.record)
        .with_context(|| format!("cannot read {}", arguments.record.display()))?;
    let usual: BTreeMap<String, engine::Pipeline> = defaults::all()
        .iter()
        .map(|(_, draft)| (draft.name.clone(), compile(draft).pipeline))
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
    let emptied = if plan.emptied.is_empty() {
        "no host".to_owned()
    } else {
        plan.emptied.join(", ")
    };
    crate::output::print(&format!(
        "{} servers move, {} cannot; empty: {emptied}\n",
        plan.moves.len(),
        plan.stuck.len()
    ))
}

fn what_if(arguments: &WhatIf) -> Result<(), Failure> {
    let fleet = arguments.known.fleet()?;
    let (hosts, intent) = if arguments.lose.is_empty() {
        (&arguments.drain, Intent::LiveMigrate)
    } else {
        (&arguments.lose, Intent::Evacuate)
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
