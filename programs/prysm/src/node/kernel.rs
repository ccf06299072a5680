//! Context switches, entropy and connections.

use super::Proc;
use crate::error::Error;
use crate::exposition::{Page, Type};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Kernel {
    pub context_switches: u64,
    pub entropy_bits: u64,
    /// Established TCP connections.
    pub connections: u64,
}

impl Kernel {
    pub(crate) fn read(proc: &Proc) -> Result<Self, Error> {
        let tables = ["net/tcp", "net/tcp6"].map(|file| established(&proc.read_if_there(file)));
        Ok(Kernel {
            context_switches: context_switches(&proc.read("stat")?),
            entropy_bits: proc
                .read_if_there("sys/kernel/random/entropy_avail")
                .trim()
                .parse()
                .unwrap_or_default(),
            connections: tables.iter().sum(),
        })
    }

    pub(crate) fn render(&self, node: &str, instance: &str) -> String {
        let mut page = Page::default();
        let labels = [("node", node), ("instance", instance)];
        for (name, kind, help, value) in [
            (
                "node_context_switches_total",
                Type::Counter,
                "Context switches since the node started.",
                self.context_switches,
            ),
            (
                "node_entropy_available_bits",
                Type::Gauge,
                "Bits of entropy available to the kernel.",
                self.entropy_bits,
            ),
            (
                "node_network_connections_total",
                Type::Gauge,
                "Established TCP connections.",
                self.connections,
            ),
        ] {
            page.family(name, kind, help);
            page.sample(name, labels, value);
        }
        page.text()
    }
}

fn context_switches(stat: &str) -> u64 {
    let line = stat.lines().find_map(|line| line.strip_prefix("ctxt "));
    line.and_then(|value| value.trim().parse().ok())
        .unwrap_or_default()
}

/// Lines of `/proc/net/tcp` whose fourth word is state 1.
fn established(table: &str) -> u64 {
    let states = table
        .lines()
        .skip(1)
        .filter_map(|line| line.split_whitespace().nth(3));
    states.filter(|state| *state == "01").count() as u64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_come_from_the_right_lines() {
        let stat = "cpu  1 2 3\nbtime 1700000000\nctxt 987654\nprocesses 3\n";
        assert_eq!(context_switches(stat), 987_654, "not the time of boot");
        assert_eq!(context_switches("nothing"), 0);
        let table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 0\n   \
                     1: 0100007F:1F90 0100007F:9C40 01 0\n broken\n";
        assert_eq!(established(table), 1);
        assert_eq!(established(""), 0);
    }

    #[test]
    fn this_machine_can_be_read() {
        let kernel = Kernel::read(&Proc("/proc".into())).expect("a /proc");
        assert!(kernel.context_switches > 0);
        let page = kernel.render("n1", "i1");
        assert!(
            page.contains("node_entropy_available_bits{node=\"n1\",instance=\"i1\"}"),
            "{page}"
        );
    }
}
