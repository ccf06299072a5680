//! Kubernetes' quantities as numbers.

use c5c3_api::common::Quantity;

use crate::fleet::Amount;
use std::collections::BTreeMap;

const SUFFIXES: [(&str, f64); 12] = [
    ("Ki", 1024.0),
    ("Mi", 1_048_576.0),
    ("Gi", 1_073_741_824.0),
    ("Ti", 1_099_511_627_776.0),
    ("Pi", 1_125_899_906_842_624.0),
    ("m", 0.001),
    ("k", 1e3),
    ("M", 1e6),
    ("G", 1e9),
    ("T", 1e12),
    ("P", 1e15),
    ("E", 1e18),
];

pub(crate) fn number(quantity: &Quantity) -> Option<f64> {
    let text = quantity.0.trim();
    if let Ok(number) = text.parse::<f64>() {
        return Some(number).filter(|number| number.is_finite());
    }
    let (suffix, factor) = SUFFIXES.iter().find(|(suffix, _)| text.ends_with(suffix))?;
    let number: f64 = text.strip_suffix(suffix)?.parse().ok()?;
    Some(number * factor).filter(|number| number.is_finite())
}

/// `cpu` and `memory`; `None` when neither is there.
pub(crate) fn amount(resources: &BTreeMap<String, Quantity>) -> Option<Amount> {
    let of = |name: &str| resources.get(name).and_then(number);
    let (cpu, memory) = (of("cpu"), of("memory"));
    if cpu.is_none() && memory.is_none() {
        return None;
    }
    // Rounded down: what is not there cannot be given away.
    Some(Amount::new(
        cpu.unwrap_or_default().floor() as i64,
        (memory.unwrap_or_default() / 1_048_576.0).floor() as i64,
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantities_have_many_spellings() {
        for (text, expected) in [
            ("64", Some(64.0)),
            ("512Gi", Some(549_755_813_888.0)),
            ("1500m", Some(1.5)),
            ("1e3", Some(1000.0)),
            ("2k", Some(2000.0)),
            ("many", None),
            ("", None),
        ] {
            assert_eq!(number(&Quantity(text.into())), expected, "{text}");
        }
        let both = [("cpu", "2500m"), ("memory", "1Gi")]
            .map(|(name, text)| (name.to_owned(), Quantity(text.into())));
        assert_eq!(amount(&both.into()), Some(Amount::new(2, 1024)));
        assert_eq!(amount(&BTreeMap::new()), None);
    }
}
