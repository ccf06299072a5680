//! The way from one release to the next: two a year, and only some may be left out.

use std::cmp::Ordering;

/// What lies between two releases.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Move {
    Same,
    /// The next release, or the one after it where that may be left out (SLURP).
    Next,
    /// These come first.
    TooFar(Vec<String>),
    Back,
}

/// From one release to another; none where one of them is no name of a release.
pub fn way(from: &str, to: &str) -> Option<Move> {
    let (here, there) = (ordinal(from)?, ordinal(to)?);
    let next: Vec<i64> = if is_slurp(here) {
        vec![here + 1, here + 2]
    } else {
        vec![here + 1]
    };
    Some(match there.cmp(&here) {
        Ordering::Equal => Move::Same,
        Ordering::Less => Move::Back,
        Ordering::Greater if next.contains(&there) => Move::Next,
        Ordering::Greater => Move::TooFar(next.into_iter().map(name).collect()),
    })
}

/// Two releases a year: their place in the row.
fn ordinal(release: &str) -> Option<i64> {
    let (year, half) = release.split_once('.')?;
    let (year, half): (i64, i64) = (year.parse().ok()?, half.parse().ok()?);
    (1..=2).contains(&half).then_some(year * 2 + half - 1)
}

/// The first release of a year cannot be skipped, and the second one can.
fn is_slurp(ordinal: i64) -> bool {
    ordinal % 2 == 0
}

fn name(ordinal: i64) -> String {
    format!("{}.{}", ordinal.div_euclid(2), ordinal.rem_euclid(2) + 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_next_release_or_slurp_to_slurp() {
        let far = |names: &[&str]| Move::TooFar(names.iter().map(ToString::to_string).collect());
        let table = [
            ("2025.2", "2025.2", Move::Same),
            ("2025.1", "2025.2", Move::Next),
            ("2025.2", "2026.1", Move::Next),
            ("2025.1", "2026.1", Move::Next),
            ("2025.2", "2026.2", far(&["2026.1"])),
            ("2025.1", "2026.2", far(&["2025.2", "2026.1"])),
            ("2024.1", "2026.1", far(&["2024.2", "2025.1"])),
            ("2026.1", "2025.2", Move::Back),
        ];
        for (from, to, expected) in table {
            assert_eq!(way(from, to), Some(expected), "{from} → {to}");
        }
        assert_eq!(way("master", "2025.2"), None);
        assert_eq!(way("2025.3", "2025.2"), None);
    }
}
