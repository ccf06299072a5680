//! The most that an expression can cost, estimated from the bounds in the schema.

use std::collections::HashMap;
use std::sync::Arc;

use super::ast::{ACCU, Comprehension, Expr, Kind, Literal};
use super::check::Checked;
use super::types::{Decl, Type};

const STRING_FACTOR: f64 = 0.1;
const REGEX_FACTOR: f64 = 0.25;
const LIST_BASE: u64 = 10;
const MAP_BASE: u64 = 30;
const STRUCT_BASE: u64 = 40;
const NAMED_FORMAT_REGEX: f64 = 128.0;
const NAMED_FORMAT_SIZE: u64 = 64;

/// A cost or a size: the least and the most it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Range {
    pub min: u64,
    pub max: u64,
}

impl Range {
    const UNKNOWN: Range = Range {
        min: 0,
        max: u64::MAX,
    };

    const fn fixed(n: u64) -> Self {
        Self { min: n, max: n }
    }

    fn add(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_add(other.min),
            max: self.max.saturating_add(other.max),
        }
    }

    fn times(self, other: Self) -> Self {
        Self {
            min: self.min.saturating_mul(other.min),
            max: self.max.saturating_mul(other.max),
        }
    }

    fn scaled(self, factor: f64) -> Self {
        // The cast saturates.
        let scale = |n: u64| (n as f64 * factor).ceil() as u64;
        Self {
            min: scale(self.min),
            max: scale(self.max),
        }
    }

    fn union(self, other: Self) -> Self {
        Self {
            min: self.min.min(other.min),
            max: self.max.max(other.max),
        }
    }
}

/// The cost of a checked expression on data of `root`.
pub fn estimate(checked: &Checked, root: &Arc<Decl>) -> Range {
    let mut coster = Coster {
        checked,
        root,
        paths: HashMap::new(),
        locals: HashMap::new(),
        sizes: HashMap::new(),
        entries: HashMap::new(),
    };
    coster.cost(&checked.expr)
}

type Path = Vec<String>;

/// Sizes of the keys and values of a list or map that the expression makes.
#[derive(Clone, Copy)]
struct EntrySize {
    is_list: bool,
    key: Range,
    value: Range,
}

impl EntrySize {
    fn union(self, other: Self) -> Self {
        Self {
            is_list: self.is_list,
            key: self.key.union(other.key),
            value: self.value.union(other.value),
        }
    }
}

#[derive(Clone)]
struct Local {
    path: Path,
    size: Option<Range>,
    entries: Option<EntrySize>,
}

/// An operand of a call.
struct Node<'a> {
    expr: Option<&'a Expr>,
    path: Path,
    type_: Type,
    size: Option<Range>,
}

struct Coster<'a> {
    checked: &'a Checked,
    root: &'a Arc<Decl>,
    paths: HashMap<usize, Path>,
    locals: HashMap<String, Vec<Local>>,
    sizes: HashMap<usize, Range>,
    entries: HashMap<usize, EntrySize>,
}

impl<'a> Coster<'a> {
    fn cost(&mut self, e: &'a Expr) -> Range {
        match &e.kind {
            Kind::Literal(_) | Kind::Broken => Range::default(),
            Kind::Ident(name) => {
                let path = match self.local(name) {
                    Some(local) => local.path.clone(),
                    None => vec![name.clone()],
                };
                self.paths.insert(e.id, path);
                Range::fixed(1)
            }
            Kind::Select { operand, field, test } => {
                let mut sum = self.cost(operand);
                if *test {
                    return sum;
                }
                let selectable = matches!(
                    self.checked.type_of(operand),
                    Type::Map(..) | Type::Object(_) | Type::Struct(_)
                );
                if selectable {
                    sum = sum.add(Range::fixed(1));
                }
                let mut path = self.path(operand);
                path.push(field.clone());
                self.paths.insert(e.id, path);
                sum
            }
            Kind::Call { .. } => self.call(e),
            Kind::List { elements, .. } => {
                let mut sum = Range::default();
                let mut item = Range {
                    min: if elements.is_empty() { 0 } else { u64::MAX },
                    max: 0,
                };
                for element in elements {
                    sum = sum.add(self.cost(element));
                    item = item.union(self.size_or_unknown(element));
                }
                self.entries.insert(
                    e.id,
                    EntrySize {
                        is_list: true,
                        key: Range::fixed(1),
                        value: item,
                    },
                );
                sum.add(Range::fixed(LIST_BASE))
            }
            Kind::Map(entries) => {
                let start = Range {
                    min: if entries.is_empty() { 0 } else { u64::MAX },
                    max: 0,
                };
                let (mut sum, mut key, mut value) = (Range::default(), start, start);
                for entry in entries {
                    sum = sum.add(self.cost(&entry.key)).add(self.cost(&entry.value));
                    key = key.union(self.size_or_unknown(&entry.key));
                    value = value.union(self.size_or_unknown(&entry.value));
                }
                let entry = EntrySize {
                    is_list: false,
                    key,
                    value,
                };
                self.entries.insert(e.id, entry);
                sum.add(Range::fixed(MAP_BASE))
            }
            Kind::Struct { fields, .. } => fields
                .iter()
                .fold(Range::fixed(STRUCT_BASE), |sum, f| sum.add(self.cost(&f.value))),
            Kind::Comprehension(c) if is_bind(c) => self.bind(e, c),
            Kind::Comprehension(c) => self.comprehension(e, c),
        }
    }

