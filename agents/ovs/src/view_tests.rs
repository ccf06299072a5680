use super::*;
use serde_json::json;

/// A switch with a bridge for guests and one for the network, whose cards are a bond.
fn switch() -> Tables {
    let id = |name: &str| json!(["uuid", name]);
    let ids = |names: &[&str]| json!(["set", names.iter().map(|name| id(name)).collect::<Vec<_>>()]);
    let table = |rows: Value| -> ovsdb_client::Table { serde_json::from_value(rows).expect("rows") };
    Tables::from([
        (
            "Open_vSwitch".to_owned(),
            table(
                json!({"o": {"ovs_version": "3.5.0", "db_version": "8.8.0", "dpdk_initialized": false,
                "dpdk_version": "none",
                "external_ids": ["map", [["ovn-remote", "tcp:10.0.0.1:6642"], ["system-id", "node-1"]]]}}),
            ),
        ),
        (
            "Bridge".to_owned(),
            table(json!({
                "b2": {"name": "br-phy", "ports": id("bond"), "datapath_type": "netdev"},
                "b1": {"name": "br-int", "ports": ids(&["own", "tap"]), "datapath_type": ""}})),
        ),
        (
            "Port".to_owned(),
            table(json!({
                "own": {"name": "br-int", "interfaces": id("i-own")},
                "tap": {"name": "tap1", "interfaces": id("i-tap")},
                "bond": {"name": "bond0", "interfaces": ids(&["i-a", "i-b"]), "bond_mode": "balance-tcp"}})),
        ),
        (
            "Interface".to_owned(),
            table(json!({
                "i-own": {"name": "br-int", "type": "internal", "ofport": 65534, "error": ["set", []]},
                "i-tap": {"name": "tap1", "type": "", "ofport": 3, "error": ["set", []], "link_state": "up",
                    "external_ids": ["map", [["iface-id", "port-1"]]]},
                "i-a": {"name": "eth0", "type": "", "ofport": 1, "link_state": "up", "link_speed": 25_000_000_000u64},
                "i-b": {"name": "eth1", "type": "dpdk", "ofport": 2, "link_state": "up"}})),
        ),
    ])
}

fn change(tables: &mut Tables, interface: &str, column: &str, value: Value) {
    let row = tables
        .get_mut("Interface")
        .and_then(|rows| rows.get_mut(interface));
    row.expect("an interface").insert(column.to_owned(), value);
}

fn flows(inputs: &[u32]) -> BTreeMap<String, Flows> {
    let one = Flows {
        tables: BTreeMap::from([(0, 4), (8, 6)]),
        inputs: inputs.to_vec(),
    };
    BTreeMap::from([("br-int".to_owned(), one)])
}

fn connected() -> Controller {
    Ok("connected".to_owned())
}

#[test]
fn a_switch_that_is_well_has_no_issues() {
    let view = see(&switch(), &flows(&[3, 0xffff_fffe]), &connected());
    assert_eq!(view.issues, []);
    let status = view.status;
    let bridges: Vec<(&str, i32, i64, LinkState)> = status
        .bridges
        .iter()
        .map(|one| (one.name.as_str(), one.ports, one.flows, one.status))
        .collect();
    let active = LinkState::Active;
    assert_eq!(bridges, [("br-int", 2, 10, active), ("br-phy", 1, 0, active)]);
    assert_eq!(status.bridges[0].datapath_type.as_deref(), Some("system"));
    let interfaces = status.interfaces.expect("told");
    let cards: Vec<(&str, Option<&str>)> = interfaces
        .physical
        .iter()
        .map(|one| (one.name.as_str(), one.speed.as_deref()))
        .collect();
    assert_eq!(cards, [("eth0", Some("25Gbps")), ("eth1", None)]);
    assert_eq!(interfaces.bonds[0].active_members, 2);
    assert_eq!(interfaces.bonds[0].mode.as_deref(), Some("balance-tcp"));
    assert!(status.ovn_controller.is_some_and(|ovn| ovn.connected));
    let flows = status.flow_stats.expect("told");
    assert_eq!((flows.total_flows, flows.flows_per_table.len()), (10, 2));
    assert_eq!((status.dpdk_enabled, status.dpdk_version), (Some(false), None));
}

#[test]
fn what_looks_wrong_is_named() {
    type Row<'a> = (&'a dyn Fn(&mut Tables), &'a [u32], Controller, Severity, &'a str);
    let table: [Row<'_>; 6] = [
        (
            &|tables| {
                change(
                    tables,
                    "i-tap",
                    "error",
                    json!("could not open network device tap1"),
                );
            },
            &[],
            connected(),
            Severity::Warning,
            "bridge br-int: port tap1 of logical port port-1 is an orphan: could not open network device tap1",
        ),
        (
            &|tables| change(tables, "i-b", "link_state", json!("down")),
            &[],
            connected(),
            Severity::Warning,
            "bond bond0: member eth1 is down",
        ),
        (
            &|_| {},
            &[9],
            connected(),
            Severity::Info,
            "bridge br-int: flows take packets from port 9, which is gone",
        ),
        (
            &|_| {},
            &[],
            Ok("not connected".to_owned()),
            Severity::Critical,
            "ovn-controller does not reach the southbound database tcp:10.0.0.1:6642: not connected",
        ),
        (
            &|_| {},
            &[],
            Err("no such file".to_owned()),
            Severity::Critical,
            "ovn-controller does not answer: no such file",
        ),
        (
            &|tables| change(tables, "i-a", "error", json!("gone")),
            &[],
            connected(),
            Severity::Warning,
            "bridge br-phy: port eth0 does not work: gone",
        ),
    ];
    for (fault, inputs, controller, severity, said) in table {
        let mut tables = switch();
        fault(&mut tables);
        let view = see(&tables, &flows(inputs), &controller);
        let issues: Vec<_> = view
            .issues
            .iter()
            .map(|one| (one.severity, one.message.as_str()))
            .collect();
        assert_eq!(issues, [(severity, said)]);
    }
}

#[test]
fn a_bond_without_members_that_are_up_is_down() {
    let mut tables = switch();
    for member in ["i-a", "i-b"] {
        change(&mut tables, member, "link_state", json!("down"));
    }
    let view = see(&tables, &flows(&[]), &connected());
    let bonds = view.status.interfaces.expect("told").bonds;
    assert_eq!((bonds[0].status, bonds[0].active_members), (LinkState::Down, 0));
    assert!(
        view.issues
            .iter()
            .all(|issue| (issue.about, issue.severity) == (About::Bond, Severity::Critical))
    );
}

#[test]
fn a_bridge_whose_own_port_fails_is_down_and_one_without_ovn_tells_nothing_of_it() {
    let mut tables = switch();
    change(&mut tables, "i-own", "error", json!("no"));
    tables.remove("Open_vSwitch");
    let view = see(&tables, &BTreeMap::new(), &Err(String::new()));
    assert_eq!(view.status.bridges[0].status, LinkState::Down);
    assert_eq!(view.status.ovn_controller, None);
}

#[test]
fn counters_are_added_up() {
    let row = |packets: i64, drops: i64| -> Row {
        let statistics =
            json!({"statistics": ["map", [["rx_packets", packets], ["tx_dropped", drops], ["x", 1]]]});
        serde_json::from_value(statistics).expect("a row")
    };
    let (first, second) = (row(3, 1), row(i64::MAX, 2));
    let sum = counters([&first, &second].into_iter());
    assert_eq!((sum.packets_received, sum.drops), (i64::MAX, 3));
}
