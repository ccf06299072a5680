//! What libvirt says of a guest: how much it takes, and from which cells of the host.

use std::collections::BTreeMap;

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
}

/// CPUs, memory and cells, from the XML of a domain.
pub fn demand(text: &str) -> Result<(Demand, BTreeMap<u32, Demand>), BadXml> {
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
    Ok((all, placed(root, all)))
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

    fn of(inner: &str) -> (Demand, BTreeMap<u32, Demand>) {
        demand(&format!(
            "<domain><memory unit='KiB'>8192</memory><vcpu current='4'>8</vcpu>{inner}</domain>"
        ))
        .expect("XML")
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
            let (all, cells) = of(&xml);
            assert_eq!(all, demand(4000, 8192), "{what}");
            assert_eq!(cells.into_iter().collect::<Vec<_>>(), expected, "{what}");
        }
    }
}
