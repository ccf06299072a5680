//! Ceph's daemons are killed one after the other while a guest writes to its volume. What the guest was told to be on
//! the disk is there at the end, for the guest and for whoever reads the volume from outside.

use std::fmt::Write as _;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::ceph_users::{CEPH, STORAGE};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use serde_json::Value;
use tempfile::NamedTempFile;

use crate::volumes::{attach, becomes, gone};
use crate::{NAMESPACE, PATIENCE, inside, openstack};

/// A daemon that is killed again waits longer each time before it is started.
const RECOVERY: Duration = Duration::from_secs(420);
const ROUNDS: usize = 2;
/// Blocks that have to reach the disk after each kill.
const MORE: usize = 20;

/// A block holds its number, again and again, in lines of 16 bytes.
const LINE: usize = 16;
const BLOCK: usize = 4096;
/// The regions are far apart, so that blocks next in time are on different objects. All of their blocks are compared.
const REGIONS: usize = 4;
const SLOTS: usize = 1024;
const REGION: usize = SLOTS * BLOCK;

/// Writes block after block, and says the number of each when it is on the disk, until it is told to stop.
const LOAD: &str = "rm -f /run/stop; n=0; while ! [ -e /run/stop ]; do yes $(printf %015d $n) | head -c 4096 > /run/block; \
     dd if=/run/block of=/dev/vdb bs=4k count=1 seek=$((n % 4 * 65536 + n / 4 % 1024)) conv=notrunc,fsync 2>/dev/null || break; \
     read now rest < /proc/uptime; echo $n $now; n=$((n + 1)); done; [ -e /run/stop ] && echo stopped || echo failed";
/// All regions, from the disk itself.
const READ: &str = "echo 3 > /proc/sys/vm/drop_caches; for r in 0 1 2 3; do \
     dd if=/dev/vdb bs=4M skip=$((r * 64)) count=1 2>/dev/null; done";

/// The same of what an export of the whole volume prints.
fn exported(image: &str) -> String {
    format!(
        "rbd --id cinder --no-progress export {image} - | for r in 0 1 2 3; do \
         dd bs=4M count=1 iflag=fullblock 2>/dev/null; dd bs=4M count=63 iflag=fullblock of=/dev/null 2>/dev/null; done"
    )
}

pub(crate) fn nothing_written_is_lost_whatever_dies(cloud: &Cloud) -> anyhow::Result<()> {
    let made = openstack(cloud, "volume create --size 1 writes")?;
    let id = made["id"].as_str().context("an id")?.to_owned();
    becomes(cloud, "volume", "writes", "available")?;
    attach(cloud, "demo", "writes", "vdb")?;
    healthy(cloud, RECOVERY)?;
    let writer = Writer::start(cloud, LOAD)?;
    let osds = pods(cloud, "app=rook-ceph-osd")?;
    ensure!(osds.len() >= 2, "{osds:?}");
    let mons = pods(cloud, "app=rook-ceph-mon")?;
    let managers = pods(cloud, "app=rook-ceph-mgr")?;
    let mut targets: Vec<(Vec<String>, &str)> = Vec::new();
    targets.extend(mons.into_iter().map(|pod| (vec![pod], "ceph-mon")));
    targets.extend(managers.into_iter().map(|pod| (vec![pod], "ceph-mgr")));
    targets.extend(osds.iter().map(|pod| (vec![pod.clone()], "ceph-osd")));
    targets.push((osds, "ceph-osd"));
    for round in 1..=ROUNDS {
        for (pods, program) in &targets {
            println!("round {round}: {}", killed(cloud, &writer, pods, program)?);
        }
    }
    inside(cloud, "touch /run/stop")?;
    let acknowledged = writer.stopped()?;
    let gap = longest(&acknowledged);
    println!(
        "{} blocks were acknowledged, the longest time between two {gap:.1?}",
        acknowledged.len()
    );

    let read = cloud.c5c3_here("ssh", &["demo", "--", READ])?;
    compared("the guest", &read, &acknowledged)?;
    let image = format!("volumes/volume-{id}");
    let process = [
        "-n",
        NAMESPACE,
        "exec",
        "deployment/cinder-volume-ceph",
        "--",
        "sh",
        "-c",
    ];
    let outside = cloud.kubectl(&[&process[..], &[&exported(&image)]].concat(), "")?;
    compared("outside", &outside, &acknowledged)?;

    cloud.c5c3_here("openstack", &["server", "remove", "volume", "demo", "writes"])?;
    becomes(cloud, "volume", "writes", "available")?;
    cloud.c5c3_here("openstack", &["volume", "delete", "writes"])?;
    gone(cloud, "volume", "writes")
}

