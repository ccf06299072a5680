//! Conditions over whole objects, as admission uses them: there is no schema to go by.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde_json::Value as Json;

use super::program::{CompileError, Program};
use super::types::Type;
use super::value::{Fault, Key, Value};

/// An expression that answers yes or no.
#[derive(Debug)]
pub struct Condition {
    program: Program,
}

impl Condition {
    /// `variables` are the names that it may use.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Self, String> {
        let program = compile(source, variables, &Type::Bool)?;
        Ok(Self { program })
    }

    /// Whether it holds for these values; the error says why it has no answer.
    pub fn holds(&self, variables: &[(&str, &Json)]) -> Result<bool, String> {
        let variables = variables.iter().map(|(name, json)| (*name, Ok(open(json))));
        match self.program.run_open(variables.collect()) {
            Ok(Value::Bool(answer)) => Ok(answer),
            Ok(other) => Err(format!("the answer is {}, not a bool", other.type_name())),
            Err(fault) => Err(said(fault)),
        }
    }
}

/// An expression that makes a message.
#[derive(Debug)]
pub struct Message {
    program: Program,
}

impl Message {
    /// `variables` are the names that it may use.
    pub fn compile(source: &str, variables: &[&str]) -> Result<Self, String> {
        let program = compile(source, variables, &Type::String)?;
        Ok(Self { program })
    }

    /// The message for these values; the error says why there is none.
    pub fn text(&self, variables: &[(&str, &Json)]) -> Result<String, String> {
        let variables = variables.iter().map(|(name, json)| (*name, Ok(open(json))));
        match self.program.run_open(variables.collect()) {
            Ok(Value::String(text)) => Ok(text.to_string()),
            Ok(other) => Err(format!("the answer is {}, not a string", other.type_name())),
            Err(fault) => Err(said(fault)),
        }
    }
}

fn compile(source: &str, variables: &[&str], result: &Type) -> Result<Program, String> {
    Program::compile_open(source, variables, result).map_err(|error| match error {
        CompileError::Invalid(text) | CompileError::Unusable(text) => text,
        CompileError::WrongResult => format!("must evaluate to {result}"),
    })
}

fn said(fault: Fault) -> String {
    match fault {
        Fault::Error(text) => text,
        _ => "operation cancelled: actual cost limit exceeded".to_owned(),
    }
}

/// Data as it is.
fn open<'a>(json: &Json) -> Value<'a> {
    match json {
        Json::Null => Value::Null,
        Json::Bool(b) => Value::Bool(*b),
        Json::Number(n) => match (n.as_i64(), n.as_u64()) {
            (Some(i), _) => Value::Int(i),
            (None, Some(u)) => Value::Uint(u),
            _ => Value::Double(n.as_f64().unwrap_or_default()),
        },
        Json::String(s) => Value::string(s.as_str()),
        Json::Array(items) => Value::list(items.iter().map(open).collect()),
        Json::Object(map) => {
            let entries = map
                .iter()
                .map(|(key, value)| (Key::String(key.as_str().into()), open(value)));
            Value::Map(Rc::new(entries.collect::<BTreeMap<_, _>>()))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn answer(source: &str) -> Result<bool, String> {
        let object =
            json!({"metadata": {"name": "a", "labels": {"app": "web", "x/y": "z"}}, "spec": {"replicas": 3}});
        let condition = Condition::compile(source, &["object", "oldObject"])?;
        condition.holds(&[("object", &object), ("oldObject", &Json::Null)])
    }

    #[test]
    fn fields_of_objects() {
        for source in [
            "object.metadata.name == 'a'",
            "object.metadata.labels['x/y'] == 'z'",
            "has(object.metadata.labels) && !has(object.metadata.annotations)",
            "object.spec.replicas > 2 && oldObject == null",
            "object.metadata.labels.exists(key, key.startsWith('app'))",
            "!('other' in object.metadata.labels)",
        ] {
            assert_eq!(answer(source), Ok(true), "{source}");
        }
        assert_eq!(answer("object.spec.replicas == 4"), Ok(false));
    }

    #[test]
    fn a_message_is_made_of_fields() {
        let object = json!({"metadata": {"name": "a"}});
        let message = Message::compile("'object ' + object.metadata.name", &["object"]).expect("compiles");
        assert_eq!(message.text(&[("object", &object)]), Ok("object a".to_owned()));
        assert!(message.text(&[("object", &json!({}))]).is_err());
        assert_eq!(
            Message::compile("1 == 1", &[]).expect_err("a bool"),
            "must evaluate to string"
        );
    }

    #[test]
    fn what_cannot_be_answered_is_said() {
        let missing = answer("object.spec.missing == 1").expect_err("no such field");
        assert!(missing.contains("no such key"), "{missing}");
        assert_eq!(answer("'text'"), Err("must evaluate to bool".to_owned()));
        assert!(
            answer("other == 1")
                .expect_err("unknown")
                .contains("undeclared reference")
        );
        assert!(answer("object.").is_err());
    }
}
