//! What a transaction is made of.

use serde_json::{Map, Value, json};

use crate::datum::{Row, uuid, uuid_of};

/// How a column is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Function {
    Less,
    LessOrEqual,
    Equal,
    NotEqual,
    GreaterOrEqual,
    Greater,
    Includes,
    Excludes,
}

impl Function {
    fn text(self) -> &'static str {
        match self {
            Function::Less => "<",
            Function::LessOrEqual => "<=",
            Function::Equal => "==",
            Function::NotEqual => "!=",
            Function::GreaterOrEqual => ">=",
            Function::Greater => ">",
            Function::Includes => "includes",
            Function::Excludes => "excludes",
        }
    }
}

/// What a row must fulfil.
#[derive(Clone, Debug, PartialEq)]
pub struct Condition(Value);

impl Condition {
    pub fn new(column: &str, function: Function, value: impl Into<Value>) -> Self {
        Condition(json!([column, function.text(), value.into()]))
    }

    pub fn equal(column: &str, value: impl Into<Value>) -> Self {
        Self::new(column, Function::Equal, value)
    }

    pub fn uuid(id: &str) -> Self {
        Self::equal("_uuid", uuid(id))
    }
}

/// How a column is changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutator {
    Add,
    Subtract,
    Multiply,
    Divide,
    Modulo,
    Insert,
    Delete,
}

impl Mutator {
    fn text(self) -> &'static str {
        match self {
            Mutator::Add => "+=",
            Mutator::Subtract => "-=",
            Mutator::Multiply => "*=",
            Mutator::Divide => "/=",
            Mutator::Modulo => "%=",
            Mutator::Insert => "insert",
            Mutator::Delete => "delete",
        }
    }
}

/// One operation. Fields that its kind does not have are not sent.
#[derive(Clone, Debug, PartialEq)]
pub struct Operation(Map<String, Value>);

impl Operation {
    fn new(kind: &str, table: &str) -> Self {
        Operation(
            [("op", kind), ("table", table)]
                .map(|(key, value)| (key.to_owned(), value.into()))
                .into_iter()
                .collect(),
        )
    }

    fn with(mut self, key: &str, value: impl Into<Value>) -> Self {
        self.0.insert(key.to_owned(), value.into());
        self
    }

    fn pushed(mut self, key: &str, value: Value) -> Self {
        if let Value::Array(all) = self.0.entry(key).or_insert_with(|| json!([])) {
            all.push(value);
        }
        self
    }

    fn set_in_row(mut self, column: &str, value: Value) -> Self {
        if let Value::Object(row) = self.0.entry("row").or_insert_with(|| json!({})) {
            row.insert(column.to_owned(), value);
        }
        self
    }

    /// Every row, unless [`Self::only`] says which.
    pub fn select(table: &str) -> Self {
        Self::new("select", table).with("where", json!([]))
    }

    pub fn insert(table: &str) -> Self {
        Self::new("insert", table).with("row", json!({}))
    }

    pub fn update(table: &str) -> Self {
        Self::new("update", table)
            .with("where", json!([]))
            .with("row", json!({}))
    }

    pub fn mutate(table: &str) -> Self {
        Self::new("mutate", table)
            .with("where", json!([]))
            .with("mutations", json!([]))
    }

    pub fn delete(table: &str) -> Self {
        Self::new("delete", table).with("where", json!([]))
    }

    /// The transaction goes on only when exactly these rows fulfil the conditions; it does not wait.
    pub fn wait(table: &str, columns: &[&str], rows: Vec<Row>) -> Self {
        Self::new("wait", table)
            .with("where", json!([]))
            .with("columns", json!(columns))
            .with("until", "==")
            .with("rows", json!(rows))
            .with("timeout", 0)
    }

    /// Told to whoever reads the server's log.
    pub fn comment(text: &str) -> Self {
        Operation(
            [
                ("op".to_owned(), "comment".into()),
                ("comment".to_owned(), text.into()),
            ]
            .into_iter()
            .collect(),
        )
    }

    /// One more condition.
    pub fn only(self, condition: Condition) -> Self {
        self.pushed("where", condition.0)
    }

    pub fn columns(self, names: &[&str]) -> Self {
        self.with("columns", json!(names))
    }

    /// A column of the row that is inserted or updated.
    pub fn set(self, column: &str, value: impl Into<Value>) -> Self {
        self.set_in_row(column, value.into())
    }

    /// A name for the inserted row, for references in the same transaction.
    pub fn named(self, name: &str) -> Self {
        self.with("uuid-name", name)
    }

    pub fn change(self, column: &str, mutator: Mutator, value: impl Into<Value>) -> Self {
        self.pushed("mutations", json!([column, mutator.text(), value.into()]))
    }

    pub fn to_value(&self) -> Value {
        Value::Object(self.0.clone())
    }
}

/// What came of one operation.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Outcome(pub(crate) Value);

impl Outcome {
    /// Of a select.
    pub fn rows(&self) -> Vec<&Row> {
        let rows = self.0.get("rows").and_then(Value::as_array);
        rows.into_iter().flatten().filter_map(Value::as_object).collect()
    }

    /// Of an insert: the new row.
    pub fn uuid(&self) -> Option<&str> {
        uuid_of(self.0.get("uuid")?)
    }

    /// Of an update, mutation or deletion: how many rows.
    pub fn count(&self) -> u64 {
        self.0.get("count").and_then(Value::as_u64).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_read_as_the_protocol_has_them() {
        let table = [
            (
                Operation::select("Chassis")
                    .columns(&["name"])
                    .only(Condition::equal("name", "a")),
                json!({"op": "select", "table": "Chassis", "where": [["name", "==", "a"]], "columns": ["name"]}),
            ),
            (
                Operation::insert("Logical_Switch").set("name", "s").named("new"),
                json!({"op": "insert", "table": "Logical_Switch", "row": {"name": "s"}, "uuid-name": "new"}),
            ),
            (
                Operation::update("NB_Global").set("nb_cfg", 3),
                json!({"op": "update", "table": "NB_Global", "where": [], "row": {"nb_cfg": 3}}),
            ),
            (
                Operation::mutate("NB_Global").change("nb_cfg", Mutator::Add, 1),
                json!({"op": "mutate", "table": "NB_Global", "where": [], "mutations": [["nb_cfg", "+=", 1]]}),
            ),
            (
                Operation::delete("Chassis").only(Condition::uuid("u")),
                json!({"op": "delete", "table": "Chassis", "where": [["_uuid", "==", ["uuid", "u"]]]}),
            ),
            (
                Operation::wait("T", &["a"], vec![]).only(Condition::new("a", Function::Includes, "x")),
                json!({"op": "wait", "table": "T", "where": [["a", "includes", "x"]], "columns": ["a"],
                    "until": "==", "rows": [], "timeout": 0}),
            ),
        ];
        for (operation, wire) in table {
            assert_eq!(operation.to_value(), wire);
        }
    }
}
