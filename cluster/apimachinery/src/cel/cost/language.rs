//! What operators and functions of the language itself cost.

use super::super::ast::Expr;
use super::{Coster, Node, REGEX_FACTOR, Range, STRING_FACTOR};

impl<'a> Coster<'a> {
    pub(super) fn function(
        &mut self,
        e: &'a Expr,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
        costs: &[Range],
    ) -> (Range, Option<Range>) {
        let arguments = costs.iter().fold(Range::default(), |sum, c| sum.add(*c));
        if let Some((cost, size)) = self.library(function, overload, target, args) {
            return (cost.add(arguments), size);
        }
        let known = |node: &Node<'_>| node.size.unwrap_or(Range::UNKNOWN);
        let text = |range: Range| range.scaled(STRING_FACTOR);
        let (cost, size) = match (overload, target, args) {
            ("string_format", Some(target), _) => (text(known(target)), None),
            ("string_to_bytes", _, [arg]) => {
                let sz = known(arg);
                let size = Range {
                    min: sz.min,
                    max: sz.max.wrapping_mul(4),
                };
                (text(sz), Some(size))
            }
            ("bytes_to_string", _, [arg]) => {
                let sz = known(arg);
                let size = Range {
                    min: sz.min / 4,
                    max: sz.max,
                };
                (text(sz), Some(size))
            }
            ("strings_quote", _, [arg]) => {
                let sz = known(arg);
                let size = Range {
                    min: sz.min.wrapping_add(2),
                    max: sz.max.wrapping_mul(2).wrapping_add(2),
                };
                (text(sz), Some(size))
            }
            ("starts_with_string" | "ends_with_string", _, [arg]) => (text(known(arg)), None),
            ("in_list", _, [_, list]) => (known(list).scaled(1.0), None),
            ("matches_string", Some(target), [regex]) => {
                let string = text(known(target).add(Range::fixed(1)));
                (string.times(known(regex).scaled(REGEX_FACTOR)), None)
            }
            ("contains_string", Some(target), [part]) => (text(known(target)).times(text(known(part))), None),
            ("logical_or" | "logical_and", _, _) => {
                let (left, right) = (costs[0], costs[1]);
                let cost = Range {
                    min: left.min,
                    max: left.add(right).max,
                };
                return (cost, None);
            }
            ("conditional", _, [_, yes, no]) => {
                let entry = |node: &Node<'_>| node.expr.and_then(|e| self.entry_size(e));
                if let (Some(yes), Some(no)) = (entry(yes), entry(no)) {
                    self.entries.insert(e.id, yes.union(no));
                }
                let size = known(yes).union(known(no));
                return (costs[0].add(costs[1].union(costs[2])), Some(size));
            }
            ("add_string" | "add_bytes" | "add_list", _, [left, right]) => {
                let entry = |node: &Node<'_>| node.expr.and_then(|e| self.entry_size(e));
                if let (Some(left), Some(right)) = (entry(left), entry(right)) {
                    self.entries.insert(e.id, left.union(right));
                }
                let size = known(left).add(known(right));
                let cost = if overload == "add_list" {
                    Range::fixed(1)
                } else {
                    text(size)
                };
                (cost, Some(size))
            }
            _ if compares_length(overload) => {
                let smallest = known(&args[0]).max.min(known(&args[1]).max);
                let range = Range {
                    min: u64::from(smallest > 0),
                    max: smallest,
                };
                (text(range), None)
            }
            _ => (Range::fixed(1), None),
        };
        (cost.add(arguments), size)
    }
}

fn compares_length(overload: &str) -> bool {
    matches!(
        overload,
        "equals"
            | "not_equals"
            | "less_string"
            | "less_equals_string"
            | "greater_string"
            | "greater_equals_string"
            | "less_bytes"
            | "less_equals_bytes"
            | "greater_bytes"
            | "greater_equals_bytes"
    )
}
