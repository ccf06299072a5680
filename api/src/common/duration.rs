use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{value:?} is not a duration: use numbers with units ms, s, m or h, such as 90s or 1h30m")]
pub struct DurationError {
    /// The text as given.
    pub value: String,
}

/// Reads `90s`, `1h30m`, `500ms`: what the schema of every duration field accepts.
pub fn parse_duration(text: &str) -> Result<Duration, DurationError> {
    let wrong = || DurationError {
        value: text.to_owned(),
    };
    let mut total = Duration::ZERO;
    let mut rest = text;
    if rest.is_empty() {
        return Err(wrong());
    }
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).ok_or_else(wrong)?;
        let (number, tail) = rest.split_at(digits);
        let number: u64 = number.parse().map_err(|_| wrong())?;
        let (millis, tail) = if let Some(tail) = tail.strip_prefix("ms") {
            (1, tail)
        } else if let Some(tail) = tail.strip_prefix('s') {
            (1_000, tail)
        } else if let Some(tail) = tail.strip_prefix('m') {
            (60_000, tail)
        } else if let Some(tail) = tail.strip_prefix('h') {
            (3_600_000, tail)
        } else {
            return Err(wrong());
        };
        let part = number.checked_mul(millis).ok_or_else(wrong)?;
        total = total.checked_add(Duration::from_millis(part)).ok_or_else(wrong)?;
        rest = tail;
    }
    Ok(total)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_schema_accepts() {
        for (text, millis) in [
            ("10s", 10_000),
            ("1m", 60_000),
            ("24h", 86_400_000),
            ("1h30m", 5_400_000),
            ("500ms", 500),
            ("0s", 0),
        ] {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(millis)), "{text}");
        }
    }

    #[test]
    fn refuses_the_rest() {
        for text in [
            "",
            "10",
            "s",
            "1d",
            "1.5h",
            "-1s",
            "1s ",
            "99999999999999999999h",
            "1é",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
        let error = parse_duration("1d").unwrap_err().to_string();
        assert!(error.contains("\"1d\"") && error.contains("90s"), "{error}");
    }
}
