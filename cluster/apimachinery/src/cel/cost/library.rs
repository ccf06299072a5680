//! What functions of the libraries cost.

use super::super::ast::{Kind, Literal};
use super::super::types::Type;
use super::{Coster, LIST_BASE, Node, REGEX_FACTOR, Range, STRING_FACTOR};

const NAMED_FORMAT_REGEX: f64 = 128.0;
const NAMED_FORMAT_SIZE: u64 = 64;

/// What a call costs, and the size of its result where that is known.
type Cost = (Range, Option<Range>);

/// The cost of reading a text of this size.
fn text(range: Range) -> Range {
    range.scaled(STRING_FACTOR)
}

/// `==` of Kubernetes' own types.
fn equality(args: &[Node<'_>]) -> Option<Cost> {
    let one = Some((Range::fixed(1), None));
    let [left, right] = args else {
        return None;
    };
    if !left.type_.same(&right.type_) {
        return None;
    }
    match left.type_ {
        Type::Opaque("net.IP" | "net.CIDR") | Type::Struct("kubernetes.Quantity" | "kubernetes.Semver") => {
            one
        }
        Type::Struct("kubernetes.NamedFormat") => {
            let range = Range {
                min: 1,
                max: NAMED_FORMAT_SIZE,
            };
            Some((text(range), None))
        }
        Type::Struct("kubernetes.URL") => {
            let max = right.size.map_or(1, |s| s.max);
            Some((text(Range { min: 1, max }), None))
        }
        _ => None,
    }
}

impl<'a> Coster<'a> {
    fn node_size(&self, node: &Node<'_>) -> Range {
        node.size
            .or_else(|| self.schema_size(&node.path))
            .unwrap_or(Range::UNKNOWN)
    }

    /// The items of a list as an operand, for the size that the schema gives them.
    fn items(&self, list: &Node<'a>) -> Option<Node<'a>> {
        let type_ = match &list.type_ {
            Type::List(item) | Type::Optional(item) => (**item).clone(),
            Type::Map(key, _) => (**key).clone(),
            _ => return None,
        };
        let mut path = list.path.clone();
        if !path.is_empty() {
            path.push("@items".to_owned());
        }
        Some(Node {
            expr: None,
            path,
            type_,
            size: None,
        })
    }

    /// Functions of the libraries of Kubernetes.
    pub(super) fn library(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
    ) -> Option<Cost> {
        self.list_function(function, overload, target, args)
            .or_else(|| self.string_function(function, target, args))
            .or_else(|| self.kubernetes_function(function, overload, args))
    }

    fn list_function(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
    ) -> Option<Cost> {
        let first = || args.first().map(|a| self.node_size(a));
        let receiver = || target.map(|t| self.node_size(t));
        let alloc = |factor: f64, size: Range| {
            Some((size.scaled(factor).add(Range::fixed(1 + LIST_BASE)), Some(size)))
        };
        match (function, overload) {
            ("slice", "list_slice") => {
                let size = receiver()?;
                let start = literal_uint(args.first()?, 0);
                let end = literal_uint(args.get(1)?, size.max);
                alloc(1.0, Range::fixed(end.wrapping_sub(start)))
            }
            ("flatten", _) => {
                let depth = args.first().map_or(1, |a| literal_uint(a, u64::MAX));
                alloc(depth as f64, receiver()?)
            }
            ("lists.range", _) => alloc(1.0, Range::fixed(literal_uint(args.first()?, u64::MAX))),
            ("reverse", "list_reverse") => alloc(1.0, receiver()?),
            ("distinct", _) => alloc(2.0, receiver()?.times(receiver()?)),
            ("sort" | "@sortByAssociatedKeys", _) => {
                let size = if function == "sort" { receiver()? } else { first()? };
                let textual = overload.starts_with("list_string") || overload.starts_with("list_bytes");
                alloc(if textual { 2.0 + STRING_FACTOR } else { 2.0 }, size.times(size))
            }
            ("sets.contains" | "sets.intersects" | "sets.equivalent", _) => {
                let pairs = self.node_size(args.first()?).times(self.node_size(args.get(1)?));
                let factor = if function == "sets.equivalent" { 2.0 } else { 1.0 };
                Some((pairs.scaled(factor).add(Range::fixed(1)), None))
            }
            ("isSorted" | "sum" | "max" | "min" | "indexOf" | "lastIndexOf", _) => {
                let target = target?;
                let size = self.node_size(target);
                match self.items(target) {
                    Some(item) => {
                        let mut each = Range::fixed(1);
                        if matches!(item.type_, Type::String | Type::Bytes) {
                            each = each.add(text(self.node_size(&item)));
                        }
                        Some((size.times(each), None))
                    }
                    None => Some((text(size), None)),
                }
            }
            _ => None,
        }
    }

    fn string_function(&self, function: &str, target: Option<&Node<'a>>, args: &[Node<'a>]) -> Option<Cost> {
        let first = || args.first().map(|a| self.node_size(a));
        let receiver = || target.map(|t| self.node_size(t));
        match function {
            "lowerAscii" | "upperAscii" | "substring" | "trim" => {
                receiver().map(|size| (text(size), Some(size)))
            }
            "replace" => self.replace(target?, args),
            "split" => {
                let size = receiver()?;
                let max = args.get(1).map_or(size.max, |n| match n.expr.map(|e| &e.kind) {
                    Some(Kind::Literal(Literal::Int(i))) => *i as u64,
                    _ => size.max,
                });
                let result = Range { min: 0, max };
                Some((size.scaled(2.0 * STRING_FACTOR), Some(result)))
            }
            "join" => {
                let list = receiver()?;
                let mut size = Range::default();
                if let Some(item) = target.and_then(|t| self.items(t)) {
                    size = list.times(self.node_size(&item));
                }
                if let Some(separator) = first() {
                    let gaps = Range {
                        min: list.min.saturating_sub(1),
                        max: list.max.saturating_sub(1),
                    };
                    size = size.add(separator.times(gaps));
                }
                Some((text(size), Some(size)))
            }
            "find" | "findAll" => {
                let size = receiver()?;
                let string = text(size.add(Range::fixed(1)));
                let result = Range {
                    min: 0,
                    max: size.max,
                };
                Some((string.times(first()?.scaled(REGEX_FACTOR)), Some(result)))
            }
            _ => None,
        }
    }

    fn kubernetes_function(&self, function: &str, overload: &str, args: &[Node<'a>]) -> Option<Cost> {
        let one = Some((Range::fixed(1), None));
        let first = || args.first().map(|a| self.node_size(a));
        match (function, overload) {
            ("url", _) => first().map(|size| (text(size), Some(size))),
            ("ip", "cidr_ip") => one,
            ("cidr" | "isIP" | "isCIDR" | "ip", _) => first().map(|size| (text(size), None)),
            ("ip.isCanonical", _) => first().map(|size| (size.scaled(2.0 * STRING_FACTOR), None)),
            ("containsIP" | "containsCIDR", _) => {
                let bytes = Range { min: 4, max: 16 };
                let mut cost = text(bytes.add(bytes));
                if function == "containsCIDR" {
                    cost = cost.add(text(bytes)).add(Range::fixed(1));
                }
                if overload.ends_with("_string") {
                    cost = cost.add(text(first()?));
                }
                Some((cost, None))
            }
            ("quantity" | "isQuantity" | "semver" | "isSemver", _) => first().map(|size| (text(size), None)),
            ("validate", _) => {
                let cost = text(first()?).scaled(NAMED_FORMAT_REGEX * REGEX_FACTOR);
                Some((cost, None))
            }
            (
                "masked"
                | "prefixLength"
                | "family"
                | "isUnspecified"
                | "isLoopback"
                | "isLinkLocalMulticast"
                | "isLinkLocalUnicast"
                | "isGlobalUnicast"
                | "format.named"
                | "sign"
                | "asInteger"
                | "isInteger"
                | "asApproximateFloat"
                | "isGreaterThan"
                | "isLessThan"
                | "compareTo"
                | "add"
                | "sub"
                | "major"
                | "minor"
                | "patch"
                | "getScheme"
                | "getHostname"
                | "getHost"
                | "getPort"
                | "getEscapedPath"
                | "getQuery",
                _,
            ) => one,
            ("_==_", _) => equality(args),
            _ => None,
        }
    }

    fn replace(&self, target: &Node<'a>, args: &[Node<'a>]) -> Option<(Range, Option<Range>)> {
        let size = self.node_size(target);
        let (from, to) = (self.node_size(args.first()?), self.node_size(args.get(1)?));
        let (mut count, mut kept) = (Range::default(), Range::default());
        if from.min == 0 {
            count.max = size.max.saturating_add(1);
            kept.max = size.max;
        } else if to.max <= from.min {
            kept.max = size.max;
        } else {
            count.max = (size.max as f64 / from.min as f64).ceil() as u64;
        }
        if from.max == 0 {
            count.min = size.min.saturating_add(1);
            kept.min = size.min;
        } else if from.max <= to.min {
            kept.min = size.min;
        } else {
            count.min = (size.min as f64 / from.max as f64).ceil() as u64;
        }
        let result = count.times(to).add(kept);
        Some((size.scaled(2.0 * STRING_FACTOR), Some(result)))
    }
}

fn literal_uint(node: &Node<'_>, otherwise: u64) -> u64 {
    match node.expr.map(|e| &e.kind) {
        Some(Kind::Literal(Literal::Int(n))) => u64::try_from(*n).unwrap_or(0),
        _ => otherwise,
    }
}
