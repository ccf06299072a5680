//! What a database holds: as much of its schema as reading changes needs.

use std::collections::BTreeMap;

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Column {
    /// At most one value: a change brings the new one.
    One,
    /// A set of several: a change brings the difference.
    Set,
    /// A map: the same.
    Map,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub struct Schema {
    pub name: String,
    pub version: String,
    tables: BTreeMap<String, BTreeMap<String, Column>>,
}

impl Schema {
    /// As `get_schema` gives it; unknown parts are left out.
    pub fn of(value: &Value) -> Self {
        let text = |key: &str| {
            value
                .get(key)
                .and_then(Value::as_str)
                .unwrap_or_default()
                .to_owned()
        };
        let tables = value
            .get("tables")
            .and_then(Value::as_object)
            .into_iter()
            .flatten();
        let columns = |table: &Value| {
            let all = table
                .get("columns")
                .and_then(Value::as_object)
                .into_iter()
                .flatten();
            all.map(|(name, column)| (name.clone(), kind(column.get("type"))))
                .collect()
        };
        Schema {
            name: text("name"),
            version: text("version"),
            tables: tables
                .map(|(name, table)| (name.clone(), columns(table)))
                .collect(),
        }
    }

    pub fn has(&self, table: &str) -> bool {
        self.tables.contains_key(table)
    }

    pub fn columns(&self, table: &str) -> impl Iterator<Item = &str> {
        self.tables
            .get(table)
            .into_iter()
            .flat_map(|all| all.keys().map(String::as_str))
    }

    pub fn column(&self, table: &str, column: &str) -> Column {
        let found = self.tables.get(table).and_then(|all| all.get(column));
        found.copied().unwrap_or(Column::One)
    }
}

fn kind(column: Option<&Value>) -> Column {
    let Some(column) = column.filter(|column| column.is_object()) else {
        return Column::One;
    };
    if column.get("value").is_some() {
        return Column::Map;
    }
    match column.get("max") {
        Some(Value::String(_)) => Column::Set,
        Some(Value::Number(most)) if most.as_u64().is_some_and(|most| most > 1) => Column::Set,
        _ => Column::One,
    }
}
