//! Entries out of a stream of bytes. RadosGW separates objects by a newline, by nothing at all
//! (file) or by a comma inside an array that never ends (socket), and a log can be cut anywhere.

use serde::de::IgnoredAny;

use super::entry::Entry;

/// Longest entry. What is longer is no entry: memory stays bounded whatever is fed.
pub(super) const LONGEST: usize = 1 << 20;

/// Keeps the unfinished end of what was fed.
#[derive(Default)]
pub struct Decoder {
    buffer: Vec<u8>,
    /// Objects that were not entries, and stretches of bytes that were no objects.
    pub malformed: u64,
    /// Inside a stretch that was counted already.
    lost: bool,
}

/// What stands at the start of a text.
enum Head<'a> {
    Entry(Box<Entry<'a>>, usize),
    /// An object of some other shape, so many bytes long.
    Other(usize),
    Unfinished,
    Garbage,
}

fn head(text: &[u8]) -> Head<'_> {
    let mut entries = serde_json::Deserializer::from_slice(text).into_iter::<Entry<'_>>();
    match entries.next() {
        Some(Ok(entry)) => Head::Entry(Box::new(entry), entries.byte_offset()),
        None => Head::Unfinished,
        Some(Err(error)) if error.is_eof() => Head::Unfinished,
        Some(Err(error)) if error.is_data() => {
            let mut values = serde_json::Deserializer::from_slice(text).into_iter::<IgnoredAny>();
            match values.next() {
                Some(Ok(_)) => Head::Other(values.byte_offset()),
                Some(Err(error)) if error.is_eof() => Head::Unfinished,
                _ => Head::Garbage,
            }
        }
        Some(Err(_)) => Head::Garbage,
    }
}

impl Decoder {
    /// Calls `each` with every entry that is complete now and with its text.
    pub fn feed(&mut self, bytes: &[u8], mut each: impl FnMut(&Entry<'_>, &[u8])) {
        let mut buffer = std::mem::take(&mut self.buffer);
        buffer.extend_from_slice(bytes);
        let mut at = 0;
        while let Some(start) = next_object(&buffer, at) {
            self.skipped(&buffer[at..start]);
            at = start;
            let text = &buffer[at..];
            match head(text) {
                Head::Entry(entry, length) => {
                    self.lost = false;
                    each(&entry, &text[..length]);
                    at += length;
                }
                Head::Other(length) => {
                    self.count();
                    self.lost = false;
                    at += length;
                }
                Head::Unfinished if text.len() < LONGEST => break,
                // The next object may begin anywhere behind this brace.
                Head::Unfinished | Head::Garbage => {
                    self.count();
                    at += 1;
                }
            }
        }
        if next_object(&buffer, at).is_none() {
            self.skipped(&buffer[at..]);
            at = buffer.len();
        }
        buffer.drain(..at);
        self.buffer = buffer;
    }

    /// The source starts over: what was unfinished stays so.
    pub fn reset(&mut self) {
        if !self.buffer.is_empty() {
            self.count();
        }
        self.buffer.clear();
        self.lost = false;
    }

    /// Bytes that were fed and belong to no complete entry yet.
    pub fn pending(&self) -> usize {
        self.buffer.len()
    }

    fn skipped(&mut self, between: &[u8]) {
        let separator = |byte: &u8| byte.is_ascii_whitespace() || b",[]".contains(byte);
        if !between.iter().all(separator) {
            self.count();
        }
    }

    /// One stretch counts once, however often it was tried to read it.
    fn count(&mut self) {
        if !self.lost {
            self.malformed += 1;
        }
        self.lost = true;
    }
}

fn next_object(buffer: &[u8], at: usize) -> Option<usize> {
    let found = buffer.get(at..)?.iter().position(|byte| *byte == b'{')?;
    Some(at + found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn line(bucket: &str) -> String {
        format!(
            r#"{{"bucket":"{bucket}","operation":"get_obj","http_status":"200","keystone_scope":{{"project":{{}}}}}}"#
        )
    }

    fn read(pieces: &[&[u8]]) -> (Vec<String>, u64, usize) {
        let mut decoder = Decoder::default();
        let mut seen = Vec::new();
        for piece in pieces {
            decoder.feed(piece, |entry, _| seen.push(entry.bucket.to_string()));
        }
        (seen, decoder.malformed, decoder.pending())
    }

    #[test]
    fn objects_are_found_whatever_separates_them() {
        let (a, b) = (line("a"), line("b"));
        for text in [
            format!("{a}{b}"),
            format!("{a}\n{b}\n"),
            format!("[{a},\n{b},\n"),
            format!("  {a} \r\n {b}]"),
        ] {
            assert_eq!(
                read(&[text.as_bytes()]),
                (vec!["a".into(), "b".into()], 0, 0),
                "{text}"
            );
        }
    }

    #[test]
    fn a_torn_entry_costs_itself_alone() {
        let (a, b) = (line("a"), line("b"));
        let torn = &a[..30];
        let (seen, malformed, _) = read(&[format!("{torn}{b}{a}").as_bytes()]);
        assert_eq!((seen, malformed), (vec!["b".into(), "a".into()], 1));
        let (seen, malformed, _) = read(&[format!("{a}\nnonsense\n{b}").as_bytes()]);
        assert_eq!((seen, malformed), (vec!["a".into(), "b".into()], 1));
    }

    #[test]
    fn objects_of_another_shape_are_counted_and_skipped() {
        let text = format!(r#"{{"x":1}}{}{{"operation":[],"http_status":"200"}}"#, line("a"));
        assert_eq!(read(&[text.as_bytes()]), (vec!["a".into()], 2, 0));
    }

    #[test]
    fn memory_is_bounded_by_the_longest_entry() {
        let mut decoder = Decoder::default();
        decoder.feed(br#"{"bucket":""#, |_, _| {});
        for _ in 0..64 {
            decoder.feed(&[b'x'; 1 << 16], |_, _| {});
            assert!(decoder.pending() <= LONGEST + (1 << 16));
        }
        decoder.feed(b"\"\n", |_, _| {});
        let mut seen = 0;
        decoder.feed(line("a").as_bytes(), |_, _| seen += 1);
        assert_eq!((seen, decoder.malformed), (1, 1));
    }

    proptest! {
        #[test]
        fn where_a_stream_is_cut_into_pieces_changes_nothing(
            buckets in proptest::collection::vec("[a-z\"\\\\{}é]{0,12}", 1..8),
            cuts in proptest::collection::vec(1usize..40, 0..40),
        ) {
            let texts: Vec<String> = buckets
                .iter()
                .map(|b| serde_json::json!({"bucket": b, "operation": "put_obj", "http_status": "200"}).to_string())
                .collect();
            let whole = texts.concat();
            let mut rest = whole.as_bytes();
            let mut pieces = Vec::new();
            for cut in cuts {
                let (piece, tail) = rest.split_at(cut.min(rest.len()));
                pieces.push(piece);
                rest = tail;
            }
            pieces.push(rest);
            prop_assert_eq!(read(&pieces), (buckets, 0, 0));
        }

        #[test]
        fn no_bytes_break_it(bytes in proptest::collection::vec(any::<u8>(), 0..2000)) {
            let good = line("a");
            let mut decoder = Decoder::default();
            decoder.feed(&bytes, |_, _| {});
            decoder.reset();
            let mut seen = 0;
            decoder.feed(good.as_bytes(), |_, _| seen += 1);
            prop_assert_eq!(seen, 1);
        }
    }
}
