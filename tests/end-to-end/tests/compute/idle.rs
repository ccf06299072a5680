//! A cloud with guests that nobody asks anything: our controllers write nothing but what is named here, and in
//! `docs/components/heartbeats.md`.

use std::collections::BTreeMap;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::ensure;
use end_to_end::patience::until_ok;

use crate::world::World;

/// When a chassis was heard of last, and the counters of a switch: there are two of each.
const HEARTBEATS: [&str; 2] = ["resource=\"ovnchassis\"", "resource=\"ovsnodes\""];
const HEARTS: u64 = 2;
/// As often as each of them beats.
const BEAT: Duration = Duration::from_secs(300);

/// Cinder's capacity is asked for by a schedule, at seven past every hour: until then, and until that is done.
const SCHEDULED: u64 = 7 * 60;
const DONE: u64 = 4 * 60;
const HOUR: u64 = 3600;

/// The time to wait at this second of an hour, so that a stretch has nothing of the schedule in it.
fn pause(second: u64, stretch: u64) -> u64 {
    let until = (SCHEDULED + HOUR - second) % HOUR;
    let since = (HOUR - until) % HOUR;
    match (until < stretch, since < DONE) {
        (_, true) => DONE - since,
        (true, _) => until + DONE,
        (false, false) => 0,
    }
}

/// Longer than every poll of ours. `make soak` makes it ten minutes.
fn stretch() -> Duration {
    let given = std::env::var("C5C3_IDLE").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(given.unwrap_or(60))
}

/// Writes so far in all clusters, which have one API server: number by line of its metrics.
type Writes = BTreeMap<String, u64>;

fn writes(world: &World<'_>) -> anyhow::Result<Writes> {
    let lines = world.cloud.writes(&[])?;
    let read = |line: &String| {
        let (what, number) = line.rsplit_once(' ')?;
        Some((what.to_owned(), number.parse().ok()?))
    };
    let all: Writes = lines.iter().filter_map(read).collect();
    ensure!(all.len() == lines.len(), "not all are numbers: {lines:?}");
    for cluster in ["control-plane", "hypervisor", "storage"] {
        let label = format!("cluster=\"{cluster}\"");
        ensure!(
            all.keys().any(|what| what.contains(&label)),
            "nothing is counted in {cluster}"
        );
    }
    Ok(all)
}

/// What was written in between and should not have been.
fn too_much(before: &Writes, after: &Writes, stretch: Duration) -> Vec<String> {
    let beats = HEARTS * (stretch.as_secs() / BEAT.as_secs() + 1);
    let mut found = Vec::new();
    for (what, number) in after {
        let more = number - before.get(what).unwrap_or(&0).min(number);
        let allowed = if HEARTBEATS.iter().any(|beat| what.contains(beat)) {
            beats
        } else {
            0
        };
        if more > allowed {
            found.push(format!("{more} times {what}"));
        }
    }
    found
}

fn silent(world: &World<'_>, stretch: Duration) -> anyhow::Result<()> {
    let before = writes(world)?;
    std::thread::sleep(stretch);
    let found = too_much(&before, &writes(world)?, stretch);
    ensure!(
        found.is_empty(),
        "written while nothing was asked for: {found:#?}"
    );
    Ok(())
}

pub(crate) fn nothing_is_written_while_nothing_is_asked_for(world: &World<'_>) -> anyhow::Result<()> {
    // What was done before settles first.
    until_ok("writing ends", Duration::from_secs(300), || {
        silent(world, Duration::from_secs(20))
    })?;
    let now = SystemTime::now().duration_since(UNIX_EPOCH)?.as_secs();
    std::thread::sleep(Duration::from_secs(pause(now % HOUR, stretch().as_secs())));
    silent(world, stretch())
}

#[test]
fn a_stretch_is_clear_of_the_schedule() {
    for (second, stretch, expected) in [
        (0, 60, 0),
        (0, 600, 420 + 240),
        (420, 60, 240),
        (540, 600, 120),
        (660, 600, 0),
        (3599, 600, 421 + 240),
        (3000, 600, 0),
    ] {
        assert_eq!(pause(second, stretch), expected, "{second} {stretch}");
    }
}

#[test]
fn heartbeats_are_counted_too() {
    let writes = |beats, others| {
        let name = |resource: &str| format!("apiserver_request_total{{resource=\"{resource}\"}}");
        Writes::from([(name("ovnchassis"), beats), (name("pods"), others)])
    };
    let minutes = |minutes: u64| Duration::from_secs(60 * minutes);
    let before = writes(10, 7);
    assert_eq!(
        too_much(&before, &writes(16, 7), minutes(10)),
        Vec::<String>::new()
    );
    assert_eq!(too_much(&before, &writes(17, 8), minutes(10)).len(), 2);
    assert_eq!(too_much(&Writes::new(), &writes(0, 1), minutes(1)).len(), 1);
}
