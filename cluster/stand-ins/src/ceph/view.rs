//! The answers of the monitors: the few fields that decisions need.

use serde::Deserialize;
use std::collections::{BTreeMap, BTreeSet};

use super::commands::{Answer, Command};
use crate::error::Error;

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Status {
    pub fsid: String,
    pub health: Health,
    #[serde(default)]
    pub quorum_names: Vec<String>,
    #[serde(default)]
    pub pgmap: PgMap,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Health {
    pub status: String,
    #[serde(default)]
    pub checks: BTreeMap<String, Check>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Check {
    pub severity: String,
    pub summary: Summary,
    #[serde(default)]
    pub muted: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Summary {
    pub message: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct PgMap {
    #[serde(default)]
    pub bytes_total: u64,
    #[serde(default)]
    pub bytes_used: u64,
    #[serde(default)]
    pub bytes_avail: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct MonMap {
    #[serde(default)]
    pub mons: Vec<Mon>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Mon {
    pub name: String,
    pub public_addrs: Addresses,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Addresses {
    #[serde(default)]
    pub addrvec: Vec<Address>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Address {
    #[serde(rename = "type")]
    pub kind: String,
    pub addr: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct MgrMap {
    #[serde(default)]
    pub available: bool,
    /// Modules that are switched on.
    #[serde(default)]
    pub modules: BTreeSet<String>,
    #[serde(default)]
    pub always_on_modules: BTreeMap<String, BTreeSet<String>>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct OsdMap {
    #[serde(default)]
    pub osds: Vec<Osd>,
    #[serde(default)]
    pub pools: Vec<Pool>,
    #[serde(default)]
    pub stretch_mode: StretchMode,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
pub(crate) struct StretchMode {
    #[serde(default)]
    pub stretch_mode_enabled: bool,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Osd {
    pub osd: u32,
    pub uuid: String,
    #[serde(default)]
    pub up: u8,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Pool {
    pub pool_name: String,
    pub size: i64,
    #[serde(default)]
    pub application_metadata: BTreeMap<String, serde_json::Value>,
    #[serde(default)]
    pub quota_max_bytes: u64,
    #[serde(default)]
    pub quota_max_objects: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Setting {
    pub section: String,
    pub name: String,
    pub value: String,
}

/// `auth get`.
#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Account {
    pub key: String,
    #[serde(default)]
    pub caps: BTreeMap<String, String>,
}

#[derive(Clone, Debug, Default, Deserialize)]
pub(crate) struct Versions {
    #[serde(default)]
    pub mon: BTreeMap<String, i64>,
    #[serde(default)]
    pub mgr: BTreeMap<String, i64>,
    #[serde(default)]
    pub osd: BTreeMap<String, i64>,
    #[serde(default)]
    pub rgw: BTreeMap<String, i64>,
    #[serde(default)]
    pub overall: BTreeMap<String, i64>,
}

/// All that the controller of clusters asks for.
#[derive(Clone, Debug, Default)]
pub(crate) struct View {
    pub status: Status,
    pub mons: MonMap,
    pub mgrs: MgrMap,
    pub osds: OsdMap,
    pub settings: Vec<Setting>,
    pub versions: Versions,
    /// By name: `mgr.a`.
    pub accounts: BTreeMap<String, Account>,
}

impl View {
    /// The questions, and those for accounts with these names at the end.
    pub(crate) fn questions(accounts: &[String]) -> Vec<Command> {
        let general = [
            "status",
            "mon dump",
            "mgr dump",
            "osd dump",
            "config dump",
            "versions",
        ];
        let account = |name: &String| {
            Command::ask("auth get")
                .with("entity", name.as_str())
                .or_nothing()
        };
        general
            .iter()
            .map(|prefix| Command::ask(prefix))
            .chain(accounts.iter().map(account))
            .collect()
    }

    pub(crate) fn read(accounts: &[String], answers: &[Answer]) -> Result<Self, Error> {
        let [status, mons, mgrs, osds, settings, versions, rest @ ..] = answers else {
            return Err(Error::Ceph("answers are missing".to_owned()));
        };
        let mut view = Self {
            status: status.read()?.unwrap_or_default(),
            mons: mons.read()?.unwrap_or_default(),
            mgrs: mgrs.read()?.unwrap_or_default(),
            osds: osds.read()?.unwrap_or_default(),
            settings: settings.read()?.unwrap_or_default(),
            versions: versions.read()?.unwrap_or_default(),
            accounts: BTreeMap::new(),
        };
        for (name, answer) in accounts.iter().zip(rest) {
            let found: Option<Vec<Account>> = answer.read()?;
            let found = found.and_then(|all| all.into_iter().next());
            view.accounts.extend(found.map(|account| (name.clone(), account)));
        }
        Ok(view)
    }

    pub(crate) fn osd(&self, uuid: &str) -> Option<&Osd> {
        self.osds.osds.iter().find(|osd| osd.uuid == uuid)
    }

    pub(crate) fn has_module(&self, name: &str) -> bool {
        let always = self.mgrs.always_on_modules.values().any(|all| all.contains(name));
        always || self.mgrs.modules.contains(name)
    }

    pub(crate) fn setting(&self, section: &str, name: &str) -> Option<&str> {
        let found = self
            .settings
            .iter()
            .find(|s| s.section == section && s.name == name);
        found.map(|setting| setting.value.as_str())
    }
}
