//! `c5c3 doctor`

use clap::Args;
use serde_json::json;

use super::block_on;
use crate::cloud::access::Target;
use crate::doctor::findings::{Finding, Verdict, findings};
use crate::doctor::read::read;
use crate::failure::Failure;
use crate::output::{Format, Table, print_table, print_values};
use crate::roles;

const EXAMPLES: &str = "\
Examples:
  c5c3 doctor --kubeconfig production.yaml        what a cluster lacks to run a cloud
  c5c3 doctor --registry registry.example/cloud   also check that this registry answers
  c5c3 doctor -o json

Exit codes:
  0  a cloud can be created   3  there is no cluster
  4  something prevents it";

/// Check whether a cluster can run a cloud; every problem comes with a fix.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// Namespace of the operators.
    #[arg(long, default_value = roles::NAMESPACE)]
    operators: String,
    /// A registry, REGISTRY/PATH: check that it can be reached from this machine.
    #[arg(long, value_name = "REGISTRY")]
    registry: Option<String>,
    #[arg(short, long, value_enum, default_value = "table")]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        let client = arguments.target.client().await?;
        let cloud = &arguments.target.namespace;
        let facts = read(
            &client,
            cloud,
            &arguments.operators,
            arguments.registry.as_deref(),
        )
        .await?;
        let found = findings(&facts);
        show(&found, arguments.output)?;
        if found.iter().any(|finding| finding.verdict == Verdict::Fault) {
            Err(Failure::Unwell)
        } else {
            Ok(())
        }
    })
}

fn show(found: &[Finding], format: Format) -> Result<(), Failure> {
    if format != Format::Table {
        return print_values(&[json!({"findings": found})], format);
    }
    let mut table = Table::new(&["CHECK", "VERDICT", "FOUND", "WAY OUT"]);
    for finding in found {
        table.row([
            finding.check.to_owned(),
            finding.verdict.word().to_owned(),
            finding.found.clone(),
            finding.way_out.clone(),
        ]);
    }
    print_table(&table)
}
