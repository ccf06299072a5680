//! The part of `smartctl --json` and of `nvme … -o json` that is used. All of it may be missing:
//! every kind of disk tells something else.

use serde::{Deserialize, Deserializer};
use serde_json::Value;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Report {
    pub smartctl: Program,
    pub device: Device,
    pub model_family: String,
    pub model_name: String,
    pub serial_number: String,
    pub firmware_version: String,
    pub user_capacity: Option<Capacity>,
    pub rotation_rate: Option<u64>,
    pub form_factor: Option<Named>,
    pub smart_status: Option<Status>,
    pub temperature: Option<Temperature>,
    pub power_on_time: Option<PowerOn>,
    pub endurance_used: Option<Endurance>,
    pub ata_smart_attributes: Option<Attributes>,
    pub nvme_pci_vendor: Option<PciVendor>,
    pub nvme_total_capacity: Option<u64>,
    pub nvme_smart_health_information_log: Option<Health>,
    pub scsi_vendor: String,
    pub scsi_product: String,
    pub scsi_model_name: String,
    /// Firmware.
    pub scsi_revision: String,
    pub scsi_grown_defect_list: Option<u64>,
    pub scsi_percentage_used_endurance_indicator: Option<u64>,
    pub scsi_error_counter_log: Option<ErrorCounters>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Program {
    pub exit_status: i32,
    pub messages: Vec<Message>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Message {
    pub string: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Device {
    pub name: String,
    pub protocol: String,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Capacity {
    pub bytes: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Named {
    pub name: String,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub(crate) struct Status {
    pub passed: bool,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Temperature {
    pub current: i64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PowerOn {
    pub hours: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Endurance {
    pub current_percent: u64,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attributes {
    pub table: Vec<Attribute>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Attribute {
    pub id: u64,
    pub name: String,
    /// From 100 or 200 down as things get worse.
    pub value: u64,
    pub raw: Raw,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Raw {
    pub value: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct PciVendor {
    pub id: u64,
    pub subsystem_id: u64,
}

/// NVMe's log page 2.
#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Health {
    pub critical_warning: u64,
    pub temperature: i64,
    pub available_spare: u64,
    pub available_spare_threshold: u64,
    pub percentage_used: u64,
    pub data_units_read: u64,
    pub data_units_written: u64,
    pub host_reads: u64,
    pub host_writes: u64,
    pub controller_busy_time: u64,
    pub power_cycles: u64,
    pub power_on_hours: u64,
    pub unsafe_shutdowns: u64,
    pub media_errors: u64,
    pub num_err_log_entries: u64,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorCounters {
    pub read: Option<ErrorCounter>,
    pub write: Option<ErrorCounter>,
    pub verify: Option<ErrorCounter>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorCounter {
    pub total_errors_corrected: u64,
    pub total_uncorrected_errors: u64,
}

/// `smartctl --scan --json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Scan {
    pub devices: Vec<Device>,
}

/// `nvme error-log -o json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct ErrorLog {
    pub errors: Vec<LoggedError>,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct LoggedError {
    /// Zero in places that were never written.
    pub error_count: u64,
}

/// `nvme id-ctrl -o json`.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(crate) struct Controller {
    pub vid: u64,
    pub ssvid: u64,
    #[serde(deserialize_with = "large")]
    pub tnvmcap: u64,
    /// Firmware.
    pub fr: String,
}

/// A number of 128 bits, which releases of nvme-cli write as a number, with a fraction or in quotes.
fn large<'de, D: Deserializer<'de>>(from: D) -> Result<u64, D::Error> {
    let value = Value::deserialize(from)?;
    let text = match &value {
        Value::String(text) => text.trim().to_owned(),
        other => other.to_string(),
    };
    // Of a fraction nothing is wanted, and no disk has more bytes than this holds.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
    let rounded = || text.parse::<f64>().map_or(0, |number| number as u64);
    Ok(text.parse().unwrap_or_else(|_| rounded()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_is_read_as_every_release_writes_it() {
        for (text, bytes) in [
            ("3840755982336", 3_840_755_982_336),
            ("3840755982336.0", 3_840_755_982_336),
            ("\"3840755982336\"", 3_840_755_982_336),
            ("0", 0),
            ("null", 0),
            ("\"unknown\"", 0),
            ("340282366920938463463374607431768211455", u64::MAX),
        ] {
            let read: Controller =
                serde_json::from_str(&format!("{{\"tnvmcap\": {text}}}")).expect("an answer");
            assert_eq!(read.tnvmcap, bytes, "{text}");
        }
    }
}
