use std::time::Duration;

use http::StatusCode;

pub type Result<T> = std::result::Result<T, Error>;

/// A call that failed: what was being done, and why it did not work.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{doing}: {cause}")]
pub struct Error {
    pub doing: String,
    pub cause: Cause,
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Cause {
    #[error("{}: {message}", named(*.status))]
    Answer { status: u16, message: String },
    #[error("no connection to {to}: {why}")]
    Connect { to: String, why: String },
    #[error("no answer within {} s", .0.as_secs_f32())]
    Timeout(Duration),
    #[error("the connection broke: {0}")]
    Broken(String),
    #[error("cannot understand the answer: {0}")]
    Garbled(String),
    #[error("the answer is larger than {0} bytes")]
    TooLarge(usize),
    #[error("the catalogue has no {interface} endpoint of type {service} in {region}")]
    NoEndpoint {
        service: String,
        interface: String,
        region: String,
    },
    #[error("{0}")]
    Invalid(String),
}

fn named(status: u16) -> String {
    let reason = StatusCode::from_u16(status)
        .ok()
        .and_then(|status| status.canonical_reason());
    reason.map_or_else(|| status.to_string(), |reason| format!("{status} {reason}"))
}

/// What a caller can do about an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    NotFound,
    Conflict,
    /// Not logged in, or with a wrong password.
    Unauthorized,
    /// Logged in, but not allowed.
    Forbidden,
    /// The same request will never work.
    Invalid,
    /// The service does not answer, or not now.
    Unavailable,
}

impl Error {
    pub fn new(doing: impl Into<String>, cause: Cause) -> Self {
        Self {
            doing: doing.into(),
            cause,
        }
    }

    pub fn answer(doing: &str, status: StatusCode, body: &[u8]) -> Self {
        let message = message(body);
        Self::new(
            doing,
            Cause::Answer {
                status: status.as_u16(),
                message,
            },
        )
    }

    pub fn class(&self) -> Class {
        match &self.cause {
            Cause::Answer { status, .. } => match status {
                404 | 410 => Class::NotFound,
                409 => Class::Conflict,
                401 => Class::Unauthorized,
                403 => Class::Forbidden,
                408 | 429 | 500..=599 => Class::Unavailable,
                _ => Class::Invalid,
            },
            Cause::Connect { .. } | Cause::Timeout(_) | Cause::Broken(_) => Class::Unavailable,
            Cause::Garbled(_) | Cause::TooLarge(_) | Cause::NoEndpoint { .. } => Class::Unavailable,
            Cause::Invalid(_) => Class::Invalid,
        }
    }

    /// The service itself could not be reached: nothing of the request arrived, or no answer did.
    pub fn unreachable(&self) -> bool {
        matches!(
            self.cause,
            Cause::Connect { .. } | Cause::Timeout(_) | Cause::Broken(_)
        )
    }
}

/// `Ok(None)` instead of "not found".
pub(crate) fn optional<T>(result: Result<T>) -> Result<Option<T>> {
    match result {
        Ok(value) => Ok(Some(value)),
        Err(error) if error.class() == Class::NotFound => Ok(None),
        Err(error) => Err(error),
    }
}

const LONGEST: usize = 500;

/// The text of an error as the services write it: Keystone and Glance `{"error": {"message"}}`,
/// Placement `{"errors": [{"detail"}]}`, Nova `{"<kind>": {"message"}}`, others plain text or HTML.
fn message(body: &[u8]) -> String {
    use serde_json::Value;
    let text = match serde_json::from_slice::<Value>(body) {
        Ok(Value::Object(map)) => {
            let nested = map.values().find_map(|value| {
                let value = value.get(0).unwrap_or(value);
                value.get("message").or_else(|| value.get("detail"))
            });
            nested
                .or_else(|| map.get("message"))
                .and_then(Value::as_str)
                .map(str::to_owned)
        }
        _ => None,
    };
    let text = text.unwrap_or_else(|| without_tags(&String::from_utf8_lossy(body)));
    let words: Vec<&str> = text.split_whitespace().collect();
    let text = words.join(" ");
    match text.char_indices().nth(LONGEST) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None if text.is_empty() => "no explanation".to_owned(),
        None => text,
    }
}

fn without_tags(text: &str) -> String {
    let mut inside = false;
    text.chars()
        .filter_map(|c| match c {
            '<' => {
                inside = true;
                Some(' ')
            }
            '>' if inside => {
                inside = false;
                None
            }
            _ => (!inside).then_some(c),
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_each_service() {
        let of = |body: &str| message(body.as_bytes());
        assert_eq!(
            of(r#"{"error":{"code":409,"message":"Duplicate entry","title":"Conflict"}}"#),
            "Duplicate entry"
        );
        assert_eq!(
            of(r#"{"errors":[{"status":404,"detail":"No such\n provider"}]}"#),
            "No such provider"
        );
        assert_eq!(of(r#"{"itemNotFound":{"message":"gone","code":404}}"#), "gone");
        assert_eq!(
            of("<html><h1>403 Forbidden</h1><br/>no</html>"),
            "403 Forbidden no"
        );
        assert_eq!(of(""), "no explanation");
        assert_eq!(of(&"x".repeat(900)).chars().count(), LONGEST + 1);
    }

    #[test]
    fn an_error_says_what_was_done() {
        let error = Error::answer(
            "create user glance",
            StatusCode::CONFLICT,
            br#"{"error":{"message":"it is there"}}"#,
        );
        assert_eq!(error.to_string(), "create user glance: 409 Conflict: it is there");
        assert_eq!(error.class(), Class::Conflict);
    }

    proptest::proptest! {
        #[test]
        fn any_body_has_a_message(body: Vec<u8>) {
            proptest::prop_assert!(!message(&body).is_empty());
        }
    }
}
