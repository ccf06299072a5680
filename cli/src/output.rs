//! What commands print: a table for people, JSON and YAML for programs.

use std::io::{self, IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

use clap::ValueEnum;
use serde_json::{Value, json};

use crate::failure::Failure;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

/// Rows under headings.
pub(crate) struct Table {
    headings: Vec<&'static str>,
    rows: Vec<Vec<String>>,
}

impl Table {
    pub(crate) fn new(headings: &[&'static str]) -> Self {
        Table {
            headings: headings.to_vec(),
            rows: Vec::new(),
        }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().collect());
    }

    fn render(&self, bold: bool) -> String {
        let headings: Vec<String> = self.headings.iter().map(|h| (*h).to_owned()).collect();
        let widths: Vec<usize> = (0..headings.len())
            .map(|column| {
                let cells = self
                    .rows
                    .iter()
                    .chain([&headings])
                    .filter_map(|row| row.get(column));
                cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
            })
            .collect();
        let line = |row: &[String]| {
            let cells: Vec<String> = row
                .iter()
                .zip(&widths)
                .map(|(cell, width)| format!("{cell:width$}"))
                .collect();
            cells.join("   ").trim_end().to_owned()
        };
        let heading = line(&headings);
        let mut text = if bold {
            format!("\x1b[1m{heading}\x1b[0m\n")
        } else {
            format!("{heading}\n")
        };
        for row in &self.rows {
            text.push_str(&line(row));
            text.push('\n');
        }
        text
    }
}

/// The last line on the terminal is one that the next thing said replaces.
static PASSING: AtomicBool = AtomicBool::new(false);

/// What takes a passing line away.
fn cleared() -> &'static str {
    if PASSING.swap(false, Ordering::Relaxed) {
        "\r\x1b[K"
    } else {
        ""
    }
}

/// Says what happens. Whoever closed our output has seen enough; the work goes on.
pub(crate) fn say(line: &str) {
    let mut out = io::stdout().lock();
    let _ = writeln!(out, "{}{line}", cleared()).and_then(|()| out.flush());
}

/// Shows on a terminal what is waited for, until something else is said. Elsewhere it is said as a
/// line of its own where it is `new`.
pub(crate) fn show_waiting(start: Instant, line: &str, new: bool) {
    let mut out = io::stdout().lock();
    if !out.is_terminal() {
        drop(out);
        if new {
            say_when(start, &format!("… {line}"));
        }
        return;
    }
    let seconds = start.elapsed().as_secs_f32();
    // Without automatic wrapping the terminal cuts a line that is too long.
    let text = format!("\r\x1b[K\x1b[?7l{seconds:>6.1} s  … {line}\x1b[?7h");
    let _ = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    PASSING.store(true, Ordering::Relaxed);
}

/// Takes away what [`show_waiting`] left.
pub(crate) fn end_waiting() {
    let mut out = io::stdout().lock();
    let _ = out.write_all(cleared().as_bytes()).and_then(|()| out.flush());
}

/// Says what happened, and how long after the start.
pub(crate) fn say_when(start: Instant, line: &str) {
    say(&format!("{:>6.1} s  {line}", start.elapsed().as_secs_f32()));
}

/// The same as [`say`] beside the output proper.
pub(crate) fn say_aside(line: &str) {
    let _ = writeln!(io::stderr(), "{line}");
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = io::stdout().lock();
    let written = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    written.map_err(|error| match error.kind() {
        io::ErrorKind::BrokenPipe => Failure::OutputClosed,
        _ => error.into(),
    })
}

pub(crate) fn print_table(table: &Table) -> Result<(), Failure> {
    let bold = io::stdout().is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty());
    print(&table.render(bold))
}

/// One value, or several: as YAML documents, or as a list that `kubectl apply` takes.
pub(crate) fn print_values(values: &[Value], format: Format) -> Result<(), Failure> {
    print(&render(values, format)?)
}

fn render(values: &[Value], format: Format) -> Result<String, Failure> {
    if format == Format::Yaml {
        let documents: Result<Vec<String>, _> = values.iter().map(serde_saphyr::to_string).collect();
        let documents = documents?;
        let ended = documents
            .iter()
            .map(|document| format!("{}\n", document.trim_end()));
        return Ok(ended.collect::<Vec<_>>().join("---\n"));
    }
    let text = match values {
        [value] => serde_json::to_string_pretty(value)?,
        values => {
            let list = json!({"apiVersion": "v1", "kind": "List", "items": values});
            serde_json::to_string_pretty(&list)?
        }
    };
    Ok(format!("{text}\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(&["KIND", "GROUP"]);
        table.row(["SecretAggregate".to_owned(), "c5c3.io".to_owned()]);
        table.row(["Nova".to_owned(), "nova.openstack.c5c3.io".to_owned()]);
        let text = table.render(false);
        assert_eq!(
            text,
            "KIND              GROUP\nSecretAggregate   c5c3.io\nNova              nova.openstack.c5c3.io\n"
        );
        assert!(table.render(true).starts_with("\x1b[1mKIND"));
    }

    #[test]
    fn several_values_are_documents_or_a_list() {
        let values = [json!({"a": 1}), json!({"b": "x: y"})];
        let yaml = render(&values, Format::Yaml).expect("renders");
        assert_eq!(yaml.matches("---\n").count(), 1);
        let back: Vec<Value> = serde_saphyr::from_multiple(&yaml).expect("parses");
        assert_eq!(back, values);
        let json: Value =
            serde_json::from_str(&render(&values, Format::Json).expect("renders")).expect("parses");
        assert_eq!(json["items"][1]["b"], "x: y");
    }
}