    fn local(&self, name: &str) -> Option<&Local> {
        self.locals.get(name)?.last()
    }

    fn push(&mut self, name: &str, local: Local) {
        self.locals.entry(name.to_owned()).or_default().push(local);
    }

    fn pop(&mut self, name: &str) {
        if let Some(stack) = self.locals.get_mut(name) {
            stack.pop();
        }
    }

    fn path(&self, e: &Expr) -> Path {
        if let Kind::Ident(name) = &e.kind
            && let Some(local) = self.local(name)
        {
            return local.path.clone();
        }
        self.paths.get(&e.id).cloned().unwrap_or_default()
    }

    /// The size that the schema allows at a path.
    fn schema_size(&self, path: &[String]) -> Option<Range> {
        let (_, rest) = path.split_first()?;
        let mut node = self.root;
        for name in rest {
            node = match name.as_str() {
                "@items" | "@values" => node.element()?,
                "@keys" => node.map_key()?,
                field => node.field(field)?,
            };
        }
        Some(Range {
            min: 0,
            max: node.max_elements,
        })
    }

    fn size(&mut self, e: &Expr) -> Option<Range> {
        if let Some(size) = self.sizes.get(&e.id) {
            return Some(*size);
        }
        if let Some(size) = literal_size(e) {
            return Some(size);
        }
        if let Some(size) = self.schema_size(&self.path(e)) {
            self.sizes.insert(e.id, size);
            return Some(size);
        }
        if is_scalar(self.checked.type_of(e)) {
            return Some(Range::fixed(1));
        }
        match &e.kind {
            Kind::Ident(name) => self.local(name)?.size,
            _ => None,
        }
    }

    fn size_or_unknown(&mut self, e: &Expr) -> Range {
        self.size(e).unwrap_or(Range::UNKNOWN)
    }

    fn entry_size(&self, e: &Expr) -> Option<EntrySize> {
        if let Some(entry) = self.entries.get(&e.id) {
            return Some(*entry);
        }
        match &e.kind {
            Kind::Ident(name) => self.local(name)?.entries,
            _ => None,
        }
    }

    fn push_iteration(&mut self, c: &'a Comprehension) {
        let entry = self.entry_size(&c.range);
        let is_list = match entry {
            Some(entry) => entry.is_list,
            None => matches!(self.checked.type_of(&c.range), Type::List(_)),
        };
        let base = self.path(&c.range);
        let local = |segment: &str, size: Option<Range>| {
            let mut path = base.clone();
            path.push(segment.to_owned());
            Local {
                path,
                size,
                entries: None,
            }
        };
        let (key, value) = (entry.map(|e| e.key), entry.map(|e| e.value));
        match &c.var2 {
            Some(var2) => {
                let first = local(if is_list { "@indices" } else { "@keys" }, key);
                let second = local(if is_list { "@items" } else { "@values" }, value);
                self.push(&c.var, first);
                self.push(var2, second);
            }
            None if is_list => self.push(&c.var, local("@items", value)),
            None => self.push(&c.var, local("@keys", key)),
        }
    }

    fn push_local(&mut self, name: &str, e: &'a Expr) {
        let local = Local {
            path: self.path(e),
            size: self.size(e),
            entries: self.entry_size(e),
        };
        self.push(name, local);
    }

    fn comprehension(&mut self, e: &'a Expr, c: &'a Comprehension) -> Range {
        let mut sum = self.cost(&c.range).add(self.cost(&c.init));
        self.push_local(&c.accu, &c.init);
        self.push_iteration(c);
        let each = self.cost(&c.condition).add(self.cost(&c.step));
        self.pop(&c.var);
        if let Some(var2) = &c.var2 {
            self.pop(var2);
        }
        sum = sum.add(self.cost(&c.result));
        self.pop(&c.accu);
        let count = self.size_or_unknown(&c.range);
        sum = sum.add(count.times(each));
        match &c.init.kind {
            Kind::Literal(_) => {
                if let Some(size) = self.size(&c.init) {
                    self.sizes.insert(e.id, size);
                }
            }
            Kind::List { .. } | Kind::Map(_) => {
                self.sizes.insert(e.id, count);
                if let Some(entry) = self.entry_size(&c.step) {
                    self.entries.insert(e.id, entry);
                }
            }
            _ => {}
        }
        sum
    }

    fn bind(&mut self, e: &'a Expr, c: &'a Comprehension) -> Range {
        let mut sum = self.cost(&c.range).add(self.cost(&c.init));
        self.push_local(&c.accu, &c.init);
        sum = sum.add(self.cost(&c.result));
        self.pop(&c.accu);
        self.copy_sizes(e, &c.result);
        sum
    }

