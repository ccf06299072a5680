//! Disks as metrics.

use super::disk::Disk;
use crate::exposition::{Page, Type};

type Figure = (&'static str, Type, &'static str, fn(&Disk) -> Option<f64>);

const FIGURES: &[Figure] = &[
    (
        "disk_temperature_celsius",
        Type::Gauge,
        "Temperature of a disk.",
        |disk| disk.temperature.map(|degrees| degrees as f64),
    ),
    (
        "disk_reallocated_sectors",
        Type::Gauge,
        "Sectors that a disk has reallocated.",
        |disk| disk.reallocated.map(|count| count as f64),
    ),
    (
        "disk_pending_sectors",
        Type::Gauge,
        "Sectors that a disk could not read and has not reallocated yet.",
        |disk| disk.pending.map(|count| count as f64),
    ),
    (
        "disk_power_on_hours_total",
        Type::Counter,
        "Hours that a disk has been powered on.",
        |disk| disk.power_on_hours.map(|hours| hours as f64),
    ),
    (
        "ssd_life_used_percentage",
        Type::Gauge,
        "Percent of a flash disk's rated life that is used.",
        |disk| disk.life_used.map(|percent| percent as f64),
    ),
    (
        "disk_capacity_gb",
        Type::Gauge,
        "Size of a disk in gigabytes.",
        |disk| (disk.capacity_bytes > 0).then_some(disk.capacity_bytes as f64 / 1e9),
    ),
    (
        "disk_smart_passed",
        Type::Gauge,
        "1 if a disk reports that it is healthy, 0 if it reports that it is failing.",
        |disk| disk.passed.map(|passed| f64::from(u8::from(passed))),
    ),
];

/// `failed` are disks that could not be looked at.
pub(crate) fn render(disks: &[Disk], failed: usize, node: &str, instance: &str) -> String {
    let mut page = Page::default();
    let name = "prysm_disks_unreadable";
    page.family(name, Type::Gauge, "Disks that could not be checked.");
    page.sample(name, [("node", node), ("instance", instance)], failed);
    let labels = |disk: &Disk| {
        [
            ("disk", disk.device.clone()),
            ("node", node.to_owned()),
            ("instance", instance.to_owned()),
            ("osd_id", disk.osd.clone()),
        ]
    };
    let sample = |page: &mut Page, name: &str, disk: &Disk, more: &[(&str, &str)], value: f64| {
        let own = labels(disk);
        let own = own.iter().map(|(label, text)| (*label, text.as_str()));
        page.sample(name, own.chain(more.iter().copied()), value);
    };
    let info = "disk_info";
    page.family(info, Type::Gauge, "Properties of a disk, as labels; always 1.");
    for disk in disks {
        let about = &disk.about;
        let (capacity, rpm) = (
            format!("{:.2}", disk.capacity_bytes as f64 / 1e9),
            about.rpm.to_string(),
        );
        let more = [
            ("vendor", about.vendor.as_str()),
            ("vendor_id", &about.vendor_id),
            ("subsystem_vendor_id", &about.subsystem_vendor_id),
            ("model", &about.model),
            ("serial_number", &about.serial),
            ("firmware_version", &about.firmware),
            ("product", &about.product),
            ("model_family", &about.model_family),
            ("capacity_gb", &capacity),
            ("media_type", about.media),
            ("form_factor", &about.form_factor),
            ("rpm", &rpm),
        ];
        sample(&mut page, info, disk, &more, 1.0);
    }
    for (name, kind, help, value) in FIGURES {
        page.family(name, *kind, help);
        for disk in disks {
            if let Some(value) = value(disk) {
                sample(&mut page, name, disk, &[], value);
            }
        }
    }
    let errors = "disk_error_counts_total";
    page.family(errors, Type::Counter, "Errors counted by a disk.");
    for disk in disks {
        for (kind, count) in &disk.errors {
            sample(&mut page, errors, disk, &[("error_type", kind)], *count as f64);
        }
    }
    let attributes = "smart_attributes";
    page.family(attributes, Type::Gauge, "Raw values as reported by the disk.");
    for disk in disks {
        for (attribute, value) in &disk.attributes {
            sample(
                &mut page,
                attributes,
                disk,
                &[("attribute", attribute)],
                *value as f64,
            );
        }
    }
    page.text()
}
