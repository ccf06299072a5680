//! Cells of a Nova, with what they have of their own and what they share.

use c5c3_api::common::{Database, Messaging};
use c5c3_api::openstack::{Nova, NovaCell};

use crate::shape::NamedBus;

/// The cell that a Nova without a list of cells has.
const FIRST: &str = "cell1";

#[derive(Debug, Clone)]
pub(super) struct Cell {
    pub name: String,
    pub database: Database,
    /// The other cluster that its hypervisors are in.
    pub cluster: Option<String>,
    /// None: it shares the one of the API.
    bus: Option<Messaging>,
    /// Where people find its consoles; none: it has none.
    pub console_endpoint: Option<String>,
}

impl Cell {
    pub(super) fn all(nova: &Nova) -> Vec<Self> {
        let first = NovaCell {
            name: FIRST.to_owned(),
            ..NovaCell::default()
        };
        let cells = &nova.spec.cells;
        let cells = if cells.is_empty() {
            std::slice::from_ref(&first)
        } else {
            cells
        };
        cells.iter().map(|cell| Cell::of(nova, cell)).collect()
    }

    fn of(nova: &Nova, cell: &NovaCell) -> Self {
        let server = &nova.spec.database.server;
        // By its name, not by its place in the list: the data must be found again.
        let named = || Database {
            database: match cell.name.as_str() {
                FIRST => server.database.clone(),
                other => format!("{}_{}", server.database, other.replace('-', "_")),
            },
            ..server.clone()
        };
        Cell {
            name: cell.name.clone(),
            database: cell.database.clone().unwrap_or_else(named),
            cluster: cell.compute_ref.as_ref().map(|cluster| cluster.name.clone()),
            bus: cell.messaging.clone(),
            console_endpoint: cell.console_endpoint.clone(),
        }
    }

    /// The name by which settings refer to its database, which is a group of options too.
    pub(super) fn database_name(&self) -> String {
        format!("{}_database", self.bus_group())
    }

    /// The group of options that tells the steps of its bus.
    pub(super) fn bus_group(&self) -> String {
        format!("{}_cell", self.name.replace('-', "_"))
    }

    /// The bus that it uses.
    pub(super) fn bus<'a>(&'a self, nova: &'a Nova) -> &'a Messaging {
        self.bus.as_ref().unwrap_or(&nova.spec.messaging)
    }

    pub(super) fn bus_name(&self) -> String {
        self.bus.as_ref().map(|_| self.name.clone()).unwrap_or_default()
    }

    pub(super) fn own_bus(&self) -> Option<NamedBus> {
        let bus = self.bus.as_ref()?;
        Some(super::super::bus(&self.name, bus))
    }
}
