//! A key for ssh, in the format of OpenSSH.

use std::fs::{self, DirBuilder, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::Path;

use anyhow::Context;
use aws_lc_rs::encoding::{AsBigEndian, Curve25519SeedBin};
use aws_lc_rs::signature::{Ed25519KeyPair, KeyPair};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use crate::failure::Failure;

const KIND: &str = "ssh-ed25519";
const COMMENT: &str = "c5c3-demo";
/// Characters of a line in the file.
const LINE: usize = 70;
const BLOCK: usize = 8;

/// The public half of the key in this file; the key is made when there is none.
pub(crate) fn public(file: &Path) -> Result<String, Failure> {
    let beside = file.with_extension("pub");
    match fs::read_to_string(&beside) {
        Ok(text) if file.exists() => return Ok(text.trim().to_owned()),
        Ok(_) => {}
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error).with_context(|| format!("cannot read {}", beside.display()))?,
    }
    let pair = Ed25519KeyPair::generate().context("cannot make a key")?;
    let seed = pair.seed().context("cannot make a key")?;
    let seed: Curve25519SeedBin<'_> = seed.as_be_bytes().context("cannot make a key")?;
    let (private, public) = texts(seed.as_ref(), pair.public_key().as_ref());
    // The public half last: with it the pair is complete.
    write(file, &private)?;
    write(&beside, &format!("{public}\n"))?;
    Ok(public)
}

/// For its owner only, and never half of it.
fn write(file: &Path, text: &str) -> Result<(), Failure> {
    let failed = || format!("cannot write {}", file.display());
    if let Some(directory) = file.parent() {
        let mut private = DirBuilder::new();
        private.recursive(true).mode(0o700);
        private.create(directory).with_context(failed)?;
    }
    let part = file.with_extension("part");
    let _ = fs::remove_file(&part);
    let mut options = OpenOptions::new();
    let mut opened = options
        .write(true)
        .create_new(true)
        .mode(0o600)
        .open(&part)
        .with_context(failed)?;
    opened.write_all(text.as_bytes()).with_context(failed)?;
    fs::rename(&part, file).with_context(failed)?;
    Ok(())
}

/// The file of the private half and the line of the public one.
fn texts(seed: &[u8], public: &[u8]) -> (String, String) {
    let blob = [field(KIND.as_bytes()), field(public)].concat();
    // Two equal numbers show whether a passphrase was right; there is none here.
    let check = [0u8; 8];
    let mut private = [
        check.as_slice(),
        &blob,
        &field(&[seed, public].concat()),
        &field(COMMENT.as_bytes()),
    ]
    .concat();
    let padding = private.len().next_multiple_of(BLOCK) - private.len();
    private.extend((1u8..).take(padding));
    let whole = [
        b"openssh-key-v1\0".as_slice(),
        &field(b"none"),
        &field(b"none"),
        &field(b""),
        &1u32.to_be_bytes(),
        &field(&blob),
        &field(&private),
    ]
    .concat();
    let mut text = String::from("-----BEGIN OPENSSH PRIVATE KEY-----\n");
    for (position, character) in STANDARD.encode(whole).chars().enumerate() {
        if position > 0 && position % LINE == 0 {
            text.push('\n');
        }
        text.push(character);
    }
    text.push_str("\n-----END OPENSSH PRIVATE KEY-----\n");
    (text, format!("{KIND} {} {COMMENT}", STANDARD.encode(blob)))
}

/// Bytes with their number before them.
fn field(bytes: &[u8]) -> Vec<u8> {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    [length.to_be_bytes().as_slice(), bytes].concat()
}

/// Whether two public keys are the same, whatever their comments say.
pub(crate) fn same(one: &str, other: &str) -> bool {
    let words = |text: &str| {
        text.split_whitespace()
            .take(2)
            .map(str::to_owned)
            .collect::<Vec<_>>()
    };
    words(one) == words(other)
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;
    use std::process::Command;

    use super::*;

    #[test]
    fn a_key_is_made_once_and_is_for_its_owner_only() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("demo/id_ed25519");
        let first = public(&file).expect("made");
        assert_eq!(public(&file).expect("read"), first);
        let mode = fs::metadata(&file).expect("a file").permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        // A start that broke off before the public half was there starts over.
        fs::remove_file(file.with_extension("pub")).expect("removed");
        assert!(!same(&public(&file).expect("made"), &first));
    }

    #[test]
    fn openssh_reads_the_same_key_from_both_halves() {
        let directory = tempfile::tempdir().expect("a directory");
        let file = directory.path().join("id");
        let made = public(&file).expect("made");
        // Where there is no OpenSSH nothing can be asked.
        let Ok(read) = Command::new("ssh-keygen").arg("-y").arg("-f").arg(&file).output() else {
            return;
        };
        let read = String::from_utf8(read.stdout).expect("UTF-8");
        assert!(same(&read, &made), "{read} is not {made}");
    }
}
