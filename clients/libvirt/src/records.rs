//! The structures of libvirt's protocol that we use.

use std::fmt;

use crate::error::Error;
use crate::xdr::{Decode, Encode, List, Model, Reader, record};

/// Of one list of domains.
pub const MOST_DOMAINS: usize = 16384;
pub(crate) const MOST_SECRETS: usize = 16384;
pub(crate) const MOST_STATISTICS: usize = 262_144;
pub(crate) const MOST_JOB_STATISTICS: usize = 64;
pub(crate) const MOST_MIGRATION_PARAMETERS: usize = 64;
pub(crate) const LONGEST_COOKIE: usize = 4 << 20;
pub(crate) const LONGEST_SECRET: usize = 65536;
pub(crate) const MOST_KINDS_OF_AUTHENTICATION: usize = 20;

#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Uuid(pub [u8; 16]);

/// In small letters with dashes.
impl fmt::Display for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (position, byte) in self.0.iter().enumerate() {
            if matches!(position, 4 | 6 | 8 | 10) {
                f.write_str("-")?;
            }
            write!(f, "{byte:02x}")?;
        }
        Ok(())
    }
}

impl fmt::Debug for Uuid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::str::FromStr for Uuid {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self, Error> {
        let bad = || Error::Malformed(format!("{text:?} is no UUID"));
        let digits: Vec<u8> = text.bytes().filter(|byte| *byte != b'-').collect();
        if digits.len() != 32 {
            return Err(bad());
        }
        let mut bytes = [0; 16];
        for (byte, pair) in bytes.iter_mut().zip(digits.chunks(2)) {
            let pair = std::str::from_utf8(pair).map_err(|_| bad())?;
            *byte = u8::from_str_radix(pair, 16).map_err(|_| bad())?;
        }
        Ok(Uuid(bytes))
    }
}

impl Encode for Uuid {
    fn put(&self, out: &mut Vec<u8>) {
        self.0.put(out);
    }
    fn shape() -> String {
        <[u8; 16]>::shape()
    }
}
impl Decode for Uuid {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        Decode::take(from).map(Uuid)
    }
}

record! {
    /// A virtual machine, as libvirt knows it.
    #[derive(Eq)]
    Domain {
        name: String,
        uuid: Uuid,
        /// Its number while it runs, else -1.
        id: i32,
    }

    /// A network; only errors name one.
    #[derive(Eq)]
    Network {
        name: String,
        uuid: Uuid,
    }

    /// A key that libvirt hands to QEMU, such as that of a Ceph client. The value is not in it.
    #[derive(Eq)]
    Secret {
        uuid: Uuid,
        usage_type: i32,
        usage_id: String,
    }

    /// Why a call was refused.
    Refusal {
        code: i32,
        domain: i32,
        message: Option<String>,
        level: i32,
        about: Option<Domain>,
        str1: Option<String>,
        str2: Option<String>,
        str3: Option<String>,
        int1: i32,
        int2: i32,
        network: Option<Network>,
    }

    /// CPUs and memory of the host.
    #[derive(Eq)]
    NodeInfo {
        model: Model,
        /// In KiB.
        memory: u64,
        cpus: i32,
        mhz: i32,
        nodes: i32,
        sockets: i32,
        cores: i32,
        threads: i32,
    }

    #[derive(Eq)]
    DomainState {
        state: i32,
        reason: i32,
    }

    #[derive(Eq)]
    DomainInfo {
        state: u8,
        /// In KiB.
        max_memory: u64,
        memory: u64,
        cpus: u16,
        /// In nanoseconds.
        cpu_time: u64,
    }

    /// Times are in milliseconds, sizes in bytes.
    #[derive(Eq)]
    JobInfo {
        kind: i32,
        time_elapsed: u64,
        time_remaining: u64,
        data_total: u64,
        data_processed: u64,
        data_remaining: u64,
        memory_total: u64,
        memory_processed: u64,
        memory_remaining: u64,
        file_total: u64,
        file_processed: u64,
        file_remaining: u64,
    }

    /// All that is known of a job; see [`JobStats::params`] for the names of libvirt.
    JobStats {
        kind: i32,
        params: List<Param, MOST_JOB_STATISTICS>,
    }

    /// Figures of one domain.
    DomainStats {
        domain: Domain,
        params: List<Param, MOST_STATISTICS>,
    }

    /// A named value.
    Param {
        field: String,
        value: Value,
    }

    /// A list and its length.
    Domains {
        domains: List<Domain, MOST_DOMAINS>,
        count: u32,
    }

    /// A list and its length.
    Secrets {
        secrets: List<Secret, MOST_SECRETS>,
        count: u32,
    }
}

impl Domain {
    /// It runs, or is paused.
    pub fn is_active(&self) -> bool {
        self.id >= 0
    }
}

#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    Int(i32),
    UInt(u32),
    Long(i64),
    ULong(u64),
    Double(f64),
    Bool(bool),
    Text(String),
}

impl Value {
    /// A count or a size; what is negative is none.
    pub fn as_u64(&self) -> Option<u64> {
        match self {
            Value::Int(value) => u64::try_from(*value).ok(),
            Value::UInt(value) => Some(u64::from(*value)),
            Value::Long(value) => u64::try_from(*value).ok(),
            Value::ULong(value) => Some(*value),
            Value::Bool(value) => Some(u64::from(*value)),
            Value::Double(_) | Value::Text(_) => None,
        }
    }

    pub fn as_str(&self) -> Option<&str> {
        match self {
            Value::Text(text) => Some(text),
            _ => None,
        }
    }
}

impl Encode for Value {
    fn put(&self, out: &mut Vec<u8>) {
        match self {
            Value::Int(value) => value.put_after(1, out),
            Value::UInt(value) => value.put_after(2, out),
            Value::Long(value) => value.put_after(3, out),
            Value::ULong(value) => value.put_after(4, out),
            Value::Double(value) => value.put_after(5, out),
            Value::Bool(value) => i32::from(*value).put_after(6, out),
            Value::Text(value) => value.put_after(7, out),
        }
    }
    fn shape() -> String {
        "value".to_owned()
    }
}

trait PutAfter: Encode {
    fn put_after(&self, kind: i32, out: &mut Vec<u8>) {
        kind.put(out);
        self.put(out);
    }
}
impl<T: Encode> PutAfter for T {}

impl Decode for Value {
    fn take(from: &mut Reader<'_>) -> Result<Self, Error> {
        match i32::take(from)? {
            1 => Decode::take(from).map(Value::Int),
            2 => Decode::take(from).map(Value::UInt),
            3 => Decode::take(from).map(Value::Long),
            4 => Decode::take(from).map(Value::ULong),
            5 => Decode::take(from).map(Value::Double),
            6 => i32::take(from).map(|value| Value::Bool(value != 0)),
            7 => Decode::take(from).map(Value::Text),
            other => Err(Error::Malformed(format!("{other} is not a type of a value"))),
        }
    }
}

/// The value of this name.
pub fn param<'a>(params: &'a [Param], field: &str) -> Option<&'a Value> {
    params
        .iter()
        .find(|param| param.field == field)
        .map(|param| &param.value)
}
