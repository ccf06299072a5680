//! The most that an expression can cost, estimated from the bounds in the schema.

mod language;
mod library;

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

/// A cost or a size: the least and the most it can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Range {
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
pub(super) fn estimate(checked: &Checked, root: &Arc<Decl>) -> Range {
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
}

fn is_bind(c: &Comprehension) -> bool {
    matches!(&c.range.kind, Kind::List { elements, .. } if elements.is_empty())
        && matches!(&c.condition.kind, Kind::Literal(Literal::Bool(false)))
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

fn is_scalar(t: &Type) -> bool {
    match t {
        Type::Bool | Type::Double | Type::Duration | Type::Int | Type::Timestamp | Type::Uint => true,
        Type::Optional(inner) => is_scalar(inner),
        _ => false,
    }
}
