//! Sets of Fernet keys: `0` is staged, the highest number is primary, the others still decrypt.
//!
//! A rotation turns the staged key into the primary one. Every server has had the staged key since
//! the last rotation, so a token of the new primary is understood everywhere at once. (ARCHITECTURE.md
//! tells this rotation from the three others.)

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::URL_SAFE;

/// Number → key text, as the files of a key repository.
pub type Keys = BTreeMap<u32, String>;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum KeyError {
    #[error("key file {0:?} is not a number")]
    Name(String),
    #[error("key {0} is not 32 bytes in URL-safe base64")]
    Format(u32),
    #[error("keys {0} and {1} are the same")]
    Double(u32, u32),
    #[error("there are {0} keys, at least 2 are needed: a staged one (0) and a primary one")]
    TooFew(usize),
    #[error("the staged key (0) is missing")]
    NoStaged,
}

/// A new key from 32 random bytes.
pub fn key(random: [u8; 32]) -> String {
    URL_SAFE.encode(random)
}

/// The first set: a staged and a primary key.
pub fn first(staged: [u8; 32], primary: [u8; 32]) -> Keys {
    Keys::from([(0, key(staged)), (1, key(primary))])
}

/// The next set: staged becomes primary, a fresh key is staged, the oldest go beyond `most`.
pub fn rotate(keys: &Keys, fresh: [u8; 32], most: usize) -> Result<Keys, KeyError> {
    check(keys)?;
    let mut next = keys.clone();
    let primary = keys.keys().last().copied().unwrap_or(0);
    let staged = next.remove(&0).ok_or(KeyError::NoStaged)?;
    next.insert(primary + 1, staged);
    // `most` counts the staged key too; primary and one that still decrypts always stay.
    while next.len() + 1 > most.max(3) {
        next.pop_first();
    }
    next.insert(0, key(fresh));
    check(&next)?;
    Ok(next)
}

/// Count, format and uniqueness.
pub fn check(keys: &Keys) -> Result<(), KeyError> {
    if keys.len() < 2 {
        return Err(KeyError::TooFew(keys.len()));
    }
    if !keys.contains_key(&0) {
        return Err(KeyError::NoStaged);
    }
    for (number, text) in keys {
        if URL_SAFE.decode(text).ok().is_none_or(|bytes| bytes.len() != 32) {
            return Err(KeyError::Format(*number));
        }
        if let Some((other, _)) = keys.iter().find(|(other, same)| *other < number && *same == text) {
            return Err(KeyError::Double(*other, *number));
        }
    }
    Ok(())
}

/// From the data of a Secret.
pub fn parse<'a>(data: impl IntoIterator<Item = (&'a String, &'a [u8])>) -> Result<Keys, KeyError> {
    let mut keys = Keys::new();
    for (name, value) in data {
        let number = name.parse().map_err(|_| KeyError::Name(name.clone()))?;
        let text = std::str::from_utf8(value).map_err(|_| KeyError::Format(number))?;
        keys.insert(number, text.to_owned());
    }
    check(&keys)?;
    Ok(keys)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_staged_key_becomes_primary_and_the_old_primary_still_decrypts() {
        let one = first([1; 32], [2; 32]);
        let two = rotate(&one, [3; 32], 3).expect("rotates");
        assert_eq!(two[&2], one[&0], "staged is primary now");
        assert_eq!(two[&1], one[&1], "primary still decrypts");
        assert_eq!(two[&0], key([3; 32]));
        let three = rotate(&two, [4; 32], 3).expect("rotates");
        assert_eq!(three.keys().copied().collect::<Vec<_>>(), [0, 2, 3]);
    }

    #[test]
    fn broken_sets_are_refused() {
        let good = first([1; 32], [2; 32]);
        let mut short = good.clone();
        short.insert(1, "c2hvcnQ=".into());
        assert_eq!(check(&short), Err(KeyError::Format(1)));
        let double = first([1; 32], [1; 32]);
        assert_eq!(check(&double), Err(KeyError::Double(0, 1)));
        assert_eq!(check(&Keys::from([(0, key([1; 32]))])), Err(KeyError::TooFew(1)));
        assert_eq!(
            rotate(&good, [1; 32], 3),
            Err(KeyError::Double(0, 2)),
            "a key is never used twice"
        );
        let name = "x".to_owned();
        assert_eq!(parse([(&name, b"" as &[u8])]), Err(KeyError::Name(name.clone())));
    }

    proptest! {
        #[test]
        fn what_was_primary_decrypts_until_it_is_pushed_out(rotations in 1usize..12, most in 3usize..8) {
            let mut keys = first([200; 32], [201; 32]);
            let mut primaries = vec![keys[&1].clone()];
            for round in 0..rotations {
                keys = rotate(&keys, [u8::try_from(round).unwrap(); 32], most).expect("rotates");
                primaries.push(keys.values().last().unwrap().clone());
                prop_assert!(keys.len() <= most);
                // All but the staged key are the latest primaries, newest last.
                let decrypting: Vec<_> = keys.iter().filter(|(n, _)| **n > 0).map(|(_, k)| k.clone()).collect();
                prop_assert!(primaries.ends_with(&decrypting));
                prop_assert!(decrypting.len() >= 2);
            }
        }
    }
}
