//! Time as a person reads it in a table.

use jiff::Timestamp;

/// Two or three figures of a time span.
pub fn human(seconds: i64) -> String {
    let (minutes, hours) = (seconds / 60, seconds / 3600);
    let (days, years) = (hours / 24, hours / 24 / 365);
    let two = |a: i64, unit_a: &str, b: i64, unit_b: &str| {
        if b == 0 {
            format!("{a}{unit_a}")
        } else {
            format!("{a}{unit_a}{b}{unit_b}")
        }
    };
    match seconds {
        // Clocks differ a little.
        ..-1 => "<invalid>".to_string(),
        -1 => "0s".to_string(),
        0..120 => format!("{seconds}s"),
        _ if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        _ if minutes < 180 => format!("{minutes}m"),
        _ if hours < 8 => two(hours, "h", minutes % 60, "m"),
        _ if hours < 48 => format!("{hours}h"),
        _ if days < 8 => two(days, "d", hours % 24, "h"),
        _ if days < 365 * 2 => format!("{days}d"),
        _ if years < 8 => two(years, "y", days % 365, "d"),
        _ => format!("{years}y"),
    }
}

/// The age of what happened at `time`.
pub fn since(time: Option<&str>, now: Timestamp) -> String {
    match time {
        None | Some("") => "<unknown>".to_string(),
        Some(text) => match text.parse::<Timestamp>() {
            Ok(time) => human(now.duration_since(time).as_secs()),
            Err(_) => "<invalid>".to_string(),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::human;

    #[test]
    fn spans() {
        let (minute, hour, day, year) = (60, 3600, 86400, 365 * 86400);
        for (seconds, text) in [
            (-5, "<invalid>"),
            (-1, "0s"),
            (0, "0s"),
            (119, "119s"),
            (2 * minute, "2m"),
            (2 * minute + 1, "2m1s"),
            (10 * minute + 5, "10m"),
            (179 * minute, "179m"),
            (3 * hour, "3h"),
            (3 * hour + minute, "3h1m"),
            (8 * hour + minute, "8h"),
            (47 * hour, "47h"),
            (2 * day, "2d"),
            (2 * day + hour, "2d1h"),
            (8 * day + hour, "8d"),
            (2 * year - 1, "729d"),
            (2 * year, "2y"),
            (2 * year + day, "2y1d"),
            (8 * year + day, "8y"),
        ] {
            assert_eq!(human(seconds), text);
        }
    }
}
