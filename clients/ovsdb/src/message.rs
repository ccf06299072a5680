//! JSON-RPC 1.0 as OVSDB speaks it.

use serde_json::{Map, Value, json};

use crate::error::Error;

/// What a peer says.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// Wants an answer.
    Request {
        id: Value,
        method: String,
        params: Value,
    },
    /// Wants none.
    Notification {
        method: String,
        params: Value,
    },
    Reply {
        id: Value,
        result: Result<Value, Value>,
    },
}

impl Message {
    /// What a whole message means.
    pub fn of(value: Value) -> Result<Self, Error> {
        let Value::Object(mut fields) = value else {
            return Err(Error::Malformed("a message is not an object".to_owned()));
        };
        let mut take = |name: &str| fields.remove(name).unwrap_or(Value::Null);
        let (id, method) = (take("id"), take("method"));
        match method {
            Value::String(method) => {
                let params = take("params");
                Ok(match id {
                    Value::Null => Message::Notification { method, params },
                    id => Message::Request { id, method, params },
                })
            }
            Value::Null if id.is_null() => Err(Error::Malformed("neither request nor answer".to_owned())),
            Value::Null => {
                let (result, error) = (take("result"), take("error"));
                let result = if error.is_null() { Ok(result) } else { Err(error) };
                Ok(Message::Reply { id, result })
            }
            _ => Err(Error::Malformed("method is not a string".to_owned())),
        }
    }

    pub fn to_value(&self) -> Value {
        match self {
            Message::Request { id, method, params } => json!({"id": id, "method": method, "params": params}),
            Message::Notification { method, params } => {
                json!({"id": null, "method": method, "params": params})
            }
            Message::Reply {
                id,
                result: Ok(result),
            } => json!({"id": id, "result": result, "error": null}),
            Message::Reply {
                id,
                result: Err(error),
            } => json!({"id": id, "result": null, "error": error}),
        }
    }
}

/// The error of an answer or of an operation.
pub(crate) fn refused(error: &Value) -> Error {
    let text = |map: &Map<String, Value>, key: &str| {
        map.get(key)
            .and_then(Value::as_str)
            .unwrap_or_default()
            .to_owned()
    };
    match error {
        Value::Object(fields) => Error::Refused {
            error: text(fields, "error"),
            details: text(fields, "details"),
        },
        Value::String(error) => Error::Refused {
            error: error.clone(),
            details: String::new(),
        },
        other => Error::Refused {
            error: other.to_string(),
            details: String::new(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_is_told_from_the_others() {
        for message in [
            Message::Request {
                id: json!(1),
                method: "echo".into(),
                params: json!([]),
            },
            Message::Notification {
                method: "update".into(),
                params: json!([null, {}]),
            },
            Message::Reply {
                id: json!("a"),
                result: Ok(json!({})),
            },
            Message::Reply {
                id: json!(7),
                result: Err(json!({"error": "x"})),
            },
        ] {
            assert_eq!(Message::of(message.to_value()).expect("a message"), message);
        }
        for odd in [
            json!([]),
            json!({}),
            json!({"method": 1, "id": 2}),
            json!({"id": null}),
        ] {
            assert!(Message::of(odd).is_err());
        }
    }
}
