//! Pure: rows of the database, flows and ovn-controller's word → what is reported about the switch.

use std::collections::{BTreeMap, BTreeSet};

use c5c3_api::ovs::{
    Bond, BridgeStatus, FlowStats, Interfaces, LinkState, OvnControllerStatus, OvsMetrics, OvsNodeStatus,
    PhysicalInterface, Severity, TableFlows,
};
use ovsdb_client::{Row, Tables, elements, pairs, uuid_of};
use serde_json::Value;

use crate::openflow::{Flows, RESERVED};

/// Tables and columns that are followed. Counters are not among them: they change every five seconds.
pub const FOLLOWED: [(&str, &[&str]); 4] = [
    (
        "Open_vSwitch",
        &[
            "ovs_version",
            "db_version",
            "dpdk_initialized",
            "dpdk_version",
            "external_ids",
        ],
    ),
    ("Bridge", &["name", "ports", "datapath_type"]),
    ("Port", &["name", "interfaces", "bond_mode"]),
    (
        "Interface",
        &[
            "name",
            "type",
            "ofport",
            "error",
            "link_state",
            "link_speed",
            "external_ids",
        ],
    ),
];

/// Something that looks wrong. When it began is known to the status before.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Issue {
    pub about: About,
    pub severity: Severity,
    pub message: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum About {
    Bridge,
    Bond,
    OvnController,
}

/// What was seen, of one moment.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    /// Why there is no connection to the database; what was seen before stays.
    pub trouble: Option<String>,
    /// Has the database answered once?
    pub seen: bool,
    pub status: OvsNodeStatus,
    pub issues: Vec<Issue>,
}

/// What ovn-controller said; an error when it cannot be asked.
pub(crate) type Controller = Result<String, String>;

fn text<'a>(row: &'a Row, column: &str) -> &'a str {
    row.get(column).and_then(Value::as_str).unwrap_or_default()
}

fn some(row: &Row, column: &str) -> Option<String> {
    Some(text(row, column))
        .filter(|text| !text.is_empty())
        .map(str::to_owned)
}

fn map(row: &Row, column: &str) -> BTreeMap<String, String> {
    let word = |value: &Value| value.as_str().map(str::to_owned);
    let all = row.get(column).map(pairs).unwrap_or_default();
    all.iter()
        .filter_map(|(key, value)| Some((word(key)?, word(value)?)))
        .collect()
}

fn rows<'a>(tables: &'a Tables, name: &str) -> impl Iterator<Item = &'a Row> {
    tables.get(name).into_iter().flat_map(BTreeMap::values)
}

/// Rows that a column refers to, in the order of their ids.
fn referred<'a>(tables: &'a Tables, table: &str, row: &Row, column: &str) -> Vec<&'a Row> {
    let ids = row.get(column).map(elements).unwrap_or_default();
    let ids: BTreeSet<&str> = ids.iter().filter_map(uuid_of).collect();
    let table = tables.get(table);
    ids.iter()
        .filter_map(|id| table.and_then(|rows| rows.get(*id)))
        .collect()
}

/// Names of the bridges, for who asks them for their flows.
pub(crate) fn bridges(tables: &Tables) -> Vec<String> {
    let mut names: Vec<String> = rows(tables, "Bridge")
        .filter_map(|row| some(row, "name"))
        .collect();
    names.sort();
    names
}

