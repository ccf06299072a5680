//! Addresses as Go's `mail.ParseAddress` reads them.

/// Whether a text is one address, with or without a display name.
pub(super) fn is_address(s: &str) -> bool {
    let mut plain = Scanner(s);
    plain.skip_space();
    if plain.addr_spec() {
        plain.skip_comments();
        if plain.0.is_empty() {
            return true;
        }
    }
    let mut named = Scanner(s);
    named.skip_space();
    if !named.0.starts_with('<') && !named.phrase() {
        return false;
    }
    named.skip_space();
    if !named.take('<') || !named.addr_spec() || !named.take('>') {
        return false;
    }
    named.skip_comments();
    named.0.is_empty()
}

struct Scanner<'a>(&'a str);

impl Scanner<'_> {
    fn skip_space(&mut self) {
        self.0 = self.0.trim_start_matches([' ', '\t']);
    }

    fn skip_comments(&mut self) {
        self.skip_space();
        while self.0.starts_with('(') && self.comment() {
            self.skip_space();
        }
    }

    fn take(&mut self, c: char) -> bool {
        match self.0.strip_prefix(c) {
            Some(rest) => {
                self.0 = rest;
                true
            }
            None => false,
        }
    }

    fn comment(&mut self) -> bool {
        let mut depth = 0usize;
        let mut escaped = false;
        for (i, c) in self.0.char_indices() {
            match c {
                _ if escaped => escaped = false,
                '\\' => escaped = true,
                '(' => depth += 1,
                ')' => {
                    depth -= 1;
                    if depth == 0 {
                        self.0 = &self.0[i + 1..];
                        return true;
                    }
                }
                _ => {}
            }
        }
        false
    }

    fn addr_spec(&mut self) -> bool {
        self.skip_space();
        let local = if self.0.starts_with('"') {
            self.quoted().is_some_and(|len| len > 0)
        } else {
            self.atom(true)
        };
        if !local || !self.take('@') {
            return false;
        }
        self.skip_space();
        if self.0.is_empty() {
            return false;
        }
        if self.0.starts_with('[') {
            return self.domain_literal();
        }
        self.atom(true)
    }

    fn domain_literal(&mut self) -> bool {
        let Some(end) = self.0.find(']') else {
            return false;
        };
        let literal = &self.0[1..end];
        let fine = literal.parse::<std::net::IpAddr>().is_ok();
        self.0 = &self.0[end + 1..];
        fine
    }

    fn atom(&mut self, dots: bool) -> bool {
        let end = self
            .0
            .find(|c: char| !is_atom_char(c, dots))
            .unwrap_or(self.0.len());
        let atom = &self.0[..end];
        self.0 = &self.0[end..];
        !atom.is_empty() && !atom.starts_with('.') && !atom.ends_with('.') && !atom.contains("..")
    }

    /// A display name may have dots anywhere.
    fn loose_atom(&mut self) -> bool {
        let end = self
            .0
            .find(|c: char| !is_atom_char(c, true))
            .unwrap_or(self.0.len());
        let fine = end > 0;
        self.0 = &self.0[end..];
        fine
    }

    /// The length of the quoted text, if it is well-formed.
    fn quoted(&mut self) -> Option<usize> {
        let mut escaped = false;
        let mut len = 0;
        for (i, c) in self.0.char_indices().skip(1) {
            match c {
                _ if escaped => {
                    escaped = false;
                    len += 1;
                }
                '\\' => escaped = true,
                '"' => {
                    self.0 = &self.0[i + 1..];
                    return Some(len);
                }
                '\t' | ' '..='~' | '\u{80}'.. => len += 1,
                _ => return None,
            }
        }
        None
    }

    fn phrase(&mut self) -> bool {
        let mut words = 0;
        loop {
            self.skip_space();
            if self.0.is_empty() {
                break;
            }
            let fine = if self.0.starts_with('"') {
                self.quoted().is_some()
            } else {
                self.loose_atom()
            };
            if !fine {
                break;
            }
            words += 1;
        }
        words > 0
    }
}

fn is_atom_char(c: char, dots: bool) -> bool {
    match c {
        '.' => dots,
        '(' | ')' | '<' | '>' | '[' | ']' | ':' | ';' | '@' | '\\' | ',' | '"' => false,
        c => ('!'..='~').contains(&c) || c as u32 >= 0x80,
    }
}
