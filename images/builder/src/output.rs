//! Tables for people, JSON and YAML for programs.

use clap::ValueEnum;
use serde::Serialize;

use crate::error::{Error, Result};

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    Json,
    Yaml,
}

/// Something that can be shown.
pub(crate) trait Show: Serialize {
    fn table(&self) -> String;
}

pub(crate) fn render(value: &impl Show, format: Format) -> Result<String> {
    let text = match format {
        Format::Table => value.table(),
        Format::Json => {
            serde_json::to_string_pretty(value).map_err(|error| Error::Damaged(error.to_string()))?
        }
        Format::Yaml => serde_saphyr::to_string(value).map_err(|error| Error::Damaged(error.to_string()))?,
    };
    Ok(format!("{}\n", text.trim_end()))
}

/// Columns as wide as their widest cell; the last one is not padded.
pub(crate) fn columns(rows: &[Vec<String>]) -> String {
    let count = rows.iter().map(Vec::len).max().unwrap_or(0);
    let width = |column: usize| {
        rows.iter()
            .filter_map(|row| row.get(column))
            .map(|cell| cell.chars().count())
            .max()
            .unwrap_or(0)
    };
    let widths: Vec<usize> = (0..count).map(width).collect();
    let mut text = String::new();
    for row in rows {
        let cells: Vec<String> = row
            .iter()
            .zip(&widths)
            .map(|(cell, width)| format!("{cell:<width$}"))
            .collect();
        text.push_str(cells.join("  ").trim_end());
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let rows = [["A", "LONG", "C"], ["x→y", "1", "2"]].map(|row| row.map(str::to_owned).to_vec());
        assert_eq!(columns(&rows), "A    LONG  C\nx→y  1     2\n");
    }
}
