//! Lines of container logs: `TIME STREAM TAG TEXT`.

use jiff::Timestamp;

/// A line, or a part of a long one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Line<'a> {
    pub time: &'a str,
    pub partial: bool,
    pub text: &'a [u8],
}

/// Reads one line without its end; what is no log line is shown as it is.
pub(super) fn parse(line: &[u8]) -> Line<'_> {
    let mut parts = line.splitn(4, |b| *b == b' ');
    let read = (|| {
        let time = std::str::from_utf8(parts.next()?).ok()?;
        let _stream = parts.next()?;
        let tag = parts.next()?;
        Some(Line {
            time,
            partial: tag.first() == Some(&b'P'),
            text: parts.next()?,
        })
    })();
    read.unwrap_or(Line {
        time: "",
        partial: false,
        text: line,
    })
}

impl Line<'_> {
    pub(super) fn is_before(&self, since: Timestamp) -> bool {
        self.time.parse::<Timestamp>().is_ok_and(|t| t < since)
    }

    /// The line as it is shown.
    pub(super) fn show(&self, timestamps: bool, starts: bool) -> Vec<u8> {
        let mut out = Vec::with_capacity(self.text.len() + 40);
        if timestamps && starts {
            out.extend_from_slice(self.time.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(self.text);
        if !self.partial {
            out.push(b'\n');
        }
        out
    }
}

/// Where the last `count` lines start.
pub(super) fn tail(data: &[u8], count: u64) -> usize {
    let mut left = count;
    let mut end = data.len();
    if data.last() == Some(&b'\n') {
        end -= 1;
    }
    let mut at = data.len();
    while left > 0 {
        match data[..end].iter().rposition(|b| *b == b'\n') {
            Some(newline) => {
                // A part of a longer line does not count as one.
                let line = parse(&data[newline + 1..end]);
                if !line.partial || at == data.len() {
                    left -= 1;
                }
                at = newline + 1;
                end = newline;
            }
            None => return 0,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const LOG: &[u8] = b"2026-01-01T00:00:00Z stdout F one\n2026-01-01T00:00:01Z stderr P tw\n2026-01-01T00:00:01Z stderr F o\n2026-01-01T00:00:02Z stdout F three\n";

    #[test]
    fn lines() {
        let line = parse(b"2026-01-01T00:00:01Z stderr P tw o");
        assert_eq!((line.partial, line.text), (true, &b"tw o"[..]));
        assert!(line.is_before("2026-01-01T00:00:02Z".parse().unwrap()));
        assert_eq!(parse(b"odd").show(true, false), b"odd\n");
        assert_eq!(parse(b"t stdout F ").show(true, true), b"t \n");
    }

    #[test]
    fn tails() {
        let of = |n| std::str::from_utf8(&LOG[tail(LOG, n)..]).unwrap();
        assert_eq!(of(0), "");
        assert!(of(1).ends_with("F three\n") && of(1).lines().count() == 1);
        assert_eq!(of(9).lines().count(), 4);
    }

    proptest! {
        #[test]
        fn no_log_is_too_strange(data in prop::collection::vec(any::<u8>(), 0..200), n in 0u64..5) {
            let at = tail(&data, n);
            prop_assert!(at <= data.len());
            let _ = parse(&data).show(true, true);
        }
    }
}
