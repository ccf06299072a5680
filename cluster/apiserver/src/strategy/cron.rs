//! CronJobs: a schedule and a zone that mean something, refused in Kubernetes' words.

use apimachinery::field::FieldError;
use jiff::{SignedDuration, tz::TimeZone};
use serde_json::Value;

use super::workload;

const MONTHS: [&str; 12] = [
    "jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec",
];
const DAYS: [&str; 7] = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
/// Least and most of minute, hour, day, month and weekday, and the names of the numbers.
const FIELDS: [(u32, u32, &[&str]); 5] = [
    (0, 59, &[]),
    (0, 23, &[]),
    (1, 31, &[]),
    (1, 12, &MONTHS),
    (0, 6, &DAYS),
];

pub(super) fn validate(object: &Value) -> Vec<FieldError> {
    let spec = &object["spec"];
    let mut errors = Vec::new();
    // An absent schedule is told by the schema.
    if let Some(schedule) = spec["schedule"].as_str().filter(|text| !text.is_empty()) {
        let fault = if schedule.contains("TZ") {
            Some("cannot use TZ or CRON_TZ in schedule, use timeZone field instead".to_owned())
        } else {
            parse(schedule).err()
        };
        errors.extend(fault.map(|fault| FieldError::invalid("spec.schedule", schedule, fault)));
    }
    if let Some(name) = spec["timeZone"].as_str() {
        let fault = zone(name).err();
        errors.extend(fault.map(|fault| FieldError::invalid("spec.timeZone", name, fault)));
    }
    let template = &spec["jobTemplate"]["spec"]["template"];
    errors.extend(workload::template(template, "spec.jobTemplate.spec.template"));
    errors
}

fn zone(name: &str) -> Result<(), String> {
    if name.is_empty() {
        return Err("timeZone must be nil or non-empty string".into());
    }
    if name.eq_ignore_ascii_case("local") {
        let text = "timeZone must be an explicit time zone as defined in https://www.iana.org/time-zones";
        return Err(text.into());
    }
    match TimeZone::get(name) {
        Ok(_) => Ok(()),
        Err(_) => Err(format!("unknown time zone {name}")),
    }
}

fn parse(schedule: &str) -> Result<(), String> {
    if let Some(pause) = schedule.strip_prefix("@every ") {
        return match pause.parse::<SignedDuration>() {
            Ok(_) => Ok(()),
            Err(_) => Err(format!(
                "failed to parse duration {schedule}: time: invalid duration {pause:?}"
            )),
        };
    }
    if schedule.starts_with('@') {
        let known = [
            "@yearly",
            "@annually",
            "@monthly",
            "@weekly",
            "@daily",
            "@midnight",
            "@hourly",
        ];
        return if known.contains(&schedule) {
            Ok(())
        } else {
            Err(format!("unrecognized descriptor: {schedule}"))
        };
    }
    let fields: Vec<&str> = schedule.split_whitespace().collect();
    if fields.len() != FIELDS.len() {
        return Err(format!(
            "expected exactly 5 fields, found {}: [{}]",
            fields.len(),
            fields.join(" ")
        ));
    }
    for (field, bounds) in fields.iter().zip(FIELDS) {
        for part in field.split(',').filter(|part| !part.is_empty()) {
            range(part, bounds)?;
        }
    }
    Ok(())
}

/// `*`, `3`, `3-5`, each with or without a step.
fn range(text: &str, (least, most, names): (u32, u32, &[&str])) -> Result<(), String> {
    let parts: Vec<&str> = text.split('/').collect();
    let ends: Vec<&str> = parts[0].split('-').collect();
    let (start, mut end) = match ends.as_slice() {
        ["*" | "?", ..] => (least, most),
        [only] => {
            let number = number(only, least, names)?;
            (number, number)
        }
        [start, end] => (number(start, least, names)?, number(end, least, names)?),
        _ => return Err(format!("too many hyphens: {text}")),
    };
    let step = match parts.as_slice() {
        [_] => 1,
        [_, step] => {
            if ends.len() == 1 {
                end = most;
            }
            number(step, 0, &[])?
        }
        _ => return Err(format!("too many slashes: {text}")),
    };
    if start < least {
        return Err(format!(
            "beginning of range ({start}) below minimum ({least}): {text}"
        ));
    }
    if end > most {
        return Err(format!("end of range ({end}) above maximum ({most}): {text}"));
    }
    if start > end {
        return Err(format!(
            "beginning of range ({start}) beyond end of range ({end}): {text}"
        ));
    }
    if step == 0 {
        return Err(format!("step of range should be a positive number: {text}"));
    }
    Ok(())
}

/// A number, or a name that stands for one; names count from the least number.
fn number(text: &str, least: u32, names: &[&str]) -> Result<u32, String> {
    let named = names.iter().position(|name| name.eq_ignore_ascii_case(text));
    if let Some(index) = named.and_then(|index| u32::try_from(index).ok()) {
        return Ok(index + least);
    }
    let parsed: Result<u32, _> = text.parse();
    parsed.map_err(|_| {
        format!("failed to parse int from {text}: strconv.Atoi: parsing {text:?}: invalid syntax")
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn schedules_as_kubernetes_reads_them() {
        for good in [
            "*/5 * * * *",
            "0 0 1 1 ?",
            "0 9-17/2 * JAN-mar mon,WED",
            "@daily",
            "@midnight",
            "@every 1h30m",
            "5/15 * * * *",
        ] {
            assert_eq!(parse(good), Ok(()), "{good}");
        }
        for (bad, why) in [
            ("61 * * * *", "end of range (61) above maximum (59): 61"),
            ("* * 0 * *", "beginning of range (0) below minimum (1): 0"),
            ("* * * * 7", "end of range (7) above maximum (6): 7"),
            (
                "5-1 * * * *",
                "beginning of range (5) beyond end of range (1): 5-1",
            ),
            ("*/0 * * * *", "step of range should be a positive number: */0"),
            ("1-2-3 * * * *", "too many hyphens: 1-2-3"),
            ("1/2/3 * * * *", "too many slashes: 1/2/3"),
            ("* * *", "expected exactly 5 fields, found 3: [* * *]"),
            ("0 0 0 * * *", "expected exactly 5 fields, found 6: [0 0 0 * * *]"),
            ("@often", "unrecognized descriptor: @often"),
            (
                "@every day",
                "failed to parse duration @every day: time: invalid duration \"day\"",
            ),
            (
                "x * * * *",
                "failed to parse int from x: strconv.Atoi: parsing \"x\": invalid syntax",
            ),
        ] {
            assert_eq!(parse(bad), Err(why.to_owned()), "{bad}");
        }
    }

    #[test]
    fn a_zone_is_one_that_there_is() {
        let errors = |spec: Value| {
            let errors = validate(&json!({"spec": spec}));
            errors.iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert_eq!(
            errors(json!({"schedule": "0 0 * * *", "timeZone": "Europe/Berlin"})),
            [""; 0]
        );
        assert_eq!(
            errors(json!({"schedule": "0 0 * * *", "timeZone": "Europe/Nowhere"})),
            ["spec.timeZone: Invalid value: \"Europe/Nowhere\": unknown time zone Europe/Nowhere"]
        );
        assert_eq!(
            errors(json!({"schedule": "TZ=UTC 0 0 * * *"})),
            [
                "spec.schedule: Invalid value: \"TZ=UTC 0 0 * * *\": cannot use TZ or CRON_TZ in schedule, use timeZone field instead"
            ]
        );
    }
}