/// Kills these, and waits until they run again, Ceph is whole and the guest has written more: what was seen.
fn killed(cloud: &Cloud, writer: &Writer, pods: &[String], program: &str) -> anyhow::Result<String> {
    let restarts = |pod: &String| {
        let path = "jsonpath={.status.containerStatuses[*].restartCount}";
        let said = kubectl(cloud, &["get", "pod", pod, "-o", path])?;
        said.parse::<u32>().with_context(|| format!("{pod}: {said}"))
    };
    let earlier: Vec<u32> = pods.iter().map(restarts).collect::<Result<_, _>>()?;
    let before = writer.written()?.len();
    let start = Instant::now();
    let names: Vec<&str> = pods.iter().map(String::as_str).collect();
    cloud.kill_programs(&[CEPH, &["-n", STORAGE]].concat(), &names, program)?;
    until(
        &format!("{program} of {pods:?} was started again"),
        RECOVERY,
        || {
            let now: Vec<u32> = pods.iter().map(restarts).collect::<Result<_, _>>()?;
            let all = now.iter().zip(&earlier).all(|(now, earlier)| now > earlier);
            Ok(if all {
                Ok(())
            } else {
                Err(format!("{earlier:?}, now {now:?}"))
            })
        },
    )?;
    healthy(cloud, RECOVERY)?;
    let whole = start.elapsed();
    let killed_at = before.saturating_sub(1);
    writer.goes_on(MORE)?;
    let written = writer.written()?;
    Ok(format!(
        "{program} of {}: Ceph is whole after {whole:.1?}, {} blocks since, the longest time between two {:.1?}",
        names.join(" and "),
        written.len() - before,
        longest(&written[killed_at..])
    ))
}

fn kubectl(cloud: &Cloud, words: &[&str]) -> anyhow::Result<String> {
    cloud.kubectl(&[CEPH, &["-n", STORAGE], words].concat(), "")
}

/// Names of pods with a label.
fn pods(cloud: &Cloud, label: &str) -> anyhow::Result<Vec<String>> {
    let names = kubectl(
        cloud,
        &[
            "get",
            "pods",
            "-l",
            label,
            "-o",
            "jsonpath={.items[*].metadata.name}",
        ],
    )?;
    let mut names: Vec<String> = names.split_whitespace().map(str::to_owned).collect();
    ensure!(!names.is_empty(), "no pod has {label}");
    names.sort();
    Ok(names)
}

/// Ceph has all of its OSDs and a manager, and every placement group is active and clean.
fn healthy(cloud: &Cloud, patience: Duration) -> anyhow::Result<()> {
    let script = "ceph --mon-host \"$ROOK_CEPH_MON_HOST\" --keyring /etc/ceph-keyring/keyring --connect-timeout 10 status -f json";
    let first = pods(cloud, "app=rook-ceph-mon")?.remove(0);
    until_ok("Ceph is whole", patience, || {
        let said = kubectl(cloud, &["exec", &first, "--", "sh", "-c", script])?;
        let status: Value = serde_json::from_str(&said)?;
        ensure!(is_whole(&status), "{}", status["pgmap"]);
        Ok(())
    })
}

fn is_whole(status: &Value) -> bool {
    let osds = &status["osdmap"];
    let states = status["pgmap"]["pgs_by_state"].as_array();
    let clean = |state: &Value| {
        let name = state["state_name"].as_str().unwrap_or_default();
        name.starts_with("active+clean")
    };
    osds["num_up_osds"] == osds["num_osds"]
        && status["mgrmap"]["available"] == true
        && states.is_some_and(|states| !states.is_empty() && states.iter().all(clean))
}

/// Fails when a block that was acknowledged last holds anything else.
fn compared(who: &str, disk: &str, acknowledged: &[Acknowledged]) -> anyhow::Result<()> {
    let numbers: Vec<usize> = acknowledged.iter().map(|one| one.number).collect();
    let wrong = differences(disk.as_bytes(), &numbers)?;
    ensure!(wrong.is_empty(), "{who} reads: {}", wrong.join("; "));
    println!("{who} reads every block as it was acknowledged");
    Ok(())
}

/// Where a block is among those of all regions in a row.
fn place(number: usize) -> usize {
    number % REGIONS * SLOTS + number / REGIONS % SLOTS
}

fn content(number: usize) -> Vec<u8> {
    format!("{number:0width$}\n", width = LINE - 1)
        .repeat(BLOCK / LINE)
        .into_bytes()
}

