//! XDR (RFC 4506), as far as libvirt uses it: everything is big-endian and a multiple of four bytes.
//!
//! Lengths are checked against libvirt's own limits and against what is there, before memory is taken.

use crate::error::Error;

/// Longest string of libvirt's protocol.
pub const LONGEST_STRING: usize = 4 << 20;

/// What can be sent.
pub trait Encode {
    fn put(&self, out: &mut Vec<u8>);
    /// The type in the notation of the tests' recorded protocol.
    fn shape() -> String;
}

/// What can be received.
pub trait Decode: Sized {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error>;
}

/// Bytes that have not been read yet.
#[derive(Debug)]
pub struct Reader<'a>(&'a [u8]);

fn malformed(what: &str) -> Error {
    Error::Malformed(what.to_owned())
}

impl<'a> Reader<'a> {
    pub fn new(bytes: &'a [u8]) -> Self {
        Reader(bytes)
    }

    pub fn left(&self) -> usize {
        self.0.len()
    }

    /// A whole message: nothing may be left.
    pub fn whole<T: Decode>(bytes: &'a [u8]) -> Result<T, Error> {
        let mut reader = Reader(bytes);
        let value = T::take(&mut reader)?;
        match reader.left() {
            0 => Ok(value),
            left => Err(Error::Malformed(format!("{left} bytes are left over"))),
        }
    }

    fn bytes(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let (taken, rest) = self
            .0
            .split_at_checked(count)
            .ok_or_else(|| malformed("it ends too early"))?;
        self.0 = rest;
        Ok(taken)
    }

    fn word<const N: usize>(&mut self) -> Result<[u8; N], Error> {
        let mut word = [0; N];
        word.copy_from_slice(self.bytes(N)?);
        Ok(word)
    }

    fn padded(&mut self, count: usize) -> Result<&'a [u8], Error> {
        let bytes = self.bytes(count)?;
        self.bytes(padding(count))?;
        Ok(bytes)
    }

    fn length(&mut self, most: usize) -> Result<usize, Error> {
        let length = u32::take(self)? as usize;
        if length <= most {
            Ok(length)
        } else {
            Err(Error::Malformed(format!("{length} of at most {most}")))
        }
    }
}

fn padding(count: usize) -> usize {
    count.wrapping_neg() % 4
}

fn put_padded(bytes: &[u8], out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + padding(bytes.len()), 0);
}

fn put_length(length: usize, out: &mut Vec<u8>) {
    // What is longer than this is longer than any message may be, which is checked before it is sent.
    u32::try_from(length).unwrap_or(u32::MAX).put(out);
}

macro_rules! number {
    ($($type:ty: $shape:literal),*) => {$(
        impl Encode for $type {
            fn put(&self, out: &mut Vec<u8>) {
                out.extend_from_slice(&self.to_be_bytes());
            }
            fn shape() -> String {
                $shape.to_owned()
            }
        }
        impl Decode for $type {
            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                Ok(<$type>::from_be_bytes(from.word()?))
            }
        }
    )*};
}
number!(i32: "int", u32: "uint", i64: "hyper", u64: "uhyper", f64: "double");

/// Numbers of one and two bytes take four, as all do.
macro_rules! small {
    ($($type:ty: $shape:literal),*) => {$(
        impl Encode for $type {
            fn put(&self, out: &mut Vec<u8>) {
                u32::from(*self).put(out);
            }
            fn shape() -> String {
                $shape.to_owned()
            }
        }
        impl Decode for $type {
            fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
                let wide = u32::take(from)?;
                wide.try_into().map_err(|_| malformed("a number is too large"))
            }
        }
    )*};
}
small!(u8: "uchar", u16: "ushort");

impl Encode for () {
    fn put(&self, _: &mut Vec<u8>) {}
    fn shape() -> String {
        String::new()
    }
}
impl Decode for () {
    fn take(_: &mut Reader<'_>) -> Result<Self, Error> {
        Ok(())
    }
}

impl Encode for str {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.len(), out);
        put_padded(self.as_bytes(), out);
    }
    fn shape() -> String {
        "string".to_owned()
    }
}
impl Encode for String {
    fn put(&self, out: &mut Vec<u8>) {
        self.as_str().put(out);
    }
    fn shape() -> String {
        str::shape()
    }
}
/// Text of guests and disks need not be UTF-8; one odd name must not hide all others.
impl Decode for String {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let length = from.length(LONGEST_STRING)?;
        Ok(String::from_utf8_lossy(from.padded(length)?).into_owned())
    }
}

