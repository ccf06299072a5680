//! Query parameters.

use crate::status::{ApiError, Result};

#[derive(Clone, Debug, Default)]
pub struct Query(Vec<(String, String)>);

impl Query {
    pub fn parse(text: &str) -> Self {
        Self(form_urlencoded::parse(text.as_bytes()).into_owned().collect())
    }

    /// The first value; empty ones count as absent.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())
            .filter(|v| !v.is_empty())
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a str> {
        self.0
            .iter()
            .filter(move |(key, _)| key == name)
            .map(|(_, value)| value.as_str())
    }

    /// As Go reads a boolean parameter: everything but an empty value, `0` and `false` is true.
    pub fn flag(&self, name: &str) -> bool {
        self.optional_flag(name).unwrap_or(false)
    }

    pub fn optional_flag(&self, name: &str) -> Option<bool> {
        let value = self
            .0
            .iter()
            .find(|(key, _)| key == name)
            .map(|(_, value)| value.as_str())?;
        Some(!(value == "0" || value.eq_ignore_ascii_case("false")))
    }

    pub fn number(&self, name: &str) -> Result<Option<u64>> {
        match self.get(name) {
            None => Ok(None),
            Some(text) => text.parse().map(Some).map_err(|_| {
                ApiError::bad_request(format!(
                    "invalid value {text:?} of the parameter {name:?}: not a number"
                ))
            }),
        }
    }
}
