//! Runs `smartctl` and `nvme`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use clap::Args;
use serde::de::DeserializeOwned;
use tokio::process::Command;

use super::disk::Disk;
use super::osds::{Osds, of_device};
use super::smart::{Controller, ErrorLog, Report, Scan};
use crate::error::Error;

/// A disk that is dying answers late, or never.
const DEADLINE: Duration = Duration::from_secs(60);
/// smartctl's exit status: these say that nothing was read, the others what was.
const UNREAD: i32 = 0b111;

/// The programs and where they look.
#[derive(Clone, Debug, Args)]
pub(crate) struct Tools {
    /// Disks to check, by device, or * for all that smartctl finds
    #[arg(long, value_delimiter = ',', default_value = "*", env = "DISKS")]
    disks: Vec<String>,
    /// Program of smartmontools
    #[arg(long, default_value = "smartctl")]
    smartctl: PathBuf,
    /// Program of nvme-cli; optional, its additional metrics are left out without it
    #[arg(long, default_value = "nvme")]
    nvme: PathBuf,
    /// Where Rook keeps its OSDs, for the label osd_id
    #[arg(long, default_value = "/var/lib/rook/rook-ceph", env = "CEPH_OSD_BASE_PATH")]
    ceph_osd_base_path: PathBuf,
}

/// What a look brings: disks, and why others are missing.
#[derive(Debug, Default)]
pub(crate) struct Asked {
    pub disks: Vec<Disk>,
    pub failed: Vec<String>,
}

impl Tools {
    /// Looks at each disk, one after the other: they share their bus.
    pub(crate) async fn look(&self) -> Result<Asked, Error> {
        let osds = Osds {
            base: self.ceph_osd_base_path.clone(),
            sys: "/sys".into(),
        };
        let osds = osds.read();
        let mut asked = Asked::default();
        for device in self.devices().await? {
            match self.one(&device, &osds).await {
                Ok(disk) => asked.disks.push(disk),
                Err(error) => asked.failed.push(format!("{device}: {error}")),
            }
        }
        Ok(asked)
    }

    async fn devices(&self) -> Result<Vec<String>, Error> {
        if self.disks.iter().any(|disk| disk != "*") {
            return Ok(self.disks.iter().filter(|disk| *disk != "*").cloned().collect());
        }
        let scan: Scan = self.smartctl(&["--scan", "--json"]).await?;
        Ok(scan.devices.into_iter().map(|device| device.name).collect())
    }

    async fn one(
        &self,
        device: &str,
        osds: &std::collections::HashMap<String, String>,
    ) -> Result<Disk, Error> {
        let report: Report = self
            .smartctl(&[
                "--json",
                "--info",
                "--health",
                "--attributes",
                "--tolerance=verypermissive",
                "--nocheck=standby",
                "--log=error",
                "--",
                device,
            ])
            .await?;
        if report.smartctl.exit_status & UNREAD != 0 && report.device.protocol.is_empty() {
            let said: Vec<&str> = report
                .smartctl
                .messages
                .iter()
                .map(|message| message.string.as_str())
                .collect();
            return Err(Error::Tool {
                program: self.smartctl.display().to_string(),
                why: said.join("; "),
            });
        }
        let mut disk = Disk::read(&report, of_device(osds, device));
        if disk.device.is_empty() {
            disk.device = device.to_owned();
        }
        if report.device.protocol == "NVMe" {
            let controller: Option<Controller> = self.nvme("id-ctrl", device).await;
            let log: Option<ErrorLog> = self.nvme("error-log", device).await;
            disk.add(controller.as_ref(), log.as_ref());
        }
        Ok(disk)
    }

    async fn smartctl<T: DeserializeOwned>(&self, words: &[&str]) -> Result<T, Error> {
        let program = self.smartctl.display().to_string();
        let failed = |why: String| Error::Tool {
            program: program.clone(),
            why,
        };
        let said = run(Command::new(&self.smartctl).args(words))
            .await
            .map_err(failed)?;
        serde_json::from_slice(&said).map_err(|error| failed(format!("its answer cannot be read: {error}")))
    }

    /// What nvme-cli adds is good to have; without it the disk is told by smartctl alone.
    async fn nvme<T: DeserializeOwned>(&self, what: &str, device: &str) -> Option<T> {
        let said = run(Command::new(&self.nvme).args([what, "-o", "json", device]))
            .await
            .inspect_err(|why| tracing::debug!("nvme {what} {device}: {why}"))
            .ok()?;
        serde_json::from_slice(&said).ok()
    }
}

async fn run(command: &mut Command) -> Result<Vec<u8>, String> {
    let child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .kill_on_drop(true)
        .spawn();
    let child =
        child.map_err(|error| format!("it cannot be started: {error}; install it, or set its path"))?;
    match tokio::time::timeout(DEADLINE, child.wait_with_output()).await {
        Ok(Ok(output)) => Ok(output.stdout),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("no answer within {} s", DEADLINE.as_secs())),
    }
}
