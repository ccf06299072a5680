//! Hypervisors and servers of a cloud, counted. Pure.

use std::collections::BTreeMap;

use openstack_client::{Hypervisor, PlacedServer};
use serde::Serialize;

#[derive(Debug, Default, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Tally {
    pub hypervisors: Vec<Host>,
    /// Number of servers by status.
    pub servers: BTreeMap<String, usize>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
pub(crate) struct Host {
    pub name: String,
    /// `up` or `down`, as Nova sees it.
    pub state: String,
    /// `enabled`, or `disabled` for new servers.
    pub status: String,
    pub servers: usize,
}

pub(crate) fn tally(hypervisors: &[Hypervisor], servers: &[PlacedServer]) -> Tally {
    let on = |name: &str| {
        let host = servers
            .iter()
            .filter(|server| server.host.as_deref() == Some(name));
        host.count()
    };
    let mut hosts: Vec<Host> = hypervisors
        .iter()
        .map(|hypervisor| Host {
            name: hypervisor.name.clone(),
            state: hypervisor.state.clone(),
            status: hypervisor.status.clone(),
            servers: on(&hypervisor.name),
        })
        .collect();
    hosts.sort_by(|a, b| a.name.cmp(&b.name));
    let mut by_status = BTreeMap::new();
    for server in servers {
        *by_status.entry(server.server.status.clone()).or_default() += 1;
    }
    Tally {
        hypervisors: hosts,
        servers: by_status,
    }
}

/// One line for the hypervisors, one for the servers.
pub(crate) fn lines(tally: &Tally) -> Vec<String> {
    let host = |host: &Host| {
        let disabled = if host.status == "disabled" {
            ", disabled"
        } else {
            ""
        };
        let servers = count(host.servers, "server");
        format!("{} {}{disabled} ({servers})", host.name, host.state)
    };
    let hosts: Vec<String> = tally.hypervisors.iter().map(host).collect();
    let states = tally.servers.iter();
    let states: Vec<String> = states
        .map(|(status, number)| format!("{number} {status}"))
        .collect();
    let or_none = |list: Vec<String>| {
        if list.is_empty() {
            "none".to_owned()
        } else {
            list.join(", ")
        }
    };
    vec![
        format!("Hypervisors: {}", or_none(hosts)),
        format!("Servers: {}", or_none(states)),
    ]
}

fn count(number: usize, noun: &str) -> String {
    let plural = if number == 1 { "" } else { "s" };
    format!("{number} {noun}{plural}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn server(status: &str, host: Option<&str>) -> PlacedServer {
        let server = json!({"id": "x", "name": "x", "status": status, "OS-EXT-SRV-ATTR:host": host});
        serde_json::from_value(server).expect("a server")
    }

    fn hypervisor(name: &str, state: &str, status: &str) -> Hypervisor {
        Hypervisor {
            name: name.into(),
            state: state.into(),
            status: status.into(),
        }
    }

    #[test]
    fn servers_are_counted_by_status_and_by_host() {
        let hosts = [
            hypervisor("node-3", "down", "disabled"),
            hypervisor("node-2", "up", "enabled"),
        ];
        let servers = [
            server("ACTIVE", Some("node-2")),
            server("ACTIVE", Some("node-2")),
            server("SHUTOFF", Some("node-3")),
            server("ERROR", None),
        ];
        let seen = tally(&hosts, &servers);
        assert_eq!(
            lines(&seen),
            [
                "Hypervisors: node-2 up (2 servers), node-3 down, disabled (1 server)",
                "Servers: 2 ACTIVE, 1 ERROR, 1 SHUTOFF",
            ]
        );
        assert_eq!(lines(&Tally::default()), ["Hypervisors: none", "Servers: none"]);
    }
}
