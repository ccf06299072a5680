//! Consoles of a cell's servers: a proxy between browsers and the screens of its guests (noVNC).

use c5c3_api::conditions::service;
use c5c3_api::openstack::{Nova, port};

use super::cells::Cell;
use crate::shape::{Port, Process, Runs, Settings, Variable};

/// Where Debian's package has the page that a browser shows.
const PAGES: &str = "/usr/share/novnc";
const PAGE: &str = "vnc_lite.html";

/// The proxy of a cell; none where its consoles have no address.
pub(super) fn proxy(nova: &Nova, cell: &Cell) -> Option<(Process, Settings)> {
    cell.console_endpoint.as_ref()?;
    let name = name(cell);
    let runs = Runs::Program {
        command: vec!["nova-novncproxy".to_owned()],
        port: Some(Port {
            number: port::NOVA_CONSOLE,
            path: None,
        }),
    };
    let process = Process {
        // A console is a connection that lasts for as long as somebody looks: it is not waited for.
        grace: 10,
        ..Process::new(&name, runs, service::CELLS_READY)
            .with_settings(&name)
            .replicas(nova.spec.conductor.replicas.min(2))
            .after(&[&super::conductor_name(cell)])
    };
    Some((process, settings(cell, name)))
}

pub(super) fn name(cell: &Cell) -> String {
    format!("novncproxy-{}", cell.name)
}

/// Who may look is kept in the cell's database, and where the screen is, its nova-compute confirms. It
/// logs in nowhere.
fn settings(cell: &Cell, name: String) -> Settings {
    let port = port::NOVA_CONSOLE.to_string();
    let settings = super::ground()
        .with(&[
            ("DEFAULT", "web", PAGES),
            // Both families: Linux takes IPv4 on this address, too.
            ("vnc", "novncproxy_host", "::"),
            ("vnc", "novncproxy_port", &port),
            ("upgrade_levels", "compute", "auto"),
        ])
        .database("database", &cell.database_name())
        .bus("DEFAULT", &cell.bus_name());
    Settings { name, ..settings }
}

/// What the hypervisors of the cell are told.
pub(super) fn on_hypervisors(cell: &Cell, settings: &mut Settings) {
    let Some(url) = &cell.console_endpoint else {
        return;
    };
    let page = format!("{}/{PAGE}", url.trim_end_matches('/'));
    settings
        .options
        .set("vnc", "enabled", "true")
        .set("vnc", "novncproxy_base_url", page);
}

/// Guests show their screens on the node's own address, where the proxy finds them.
pub(super) fn addresses(cell: &Cell) -> Vec<(String, Variable)> {
    let variables = ["OS_VNC__SERVER_LISTEN", "OS_VNC__SERVER_PROXYCLIENT_ADDRESS"];
    let shown = cell.console_endpoint.iter().flat_map(|_| variables);
    shown
        .map(|name| (name.to_owned(), Variable::Field("status.hostIP")))
        .collect()
}
