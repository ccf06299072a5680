//! Dates and durations as Go reads them.

use std::sync::LazyLock;

use jiff::civil::Date;
use jiff::{Timestamp, tz};
use regex::Regex;

/// `2006-01-02`.
pub fn parse_date(s: &str) -> Option<Date> {
    let bytes = s.as_bytes();
    let shaped = bytes.len() == 10
        && bytes.iter().enumerate().all(|(i, b)| match i {
            4 | 7 => *b == b'-',
            _ => b.is_ascii_digit(),
        });
    if !shaped {
        return None;
    }
    Date::new(s[..4].parse().ok()?, s[5..7].parse().ok()?, s[8..].parse().ok()?).ok()
}

/// Go's words for a text that is not a date, or not a date and time.
pub fn parse_error(text: &str, with_clock: bool) -> String {
    let layout = if with_clock {
        "2006-01-02T15:04:05"
    } else {
        "2006-01-02"
    };
    let shown = crate::field::text::quote(text);
    let fault = |why: String| format!("parsing time {shown}{why}");
    let elements = ["2006", "-", "01", "-", "02", "T", "15", ":", "04", ":", "05"];
    let count = if with_clock { elements.len() } else { 5 };
    let mut rest = text;
    let mut numbers = Vec::new();
    for element in &elements[..count] {
        let digits = element.starts_with(|c: char| c.is_ascii_digit());
        let matched = match rest.get(..element.len()) {
            Some(part) if digits => part.bytes().all(|b| b.is_ascii_digit()),
            Some(part) => part == *element,
            None => false,
        };
        if !matched {
            let rest = crate::field::text::quote(rest);
            return fault(format!(" as \"{layout}\": cannot parse {rest} as \"{element}\""));
        }
        if digits {
            numbers.push(rest[..element.len()].parse::<i32>().unwrap_or_default());
        }
        rest = &rest[element.len()..];
    }
    let limits = [
        (1, 1, 12, "month"),
        (2, 1, 31, "day"),
        (3, 0, 23, "hour"),
        (4, 0, 59, "minute"),
        (5, 0, 59, "second"),
    ];
    for (i, low, high, name) in limits {
        if numbers.get(i).is_some_and(|n| *n < low || *n > high) {
            return fault(format!(": {name} out of range"));
        }
    }
    if rest.is_empty() {
        return fault(": day out of range".to_owned());
    }
    fault(format!(": extra text: {}", crate::field::text::quote(rest)))
}

static CLOCK: LazyLock<Regex> = LazyLock::new(|| {
    Regex::new(r"^([0-9]{2}):([0-9]{2}):([0-9]{2})(.[0-9]+)?(z|([+-][0-9]{2}:[0-9]{2}))$")
        .expect("a constant pattern compiles")
});

/// The format `date-time`.
pub fn is_date_time(s: &str) -> bool {
    let lower = s.to_lowercase();
    let mut parts = lower.split('t');
    let (Some(date), Some(clock)) = (parts.next(), parts.next()) else {
        return false;
    };
    if parse_date(date).is_none() {
        return false;
    }
    CLOCK
        .captures(clock)
        .is_some_and(|m| &m[1] <= "23" && &m[2] <= "59" && &m[3] <= "59")
}

/// A time as in RFC 3339, or without a zone; the empty text is the epoch.
pub fn parse_date_time(s: &str) -> Option<Timestamp> {
    if s.is_empty() {
        return Some(Timestamp::UNIX_EPOCH);
    }
    parse_rfc3339(s).or_else(|| {
        let (date, clock) = s.split_once('T')?;
        if clock.len() != 8 || !clock.is_char_boundary(2) || !clock.is_char_boundary(5) {
            return None;
        }
        parse_rfc3339(&format!("{date}T{clock}Z"))
    })
}

/// RFC 3339 with an upper-case `T` and `Z`.
pub fn parse_rfc3339(s: &str) -> Option<Timestamp> {
    let (date, clock) = s.split_once('T')?;
    let date = parse_date(date)?;
    let (clock, offset) = match clock.strip_suffix('Z') {
        Some(clock) => (clock, 0),
        None => {
            let at = clock.rfind(['+', '-'])?;
            let (hours, minutes) = clock[at + 1..].split_once(':')?;
            if hours.len() != 2 || minutes.len() != 2 {
                return None;
            }
            let (h, m): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
            if h > 24 || m > 60 {
                return None;
            }
            let seconds = h * 3600 + m * 60;
            (
                &clock[..at],
                if clock[at..].starts_with('-') {
                    -seconds
                } else {
                    seconds
                },
            )
        }
    };
    let (whole, fraction) = match clock.find(['.', ',']) {
        Some(at) => (&clock[..at], &clock[at + 1..]),
        None => (clock, "0"),
    };
    if whole.len() != 8 || fraction.is_empty() || !fraction.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    let mut parts = whole.split(':').map(|p| {
        (p.len() == 2 && p.bytes().all(|b| b.is_ascii_digit()))
            .then(|| p.parse::<i8>().ok())
            .flatten()
    });
    let (h, m, sec) = (parts.next()??, parts.next()??, parts.next()??);
    let nanos: i32 = format!("{fraction:0<9}").get(..9)?.parse().ok()?;
    let time = date.to_datetime(jiff::civil::Time::new(h, m, sec, nanos).ok()?);
    let offset = tz::Offset::from_seconds(offset).ok()?;
    offset.to_timestamp(time).ok()
}