    fn copy_sizes(&mut self, to: &Expr, from: &Expr) {
        if let Some(size) = self.size(from) {
            self.sizes.insert(to.id, size);
        }
        if let Some(entry) = self.entry_size(from) {
            self.entries.insert(to.id, entry);
        }
    }

    fn node(&mut self, e: &'a Expr) -> Node<'a> {
        let mut path = self.path(e);
        if path.first().is_some_and(|p| p == ACCU) {
            path.clear();
        }
        Node {
            expr: Some(e),
            path,
            type_: self.checked.type_of(e).clone(),
            size: self.size(e),
        }
    }

    fn call(&mut self, e: &'a Expr) -> Range {
        let Kind::Call {
            function,
            target,
            args,
        } = &e.kind
        else {
            return Range::default();
        };
        if function == "dyn"
            && let [arg] = &args[..]
        {
            let cost = self.cost(arg).add(Range::fixed(1));
            self.copy_sizes(e, arg);
            return cost;
        }
        let mut costs = Vec::with_capacity(args.len());
        let mut nodes = Vec::with_capacity(args.len());
        for arg in args {
            costs.push(self.cost(arg));
            nodes.push(self.node(arg));
        }
        let Some(overloads) = self.checked.overloads.get(&e.id) else {
            return Range::default();
        };
        let mut sum = Range::default();
        let mut receiver = None;
        if let Some(target) = target {
            sum = self.cost(target);
            receiver = Some(self.node(target));
        }
        let mut total = Range {
            min: u64::MAX,
            max: 0,
        };
        let mut result: Option<Range> = None;
        for overload in overloads {
            let (cost, size) = self.function(e, function, overload, receiver.as_ref(), &nodes, &costs);
            total = total.union(cost);
            if let Some(size) = size {
                result = Some(result.map_or(size, |before| before.union(size)));
            }
            if let ("index_list" | "index_map", Some(list)) = (overload.as_str(), args.first()) {
                result = self.entry_size(list).map(|entry| entry.value);
                let mut path = self.path(list);
                path.push(
                    if overload == "index_list" {
                        "@items"
                    } else {
                        "@values"
                    }
                    .to_owned(),
                );
                self.paths.insert(e.id, path);
            }
            if result.is_none() {
                result = self.size(e);
            }
        }
        if let Some(size) = result {
            self.sizes.insert(e.id, size);
        }
        sum.add(total)
    }

    fn function(
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
    fn library(
        &self,
        function: &str,
        overload: &str,
        target: Option<&Node<'a>>,
        args: &[Node<'a>],
    ) -> Option<(Range, Option<Range>)> {
        let one = Some((Range::fixed(1), None));
        let text = |range: Range| range.scaled(STRING_FACTOR);
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
            ("url", _) => first().map(|size| (text(size), Some(size))),
            ("lowerAscii" | "upperAscii" | "substring" | "trim", _) => {
                receiver().map(|size| (text(size), Some(size)))
            }
            ("replace", _) => self.replace(target?, args),
            ("split", _) => {
                let size = receiver()?;
                let max = args.get(1).map_or(size.max, |n| match n.expr.map(|e| &e.kind) {
                    Some(Kind::Literal(Literal::Int(i))) => *i as u64,
                    _ => size.max,
                });
                let result = Range { min: 0, max };
                Some((size.scaled(2.0 * STRING_FACTOR), Some(result)))
            }
            ("join", _) => {
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
            ("find" | "findAll", _) => {
                let size = receiver()?;
                let string = text(size.add(Range::fixed(1)));
                let result = Range {
                    min: 0,
                    max: size.max,
                };
                Some((string.times(first()?.scaled(REGEX_FACTOR)), Some(result)))
            }
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
            ("_==_", _) => {
                let [left, right] = args else {
                    return None;
                };
                if !left.type_.same(&right.type_) {
                    return None;
                }
                match left.type_ {
                    Type::Opaque("net.IP" | "net.CIDR")
                    | Type::Struct("kubernetes.Quantity" | "kubernetes.Semver") => one,
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

fn is_bind(c: &Comprehension) -> bool {
    matches!(&c.range.kind, Kind::List { elements, .. } if elements.is_empty())
        && matches!(&c.condition.kind, Kind::Literal(Literal::Bool(false)))
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

fn literal_size(e: &Expr) -> Option<Range> {
    let size = match &e.kind {
        Kind::Literal(Literal::String(s)) => s.chars().count(),
        Kind::Literal(Literal::Bytes(b)) => b.len(),
        Kind::Literal(_) => 1,
        Kind::List { elements, .. } => elements.len(),
        Kind::Map(entries) => entries.len(),
        _ => return None,
    };
    Some(Range::fixed(size as u64))
}

fn literal_uint(node: &Node<'_>, otherwise: u64) -> u64 {
    match node.expr.map(|e| &e.kind) {
        Some(Kind::Literal(Literal::Int(n))) => u64::try_from(*n).unwrap_or(0),
        _ => otherwise,
    }
}

fn is_scalar(t: &Type) -> bool {
    match t {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
