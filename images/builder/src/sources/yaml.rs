//! YAML with errors that name file and line.

use serde::de::DeserializeOwned;

use crate::error::{Error, Result};

/// Reads a YAML text; the error names the line.
pub(crate) fn parse<T: DeserializeOwned>(file: &str, text: &str) -> Result<T> {
    serde_saphyr::from_str(text).map_err(|error| {
        let line = error.location().map_or(1, |location| location.line());
        // The first line is the message; what follows draws the place, which the line number tells.
        let whole = error.without_snippet().to_string();
        let message = whole.lines().next().unwrap_or("not valid YAML");
        let message = message.split(" at line ").next().unwrap_or(message).to_owned();
        Error::Data {
            file: file.to_owned(),
            line,
            message,
        }
    })
}
