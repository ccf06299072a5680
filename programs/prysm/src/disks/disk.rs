//! One disk, whatever it is: the same figures from ATA, SCSI and NVMe.

use std::collections::BTreeMap;

use super::smart::{Attribute, Controller, ErrorLog, Health, Report};

/// More names than any disk has; a firmware that makes them up makes no more series than this.
const MOST_ATTRIBUTES: usize = 128;

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Disk {
    pub device: String,
    /// Empty where no OSD uses it.
    pub osd: String,
    pub about: About,
    pub capacity_bytes: u64,
    /// What the disk thinks of itself; `None` where it has no opinion.
    pub passed: Option<bool>,
    pub temperature: Option<i64>,
    pub reallocated: Option<u64>,
    pub pending: Option<u64>,
    pub grown_defects: Option<u64>,
    pub power_on_hours: Option<u64>,
    /// Percent.
    pub life_used: Option<u64>,
    pub critical_warning: u64,
    pub errors: BTreeMap<&'static str, u64>,
    pub attributes: BTreeMap<String, u64>,
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct About {
    pub vendor: String,
    pub vendor_id: String,
    pub subsystem_vendor_id: String,
    pub model: String,
    pub model_family: String,
    pub product: String,
    pub serial: String,
    pub firmware: String,
    pub form_factor: String,
    /// `hdd`, `ssd` or `nvme`.
    pub media: &'static str,
    pub rpm: u64,
}

impl Disk {
    pub(crate) fn read(report: &Report, osd: &str) -> Self {
        let mut disk = Disk {
            device: report.device.name.clone(),
            osd: osd.to_owned(),
            about: about(report),
            capacity_bytes: report.user_capacity.map_or(0, |capacity| capacity.bytes),
            passed: report.smart_status.map(|status| status.passed),
            temperature: report.temperature.map(|temperature| temperature.current),
            power_on_hours: report.power_on_time.map(|time| time.hours),
            grown_defects: report.scsi_grown_defect_list,
            life_used: report
                .endurance_used
                .map(|used| used.current_percent)
                .or(report.scsi_percentage_used_endurance_indicator),
            ..Disk::default()
        };
        if let Some(attributes) = &report.ata_smart_attributes {
            disk.ata(&attributes.table);
        }
        if let Some(health) = report.nvme_smart_health_information_log {
            disk.capacity_bytes = report.nvme_total_capacity.unwrap_or(disk.capacity_bytes);
            disk.nvme(health);
        }
        disk.scsi(report);
        disk
    }

    /// What nvme-cli knows beyond smartctl.
    pub(crate) fn add(&mut self, controller: Option<&Controller>, log: Option<&ErrorLog>) {
        if let Some(controller) = controller {
            self.about.vendor_id = hex(controller.vid);
            self.about.subsystem_vendor_id = hex(controller.ssvid);
            if self.about.firmware.is_empty() {
                self.about.firmware = controller.fr.trim().to_owned();
            }
            if self.capacity_bytes == 0 {
                self.capacity_bytes = controller.tnvmcap;
            }
        }
        if let Some(log) = log {
            let written = log.errors.iter().filter(|error| error.error_count > 0).count();
            self.attribute("nvme_error_log_entries", written as u64);
        }
    }

    fn ata(&mut self, table: &[Attribute]) {
        let raw = |id: u64| {
            let found = table.iter().find(|attribute| attribute.id == id);
            found.map(|attribute| attribute.raw.value)
        };
        (self.reallocated, self.pending) = (raw(5), raw(197));
        if let Some(count) = raw(199) {
            self.errors.insert("UDMA_CRC_Error_Count", count);
        }
        if self.life_used.is_none() {
            self.life_used = table.iter().find_map(life_used);
        }
        for attribute in table {
            self.attribute(&snake(&attribute.name), attribute.raw.value);
        }
    }

    fn nvme(&mut self, health: Health) {
        self.life_used = Some(health.percentage_used);
        self.critical_warning = health.critical_warning;
        self.power_on_hours = self.power_on_hours.or(Some(health.power_on_hours));
        self.temperature = self.temperature.or(Some(health.temperature));
        self.errors.insert("Media_Errors", health.media_errors);
        for (name, value) in [
            ("critical_warning", health.critical_warning),
            ("available_spare", health.available_spare),
            ("available_spare_threshold", health.available_spare_threshold),
            ("percentage_used", health.percentage_used),
            ("data_units_read", health.data_units_read),
            ("data_units_written", health.data_units_written),
            ("host_read_commands", health.host_reads),
            ("host_write_commands", health.host_writes),
            ("controller_busy_time", health.controller_busy_time),
            ("power_cycle_count", health.power_cycles),
            ("power_on_hours", health.power_on_hours),
            ("unsafe_shutdowns", health.unsafe_shutdowns),
            ("media_and_data_integrity_errors", health.media_errors),
            ("error_information_log_entries", health.num_err_log_entries),
        ] {
            self.attribute(name, value);
        }
    }

    fn scsi(&mut self, report: &Report) {
        if let Some(count) = report.scsi_grown_defect_list {
            self.attribute("grown_defects_count", count);
            self.reallocated = self.reallocated.or(Some(count));
        }
        let Some(log) = report.scsi_error_counter_log else {
            return;
        };
        for (counter, corrected, uncorrected, error) in [
            (
                log.read,
                "read_errors_corrected",
                "total_uncorrected_read_errors",
                "Uncorrected_Read_Errors",
            ),
            (
                log.write,
                "write_errors_corrected",
                "total_uncorrected_write_errors",
                "Uncorrected_Write_Errors",
            ),
            (
                log.verify,
                "verify_errors_corrected",
                "total_uncorrected_verify_errors",
                "Uncorrected_Verify_Errors",
            ),
        ] {
            let Some(counter) = counter else { continue };
            self.attribute(corrected, counter.total_errors_corrected);
            self.attribute(uncorrected, counter.total_uncorrected_errors);
            self.errors.insert(error, counter.total_uncorrected_errors);
        }
    }

    fn attribute(&mut self, name: &str, value: u64) {
        if self.attributes.len() < MOST_ATTRIBUTES || self.attributes.contains_key(name) {
            self.attributes.insert(name.to_owned(), value);
        }
    }
}

fn about(report: &Report) -> About {
    let rpm = report.rotation_rate.unwrap_or_default();
    let media = match report.device.protocol.as_str() {
        "NVMe" => "nvme",
        _ if rpm > 0 => "hdd",
        // smartctl tells a rate of zero for what does not turn, and none where it does not know.
        _ if report.rotation_rate == Some(0) => "ssd",
        _ => "",
    };
    let model = [&report.model_name, &report.scsi_model_name]
        .into_iter()
        .find(|name| !name.is_empty());
    let model = model.cloned().unwrap_or_default();
    let vendor = if report.scsi_vendor.is_empty() {
        vendor(&model, &report.model_family).to_owned()
    } else {
        report.scsi_vendor.trim().to_owned()
    };
    let pci = report.nvme_pci_vendor;
    About {
        vendor,
        vendor_id: pci.map(|pci| hex(pci.id)).unwrap_or_default(),
        subsystem_vendor_id: pci.map(|pci| hex(pci.subsystem_id)).unwrap_or_default(),
        product: if report.scsi_product.is_empty() {
            model.clone()
        } else {
            report.scsi_product.clone()
        },
        model,
        model_family: report.model_family.clone(),
        serial: report.serial_number.clone(),
        firmware: [&report.firmware_version, &report.scsi_revision]
            .map(|text| text.trim())
            .into_iter()
            .find(|text| !text.is_empty())
            .unwrap_or_default()
            .to_owned(),
        form_factor: report
            .form_factor
            .as_ref()
            .map(|form| form.name.clone())
            .unwrap_or_default(),
        media,
        rpm,
    }
}

fn hex(id: u64) -> String {
    format!("0x{id:04X}")
}

/// By how models begin; ATA and NVMe have no field for it.
fn vendor(model: &str, family: &str) -> &'static str {
    const KNOWN: &[(&str, &[&str])] = &[
        ("Intel", &["intel", "ssdsc2", "ssdpe2"]),
        ("Samsung", &["samsung", "mz7", "mzql", "mzwl"]),
        ("Micron", &["micron", "mtfd", "crucial"]),
        ("Seagate", &["seagate", "st"]),
        ("HGST", &["hgst", "huhs"]),
        ("WesternDigital", &["wdc", "wd", "wus", "hus", "western digital"]),
        ("Toshiba", &["toshiba", "mg0", "kxg"]),
        ("Kioxia", &["kioxia"]),
        ("SanDisk", &["sandisk"]),
        ("SK hynix", &["hynix", "sk hynix", "hfs"]),
        ("QEMU", &["qemu"]),
    ];
    let (model, family) = (model.to_lowercase(), family.to_lowercase());
    let begins = |names: &&[&str]| {
        let starts = |text: &str, name: &str| match name {
            // Two letters alone are in too many names.
            "st" => text
                .strip_prefix("st")
                .is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit())),
            name => text.starts_with(name),
        };
        names
            .iter()
            .any(|name| starts(&model, name) || starts(&family, name))
    };
    let found = KNOWN.iter().find(|(_, names)| begins(names));
    found.map(|(vendor, _)| *vendor).unwrap_or_default()
}

