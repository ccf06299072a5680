//! Reads a corpus and runs every case of it.

use serde_json::Value;

/// Runs all cases of a file; a case fails with the reason. Panics with every failure.
pub(crate) fn run(corpus: &str, check: impl Fn(&Value) -> Result<(), String>) {
    let failures: Vec<_> = lines(corpus)
        .iter()
        .filter_map(|case| {
            let reason = check(case).err()?;
            let id = case["id"].as_str().unwrap_or("?").to_string();
            Some(format!("{id}: {reason}"))
        })
        .collect();
    assert!(
        failures.is_empty(),
        "{} cases of {corpus} fail:\n{}",
        failures.len(),
        failures.join("\n")
    );
}

/// The cases of a file in `tests/data`.
pub(crate) fn lines(corpus: &str) -> Vec<Value> {
    let path = format!("{}/tests/data/{corpus}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    let cases: Vec<_> = text
        .lines()
        .map(|line| serde_json::from_str(line).unwrap_or_else(|e| panic!("{path}: {e}: {line}")))
        .collect();
    assert!(!cases.is_empty(), "{path} has no cases");
    cases
}

/// Compares one aspect of a case.
#[expect(
    clippy::needless_pass_by_value,
    reason = "callers hand over what they made to compare"
)]
pub(crate) fn same<T: PartialEq + std::fmt::Debug>(what: &str, got: T, want: T) -> Result<(), String> {
    if got == want {
        Ok(())
    } else {
        Err(format!("{what}: got {got:?}, want {want:?}"))
    }
}

/// A JSON document in `tests/data`.
pub(crate) fn document(name: &str) -> Value {
    let path = format!("{}/tests/data/{name}", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).unwrap_or_else(|e| panic!("{path}: {e}"));
    serde_json::from_str(&text).unwrap_or_else(|e| panic!("{path}: {e}"))
}

/// Compares JSON values; names every place that differs.
pub(crate) fn diff(what: &str, got: &Value, want: &Value) -> Result<(), String> {
    let mut lines = Vec::new();
    differences(what, Some(got), Some(want), &mut lines);
    if lines.is_empty() {
        Ok(())
    } else {
        Err(format!("\n    {}", lines.join("\n    ")))
    }
}

fn differences(path: &str, got: Option<&Value>, want: Option<&Value>, lines: &mut Vec<String>) {
    match (got, want) {
        (Some(Value::Object(got)), Some(Value::Object(want))) => {
            let keys: std::collections::BTreeSet<_> = got.keys().chain(want.keys()).collect();
            for key in keys {
                differences(&format!("{path}.{key}"), got.get(key), want.get(key), lines);
            }
        }
        (Some(Value::Array(got)), Some(Value::Array(want))) => {
            for i in 0..got.len().max(want.len()) {
                differences(&format!("{path}[{i}]"), got.get(i), want.get(i), lines);
            }
        }
        (got, want) if got == want => {}
        (got, want) => {
            let text = |value: Option<&Value>| value.map_or("nothing".to_owned(), Value::to_string);
            lines.push(format!("{path}: got {}, want {}", text(got), text(want)));
        }
    }
}
