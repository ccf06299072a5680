//! Builds a configuration file.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Group → option → value. Rendering is deterministic: groups and options are sorted, DEFAULT first.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Ini(BTreeMap<String, BTreeMap<String, String>>);

impl Ini {
    pub fn set(&mut self, group: &str, option: &str, value: impl Into<String>) -> &mut Self {
        self.0
            .entry(group.to_owned())
            .or_default()
            .insert(option.to_owned(), value.into());
        self
    }

    /// What `other` says wins.
    pub fn overlay(&mut self, other: &BTreeMap<String, BTreeMap<String, String>>) -> &mut Self {
        for (group, options) in other {
            for (option, value) in options {
                // Dashes and underscores are the same to oslo.config: keep one of the two.
                self.set(group, &option.replace('-', "_"), value);
            }
        }
        self
    }

    pub fn get(&self, group: &str, option: &str) -> Option<&str> {
        self.0.get(group)?.get(option).map(String::as_str)
    }

    /// Each group with its options.
    pub fn iter(&self) -> impl Iterator<Item = (&String, &BTreeMap<String, String>)> {
        self.0.iter()
    }

    /// These groups alone.
    pub fn only(&self, groups: &[&str]) -> Self {
        let chosen = self
            .0
            .iter()
            .filter(|(group, _)| groups.contains(&group.as_str()));
        Ini(chosen
            .map(|(group, options)| (group.clone(), options.clone()))
            .collect())
    }

    pub fn render(&self) -> String {
        let mut text = String::new();
        let default = self.0.get_key_value("DEFAULT");
        let others = self.0.iter().filter(|(group, _)| *group != "DEFAULT");
        for (group, options) in default.into_iter().chain(others) {
            if !text.is_empty() {
                text.push('\n');
            }
            // Writing to a String cannot fail.
            let _ = writeln!(text, "[{group}]");
            for (option, value) in options {
                // A line break in a value goes on in an indented line; Python takes a lone return for one.
                let value = escape(value)
                    .replace("\r\n", "\n")
                    .replace(['\n', '\r'], "\n    ");
                let _ = writeln!(text, "{option} = {value}");
            }
        }
        text
    }
}

/// oslo.config replaces `$name`; a dollar that is meant as such is doubled. `${…}` stays.
fn escape(value: &str) -> String {
    let mut out = String::with_capacity(value.len());
    let mut rest = value.chars().peekable();
    while let Some(c) = rest.next() {
        out.push(c);
        if c == '$' {
            match rest.peek() {
                Some('$') => out.extend(rest.next()),
                Some(next) if next.is_ascii_alphabetic() || *next == '{' || *next == '_' => {}
                _ => out.push('$'),
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_sorted_with_default_first_and_the_last_word_wins() {
        let mut ini = Ini::default();
        ini.set("token", "provider", "fernet")
            .set("cache", "enabled", "true")
            .set("DEFAULT", "use_stderr", "true");
        let extra = BTreeMap::from([(
            "cache".to_owned(),
            BTreeMap::from([("enabled".to_owned(), "false".to_owned())]),
        )]);
        ini.overlay(&extra);
        assert_eq!(
            ini.render(),
            "[DEFAULT]\nuse_stderr = true\n\n[cache]\nenabled = false\n\n[token]\nprovider = fernet\n"
        );
    }

    #[test]
    fn a_dollar_is_a_dollar() {
        let mut ini = Ini::default();
        ini.set("a", "price", "5$")
            .set("a", "reference", "$state_path/x")
            .set("a", "done", "1$$");
        assert_eq!(
            ini.render(),
            "[a]\ndone = 1$$\nprice = 5$$\nreference = $state_path/x\n"
        );
    }
}
