//! A copy of tables, kept by what monitors tell.

use std::collections::BTreeMap;

use serde_json::Value;

use crate::datum::{Row, merged, toggled};
use crate::schema::{Column, Schema};

/// Rows by id.
pub type Table = BTreeMap<String, Row>;
/// Tables by name.
pub type Tables = BTreeMap<String, Table>;

/// How changes are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Telling {
    /// RFC 7047: rows before and after.
    Whole,
    /// `monitor_cond` and later: what kind of change, and the difference.
    Difference,
}

/// Takes changes over. Parts that are not as they should be are passed over.
pub(crate) fn apply(tables: &mut Tables, schema: &Schema, updates: &Value, telling: Telling) {
    for (name, rows) in updates.as_object().into_iter().flatten() {
        let table = tables.entry(name.clone()).or_default();
        for (id, change) in rows.as_object().into_iter().flatten() {
            match telling {
                Telling::Whole => match change.get("new").and_then(Value::as_object) {
                    Some(row) => {
                        table.insert(id.clone(), row.clone());
                    }
                    None => {
                        table.remove(id);
                    }
                },
                Telling::Difference => one(table, schema, name, id, change),
            }
        }
    }
}

fn one(table: &mut Table, schema: &Schema, name: &str, id: &str, change: &Value) {
    let row = |kind: &str| change.get(kind).and_then(Value::as_object);
    if let Some(row) = row("initial").or_else(|| row("insert")) {
        table.insert(id.to_owned(), row.clone());
    } else if let Some(difference) = row("modify") {
        let before = table.entry(id.to_owned()).or_default();
        for (column, value) in difference {
            let was = before.get(column).unwrap_or(&Value::Null);
            let is = match schema.column(name, column) {
                Column::One => value.clone(),
                Column::Set => toggled(was, value),
                Column::Map => merged(was, value),
            };
            before.insert(column.clone(), is);
        }
    } else if change.get("delete").is_some() {
        table.remove(id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn schema() -> Schema {
        Schema::of(&json!({"name": "D", "tables": {"T": {"columns": {
            "name": {"type": "string"}, "one": {"type": {"key": "string", "min": 0, "max": 1}},
            "set": {"type": {"key": "string", "min": 0, "max": "unlimited"}},
            "map": {"type": {"key": "string", "value": "string", "min": 0, "max": "unlimited"}},
        }}}}))
    }

    #[test]
    fn differences_are_taken_over() {
        let mut tables = Tables::new();
        let mut told = |updates: Value| {
            apply(
                &mut tables,
                &schema(),
                &json!({"T": updates}),
                Telling::Difference,
            );
        };
        // Columns with their default are left out of a new row.
        told(
            json!({"a": {"initial": {"name": "n", "one": "x", "set": ["set", ["p", "q"]]}}, "b": {"insert": {}}}),
        );
        told(
            json!({"a": {"modify": {"one": "y", "set": ["set", ["q", "r"]], "map": ["map", [["k", "v"]]]}}, "b": {"delete": null}}),
        );
        told(json!({"c": {"nonsense": 1}, "d": 7}));
        let rows: Vec<_> = tables["T"].iter().collect();
        assert_eq!(rows.len(), 1);
        assert_eq!(
            Value::Object(rows[0].1.clone()),
            json!({"name": "n", "one": "y", "set": ["set", ["p", "r"]], "map": ["map", [["k", "v"]]]})
        );
    }

    #[test]
    fn whole_rows_are_taken_over() {
        let mut tables = Tables::new();
        let mut told = |updates: Value| apply(&mut tables, &schema(), &updates, Telling::Whole);
        told(json!({"T": {"a": {"new": {"name": "n"}}, "b": {"new": {}}}}));
        told(json!({"T": {"a": {"old": {"name": "n"}, "new": {"name": "m"}}, "b": {"old": {}}}}));
        assert_eq!(tables["T"].len(), 1);
        assert_eq!(tables["T"]["a"]["name"], "m");
    }
}
