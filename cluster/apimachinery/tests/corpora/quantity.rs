use apimachinery::field::text::float;
use apimachinery::quantity::{Quantity, QuantityError};
use serde_json::{Value, json};

use super::cases::{run, same};

#[test]
fn quantity() {
    run("quantity.jsonl", |case| match case["kind"].as_str() {
        Some("parse") => outcome(case, Quantity::parse(text(&case["in"]))),
        Some("json") => outcome(case, Quantity::from_json_text(text(&case["json"]))),
        Some("arithmetic") => arithmetic(case),
        other => Err(format!("unknown kind {other:?}")),
    });
}

fn text(value: &Value) -> &str {
    value.as_str().expect("the case has the text")
}

fn outcome(case: &Value, result: Result<Quantity, QuantityError>) -> Result<(), String> {
    let error = result.as_ref().err().map(ToString::to_string);
    same("error", error.as_deref(), case["error"].as_str())?;
    let Ok(quantity) = result else {
        return Ok(());
    };
    let mut out = json!({
        "canonical": quantity.canonical(),
        "float": float(quantity.as_f64()),
        "format": quantity.format().name(),
        "isZero": quantity.is_zero(),
        "milliValue": quantity.milli_value(),
        "sign": quantity.sign(),
        "string": quantity.to_string(),
        "value": quantity.value(),
    });
    if let Some(exact) = quantity.as_i64() {
        out["int64"] = json!(exact);
    }
    same("out", &out, &case["out"])
}

fn arithmetic(case: &Value) -> Result<(), String> {
    let read = |field: &str| Quantity::parse(text(&case[field])).map_err(|e| e.to_string());
    let (a, b) = (read("a")?, read("b")?);
    same("cmp", json!(a.cmp(&b) as i32), case["cmp"].clone())?;
    same("equal", json!(a == b), case["equal"].clone())?;
    same("sum", json!(a.plus(&b).to_string()), case["sum"].clone())?;
    let difference = json!(a.minus(&b).to_string());
    same("difference", difference, case["difference"].clone())
}
