//! A cloud with guests that nobody asks anything: our controllers write nothing but what is named here.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::ensure;
use end_to_end::patience::until_ok;

use crate::world::World;

/// Every logical cluster has an API server.
const CONTEXTS: [&str; 3] = ["control-plane", "hypervisor", "storage"];

/// When a chassis was heard of last: every five minutes at most.
const HEARTBEATS: [&str; 1] = ["resource=\"ovnchassis\""];

/// Longer than every poll of ours. `make soak` makes it ten minutes.
fn stretch() -> Duration {
    let given = std::env::var("C5C3_IDLE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(60))
}

/// Counts of writes so far, by cluster.
fn writes(world: &World<'_>) -> anyhow::Result<BTreeMap<&'static str, Vec<String>>> {
    let mut all = BTreeMap::new();
    for context in CONTEXTS {
        let mut lines = world.cloud.writes_in(context)?;
        lines.retain(|line| !HEARTBEATS.iter().any(|beat| line.contains(beat)));
        all.insert(context, lines);
    }
    Ok(all)
}

fn silent(world: &World<'_>, stretch: Duration) -> anyhow::Result<()> {
    let before = writes(world)?;
    std::thread::sleep(stretch);
    let after = writes(world)?;
    for (context, lines) in &after {
        let known = &before[context];
        let more: Vec<&String> = lines.iter().filter(|line| !known.contains(line)).collect();
        ensure!(
            more.is_empty(),
            "written in {context} while nothing was asked for: {more:#?}"
        );
    }
    Ok(())
}

pub fn nothing_is_written_while_nothing_is_asked_for(world: &World<'_>) -> anyhow::Result<()> {
    // What was done before settles first.
    until_ok("writing ends", Duration::from_secs(300), || {
        silent(world, Duration::from_secs(20))
    })?;
    silent(world, stretch())
}
