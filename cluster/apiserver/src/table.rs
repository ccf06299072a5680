//! Tables for people: a pure function of a kind and its objects.

use apimachinery::table::{self, TableView};
use jiff::Timestamp;
use serde_json::Value;

use crate::registry::{Column, Kind};

pub use apimachinery::table::IncludeObject as Include;

/// A `meta.k8s.io/v1` Table without list metadata. Watches ask for the columns only once.
pub fn render(kind: &Kind, objects: &[Value], include: Include, columns: bool) -> Value {
    view(kind).table(objects, include, columns, Timestamp::now())
}

fn view(kind: &Kind) -> TableView {
    if !kind.is_custom() {
        return TableView::built_in(&kind.kind, kind.columns.iter().map(column).collect());
    }
    let columns = kind.columns.iter().map(|c| (column(c), c.json_path.as_str()));
    // Paths are checked when the CRD is written; one that is not valid all the same prints plainly.
    TableView::custom(columns).unwrap_or_else(|_| TableView::plain())
}

fn column(column: &Column) -> table::Column {
    table::Column {
        name: column.name.clone(),
        kind: column.type_.clone(),
        format: column.format.clone(),
        description: column.description.clone(),
        priority: column.priority,
    }
}