/// `time.ParseDuration`: nanoseconds of a text such as `1h30m`.
pub fn parse_duration(s: &str) -> Option<i64> {
    let (negative, mut rest) = match s.as_bytes().first()? {
        b'-' => (true, &s[1..]),
        b'+' => (false, &s[1..]),
        _ => (false, s),
    };
    if rest == "0" {
        return Some(0);
    }
    if rest.is_empty() {
        return None;
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let digits = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
        let whole = &rest[..digits];
        rest = &rest[digits..];
        let mut fraction = "";
        if let Some(after) = rest.strip_prefix('.') {
            let digits = after.find(|c: char| !c.is_ascii_digit()).unwrap_or(after.len());
            fraction = &after[..digits];
            rest = &after[digits..];
        }
        if whole.is_empty() && fraction.is_empty() {
            return None;
        }
        let end = rest
            .find(|c: char| c == '.' || c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit: i128 = match &rest[..end] {
            "ns" => 1,
            "us" | "µs" | "μs" => 1_000,
            "ms" => 1_000_000,
            "s" => 1_000_000_000,
            "m" => 60_000_000_000,
            "h" => 3_600_000_000_000,
            _ => return None,
        };
        rest = &rest[end..];
        if whole.len() > 19 {
            return None;
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().ok()? };
        total += whole * unit;
        if !fraction.is_empty() {
            let fraction = &fraction[..fraction.len().min(18)];
            let scale = 10_i128.pow(u32::try_from(fraction.len()).ok()?);
            total += fraction.parse::<i128>().ok()? * unit / scale;
        }
        if total > i128::from(i64::MAX) + 1 {
            return None;
        }
    }
    i64::try_from(if negative { -total } else { total }).ok()
}

static WORDS: LazyLock<Regex> =
    LazyLock::new(|| Regex::new(r"([0-9]+)[\t\n\f\r ]*([A-Za-zµ]+)").expect("a constant pattern compiles"));

/// The format `duration`: Go's durations, or words such as `1 day`.
pub fn parse_format_duration(s: &str) -> Option<i64> {
    const UNITS: [(&[&str], i64); 8] = [
        (&["ns", "nano"], 1),
        (&["us", "µs", "micro"], 1_000),
        (&["ms", "milli"], 1_000_000),
        (&["s", "sec"], 1_000_000_000),
        (&["m", "min"], 60_000_000_000),
        (&["h", "hr", "hour"], 3_600_000_000_000),
        (&["d", "day"], 86_400_000_000_000),
        (&["w", "wk", "week"], 604_800_000_000_000),
    ];
    if let Some(nanos) = parse_duration(s) {
        return Some(nanos);
    }
    let mut total: Option<i64> = None;
    for m in WORDS.captures_iter(s) {
        let factor: i64 = m[1].parse().ok()?;
        let unit = m[2].to_lowercase();
        for (names, multiplier) in UNITS {
            let last = names.len() - 1;
            for (i, name) in names.iter().enumerate() {
                if unit == *name || (i == last && unit.starts_with(name)) {
                    let part = factor.wrapping_mul(multiplier);
                    total = Some(total.unwrap_or(0).wrapping_add(part));
                }
            }
        }
    }
    total
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse_duration("1h30m"), Some(5_400_000_000_000));
        assert_eq!(parse_duration("-1.5s"), Some(-1_500_000_000));
        assert_eq!(parse_duration("1d"), None);
        assert_eq!(parse_format_duration("1 day"), Some(86_400_000_000_000));
        assert_eq!(parse_format_duration("P1D"), Some(86_400_000_000_000));
    }

    #[test]
    fn times() {
        let t = parse_date_time("2024-02-29T01:02:03.5+01:00").expect("a time");
        assert_eq!(t.to_string(), "2024-02-29T00:02:03.5Z");
        assert!(parse_date_time("2023-02-29T01:02:03Z").is_none());
        assert!(parse_date_time("2024-01-01T00:00:00").is_some());
    }
}
