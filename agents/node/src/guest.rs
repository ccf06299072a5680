//! What libvirt says of a guest: how much it takes, and from which cells of the host.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::hypervisor::Trouble;
use jiff::Timestamp;
use libvirt_client::state;
use roxmltree::Node;

use crate::xml::{self, BadXml};

/// CPUs in thousandths and memory in KiB.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Demand {
    pub cpus: u64,
    pub memory: u64,
}

impl Demand {
    pub fn add(&mut self, other: Demand) {
        self.cpus = self.cpus.saturating_add(other.cpus);
        self.memory = self.memory.saturating_add(other.memory);
    }
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Guest {
    pub name: String,
    pub active: bool,
    pub all: Demand,
    /// By cell of the *host*; a guest that is bound to none is in none.
    pub cells: BTreeMap<u32, Demand>,
    /// Users of Ceph with whose keys its disks are opened.
    pub ceph_users: BTreeSet<String>,
    /// What befell it, and when that was seen.
    pub trouble: Option<(Trouble, Timestamp)>,
}

/// What a state of libvirt says of a guest that its owner did not bring about. A guest that shut itself down or
/// was stopped is in no trouble, nor is one that resets itself: those run again, or are seen as crashed.
pub fn trouble(state: i32, reason: i32) -> Option<Trouble> {
    match (state, reason) {
        (state::CRASHED, _) | (state::PAUSED, state::PAUSED_CRASHED) => Some(Trouble::Crashed),
        (state::SHUTOFF, state::SHUTOFF_CRASHED | state::SHUTOFF_FAILED | state::SHUTOFF_DAEMON) => {
            Some(Trouble::Crashed)
        }
        (state::PAUSED, state::PAUSED_WATCHDOG) => Some(Trouble::Watchdog),
        (state::PAUSED, state::PAUSED_IO_ERROR) => Some(Trouble::IoError),
        _ => None,
    }
}

impl Guest {
    /// What was read off its XML.
    pub fn described(&self) -> Described {
        Described {
            all: self.all,
            cells: self.cells.clone(),
            ceph_users: self.ceph_users.clone(),
        }
    }
}

/// What is read off the XML of a domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Described {
    pub all: Demand,
    pub cells: BTreeMap<u32, Demand>,
    pub ceph_users: BTreeSet<String>,
}

/// CPUs, memory and cells, from the XML of a domain.
pub fn describe(text: &str) -> Result<Described, BadXml> {
    let document = xml::parse("domain", text)?;
    let root = document.root_element();
    let vcpu = xml::at(root, &["vcpu"]);
    // Some may be unplugged: `current` are those that it has.
    let current = vcpu.and_then(|node| node.attribute("current").or_else(|| node.text()));
    let all = Demand {
        cpus: current
            .and_then(|text| text.trim().parse::<u64>().ok())
            .unwrap_or(0)
            .saturating_mul(1000),
        memory: xml::at(root, &["memory"]).and_then(xml::kibibytes).unwrap_or(0),
    };
    Ok(Described {
        all,
        cells: placed(root, all),
        ceph_users: ceph_users(root),
    })
}

/// A disk that is mirrored or has a backing chain names a user in each of its sources.
fn ceph_users(root: Node<'_, '_>) -> BTreeSet<String> {
    let disks = xml::at(root, &["devices"]).into_iter();
    let disks = disks.flat_map(|devices| xml::each(devices, "disk"));
    let logins = disks.flat_map(|disk| disk.descendants().filter(|node| node.has_tag_name("auth")));
    let of_ceph = logins.filter(|login| {
        let mut secrets = xml::each(*login, "secret");
        secrets.any(|secret| secret.attribute("type") == Some("ceph"))
    });
    let names = of_ceph.filter_map(|login| login.attribute("username"));
    names.map(str::to_owned).collect()
}

/// The guest's own cells have numbers of their own: only `nodeset` names cells of the host.
fn placed(root: Node<'_, '_>, all: Demand) -> BTreeMap<u32, Demand> {
    let mut found = BTreeMap::new();
    let Some(tune) = xml::at(root, &["numatune"]) else {
        return found;
    };
    let nodeset = |node: Node<'_, '_>| node.attribute("nodeset").map(xml::numbers).unwrap_or_default();
    let whole = xml::at(tune, &["memory"]).map(nodeset).unwrap_or_default();
    let own: Vec<(u32, Demand)> = xml::at(root, &["cpu", "numa"])
        .map(|numa| {
            xml::each(numa, "cell")
                .enumerate()
                .map(|(position, cell)| own_cell(position, cell))
                .collect()
        })
        .unwrap_or_default();
    if own.is_empty() {
        spread(&mut found, &whole, all);
        return found;
    }
    for (number, demand) in own {
        let bound = xml::each(tune, "memnode")
            .find(|node| node.attribute("cellid").and_then(|id| id.parse().ok()) == Some(number));
        let cells = bound.map_or_else(|| whole.clone(), nodeset);
        spread(&mut found, &cells, demand);
    }
    found
}

fn own_cell(position: usize, cell: Node<'_, '_>) -> (u32, Demand) {
    let number = cell.attribute("id").and_then(|id| id.parse().ok());
    let number = number.unwrap_or_else(|| u32::try_from(position).unwrap_or(u32::MAX));
    let cpus = cell
        .attribute("cpus")
        .map_or(0, |cpus| xml::numbers(cpus).len() as u64);
    let memory = cell
        .attribute("memory")
        .and_then(|text| xml::in_kibibytes(text, cell.attribute("unit")));
    let demand = Demand {
        cpus: cpus.saturating_mul(1000),
        memory: memory.unwrap_or(0),
    };
    (number, demand)
}