pub(crate) fn see(tables: &Tables, flows: &BTreeMap<String, Flows>, controller: &Controller) -> View {
    let top = rows(tables, "Open_vSwitch").next();
    let mut issues = Vec::new();
    let mut status = OvsNodeStatus {
        ovs_version: top.and_then(|row| some(row, "ovs_version")),
        ovsdb_version: top.and_then(|row| some(row, "db_version")),
        dpdk_enabled: Some(top.is_some_and(|row| row.get("dpdk_initialized") == Some(&Value::Bool(true)))),
        // Without DPDK the switch says so in a word.
        dpdk_version: top
            .and_then(|row| some(row, "dpdk_version"))
            .filter(|word| word != "none"),
        flow_stats: Some(flow_stats(flows)),
        ..OvsNodeStatus::default()
    };
    let mut interfaces = Interfaces::default();
    let mut sorted: Vec<&Row> = rows(tables, "Bridge").collect();
    sorted.sort_by_key(|row| text(row, "name"));
    for row in sorted {
        let bridge = bridge(tables, row, flows, &mut interfaces, &mut issues);
        status.bridges.push(bridge);
    }
    interfaces.physical.sort_by(|a, b| a.name.cmp(&b.name));
    interfaces.bonds.sort_by(|a, b| a.name.cmp(&b.name));
    status.interfaces = Some(interfaces);
    let settings = top.map(|row| map(row, "external_ids")).unwrap_or_default();
    status.ovn_controller = ovn(&settings, controller, &mut issues);
    issues.sort_by(|a: &Issue, b| a.message.cmp(&b.message));
    issues.dedup();
    View {
        trouble: None,
        seen: true,
        status,
        issues,
    }
}

fn flow_stats(flows: &BTreeMap<String, Flows>) -> FlowStats {
    let mut tables: BTreeMap<i32, i64> = BTreeMap::new();
    for (table, count) in flows.values().flat_map(|one| &one.tables) {
        *tables.entry(i32::from(*table)).or_default() += i64::from(*count);
    }
    FlowStats {
        total_flows: tables.values().sum(),
        flows_per_table: tables
            .into_iter()
            .map(|(table, flows)| TableFlows { table, flows })
            .collect(),
    }
}

fn bridge(
    tables: &Tables,
    row: &Row,
    flows: &BTreeMap<String, Flows>,
    interfaces: &mut Interfaces,
    issues: &mut Vec<Issue>,
) -> BridgeStatus {
    let name = text(row, "name").to_owned();
    let ports = referred(tables, "Port", row, "ports");
    let (mut numbers, mut broken, mut gone) = (BTreeSet::new(), 0, false);
    for port in &ports {
        let members = referred(tables, "Interface", port, "interfaces");
        let bond = (members.len() > 1).then(|| text(port, "name").to_owned());
        for member in &members {
            numbers.extend(
                member
                    .get("ofport")
                    .and_then(Value::as_u64)
                    .and_then(|number| u32::try_from(number).ok()),
            );
            let own = text(member, "name") == name;
            if let Some(why) = some(member, "error") {
                gone |= own;
                broken += 1;
                issues.push(Issue {
                    about: About::Bridge,
                    severity: Severity::Warning,
                    message: orphan(member, &name, &why),
                });
            }
            if !own && is_physical(member) {
                interfaces.physical.push(PhysicalInterface {
                    name: text(member, "name").to_owned(),
                    status: link(member),
                    speed: member.get("link_speed").and_then(Value::as_u64).and_then(speed),
                    bond: bond.clone(),
                });
            }
        }
        if let Some(bond) = bond {
            interfaces.bonds.push(bonded(&bond, port, &members, issues));
        }
    }
    let of_bridge = flows.get(&name);
    if let Some(known) = of_bridge {
        let stale = known
            .inputs
            .iter()
            .filter(|port| **port < RESERVED && !numbers.contains(port));
        issues.extend(stale.map(|port| Issue {
            about: About::Bridge,
            severity: Severity::Info,
            message: format!("bridge {name}: flows take packets from port {port}, which is gone"),
        }));
    }
    let count: i64 = of_bridge.map_or(0, |known| known.tables.values().copied().map(i64::from).sum());
    BridgeStatus {
        ports: i32::try_from(ports.len()).unwrap_or(i32::MAX),
        flows: count,
        datapath_type: Some(some(row, "datapath_type").unwrap_or_else(|| "system".to_owned())),
        status: match (gone, broken) {
            (true, _) => LinkState::Down,
            (false, 0) => LinkState::Active,
            _ => LinkState::Degraded,
        },
        name,
    }
}

