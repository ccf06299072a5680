//! What a ping from one guest to another says about the path between them.

use std::fs::File;
use std::io::{Read, Seek};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::ensure;
use end_to_end::cloud::Cloud;

/// The time between two of them.
const PACE: Duration = Duration::from_millis(200);

/// A ping that runs in a guest until it is asked what it saw. It writes to a file: a pipe that nobody reads is full
/// after minutes, and would hold it up.
pub(crate) struct Ping {
    child: Child,
    said: File,
}

impl Ping {
    pub(crate) fn start(cloud: &Cloud, from: &str, to: &str) -> anyhow::Result<Self> {
        Self::for_at_most(cloud, from, to, Duration::from_secs(300))
    }

    /// It ends by itself when nobody asks.
    pub(crate) fn for_at_most(cloud: &Cloud, from: &str, to: &str, most: Duration) -> anyhow::Result<Self> {
        let (pace, most) = (PACE.as_secs_f32().to_string(), most.as_secs().to_string());
        let words = [from, "--", "ping", "-i", &pace, "-w", &most, to];
        let mut command = cloud.command("ssh", &words);
        let said = tempfile::tempfile()?;
        let child = command.stdin(Stdio::null()).stdout(said.try_clone()?).spawn()?;
        Ok(Ping { child, said })
    }

    /// Ends it: what was heard. One that ended by itself would say nothing of what came later.
    pub(crate) fn stop(mut self) -> anyhow::Result<Heard> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "the ping ended before it was asked: {ended:?}");
        self.child.kill()?;
        self.child.wait()?;
        let mut said = String::new();
        self.said.rewind()?;
        self.said.read_to_string(&mut said)?;
        Ok(heard(&said))
    }
}

impl Drop for Ping {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What came back of a ping.
#[derive(Debug, PartialEq)]
pub(crate) struct Heard {
    pub answers: usize,
    /// Those between the first answer and the last that got none.
    pub lost: u32,
    /// The longest time for which answers are missing.
    pub gap: Duration,
}

fn heard(said: &str) -> Heard {
    let numbers = said.lines().filter_map(|line| {
        let (_, rest) = line.split_once("seq=")?;
        rest.split(' ').next()?.parse::<u32>().ok()
    });
    let numbers: Vec<u32> = numbers.collect();
    let missing = numbers.windows(2).map(|two| two[1].saturating_sub(two[0] + 1));
    Heard {
        answers: numbers.len(),
        lost: missing.clone().sum(),
        gap: PACE * missing.max().unwrap_or(0),
    }
}

#[test]
fn answers_that_are_missing_are_counted() {
    let line = |seq: u32| format!("64 bytes from 10.0.0.2: seq={seq} ttl=64 time=3.3 ms\n");
    let said: String = [0, 1, 2, 5, 6, 8].map(line).concat();
    let (answers, lost, gap) = (6, 3, PACE * 2);
    assert_eq!(heard(&said), Heard { answers, lost, gap });
    let (answers, lost, gap) = (0, 0, Duration::ZERO);
    let said = "PING 10.0.0.2: 56 data bytes\n";
    assert_eq!(heard(said), Heard { answers, lost, gap });
}
