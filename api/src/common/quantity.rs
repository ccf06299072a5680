//! Quantities such as `10Gi`, as numbers.

/// The number that a quantity stands for. `None` when it is none.
pub fn parse_quantity(text: &str) -> Option<f64> {
    let digits = text
        .find(|c: char| !c.is_ascii_digit() && c != '.')
        .unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: f64 = number.parse().ok()?;
    let factor = match unit {
        "" => 1.0,
        "m" => 1e-3,
        "k" => 1e3,
        "M" => 1e6,
        "G" => 1e9,
        "T" => 1e12,
        "P" => 1e15,
        "E" => 1e18,
        "Ki" => 1024.0,
        "Mi" => 1024.0_f64.powi(2),
        "Gi" => 1024.0_f64.powi(3),
        "Ti" => 1024.0_f64.powi(4),
        "Pi" => 1024.0_f64.powi(5),
        "Ei" => 1024.0_f64.powi(6),
        exponent => {
            let power = exponent.strip_prefix(['e', 'E'])?;
            10.0_f64.powi(power.parse().ok()?)
        }
    };
    let value = number * factor;
    value.is_finite().then_some(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_the_schema_accepts() {
        for (text, expected) in [
            ("1", Some(1.0)),
            ("0.5Gi", Some(536_870_912.0)),
            ("1G", Some(1e9)),
            ("1500m", Some(1.5)),
            ("2E", Some(2e18)),
            ("2e3", Some(2e3)),
            ("2E+3", Some(2e3)),
            ("5e-1", Some(0.5)),
            ("1x", None),
            ("Gi", None),
            ("-1", None),
            ("1e999", None),
            ("", None),
        ] {
            assert_eq!(parse_quantity(text), expected, "{text}");
        }
    }
}
