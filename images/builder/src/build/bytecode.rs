//! Makes compiled Python files a function of their source alone.
//!
//! `marshal` marks an object as shareable when anything in the compiling process happens to hold it,
//! so that the same source gives different bytes from run to run. Marks that no later reference
//! uses carry no meaning: they are cleared, and the references are counted again.

const FLAG_REF: u8 = 0x80;
/// Bytecode of Python 3.11 to 3.13: one layout of code objects.
const MAGIC: std::ops::Range<u16> = 3495..3600;
/// magic, flags, source hash
const HEADER: usize = 16;
/// Hash-based and not compared with the source: images are never edited in place.
const UNCHECKED_HASH: [u8; 4] = [1, 0, 0, 0];
const DEPTH: usize = 500;

/// The normal form of a `.pyc` file; `None` when it is not one that is known.
pub(crate) fn normalise(pyc: &[u8]) -> Option<Vec<u8>> {
    let magic = u16::from_le_bytes([*pyc.first()?, *pyc.get(1)?]);
    if !MAGIC.contains(&magic) || pyc.len() < HEADER {
        return None;
    }
    let mut out = pyc.to_vec();
    let timestamped = out[4..8] == [0; 4];
    out[4..8].copy_from_slice(&UNCHECKED_HASH);
    if timestamped {
        // Modification time and size would say nothing in an image.
        out[8..HEADER].fill(0);
    }
    let mut reader = Reader {
        bytes: pyc,
        at: HEADER,
        marks: Vec::new(),
        references: Vec::new(),
    };
    reader.object(0)?;
    if reader.at != pyc.len() {
        return None;
    }
    let mut used = vec![false; reader.marks.len()];
    for (_, index) in &reader.references {
        *used.get_mut(*index)? = true;
    }
    let mut renumbered = vec![0_u32; used.len()];
    let mut next = 0;
    for (index, offset) in reader.marks.iter().enumerate() {
        if used[index] {
            renumbered[index] = next;
            next += 1;
        } else {
            out[*offset] &= !FLAG_REF;
        }
    }
    for (offset, index) in &reader.references {
        out[*offset..offset + 4].copy_from_slice(&renumbered[*index].to_le_bytes());
    }
    Some(out)
}

struct Reader<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Where each object with a mark begins, in order of their numbers.
    marks: Vec<usize>,
    /// Where the number of each reference stands, and the number.
    references: Vec<(usize, usize)>,
}

impl Reader<'_> {
    fn byte(&mut self) -> Option<u8> {
        let byte = *self.bytes.get(self.at)?;
        self.at += 1;
        Some(byte)
    }

    fn long(&mut self) -> Option<i32> {
        let bytes = self.bytes.get(self.at..self.at.checked_add(4)?)?;
        self.at += 4;
        Some(i32::from_le_bytes(bytes.try_into().ok()?))
    }

    fn length(&mut self) -> Option<usize> {
        usize::try_from(self.long()?).ok()
    }

    fn skip(&mut self, count: usize) -> Option<()> {
        let end = self
            .at
            .checked_add(count)
            .filter(|end| *end <= self.bytes.len())?;
        self.at = end;
        Some(())
    }

    fn objects(&mut self, count: usize, depth: usize) -> Option<()> {
        (0..count).try_for_each(|_| self.object(depth).map(drop))
    }

    /// Reads over one object; tells its type.
    fn object(&mut self, depth: usize) -> Option<u8> {
        if depth > DEPTH {
            return None;
        }
        let start = self.at;
        let code = self.byte()?;
        if code & FLAG_REF != 0 {
            self.marks.push(start);
        }
        let kind = code & !FLAG_REF;
        let deeper = depth + 1;
        match kind {
            b'0' | b'N' | b'F' | b'T' | b'S' | b'.' => {}
            b'i' => self.skip(4)?,
            b'I' | b'g' => self.skip(8)?,
            b'y' => self.skip(16)?,
            b'l' => {
                let digits = self.long()?.unsigned_abs() as usize;
                self.skip(digits.checked_mul(2)?)?;
            }
            b's' | b't' | b'u' | b'a' | b'A' => {
                let length = self.length()?;
                self.skip(length)?;
            }
            b'z' | b'Z' => {
                let length = self.byte()?;
                self.skip(usize::from(length))?;
            }
            b'r' => {
                let offset = self.at;
                let index = self.length()?;
                self.references.push((offset, index));
            }
            b')' => {
                let length = self.byte()?;
                self.objects(usize::from(length), deeper)?;
            }
            b'(' | b'[' | b'<' | b'>' => {
                let length = self.length()?;
                self.objects(length, deeper)?;
            }
            b'{' => {
                while self.object(deeper)? != b'0' {
                    self.object(deeper)?;
                }
            }
            b'c' => {
                // Five numbers; code, consts, names, locals, kinds, file, name, qualified name;
                // first line; line table, exception table.
                self.skip(20)?;
                self.objects(8, deeper)?;
                self.skip(4)?;
                self.objects(2, deeper)?;
            }
            _ => return None,
        }
        Some(kind)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn pyc(body: &[u8]) -> Vec<u8> {
        let mut file = 3495_u16.to_le_bytes().to_vec();
        file.extend([0x0d, 0x0a, 0, 0, 0, 0, 9, 9, 9, 9, 8, 8, 8, 8]);
        file.extend(body);
        file
    }

    #[test]
    fn unused_marks_go_and_references_are_counted_anew() {
        // A tuple of two marked strings and a reference to the second.
        let marked = pyc(&[
            b')' | FLAG_REF,
            3,
            b'z' | FLAG_REF,
            1,
            b'a',
            b'z' | FLAG_REF,
            1,
            b'b',
            b'r',
            2,
            0,
            0,
            0,
        ]);
        let plain = pyc(&[b')', 3, b'z', 1, b'a', b'z' | FLAG_REF, 1, b'b', b'r', 0, 0, 0, 0]);
        let normal = normalise(&marked).unwrap();
        assert_eq!(normal, normalise(&plain).unwrap());
        assert_eq!(normal[HEADER..], plain[HEADER..]);
        assert_eq!(normal[4..HEADER], [1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    }

    #[test]
    fn what_is_not_understood_is_left_alone() {
        assert_eq!(normalise(b"short"), None);
        assert_eq!(normalise(&pyc(b"?")), None);
        assert_eq!(normalise(&pyc(&[b'r', 7, 0, 0, 0])), None);
        assert_eq!(normalise(&pyc(b"NN")), None);
    }

    proptest! {
        #[test]
        fn no_input_makes_it_panic(body in prop::collection::vec(any::<u8>(), 0..200)) {
            if let Some(normal) = normalise(&pyc(&body)) {
                prop_assert_eq!(normalise(&normal), Some(normal.clone()));
            }
        }
    }
}