/// Blocks that hold neither what was acknowledged last nor what was being written at the end.
fn differences(disk: &[u8], acknowledged: &[usize]) -> anyhow::Result<Vec<String>> {
    ensure!(disk.len() == REGIONS * REGION, "{} bytes were read", disk.len());
    let skipped = acknowledged
        .iter()
        .enumerate()
        .find(|(index, number)| index != *number);
    ensure!(skipped.is_none(), "not one after the other: {skipped:?}");
    let mut last = vec![None; REGIONS * SLOTS];
    for number in acknowledged {
        last[place(*number)] = Some(*number);
    }
    let under_way = acknowledged.len();
    let mut wrong = Vec::new();
    for (at, (block, last)) in disk.chunks(BLOCK).zip(last).enumerate() {
        let expected = last.map_or_else(|| vec![0; BLOCK], content);
        if block == expected || (at == place(under_way) && block == content(under_way)) {
            continue;
        }
        let mut told = format!("block {at} should hold {last:?} and begins with ");
        write!(told, "{:?}", String::from_utf8_lossy(&block[..2 * LINE]))?;
        wrong.push(told);
    }
    Ok(wrong)
}

/// A block that a guest was told to be on its disk, and when by its own clock.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Acknowledged {
    number: usize,
    at: f32,
}

/// The longest time between two that follow each other.
fn longest(written: &[Acknowledged]) -> Duration {
    let gap = written
        .windows(2)
        .map(|two| two[1].at - two[0].at)
        .fold(0.0, f32::max);
    Duration::from_secs_f32(gap)
}

fn read(line: &str) -> Option<Acknowledged> {
    let (number, at) = line.split_once(' ')?;
    Some(Acknowledged {
        number: number.parse().ok()?,
        at: at.parse().ok()?,
    })
}

/// A program in the guest that writes to its volume and says the number and the time of each block, until it is asked
/// what became of it.
pub(crate) struct Writer {
    child: Child,
    said: NamedTempFile,
}

impl Writer {
    pub(crate) fn start(cloud: &Cloud, script: &str) -> anyhow::Result<Self> {
        let mut command = cloud.command("ssh", &["demo", "--", script]);
        let said = NamedTempFile::new()?;
        let child = command
            .stdin(Stdio::null())
            .stdout(said.reopen()?)
            .stderr(Stdio::null())
            .spawn()?;
        let writer = Writer { child, said };
        writer.goes_on(3)?;
        Ok(writer)
    }

    fn said(&self) -> anyhow::Result<String> {
        let said = std::fs::read_to_string(self.said.path())?;
        ensure!(!said.contains("failed"), "a write failed: {said}");
        Ok(said)
    }

    /// Without a line that is not finished.
    pub(crate) fn written(&self) -> anyhow::Result<Vec<Acknowledged>> {
        let said = self.said()?;
        let whole = said.rfind('\n').map_or("", |end| &said[..end]);
        Ok(whole.lines().filter_map(read).collect())
    }

    /// So many blocks are written that were not there yet.
    pub(crate) fn goes_on(&self, wanted: usize) -> anyhow::Result<()> {
        let before = self.written()?.len();
        until(&format!("{wanted} more blocks are written"), PATIENCE, || {
            let more = self.written()?.len() - before;
            Ok(if more >= wanted {
                Ok(())
            } else {
                Err(format!("{more} so far"))
            })
        })
    }

    /// Ends it: how many blocks were written, and the longest time between two.
    pub(crate) fn stop(mut self) -> anyhow::Result<(usize, Duration)> {
        let ended = self.child.try_wait()?;
        ensure!(ended.is_none(), "it ended before it was asked: {ended:?}");
        let written = self.written()?;
        Ok((written.len(), longest(&written)))
    }

    /// Of a program that was told to stop: all that it wrote.
    fn stopped(mut self) -> anyhow::Result<Vec<Acknowledged>> {
        until("the program in the guest has ended", PATIENCE, || {
            Ok(self.child.try_wait()?.ok_or_else(|| "it runs".to_owned()))
        })?;
        let said = self.said()?;
        ensure!(said.ends_with("stopped\n"), "it ended by itself: {said}");
        self.written()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn a_lost_block_and_a_torn_one_are_seen() -> anyhow::Result<()> {
    let acknowledged: Vec<usize> = (0..2 * REGIONS * SLOTS + 3).collect();
    let mut disk = vec![0; REGIONS * REGION];
    let put = |disk: &mut Vec<u8>, number: usize| {
        let start = place(number) * BLOCK;
        disk[start..start + BLOCK].copy_from_slice(&content(number));
    };
    acknowledged.iter().for_each(|number| put(&mut disk, *number));
    ensure!(differences(&disk, &acknowledged)?.is_empty());
    // What was being written may be there or not.
    put(&mut disk, acknowledged.len());
    ensure!(differences(&disk, &acknowledged)?.is_empty());

    let mut lost = disk.clone();
    put(&mut lost, 5);
    let said = differences(&lost, &acknowledged)?;
    ensure!(said.len() == 1 && said[0].contains("4101"), "{said:?}");
    let mut torn = disk;
    torn[place(9) * BLOCK + BLOCK - 2] = b'x';
    ensure!(differences(&torn, &acknowledged)?.len() == 1);
    ensure!(differences(&torn[1..], &acknowledged).is_err());
    ensure!(differences(&torn, &[0, 2]).is_err());
    Ok(())
}
