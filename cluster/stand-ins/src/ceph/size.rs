//! Sizes as Kubernetes writes them.

/// Bytes of a quantity; `None` when it is not a whole, positive number of them.
pub(crate) fn bytes(quantity: &str) -> Option<u64> {
    let at = quantity
        .find(|c: char| !c.is_ascii_digit())
        .unwrap_or(quantity.len());
    let (number, unit) = quantity.split_at(at);
    let factor: u64 = match unit {
        "" => 1,
        "Ki" => 1 << 10,
        "Mi" => 1 << 20,
        "Gi" => 1 << 30,
        "Ti" => 1 << 40,
        "k" => 1_000,
        "M" => 1_000_000,
        "G" => 1_000_000_000,
        "T" => 1_000_000_000_000,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(factor)
}

#[cfg(test)]
mod tests {
    use super::bytes;

    #[test]
    fn sizes_are_read() {
        for (text, expected) in [
            ("4Gi", Some(4 << 30)),
            ("10G", Some(10_000_000_000)),
            ("1024", Some(1024)),
            ("", None),
            ("-1Gi", None),
            ("1.5Gi", None),
            ("Gi", None),
            ("99999999999Ti", None),
        ] {
            assert_eq!(bytes(text), expected, "{text}");
        }
    }
}
