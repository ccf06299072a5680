//! Keys of cephx, and the files that hold them.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write;

/// AES with 128 bits: the only kind that Ceph 18 has.
const AES: u16 = 1;
const LENGTH: u16 = 16;

/// A key as cephx writes it: kind, time of making, length, bytes.
pub(crate) fn key(bytes: &[u8; 16], seconds: u32) -> String {
    let mut raw = Vec::with_capacity(28);
    raw.extend(AES.to_le_bytes());
    raw.extend(seconds.to_le_bytes());
    raw.extend(0u32.to_le_bytes());
    raw.extend(LENGTH.to_le_bytes());
    raw.extend(bytes);
    STANDARD.encode(raw)
}

/// Fresh keys for one pass: each name has its own, all from one handful of random bytes.
#[derive(Clone, Copy)]
pub(crate) struct Mint {
    pub seed: [u8; 32],
    pub seconds: u32,
}

impl Mint {
    pub(crate) fn new(seed: [u8; 32]) -> Self {
        let now = jiff::Timestamp::now().as_second();
        let seconds = u32::try_from(now).unwrap_or_default();
        Self { seed, seconds }
    }

    pub(crate) fn key(&self, name: &str) -> String {
        let digest = Sha256::new()
            .chain_update(self.seed)
            .chain_update(name)
            .finalize();
        let mut bytes = [0; 16];
        bytes.copy_from_slice(&digest[..16]);
        key(&bytes, self.seconds)
    }
}

/// A key shows in no log.
impl std::fmt::Debug for Mint {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("fresh keys")
    }
}

/// The 16 bytes as a UUID of random bytes (version 4).
pub(crate) fn uuid(text: &str) -> String {
    let digest = Sha256::digest(text);
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&digest[..16]);
    bytes[6] = bytes[6] & 0x0f | 0x40;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex = hex::encode(bytes);
    [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]].join("-")
}

pub(crate) type Caps = BTreeMap<String, String>;

pub(crate) fn caps(of: &[(&str, &str)]) -> Caps {
    of.iter()
        .map(|(daemon, cap)| ((*daemon).to_owned(), (*cap).to_owned()))
        .collect()
}

pub(crate) fn all_caps() -> Caps {
    caps(&[
        ("mds", "allow *"),
        ("mgr", "allow *"),
        ("mon", "allow *"),
        ("osd", "allow *"),
    ])
}

pub(crate) fn mgr_caps() -> Caps {
    caps(&[
        ("mds", "allow *"),
        ("mon", "allow profile mgr"),
        ("osd", "allow *"),
    ])
}

/// One entry of a keyring. Capabilities were checked to have no quotes and no ends of lines.
pub(crate) fn entry(entity: &str, key: &str, caps: &Caps) -> String {
    let mut text = format!("[{entity}]\n\tkey = {key}\n");
    for (daemon, cap) in caps {
        let _ = writeln!(text, "\tcaps {daemon} = \"{cap}\"");
    }
    text
}

/// The key of an entity in a keyring.
pub(crate) fn key_in(keyring: &str, entity: &str) -> Option<String> {
    let header = format!("[{entity}]");
    let mut lines = keyring.lines().map(str::trim).skip_while(|line| *line != header);
    lines.next()?;
    let mut own = lines.take_while(|line| !line.starts_with('['));
    own.find_map(|line| {
        Some(
            line.strip_prefix("key")?
                .trim()
                .strip_prefix('=')?
                .trim()
                .to_owned(),
        )
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_key_has_the_form_of_ceph_authtool() {
        // Made by `ceph-authtool --gen-print-key`: its kind and length stand where ours do.
        let theirs = STANDARD
            .decode("AQBiW0VpAAAAABAAUL4FVHJzJCeNXAIWaw5yVw==")
            .expect("base64");
        let ours = STANDARD.decode(key(&[7; 16], 0x6945_5b62)).expect("base64");
        assert_eq!(ours.len(), theirs.len());
        assert_eq!(ours[..12], theirs[..12]);
    }

    #[test]
    fn a_keyring_is_read_as_it_was_written() {
        let text =
            entry("mon.", "K1", &caps(&[("mon", "allow *")])) + &entry("client.admin", "K2", &all_caps());
        assert_eq!(key_in(&text, "mon.").as_deref(), Some("K1"));
        assert_eq!(key_in(&text, "client.admin").as_deref(), Some("K2"));
        assert_eq!(key_in(&text, "client.other"), None);
        assert_eq!(key_in("[client.x]\n[client.y]\nkey = Y\n", "client.x"), None);
    }

    #[test]
    fn a_uuid_belongs_to_its_text() {
        let id = uuid("a claim");
        assert_eq!(id, uuid("a claim"));
        assert_ne!(id, uuid("another"));
        assert_eq!((id.len(), id.matches('-').count()), (36, 4));
        assert_eq!(&id[14..15], "4");
    }

    proptest! {
        #[test]
        fn names_have_keys_of_their_own(seed in any::<[u8; 32]>(), one in "[a-z]{1,8}", other in "[a-z]{1,8}") {
            let mint = Mint { seed, seconds: 1 };
            prop_assert_eq!(one == other, mint.key(&one) == mint.key(&other));
        }
    }
}
