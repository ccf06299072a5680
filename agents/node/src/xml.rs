//! Reading libvirt's documents.

use roxmltree::{Document, Node, ParsingOptions};

#[derive(Debug, thiserror::Error)]
#[error("libvirt's {what} is not XML: {source}")]
pub struct BadXml {
    what: &'static str,
    source: roxmltree::Error,
}

/// More elements than any host or guest has; what is larger is refused before it takes memory.
const MOST_NODES: u32 = 1 << 20;

pub(crate) fn parse<'a>(what: &'static str, text: &'a str) -> Result<Document<'a>, BadXml> {
    let options = ParsingOptions {
        nodes_limit: MOST_NODES,
        ..ParsingOptions::default()
    };
    Document::parse_with_options(text, options).map_err(|source| BadXml { what, source })
}

/// The first element on this way down.
pub(crate) fn at<'a, 'i>(from: Node<'a, 'i>, path: &[&str]) -> Option<Node<'a, 'i>> {
    path.iter().try_fold(from, |node, name| each(node, name).next())
}

/// The children of this name.
pub(crate) fn each<'a, 'i>(from: Node<'a, 'i>, name: &str) -> impl Iterator<Item = Node<'a, 'i>> {
    from.children().filter(move |child| child.has_tag_name(name))
}

pub(crate) fn text<'a>(from: Node<'a, '_>, path: &[&str]) -> Option<&'a str> {
    let text = at(from, path)?.text()?.trim();
    (!text.is_empty()).then_some(text)
}

/// An amount of memory in KiB; without a unit libvirt means KiB.
pub(crate) fn kibibytes(node: Node<'_, '_>) -> Option<u64> {
    in_kibibytes(node.text()?, node.attribute("unit"))
}

pub(crate) fn in_kibibytes(amount: &str, unit: Option<&str>) -> Option<u64> {
    let amount: u64 = amount.trim().parse().ok()?;
    let bytes: u64 = match unit.unwrap_or("KiB") {
        "b" | "bytes" => 1,
        "KB" => 1000,
        "k" | "KiB" => 1 << 10,
        "MB" => 1_000_000,
        "M" | "MiB" => 1 << 20,
        "GB" => 1_000_000_000,
        "G" | "GiB" => 1 << 30,
        "TB" => 1_000_000_000_000,
        "T" | "TiB" => 1 << 40,
        _ => return None,
    };
    Some(amount.checked_mul(bytes)? >> 10)
}

/// A set of numbers in libvirt's notation: `0-3,^2,8`.
pub(crate) fn numbers(text: &str) -> Vec<u32> {
    /// No host has more CPUs or cells.
    const MOST: u32 = 1 << 16;
    let mut found = std::collections::BTreeSet::new();
    for part in text.split(',').map(str::trim) {
        if let Some(without) = part.strip_prefix('^') {
            if let Ok(number) = without.parse::<u32>() {
                found.remove(&number);
            }
            continue;
        }
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.trim().parse::<u32>(), last.trim().parse::<u32>()) {
            found.extend(first..=last.min(MOST));
        }
    }
    found.into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sets_and_amounts_are_read_as_libvirt_writes_them() {
        assert_eq!(numbers("0-3,^2,8"), [0, 1, 3, 8]);
        assert_eq!(numbers("5"), [5]);
        assert!(numbers("x,3-1,").is_empty());
        assert_eq!(numbers("0-4294967295").len(), (1 << 16) + 1);
        for (amount, unit, kib) in [
            ("4", None, Some(4)),
            ("2", Some("GiB"), Some(2 << 20)),
            ("4096", Some("bytes"), Some(4)),
            ("1", Some("furlong"), None),
            ("-1", None, None),
            ("18446744073709551615", Some("TiB"), None),
        ] {
            assert_eq!(in_kibibytes(amount, unit), kib, "{amount} {unit:?}");
        }
    }
}
