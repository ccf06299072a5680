//! New lines of a console log. Pure.

/// The part of a console's text that was not there before. A long text loses its beginning, and a
/// guest that restarts begins with an empty one.
pub(crate) fn news<'t>(before: &str, now: &'t str) -> &'t str {
    if let Some(rest) = now.strip_prefix(before) {
        return rest;
    }
    // The longest end of the old text that the new one begins with, by whole lines.
    let ends = before.match_indices('\n').map(|(at, _)| &before[at + 1..]);
    ends.filter(|end| !end.is_empty())
        .find_map(|end| now.strip_prefix(end))
        .unwrap_or(now)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_new_is_printed() {
        assert_eq!(news("", "a\nb\n"), "a\nb\n");
        assert_eq!(news("a\nb", "a\nb"), "");
        assert_eq!(news("a\nb", "a\nbc\nd\n"), "c\nd\n");
        assert_eq!(news("a\nb\nc\n", "b\nc\nd\n"), "d\n", "its beginning is gone");
        assert_eq!(news("a\nb\n", "boot\n"), "boot\n", "it began anew");
    }
}