/// A port of a guest whose tap is gone, or another that cannot be opened.
fn orphan(member: &Row, bridge: &str, why: &str) -> String {
    let name = text(member, "name");
    match map(member, "external_ids").get("iface-id") {
        Some(id) => format!("bridge {bridge}: port {name} of logical port {id} is an orphan: {why}"),
        None => format!("bridge {bridge}: port {name} does not work: {why}"),
    }
}

/// Neither a guest's, nor a tunnel, a patch or the bridge's own.
fn is_physical(member: &Row) -> bool {
    let kinds = ["", "system", "dpdk", "afxdp"];
    kinds.contains(&text(member, "type")) && !map(member, "external_ids").contains_key("iface-id")
}

fn link(member: &Row) -> LinkState {
    match text(member, "link_state") {
        "up" => LinkState::Active,
        "down" => LinkState::Down,
        _ => LinkState::Unknown,
    }
}

fn speed(bits: u64) -> Option<String> {
    match bits / 1_000_000 {
        0 => None,
        megabits if megabits % 1000 == 0 => Some(format!("{}Gbps", megabits / 1000)),
        megabits => Some(format!("{megabits}Mbps")),
    }
}

fn bonded(name: &str, port: &Row, members: &[&Row], issues: &mut Vec<Issue>) -> Bond {
    let up = members.iter().filter(|member| link(member) == LinkState::Active);
    let (active, all) = (up.count(), members.len());
    for member in members.iter().filter(|member| link(member) == LinkState::Down) {
        issues.push(Issue {
            about: About::Bond,
            severity: match active {
                0 => Severity::Critical,
                _ => Severity::Warning,
            },
            message: format!("bond {name}: member {} is down", text(member, "name")),
        });
    }
    let count = |number: usize| i32::try_from(number).unwrap_or(i32::MAX);
    Bond {
        name: name.to_owned(),
        // What Open vSwitch does when nothing is said.
        mode: Some(some(port, "bond_mode").unwrap_or_else(|| "active-backup".to_owned())),
        status: match active {
            0 => LinkState::Down,
            active if active < all => LinkState::Degraded,
            _ => LinkState::Active,
        },
        members: count(all),
        active_members: count(active),
    }
}

/// `None`: this switch is no chassis.
fn ovn(
    settings: &BTreeMap<String, String>,
    controller: &Controller,
    issues: &mut Vec<Issue>,
) -> Option<OvnControllerStatus> {
    let remote = settings.get("ovn-remote")?;
    let connected = matches!(controller.as_deref(), Ok("connected"));
    if !connected {
        let why = match controller {
            Ok(said) => format!("ovn-controller does not reach the southbound database {remote}: {said}"),
            Err(why) => format!("ovn-controller does not answer: {why}"),
        };
        issues.push(Issue {
            about: About::OvnController,
            severity: Severity::Critical,
            message: why,
        });
    }
    Some(OvnControllerStatus {
        connected,
        sb_connection: Some(remote.clone()),
        chassis_id: settings.get("system-id").cloned(),
    })
}

/// Counters of all interfaces together.
pub(crate) fn counters<'a>(interfaces: impl Iterator<Item = &'a Row>) -> OvsMetrics {
    let mut sum = OvsMetrics::default();
    for row in interfaces {
        for (key, value) in row.get("statistics").map(pairs).unwrap_or_default() {
            let field = match key.as_str().unwrap_or_default() {
                "rx_packets" => &mut sum.packets_received,
                "tx_packets" => &mut sum.packets_sent,
                "rx_bytes" => &mut sum.bytes_received,
                "tx_bytes" => &mut sum.bytes_sent,
                "rx_dropped" | "tx_dropped" => &mut sum.drops,
                "rx_errors" | "tx_errors" => &mut sum.errors,
                _ => continue,
            };
            *field = field.saturating_add(value.as_i64().unwrap_or(0));
        }
    }
    sum
}

#[cfg(test)]
#[path = "view_tests.rs"]
mod tests;
