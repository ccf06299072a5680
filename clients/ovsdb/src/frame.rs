//! Messages follow each other without anything between them: where one ends is found by its braces.

use serde_json::Value;

use crate::error::Error;

/// Longest message that is taken by default. A whole southbound database comes as one.
pub const LONGEST: usize = 256 << 20;
/// Deeper nesting is no message of OVSDB, and serde_json refuses it too.
const DEEPEST: usize = 100;

/// Cuts a stream of bytes into messages.
#[derive(Debug)]
pub struct Framer {
    buffer: Vec<u8>,
    /// Bytes of the buffer that were looked at.
    seen: usize,
    depth: usize,
    in_string: bool,
    escaped: bool,
    longest: usize,
}

impl Default for Framer {
    fn default() -> Self {
        Framer::new(LONGEST)
    }
}

impl Framer {
    pub fn new(longest: usize) -> Self {
        Framer {
            buffer: Vec::new(),
            seen: 0,
            depth: 0,
            in_string: false,
            escaped: false,
            longest,
        }
    }

    /// Takes what was read.
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole message. After an error the stream cannot be trusted any more.
    pub fn message(&mut self) -> Result<Option<Value>, Error> {
        while let Some(&byte) = self.buffer.get(self.seen) {
            self.seen += 1;
            if self.depth == 0 {
                match byte {
                    b' ' | b'\t' | b'\r' | b'\n' => {
                        self.drop_front();
                        continue;
                    }
                    b'{' => {}
                    other => {
                        let said = format!("a message begins with byte {other:#04x}");
                        return Err(Error::Malformed(said));
                    }
                }
            }
            if self.step(byte)? {
                let message = serde_json::from_slice(&self.buffer[..self.seen])
                    .map_err(|error| Error::Malformed(without_values(&error)))?;
                self.drop_front();
                return Ok(Some(message));
            }
            if self.seen > self.longest {
                return Err(Error::TooLong { limit: self.longest });
            }
        }
        Ok(None)
    }

    /// `true` at the end of a message.
    fn step(&mut self, byte: u8) -> Result<bool, Error> {
        if self.in_string {
            match byte {
                _ if self.escaped => self.escaped = false,
                b'\\' => self.escaped = true,
                b'"' => self.in_string = false,
                _ => {}
            }
            return Ok(false);
        }
        match byte {
            b'"' => self.in_string = true,
            b'{' | b'[' => {
                self.depth += 1;
                if self.depth > DEEPEST {
                    return Err(Error::Malformed(format!("nested deeper than {DEEPEST}")));
                }
            }
            b'}' | b']' => {
                self.depth -= 1;
                return Ok(self.depth == 0);
            }
            _ => {}
        }
        Ok(false)
    }

    fn drop_front(&mut self) {
        self.buffer.drain(..self.seen);
        self.seen = 0;
    }
}

fn without_values(error: &serde_json::Error) -> String {
    format!("not JSON at line {} column {}", error.line(), error.column())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn all(framer: &mut Framer) -> Result<Vec<Value>, Error> {
        let mut found = Vec::new();
        while let Some(message) = framer.message()? {
            found.push(message);
        }
        Ok(found)
    }

    #[test]
    fn braces_and_quotes_in_strings_are_text() {
        let mut framer = Framer::default();
        let odd = json!({"a": "}{[\"\\", "b": ["]", {"c": "\u{1f600}\\\""}]});
        framer.push(format!(" \n{odd}{odd}").as_bytes());
        assert_eq!(all(&mut framer).expect("two messages"), [odd.clone(), odd]);
    }

    #[test]
    fn what_is_no_message_ends_the_stream() {
        for (bytes, said) in [
            (&b"x"[..], "begins with byte 0x78"),
            (b"[1]", "begins with byte 0x5b"),
            (b"{]", "not JSON"),
            (b"{\"a\" 1}", "not JSON"),
        ] {
            let mut framer = Framer::default();
            framer.push(bytes);
            let error = all(&mut framer).expect_err("no message").to_string();
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_message_without_end_is_not_kept_for_ever() {
        let mut framer = Framer::new(64);
        framer.push(b"{\"a\":\"");
        framer.push(&[b'x'; 100]);
        assert!(matches!(framer.message(), Err(Error::TooLong { limit: 64 })));
        let mut deep = Framer::default();
        deep.push(b"{\"a\":");
        deep.push(&[b'['; 200]);
        assert!(matches!(deep.message(), Err(Error::Malformed(_))));
    }

    fn message() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".{0,12}".prop_map(Value::from),
        ];
        let any = leaf.prop_recursive(4, 24, 4, |inner| {
            prop_oneof![
                prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                prop::collection::hash_map(".{0,6}", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        });
        prop::collection::hash_map(".{0,6}", any, 0..4)
            .prop_map(|map| Value::Object(map.into_iter().collect()))
    }

    proptest! {
        #[test]
        fn messages_survive_however_they_are_cut(
            messages in prop::collection::vec(message(), 0..5),
            cuts in prop::collection::vec(1_usize..9, 1..6),
        ) {
            let text: String = messages.iter().map(Value::to_string).collect();
            let mut framer = Framer::default();
            let mut found = Vec::new();
            let (mut rest, mut cuts) = (text.as_bytes(), cuts.iter().cycle());
            while !rest.is_empty() {
                let (chunk, more) = rest.split_at(rest.len().min(*cuts.next().unwrap_or(&1)));
                framer.push(chunk);
                found.extend(all(&mut framer).expect("messages"));
                rest = more;
            }
            prop_assert_eq!(found, messages);
        }

        #[test]
        fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let mut framer = Framer::new(128);
            framer.push(&bytes);
            for _ in 0..=bytes.len() {
                match framer.message() {
                    Ok(Some(_)) => {}
                    Ok(None) | Err(_) => break,
                }
            }
        }

        #[test]
        fn nothing_that_looks_like_a_message_makes_it_panic(text in r#"[{}\[\]":\\,a1 ]{0,80}"#) {
            let mut framer = Framer::new(64);
            framer.push(b"{");
            framer.push(text.as_bytes());
            for _ in 0..100 {
                if !matches!(framer.message(), Ok(Some(_))) {
                    break;
                }
            }
        }
    }
}
