//! The steps that fill a layer.

pub(crate) mod debian;
pub(crate) mod python;
pub(crate) mod tree;

use std::collections::BTreeMap;

/// A word that the shell takes as it is.
pub(crate) fn quote(word: &str) -> String {
    format!("'{}'", word.replace('\'', "'\\''"))
}

/// Environment variables of one step.
pub(crate) type Variables = BTreeMap<String, String>;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shell_takes_a_quoted_word_as_it_is() {
        for word in ["", "a b", "it's", "$(rm -rf /)", "a\nb", "\\"] {
            let script = format!("printf %s {}", quote(word));
            let output = std::process::Command::new("/bin/sh")
                .args(["-c", &script])
                .output()
                .unwrap();
            assert_eq!(String::from_utf8(output.stdout).unwrap(), word);
        }
    }
}
