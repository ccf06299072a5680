use apimachinery::selector::{FieldSelector, LabelSelector, LabelSelectorSpec};
use serde_json::{Value, json};

use super::cases::{run, same};

#[test]
fn selectors() {
    run("selectors.jsonl", |case| match case["kind"].as_str() {
        Some("label") => label(case),
        Some("field") => field(case),
        Some("labelSelector") => label_selector(case),
        other => Err(format!("unknown kind {other:?}")),
    });
}

fn label(case: &Value) -> Result<(), String> {
    let result = LabelSelector::parse(case["in"].as_str().ok_or("no text")?);
    let error = result.as_ref().err().map(ToString::to_string);
    same("error", error.as_deref(), case["error"].as_str())?;
    let Ok(selector) = result else {
        return Ok(());
    };
    let requirements: Vec<_> = selector
        .requirements()
        .unwrap_or_default()
        .iter()
        .map(|r| json!({"key": r.key(), "operator": r.operator().name(), "values": r.values()}))
        .collect();
    same("requirements", &json!(requirements), &case["requirements"])?;
    label_answers(case, &selector)
}

fn label_selector(case: &Value) -> Result<(), String> {
    let input = Some(&case["in"]);
    let result = LabelSelectorSpec::selector_of(input);
    let error = result.as_ref().err().map(ToString::to_string);
    same("error", error.as_deref(), case["error"].as_str())?;
    let Ok(selector) = result else {
        return Ok(());
    };
    let formatted = LabelSelectorSpec::formatted(input);
    same("formatted", json!(formatted), case["formatted"].clone())?;
    let selectable = json!(selector.requirements().is_some());
    same("selectable", selectable, case["selectable"].clone())?;
    label_answers(case, &selector)
}

fn label_answers(case: &Value, selector: &LabelSelector) -> Result<(), String> {
    same("out", json!(selector.to_string()), case["out"].clone())?;
    same("empty", json!(selector.is_empty()), case["empty"].clone())?;
    for sample in case["matches"].as_array().ok_or("no matches")? {
        let object = json!({"metadata": {"labels": sample["labels"]}});
        let matched = json!(selector.matches_object(&object));
        same(&format!("match of {sample}"), &matched, &sample["match"])?;
    }
    Ok(())
}

fn field(case: &Value) -> Result<(), String> {
    let result = FieldSelector::parse(case["in"].as_str().ok_or("no text")?);
    let error = result.as_ref().err().map(ToString::to_string);
    same("error", error.as_deref(), case["error"].as_str())?;
    let Ok(selector) = result else {
        return Ok(());
    };
    same("out", json!(selector.to_string()), case["out"].clone())?;
    same("empty", json!(selector.is_empty()), case["empty"].clone())?;
    let requirements: Vec<_> = selector
        .requirements()
        .iter()
        .map(|r| json!({"field": r.field, "operator": r.operator.name(), "value": r.value}))
        .collect();
    same("requirements", &json!(requirements), &case["requirements"])?;
    for sample in case["matches"].as_array().ok_or("no matches")? {
        let matched = json!(selector.matches(|field| sample["fields"][field].as_str()));
        same(&format!("match of {sample}"), &matched, &sample["match"])?;
    }
    Ok(())
}
