//! How fields of a ControlPlane become fields of other objects.

use std::collections::BTreeMap;

use c5c3_api::common::{PolicyOverrides, parse_duration, parse_quantity};

/// Global rules are the base, a service's own win by name; its ConfigMap wins over the global one.
pub(crate) fn policy(
    global: Option<&PolicyOverrides>,
    own: Option<&PolicyOverrides>,
) -> Option<PolicyOverrides> {
    let mut rules = BTreeMap::new();
    let mut config_map_ref = None;
    for part in [global, own].into_iter().flatten() {
        rules.extend(part.rules.clone());
        config_map_ref = part.config_map_ref.clone().or(config_map_ref);
    }
    (!rules.is_empty() || config_map_ref.is_some()).then_some(PolicyOverrides {
        rules,
        config_map_ref,
    })
}

/// The cron schedule of a rotation interval: one that divides a day, a day, or a week.
pub(crate) fn cron(interval: &str) -> Option<String> {
    let seconds = parse_duration(interval).ok()?.as_secs();
    let hours = seconds.checked_div(3600).filter(|_| seconds % 3600 == 0)?;
    match hours {
        1 => Some("0 * * * *".to_owned()),
        2 | 3 | 4 | 6 | 8 | 12 => Some(format!("0 */{hours} * * *")),
        24 => Some("0 0 * * *".to_owned()),
        168 => Some("0 0 * * 0".to_owned()),
        _ => None,
    }
}

/// Megabytes of a quantity such as `1Gi`, at least one.
pub(crate) fn megabytes(quantity: &str) -> Option<i32> {
    let megabytes = (parse_quantity(quantity)? / 1024.0_f64.powi(2)).round();
    // Below 2^31, so the cast is exact; a Memcached of more does not exist.
    (megabytes.is_finite() && megabytes < 2e9).then_some((megabytes as i32).max(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::common::LocalRef;

    fn overrides(rules: &[(&str, &str)], map: Option<&str>) -> PolicyOverrides {
        PolicyOverrides {
            rules: rules
                .iter()
                .map(|(k, v)| ((*k).to_owned(), (*v).to_owned()))
                .collect(),
            config_map_ref: map.map(LocalRef::new),
        }
    }

    #[test]
    fn a_service_wins_by_rule_and_by_config_map() {
        let global = overrides(&[("a", "global"), ("b", "global")], Some("global"));
        let own = overrides(&[("b", "own"), ("c", "own")], None);
        let both = policy(Some(&global), Some(&own)).expect("some");
        assert_eq!(
            both,
            overrides(&[("a", "global"), ("b", "own"), ("c", "own")], Some("global"))
        );
        let own = overrides(&[], Some("own"));
        let both = policy(Some(&global), Some(&own)).expect("some");
        assert_eq!(both.config_map_ref, Some(LocalRef::new("own")));
        assert_eq!(policy(None, None), None);
        assert_eq!(policy(Some(&global), None), Some(global));
    }

    #[test]
    fn intervals_that_a_cron_schedule_can_say() {
        for (interval, said) in [
            ("1h", Some("0 * * * *")),
            ("60m", Some("0 * * * *")),
            ("6h", Some("0 */6 * * *")),
            ("24h", Some("0 0 * * *")),
            ("168h", Some("0 0 * * 0")),
            ("5h", None),
            ("90m", None),
            ("0s", None),
        ] {
            assert_eq!(cron(interval).as_deref(), said, "{interval}");
        }
    }

    #[test]
    fn memory_in_megabytes() {
        for (text, expected) in [
            ("1Gi", Some(1024)),
            ("512Mi", Some(512)),
            ("1G", Some(954)),
            ("1", Some(1)),
            ("1x", None),
            ("", None),
        ] {
            assert_eq!(megabytes(text), expected, "{text}");
        }
    }
}
