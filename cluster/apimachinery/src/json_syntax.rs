use serde_json::Value;

/// Reads a JSON text; an error is worded as Go words it.
pub fn parse(text: &[u8]) -> Result<Value, String> {
    serde_json::from_slice(text).map_err(|error| {
        Scan { text, at: 0 }
            .document()
            .err()
            .unwrap_or_else(|| error.to_string())
    })
}

/// What Go calls a JSON value.
#[must_use]
pub fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "bool",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

/// Nesting beyond which Go gives up.
const MAX_DEPTH: usize = 10_000;

struct Scan<'t> {
    text: &'t [u8],
    at: usize,
}

const START_OF_VALUE: &str = "looking for beginning of value";

impl Scan<'_> {
    fn document(&mut self) -> Result<(), String> {
        self.value()?;
        match self.next_token() {
            None => Ok(()),
            Some(byte) => Err(Self::invalid(byte, "after top-level value")),
        }
    }

    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn next_token(&mut self) -> Option<u8> {
        while matches!(self.peek(), Some(b' ' | b'\t' | b'\r' | b'\n')) {
            self.at += 1;
        }
        self.peek()
    }

    fn need(&mut self, token: Option<u8>) -> Result<u8, String> {
        token.ok_or_else(|| "unexpected end of JSON input".to_owned())
    }

    fn invalid(byte: u8, context: &str) -> String {
        let shown = match byte {
            b'\'' => r"'\''".to_owned(),
            b'"' => "'\"'".to_owned(),
            byte => {
                let quoted = crate::field::text::quote(&char::from(byte).to_string());
                format!("'{}'", &quoted[1..quoted.len() - 1])
            }
        };
        format!("invalid character {shown} {context}")
    }

    /// Reads a value without recursion: bodies nest as deep as a client likes.
    fn value(&mut self) -> Result<(), String> {
        let mut open: Vec<u8> = Vec::new();
        loop {
            let token = self.next_token();
            match self.need(token)? {
                bracket @ (b'{' | b'[') => {
                    self.at += 1;
                    if open.len() >= MAX_DEPTH {
                        return Err("exceeded max depth".to_owned());
                    }
                    open.push(bracket);
                    let token = self.next_token();
                    let first = self.need(token)?;
                    if bracket == b'{' && first != b'}' {
                        self.key()?;
                        continue;
                    }
                    if bracket == b'[' && first != b']' {
                        continue;
                    }
                }
                b'"' => self.string()?,
                b't' => self.literal("true")?,
                b'f' => self.literal("false")?,
                b'n' => self.literal("null")?,
                b'-' | b'0'..=b'9' => self.number()?,
                byte => return Err(Self::invalid(byte, START_OF_VALUE)),
            }
            // A value ended: close containers until one goes on.
            loop {
                let Some(bracket) = open.last().copied() else {
                    return Ok(());
                };
                let token = self.next_token();
                let byte = self.need(token)?;
                self.at += 1;
                match (bracket, byte) {
                    (b'{', b'}') | (b'[', b']') => {
                        open.pop();
                    }
                    (b'[', b',') => break,
                    (b'{', b',') => {
                        self.key()?;
                        break;
                    }
                    (b'{', _) => return Err(Self::invalid(byte, "after object key:value pair")),
                    _ => return Err(Self::invalid(byte, "after array element")),
                }
            }
        }
    }

    fn key(&mut self) -> Result<(), String> {
        let token = self.next_token();
        let byte = self.need(token)?;
        if byte != b'"' {
            return Err(Self::invalid(byte, "looking for beginning of object key string"));
        }
        self.string()?;
        let token = self.next_token();
        match self.need(token)? {
            b':' => {
                self.at += 1;
                Ok(())
            }
            byte => Err(Self::invalid(byte, "after object key")),
        }
    }

    fn string(&mut self) -> Result<(), String> {
        self.at += 1;
        loop {
            let byte = self.need(self.peek())?;
            self.at += 1;
            match byte {
                b'"' => return Ok(()),
                0..0x20 => return Err(Self::invalid(byte, "in string literal")),
                b'\\' => {
                    let byte = self.need(self.peek())?;
                    self.at += 1;
                    match byte {
                        b'"' | b'\\' | b'/' | b'b' | b'f' | b'n' | b'r' | b't' => {}
                        b'u' => {
                            for _ in 0..4 {
                                let byte = self.need(self.peek())?;
                                self.at += 1;
                                if !byte.is_ascii_hexdigit() {
                                    return Err(Self::invalid(byte, r"in \u hexadecimal character escape"));
                                }
                            }
                        }
                        byte => return Err(Self::invalid(byte, "in string escape code")),
                    }
                }
                _ => {}
            }
        }
    }

    fn literal(&mut self, word: &str) -> Result<(), String> {
        for want in word.bytes() {
            let byte = self.need(self.peek())?;
            if byte != want {
                let context = format!("in literal {word} (expecting '{}')", char::from(want));
                return Err(Self::invalid(byte, &context));
            }
            self.at += 1;
        }
        Ok(())
    }

    fn number(&mut self) -> Result<(), String> {
        if self.peek() == Some(b'-') {
            self.at += 1;
        }
        if self.peek() == Some(b'0') {
            self.at += 1;
        } else {
            self.digits("in numeric literal")?;
        }
        if self.peek() == Some(b'.') {
            self.at += 1;
            self.digits("after decimal point in numeric literal")?;
        }
        if matches!(self.peek(), Some(b'e' | b'E')) {
            self.at += 1;
            if matches!(self.peek(), Some(b'+' | b'-')) {
                self.at += 1;
            }
            self.digits("in exponent of numeric literal")?;
        }
        Ok(())
    }

    fn digits(&mut self, context: &str) -> Result<(), String> {
        let byte = self.need(self.peek())?;
        if !byte.is_ascii_digit() {
            return Err(Self::invalid(byte, context));
        }
        while matches!(self.peek(), Some(b'0'..=b'9')) {
            self.at += 1;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_read_as_in_go() {
        for (text, want) in [
            ("", "unexpected end of JSON input"),
            ("nope", "invalid character 'o' in literal null (expecting 'u')"),
            ("{", "unexpected end of JSON input"),
            (
                "{]",
                "invalid character ']' looking for beginning of object key string",
            ),
            ("[1 2]", "invalid character '2' after array element"),
            ("{\"a\" 1}", "invalid character '1' after object key"),
            (
                "{\"a\":1 \"b\"}",
                "invalid character '\"' after object key:value pair",
            ),
            ("1 2", "invalid character '2' after top-level value"),
            ("-x", "invalid character 'x' in numeric literal"),
            (
                "1.x",
                "invalid character 'x' after decimal point in numeric literal",
            ),
            ("\"\\q\"", "invalid character 'q' in string escape code"),
            ("'a'", r"invalid character '\'' looking for beginning of value"),
            ("[1,]", "invalid character ']' looking for beginning of value"),
        ] {
            assert_eq!(parse(text.as_bytes()).unwrap_err(), want, "{text}");
        }
        assert!(parse(b"{\"a\": [1, -2.5e3, \"\\u00e9\", null]}").is_ok());
    }
}