impl<T: Encode + ?Sized> Encode for &T {
    fn put(&self, out: &mut Vec<u8>) {
        (*self).put(out);
    }
    fn shape() -> String {
        T::shape()
    }
}

impl<T: Encode> Encode for Option<T> {
    fn put(&self, out: &mut Vec<u8>) {
        u32::from(self.is_some()).put(out);
        if let Some(value) = self {
            value.put(out);
        }
    }
    fn shape() -> String {
        format!("{}?", T::shape())
    }
}
impl<T: Decode> Decode for Option<T> {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match u32::take(from)? {
            0 => Ok(None),
            1 => T::take(from).map(Some),
            other => Err(Error::Malformed(format!("{other} is neither there nor not"))),
        }
    }
}

/// A list of at most `MOST`.
#[derive(Clone, Debug, PartialEq)]
pub struct List<T, const MOST: usize>(pub Vec<T>);

impl<T: Encode, const MOST: usize> Encode for List<T, MOST> {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.0.len(), out);
        self.0.iter().for_each(|item| item.put(out));
    }
    fn shape() -> String {
        format!("({})<{MOST}>", T::shape())
    }
}
impl<T: Decode, const MOST: usize> Decode for List<T, MOST> {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let length = from.length(MOST)?;
        // No item takes less than four bytes: a length alone takes no memory.
        let mut items = Vec::with_capacity(length.min(from.left() / 4));
        for _ in 0..length {
            items.push(T::take(from)?);
        }
        Ok(List(items))
    }
}

/// Bytes, at most `MOST`. They may be a secret: nothing prints them.
#[derive(Clone, PartialEq, Eq)]
pub struct Opaque<const MOST: usize>(pub Vec<u8>);

impl<const MOST: usize> std::fmt::Debug for Opaque<MOST> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes", self.0.len())
    }
}
impl<const MOST: usize> Encode for Opaque<MOST> {
    fn put(&self, out: &mut Vec<u8>) {
        put_length(self.0.len(), out);
        put_padded(&self.0, out);
    }
    fn shape() -> String {
        format!("opaque<{MOST}>")
    }
}
impl<const MOST: usize> Decode for Opaque<MOST> {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let length = from.length(MOST)?;
        Ok(Opaque(from.padded(length)?.to_vec()))
    }
}

impl Encode for [u8; 16] {
    fn put(&self, out: &mut Vec<u8>) {
        out.extend_from_slice(self);
    }
    fn shape() -> String {
        "opaque[16]".to_owned()
    }
}
impl Decode for [u8; 16] {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        from.word()
    }
}

/// A text in an array of 32 characters, of which XDR gives each four bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Model(pub String);

const MODEL: usize = 32;

impl Encode for Model {
    fn put(&self, out: &mut Vec<u8>) {
        // The last one ends the text.
        let bytes = self.0.bytes().take(MODEL - 1).chain(std::iter::repeat(0));
        bytes.take(MODEL).for_each(|byte| byte.put(out));
    }
    fn shape() -> String {
        format!("char[{MODEL}]")
    }
}
impl Decode for Model {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        let mut text = Vec::with_capacity(MODEL);
        for _ in 0..MODEL {
            // Characters have a sign: only the last byte counts.
            text.push(from.word::<4>()?[3]);
        }
        let end = text.iter().position(|byte| *byte == 0).unwrap_or(MODEL);
        Ok(Model(String::from_utf8_lossy(&text[..end]).into_owned()))
    }
}

/// A structure: its fields one after the other.
macro_rules! record {
    ($($(#[$meta:meta])* $name:ident { $($(#[$doc:meta])* $field:ident: $type:ty,)* })*) => {$(
        $(#[$meta])*
        #[derive(Clone, Debug, PartialEq)]
        pub struct $name { $($(#[$doc])* pub $field: $type,)* }

        impl $crate::xdr::Encode for $name {
            fn put(&self, out: &mut Vec<u8>) {
                $($crate::xdr::Encode::put(&self.$field, out);)*
            }
            fn shape() -> String {
                [$(<$type as $crate::xdr::Encode>::shape()),*].join(" ")
            }
        }
        impl $crate::xdr::Decode for $name {
            fn take(from: &mut $crate::xdr::Reader<'_>) -> Result<Self, $crate::error::Error> {
                Ok($name { $($field: $crate::xdr::Decode::take(from)?,)* })
            }
        }
    )*};
}
pub(crate) use record;
