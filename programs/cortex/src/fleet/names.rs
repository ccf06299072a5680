//! Names as small numbers. A name is hashed once, when a request comes in; everything after compares
//! numbers.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

/// No name: what was asked about is not known.
pub const NONE: u32 = u32::MAX;

/// A multiplicative hash. Names come from Nova and from our own objects, never straight from users,
/// and a table holds some ten thousand at most.
#[derive(Clone, Copy, Default)]
pub struct Quick(u64);

const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;

impl Hasher for Quick {
    fn write(&mut self, bytes: &[u8]) {
        let (chunks, rest) = bytes.as_chunks::<8>();
        for chunk in chunks {
            self.add(u64::from_le_bytes(*chunk));
        }
        let mut last = [0; 8];
        last[..rest.len()].copy_from_slice(rest);
        self.add(u64::from_le_bytes(last));
    }

    fn write_u8(&mut self, value: u8) {
        self.add(value.into());
    }

    fn finish(&self) -> u64 {
        self.0
    }
}

impl Quick {
    fn add(&mut self, word: u64) {
        self.0 = (self.0.rotate_left(5) ^ word).wrapping_mul(FACTOR);
        self.0 ^= self.0 >> 32;
    }
}

pub type QuickMap<K, V> = HashMap<K, V, BuildHasherDefault<Quick>>;

/// Names and their numbers, both ways.
#[derive(Clone, Default)]
pub struct Names {
    numbers: QuickMap<Box<str>, u32>,
    names: Vec<Box<str>>,
}

impl Names {
    /// Numbers follow the order of names, so comparing one compares the other.
    pub fn sorted<'a>(names: impl IntoIterator<Item = &'a str>) -> Self {
        let mut names: Vec<&str> = names.into_iter().collect();
        names.sort_unstable();
        names.dedup();
        let mut all = Names::default();
        for name in names {
            all.add(name);
        }
        all
    }

    pub fn add(&mut self, name: &str) -> u32 {
        if let Some(number) = self.numbers.get(name) {
            return *number;
        }
        let number = u32::try_from(self.names.len()).unwrap_or(NONE);
        self.names.push(name.into());
        self.numbers.insert(name.into(), number);
        number
    }

    /// [`NONE`] when it is not known.
    pub fn find(&self, name: &str) -> u32 {
        self.numbers.get(name).copied().unwrap_or(NONE)
    }

    pub fn name(&self, number: u32) -> &str {
        self.names.get(number as usize).map_or("", AsRef::as_ref)
    }

    pub fn len(&self) -> usize {
        self.names.len()
    }

    pub fn is_empty(&self) -> bool {
        self.names.is_empty()
    }

    pub fn iter(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(AsRef::as_ref)
    }
}

/// A set of names for each host, a row of bits each.
#[derive(Clone, Default)]
pub struct Sets {
    names: Names,
    words: usize,
    bits: Vec<u64>,
}

/// Some names as bits of a row.
#[derive(Clone, Debug, Default)]
pub struct Mask {
    bits: Vec<u64>,
    /// A name that no host has.
    unknown: bool,
}

impl Sets {
    pub fn of<'a, I>(rows: impl Iterator<Item = I> + Clone) -> Self
    where
        I: IntoIterator<Item = &'a String>,
    {
        let mut names = Names::default();
        for row in rows.clone() {
            for name in row {
                names.add(name);
            }
        }
        let words = names.len().div_ceil(64);
        let mut bits = Vec::new();
        for row in rows {
            let start = bits.len();
            bits.resize(start + words, 0);
            for name in row {
                let number = names.find(name) as usize;
                bits[start + number / 64] |= 1 << (number % 64);
            }
        }
        Sets { names, words, bits }
    }

    pub fn mask<'a>(&self, names: impl IntoIterator<Item = &'a str>) -> Mask {
        let mut mask = Mask {
            bits: vec![0; self.words],
            unknown: false,
        };
        for name in names {
            match self.names.find(name) {
                NONE => mask.unknown = true,
                number => mask.bits[number as usize / 64] |= 1 << (number % 64),
            }
        }
        mask
    }

    fn row(&self, host: u32) -> &[u64] {
        let start = host as usize * self.words;
        self.bits.get(start..start + self.words).unwrap_or_default()
    }

    /// The host's own names as a mask.
    pub fn mask_of(&self, host: u32) -> Mask {
        Mask {
            bits: self.row(host).to_vec(),
            unknown: false,
        }
    }

    pub fn has_all(&self, host: u32, mask: &Mask) -> bool {
        let pairs = || self.row(host).iter().zip(&mask.bits);
        !mask.unknown && pairs().all(|(row, wanted)| row & wanted == *wanted)
    }

    pub fn has_any(&self, host: u32, mask: &Mask) -> bool {
        self.row(host)
            .iter()
            .zip(&mask.bits)
            .any(|(row, wanted)| row & wanted != 0)
    }

    pub fn has(&self, host: u32, name: &str) -> bool {
        self.has_all(host, &self.mask([name]))
    }

    /// For people.
    pub fn names_of(&self, host: u32) -> Vec<&str> {
        let row = self.row(host);
        let numbered = self.names.iter().enumerate();
        numbered
            .filter(|(number, _)| row[number / 64] & (1 << (number % 64)) != 0)
            .map(|(_, name)| name)
            .collect()
    }
}

/// A short list of numbers for each host, all in one piece.
#[derive(Clone, Default)]
pub struct Lists {
    starts: Vec<u32>,
    items: Vec<u32>,
}

impl Lists {
    pub fn push(&mut self, items: impl IntoIterator<Item = u32>) {
        if self.starts.is_empty() {
            self.starts.push(0);
        }
        self.items.extend(items);
        self.starts.push(u32::try_from(self.items.len()).unwrap_or(NONE));
    }

    pub fn of(&self, host: u32) -> &[u32] {
        let bound = |at: usize| self.starts.get(at).map(|start| *start as usize);
        match (bound(host as usize), bound(host as usize + 1)) {
            (Some(from), Some(to)) => &self.items[from..to],
            _ => &[],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_follow_the_order_of_names() {
        let names = Names::sorted(["b", "a", "c", "a"]);
        assert_eq!((names.find("a"), names.find("c"), names.len()), (0, 2, 3));
        assert_eq!((names.find("d"), names.name(NONE)), (NONE, ""));
    }

    #[test]
    fn sets_hold_more_names_than_a_word_has_bits() {
        let many: Vec<String> = (0..130).map(|n| format!("T{n}")).collect();
        let rows = [many.clone(), vec!["T129".to_owned()], Vec::new()];
        let sets = Sets::of(rows.iter());
        let wanted = sets.mask(["T0", "T129"]);
        assert!(sets.has_all(0, &wanted) && !sets.has_all(1, &wanted) && sets.has_any(1, &wanted));
        assert!(!sets.has_any(2, &wanted) && sets.names_of(1) == ["T129"]);
        let unknown = sets.mask(["other"]);
        assert!(!sets.has_all(0, &unknown), "no host has what no host knows");
        assert!(!sets.has_any(0, &unknown));
    }

    #[test]
    fn lists_of_hosts_that_are_not_there_are_empty() {
        let mut lists = Lists::default();
        lists.push([1, 2]);
        lists.push([]);
        assert_eq!(
            (lists.of(0), lists.of(1), lists.of(2)),
            (&[1, 2][..], &[][..], &[][..])
        );
    }
}