/// Percent of a flash disk's life. Names that tell what is left count down by their value; those that
/// tell what is used count up by their raw value.
fn life_used(attribute: &Attribute) -> Option<u64> {
    match snake(&attribute.name).as_str() {
        "media_wearout_indicator"
        | "wear_leveling_count"
        | "ssd_life_left"
        | "ssd_life_left_perc"
        | "percent_lifetime_remain"
        | "percent_life_remaining"
        | "remaining_lifetime_perc" => Some(100_u64.saturating_sub(attribute.value)),
        "perc_rated_life_used"
        | "percent_life_used"
        | "percent_lifetime_used"
        | "drive_life_used"
        | "lifetime_used" => Some(attribute.raw.value),
        _ => None,
    }
}

/// `Reallocated_Sector_Ct` → `reallocated_sector_ct`, `End-to-End_Error` → `end_to_end_error`.
fn snake(name: &str) -> String {
    let mut text = String::with_capacity(name.len());
    for character in name.chars().take(64) {
        match character {
            letter if letter.is_ascii_alphanumeric() => text.push(letter.to_ascii_lowercase()),
            _ if text.is_empty() || text.ends_with('_') => {}
            _ => text.push('_'),
        }
    }
    text.truncate(text.trim_end_matches('_').len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn disk(report: serde_json::Value) -> Disk {
        Disk::read(&serde_json::from_value(report).expect("a report"), "3")
    }

    #[test]
    fn an_ata_disk_by_the_numbers_of_its_attributes() {
        let row = |id: u64, name: &str, value: u64, raw: u64| json!({"id": id, "name": name, "value": value, "raw": {"value": raw}});
        let disk = disk(json!({
            "device": {"name": "/dev/sda", "protocol": "ATA"}, "model_name": "ST8000NM0055", "rotation_rate": 7200,
            "user_capacity": {"bytes": 8_001_563_222_016_u64}, "smart_status": {"passed": false},
            "temperature": {"current": 41}, "power_on_time": {"hours": 52_705},
            "ata_smart_attributes": {"table": [
                row(5, "Reallocated_Sector_Ct", 60, 850), row(197, "Current_Pending_Sector", 100, 4),
                row(199, "UDMA_CRC_Error_Count", 200, 7), row(184, "End-to-End_Error", 100, 0),
            ]},
        }));
        assert_eq!(
            (disk.reallocated, disk.pending, disk.passed),
            (Some(850), Some(4), Some(false))
        );
        assert_eq!(
            (disk.about.vendor.as_str(), disk.about.media, disk.about.rpm),
            ("Seagate", "hdd", 7200)
        );
        assert_eq!(disk.errors["UDMA_CRC_Error_Count"], 7);
        assert_eq!(disk.attributes["end_to_end_error"], 0);
        assert_eq!((disk.life_used, disk.power_on_hours), (None, Some(52_705)));
    }

    #[test]
    fn life_is_counted_the_right_way_round() {
        for (name, value, raw, used) in [
            ("Media_Wearout_Indicator", 97, 0, 3),
            ("Wear_Leveling_Count", 88, 1234, 12),
            ("Percent_Lifetime_Used", 10, 90, 90),
            ("Percent_Lifetime_Remain", 5, 95, 95),
        ] {
            let disk = disk(
                json!({"ata_smart_attributes": {"table": [{"id": 1, "name": name, "value": value, "raw": {"value": raw}}]}}),
            );
            assert_eq!(disk.life_used, Some(used), "{name}");
        }
    }

    #[test]
    fn a_scsi_disk_by_its_grown_defects() {
        let disk = disk(json!({
            "device": {"name": "/dev/sdl", "protocol": "SCSI"}, "scsi_vendor": "HGST    ", "scsi_product": "HUH721010AL5200",
            "scsi_grown_defect_list": 12, "scsi_error_counter_log": {"read": {"total_errors_corrected": 9, "total_uncorrected_errors": 2}},
        }));
        assert_eq!(
            (disk.grown_defects, disk.reallocated, disk.pending),
            (Some(12), Some(12), None)
        );
        assert_eq!(disk.attributes["grown_defects_count"], 12);
        assert_eq!(
            (disk.errors["Uncorrected_Read_Errors"], disk.about.vendor.as_str()),
            (2, "HGST")
        );
    }

    #[test]
    fn names_made_up_by_a_firmware_are_bounded() {
        let table: Vec<_> = (0..1000)
            .map(|id| json!({"id": id, "name": format!("Odd--{id}__"), "value": 1, "raw": {"value": id}}))
            .collect();
        let disk = disk(json!({"ata_smart_attributes": {"table": table}}));
        assert_eq!(disk.attributes.len(), MOST_ATTRIBUTES);
        assert!(disk.attributes.contains_key("odd_7"));
        assert_eq!(snake("  ?? "), "");
    }
    /// As smartctl 7.4 and nvme-cli 2 print it.
    fn printed(text: &str) -> Disk {
        Disk::read(&serde_json::from_str(text).expect("a report"), "3")
    }

    #[test]
    fn an_nvme_disk_that_fails_as_the_tools_print_it() {
        let mut disk = printed(include_str!("samples/smartctl-nvme.json"));
        assert_eq!(disk.passed, Some(false));
        assert_eq!((disk.critical_warning, disk.life_used), (4, Some(104)));
        assert_eq!((disk.temperature, disk.power_on_hours), (Some(43), Some(26_411)));
        assert_eq!(disk.capacity_bytes, 3_840_755_982_336);
        assert_eq!(disk.errors["Media_Errors"], 6);
        assert_eq!(
            (
                disk.attributes["available_spare"],
                disk.attributes["available_spare_threshold"]
            ),
            (8, 10)
        );
        assert_eq!(disk.attributes["host_write_commands"], 88_212_004_416);
        // It has no sectors that were moved: those are of other kinds of disks.
        assert_eq!(
            (disk.reallocated, disk.pending, disk.grown_defects),
            (None, None, None)
        );
        let about = &disk.about;
        assert_eq!(
            (about.media, about.vendor.as_str(), about.vendor_id.as_str()),
            ("nvme", "Samsung", "0x144D")
        );
        assert_eq!(
            (about.firmware.as_str(), about.serial.as_str()),
            ("GDC5602Q", "S64HNE0R000000")
        );

        let controller =
            serde_json::from_str(include_str!("samples/nvme-id-ctrl.json")).expect("a controller");
        let log = serde_json::from_str(include_str!("samples/nvme-error-log.json")).expect("a log");
        disk.about.firmware.clear();
        disk.capacity_bytes = 0;
        disk.add(Some(&controller), Some(&log));
        assert_eq!(
            (disk.about.firmware.as_str(), disk.capacity_bytes),
            ("GDC5602Q", 3_840_755_982_336)
        );
        assert_eq!(disk.about.subsystem_vendor_id, "0x144D");
        assert_eq!(
            disk.attributes["nvme_error_log_entries"], 2,
            "places never written are none"
        );
    }

    #[test]
    fn an_ata_disk_as_smartctl_prints_it() {
        let disk = printed(include_str!("samples/smartctl-ata.json"));
        assert_eq!(
            (disk.passed, disk.reallocated, disk.pending),
            (Some(true), Some(14), None)
        );
        assert_eq!((disk.life_used, disk.power_on_hours), (Some(7), Some(21_877)));
        // The raw value of its attribute has the lowest and the highest as well.
        assert_eq!(disk.temperature, Some(32));
        assert_eq!((disk.about.media, disk.about.rpm), ("ssd", 0));
        assert_eq!(disk.errors["UDMA_CRC_Error_Count"], 3);
        assert_eq!(disk.attributes["crc_error_count"], 3);
        assert_eq!(disk.about.form_factor, "2.5 inches");
    }

    #[test]
    fn a_scsi_disk_as_smartctl_prints_it() {
        let disk = printed(include_str!("samples/smartctl-scsi.json"));
        assert_eq!((disk.passed, disk.grown_defects), (Some(true), Some(12)));
        assert_eq!((disk.about.media, disk.about.firmware.as_str()), ("hdd", "A384"));
        assert_eq!(
            (disk.about.vendor.as_str(), disk.about.product.as_str()),
            ("HGST", "HUH721010AL5200")
        );
        assert_eq!((disk.power_on_hours, disk.temperature), (Some(40_311), Some(36)));
        assert_eq!(disk.errors["Uncorrected_Read_Errors"], 2);
        assert_eq!(
            (
                disk.attributes["read_errors_corrected"],
                disk.attributes["write_errors_corrected"]
            ),
            (118, 7)
        );
    }
}