/// In equal parts: libvirt does not tell which cell gave how much.
fn spread(found: &mut BTreeMap<u32, Demand>, cells: &[u32], demand: Demand) {
    let count = cells.len() as u64;
    for cell in cells {
        found.entry(*cell).or_default().add(Demand {
            cpus: demand.cpus / count,
            memory: demand.memory / count,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(inner: &str) -> Described {
        describe(&format!(
            "<domain><memory unit='KiB'>8192</memory><vcpu current='4'>8</vcpu>{inner}</domain>"
        ))
        .expect("XML")
    }

    #[test]
    fn only_what_nobody_asked_for_is_trouble() {
        for (state, reason, expected) in [
            (state::RUNNING, 1, None),
            // Paused by a user, for a migration.
            (state::PAUSED, 1, None),
            (state::PAUSED, 2, None),
            (state::PAUSED, state::PAUSED_IO_ERROR, Some(Trouble::IoError)),
            (state::PAUSED, state::PAUSED_WATCHDOG, Some(Trouble::Watchdog)),
            (state::PAUSED, state::PAUSED_CRASHED, Some(Trouble::Crashed)),
            // Unknown after a start of the host, shut down from within, destroyed, migrated, saved.
            (state::SHUTOFF, 0, None),
            (state::SHUTOFF, 1, None),
            (state::SHUTOFF, 2, None),
            (state::SHUTOFF, 4, None),
            (state::SHUTOFF, 5, None),
            (state::SHUTOFF, state::SHUTOFF_CRASHED, Some(Trouble::Crashed)),
            (state::SHUTOFF, state::SHUTOFF_FAILED, Some(Trouble::Crashed)),
            (state::SHUTOFF, state::SHUTOFF_DAEMON, Some(Trouble::Crashed)),
            (state::CRASHED, 1, Some(Trouble::Crashed)),
            (99, 99, None),
        ] {
            assert_eq!(trouble(state, reason), expected, "{state} {reason}");
        }
    }

    #[test]
    fn users_of_ceph_are_those_of_its_disks() {
        let disk = |inner: &str| format!("<disk type='network'>{inner}</disk>");
        let login = |user: &str, kind: &str| {
            format!("<auth username='{user}'><secret type='{kind}' uuid='u'/></auth>")
        };
        let ceph = |user: &str| login(user, "ceph");
        for (what, inner, expected) in [
            (
                "a file",
                "<disk type='file'><source file='/a'/></disk>".to_owned(),
                vec![],
            ),
            ("its own", disk(&ceph("cinder-1")), vec!["cinder-1"]),
            (
                "two disks",
                disk(&ceph("nova")) + &disk(&ceph("cinder-2")),
                vec!["cinder-2", "nova"],
            ),
            (
                "in the source",
                disk(&format!("<source>{}</source>", ceph("nova"))),
                vec!["nova"],
            ),
            (
                "what it is a copy of",
                disk(&format!(
                    "<backingStore><source>{}</source></backingStore>",
                    ceph("a")
                )),
                vec!["a"],
            ),
            ("another kind of key", disk(&login("chap", "iscsi")), vec![]),
            (
                "without a name",
                disk("<auth><secret type='ceph'/></auth>"),
                vec![],
            ),
        ] {
            let found = of(&format!("<devices>{inner}</devices>")).ceph_users;
            assert_eq!(found.into_iter().collect::<Vec<_>>(), expected, "{what}");
        }
    }

    /// Flaw: guest cells were booked as cells of the host, and one guest without any stopped all reporting.
    #[test]
    fn guests_take_from_cells_of_the_host() {
        let numa = "<cpu><numa><cell id='0' cpus='0-2' memory='6' unit='MiB'/><cell id='1' cpus='3' memory='2048'/></numa></cpu>";
        let demand = |cpus, memory| Demand { cpus, memory };
        for (what, xml, expected) in [
            ("bound to nothing", String::new(), vec![]),
            ("own cells, bound to nothing", numa.to_owned(), vec![]),
            (
                "bound as a whole",
                "<numatune><memory nodeset='1'/></numatune>".to_owned(),
                vec![(1, demand(4000, 8192))],
            ),
            (
                "spread",
                "<numatune><memory nodeset='0,2'/></numatune>".to_owned(),
                vec![(0, demand(2000, 4096)), (2, demand(2000, 4096))],
            ),
            (
                "each own cell to another of the host",
                format!(
                    "{numa}<numatune><memnode cellid='0' nodeset='3'/><memnode cellid='1' nodeset='2'/></numatune>"
                ),
                vec![(2, demand(1000, 2048)), (3, demand(3000, 6144))],
            ),
            (
                "the rest as a whole",
                format!("{numa}<numatune><memory nodeset='0'/><memnode cellid='1' nodeset='1'/></numatune>"),
                vec![(0, demand(3000, 6144)), (1, demand(1000, 2048))],
            ),
            (
                "an empty set",
                "<numatune><memory nodeset=''/></numatune>".to_owned(),
                vec![],
            ),
        ] {
            let Described { all, cells, .. } = of(&xml);
            assert_eq!(all, demand(4000, 8192), "{what}");
            assert_eq!(cells.into_iter().collect::<Vec<_>>(), expected, "{what}");
        }
    }
}
