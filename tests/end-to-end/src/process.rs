//! Processes and files of the machine, for tests.

use std::net::TcpListener;
use std::process::{Command, Stdio};

use anyhow::{Context, ensure};

/// A port that was free a moment ago.
pub fn free_port() -> anyhow::Result<u16> {
    Ok(TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}

/// A number by which all of these ports can be moved to free ones.
pub fn free_offset(ports: &[u16]) -> anyhow::Result<u16> {
    for _ in 0..100 {
        let Some(offset) = free_port()?.checked_sub(ports.iter().copied().min().unwrap_or(0)) else {
            continue;
        };
        let free = |port: &u16| {
            port.checked_add(offset)
                .is_some_and(|port| TcpListener::bind(("127.0.0.1", port)).is_ok())
        };
        if offset > 0 && ports.iter().all(free) {
            return Ok(offset);
        }
    }
    anyhow::bail!("no free ports")
}

/// Processes that run this program in a control group whose path contains `group`.
pub fn find_processes(program: &str, group: &str) -> anyhow::Result<Vec<u32>> {
    let all = std::fs::read_dir("/proc")?.flatten();
    let ids = all.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    let runs = |pid: &u32| {
        // One that ends meanwhile is none of them.
        let read = |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
        // The kernel keeps 15 bytes of a name, and some programs give themselves another.
        let named = read("comm").trim_end() == program.get(..15).unwrap_or(program);
        let file = std::fs::read_link(format!("/proc/{pid}/exe")).unwrap_or_default();
        (named || file.ends_with(program)) && read("cgroup").contains(group)
    };
    Ok(ids.filter(runs).collect())
}

/// Ends them at once, as a crash would. The death of one may take others with it.
pub fn kill(processes: &[u32]) -> anyhow::Result<()> {
    signal(processes, "KILL")
}

/// Sends them a signal.
pub fn signal(processes: &[u32], name: &str) -> anyhow::Result<()> {
    let mut hit = 0;
    for id in processes {
        let mut command = Command::new("kill");
        command.args(["-s", name, &id.to_string()]).stderr(Stdio::null());
        hit += usize::from(command.status().context("kill")?.success());
    }
    ensure!(hit > 0, "kill -s {name}: none of {processes:?} is there");
    Ok(())
}
