//! The wire format: numbered fields, one after the other.

use super::ProtobufError;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Field<'a> {
    Varint(u64),
    Fixed64(u64),
    Fixed32(u32),
    Bytes(&'a [u8]),
}

/// Reads the fields of a message. The first fault ends it.
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn varint(&mut self) -> Result<u64, ProtobufError> {
        let mut number = 0_u64;
        for shift in (0..64).step_by(7) {
            let (byte, rest) = self.rest.split_first().ok_or(ProtobufError::Truncated)?;
            self.rest = rest;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return Ok(number);
            }
        }
        Err(ProtobufError::Malformed("a number is too long"))
    }

    fn take(&mut self, length: u64) -> Result<&'a [u8], ProtobufError> {
        let length = usize::try_from(length).map_err(|_| ProtobufError::Truncated)?;
        let (taken, rest) = self
            .rest
            .split_at_checked(length)
            .ok_or(ProtobufError::Truncated)?;
        self.rest = rest;
        Ok(taken)
    }

    fn field(&mut self) -> Result<(u32, Field<'a>), ProtobufError> {
        let tag = self.varint()?;
        let number =
            u32::try_from(tag >> 3).map_err(|_| ProtobufError::Malformed("a field has no number"))?;
        let field = match tag & 7 {
            0 => Field::Varint(self.varint()?),
            1 => Field::Fixed64(u64::from_le_bytes(array(self.take(8)?)?)),
            2 => {
                let length = self.varint()?;
                Field::Bytes(self.take(length)?)
            }
            5 => Field::Fixed32(u32::from_le_bytes(array(self.take(4)?)?)),
            _ => return Err(ProtobufError::Malformed("a field has a type that is not used")),
        };
        Ok((number, field))
    }
}

fn array<const N: usize>(bytes: &[u8]) -> Result<[u8; N], ProtobufError> {
    bytes.try_into().map_err(|_| ProtobufError::Truncated)
}

impl<'a> Iterator for Reader<'a> {
    type Item = Result<(u32, Field<'a>), ProtobufError>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let field = self.field();
        if field.is_err() {
            self.rest = &[];
        }
        Some(field)
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<String, ProtobufError> {
    let text = std::str::from_utf8(bytes).map_err(|_| ProtobufError::Malformed("a text is not UTF-8"))?;
    Ok(text.to_owned())
}

pub(super) fn packed(bytes: &[u8]) -> Result<Vec<u64>, ProtobufError> {
    let mut reader = Reader::new(bytes);
    let mut numbers = Vec::new();
    while !reader.rest.is_empty() {
        numbers.push(reader.varint()?);
    }
    Ok(numbers)
}
