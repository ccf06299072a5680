//! Operating system and hardware, read afresh each time: both change under a running agent.

use std::path::Path;

use c5c3_api::common::Time;
use c5c3_api::hypervisor::OperatingSystem;
use jiff::civil::Date;
use jiff::tz::TimeZone;

/// Reads the facts of the host whose root is here. What cannot be read is left out.
pub(crate) fn read(root: &Path) -> OperatingSystem {
    facts(|path| std::fs::read_to_string(root.join(path.trim_start_matches('/'))).ok())
}

/// Pure: `file` gives the text of a file.
pub(crate) fn facts(file: impl Fn(&str) -> Option<String>) -> OperatingSystem {
    let release = file("/etc/os-release")
        .or_else(|| file("/usr/lib/os-release"))
        .unwrap_or_default();
    let line = |path: &str| {
        file(path)
            .map(|text| text.trim().to_owned())
            .filter(|text| !text.is_empty())
    };
    let dmi = |name: &str| line(&format!("/sys/class/dmi/id/{name}"));
    OperatingSystem {
        version: variable(&release, "VERSION_ID").or_else(|| variable(&release, "VERSION")),
        variant_id: variable(&release, "VARIANT_ID"),
        pretty_version: variable(&release, "PRETTY_NAME"),
        kernel_name: line("/proc/sys/kernel/ostype"),
        kernel_release: line("/proc/sys/kernel/osrelease"),
        kernel_version: line("/proc/sys/kernel/version"),
        kernel_command_line: line("/proc/cmdline"),
        hardware_vendor: dmi("sys_vendor"),
        hardware_model: dmi("product_name"),
        hardware_serial: dmi("product_serial"),
        firmware_version: dmi("bios_version"),
        firmware_vendor: dmi("bios_vendor"),
        firmware_date: dmi("bios_date").and_then(|text| date(&text)),
    }
}

/// Of a file of shell assignments.
fn variable(text: &str, name: &str) -> Option<String> {
    let value = text
        .lines()
        .find_map(|line| line.trim().strip_prefix(name)?.strip_prefix('='))?;
    let value = value.trim();
    let bare = ['"', '\'']
        .iter()
        .find_map(|quote| value.strip_prefix(*quote)?.strip_suffix(*quote));
    let value = bare.unwrap_or(value).replace("\\\"", "\"");
    (!value.is_empty()).then_some(value)
}

/// Firmware writes month/day/year.
fn date(text: &str) -> Option<Time> {
    let mut parts = text.trim().split('/');
    let (month, day, year) = (parts.next()?, parts.next()?, parts.next()?);
    let date = Date::new(year.parse().ok()?, month.parse().ok()?, day.parse().ok()?).ok()?;
    Some(Time(date.to_zoned(TimeZone::UTC).ok()?.timestamp()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn facts_are_those_of_the_files() {
        let facts = facts(|path| {
            let text = match path {
                "/etc/os-release" => {
                    "NAME=x\nPRETTY_NAME=\"Debian GNU/Linux 13\"\nVERSION_ID='13'\nVARIANT_ID=\n"
                }
                "/proc/sys/kernel/osrelease" => "6.12.1\n",
                "/sys/class/dmi/id/bios_date" => "02/29/2024\n",
                "/sys/class/dmi/id/product_serial" => " \n",
                _ => return None,
            };
            Some(text.to_owned())
        });
        assert_eq!(facts.pretty_version.as_deref(), Some("Debian GNU/Linux 13"));
        assert_eq!(facts.version.as_deref(), Some("13"));
        assert_eq!(facts.kernel_release.as_deref(), Some("6.12.1"));
        assert_eq!((facts.variant_id, facts.hardware_serial), (None, None));
        let date = facts.firmware_date.expect("a date");
        assert_eq!(date.0.to_string(), "2024-02-29T00:00:00Z");
    }

    /// Flaw: facts were written once and stayed after an upgrade.
    #[test]
    fn an_upgrade_is_seen_at_the_next_look() {
        let root = tempfile::tempdir().expect("a directory");
        std::fs::create_dir(root.path().join("etc")).expect("a directory");
        for version in ["12", "13"] {
            std::fs::write(
                root.path().join("etc/os-release"),
                format!("VERSION_ID={version}\n"),
            )
            .expect("a file");
            assert_eq!(read(root.path()).version.as_deref(), Some(version));
        }
    }

    #[test]
    fn odd_dates_are_none() {
        for text in ["", "2024-01-01", "13/01/2024", "a/b/c", "02/30/2024"] {
            assert!(date(text).is_none(), "{text}");
        }
    }
}
