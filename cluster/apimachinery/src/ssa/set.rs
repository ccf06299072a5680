//! Sets of fields, as trees.

use super::path::{Path, PathElement};
use crate::openapi::{Schema, TypeId};

/// A set of fields. A parent is not a member because its children are.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FieldSet {
    /// Sorted by element; each node is a member or has members below it.
    pub(crate) nodes: Vec<Node>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Node {
    pub element: PathElement,
    pub member: bool,
    pub children: FieldSet,
}

impl Node {
    fn is_empty(&self) -> bool {
        !self.member && self.children.is_empty()
    }
}

impl FieldSet {
    /// A set of whole subtrees named by dotted field paths (`metadata.labels`).
    #[must_use]
    pub fn of_fields(paths: &[&str]) -> Self {
        let mut set = Self::default();
        for path in paths {
            set.insert(&Path::fields(path));
        }
        set
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }

    fn find(&self, element: &PathElement) -> Result<usize, usize> {
        self.nodes.binary_search_by(|node| node.element.cmp(element))
    }

    pub(crate) fn node(&self, element: &PathElement) -> Option<&Node> {
        self.find(element).ok().map(|at| &self.nodes[at])
    }

    /// Adds one path; the empty path (the whole object) belongs to nobody.
    pub fn insert(&mut self, path: &Path) {
        let mut set = self;
        let Some((last, parents)) = path.0.split_last() else {
            return;
        };
        for element in parents {
            set = &mut set.entry(element).children;
        }
        set.entry(last).member = true;
    }

    fn entry(&mut self, element: &PathElement) -> &mut Node {
        let at = match self.find(element) {
            Ok(at) => at,
            Err(at) => {
                self.nodes.insert(
                    at,
                    Node {
                        element: element.clone(),
                        member: false,
                        children: Self::default(),
                    },
                );
                at
            }
        };
        &mut self.nodes[at]
    }

    /// Whether this very path is a member.
    #[must_use]
    pub fn contains(&self, path: &Path) -> bool {
        let Some((last, parents)) = path.0.split_last() else {
            return false;
        };
        let mut set = self;
        for element in parents {
            match set.node(element) {
                Some(node) => set = &node.children,
                None => return false,
            }
        }
        set.node(last).is_some_and(|node| node.member)
    }

    /// Whether every member of `other` is a member of this set.
    #[must_use]
    pub fn includes(&self, other: &Self) -> bool {
        let mut rest = self.nodes.iter();
        other.nodes.iter().all(|wanted| {
            rest.find(|node| node.element >= wanted.element)
                .is_some_and(|node| {
                    node.element == wanted.element
                        && (node.member || !wanted.member)
                        && node.children.includes(&wanted.children)
                })
        })
    }

    /// Appends a node that sorts after all others; drops it if it is empty.
    pub(crate) fn push(&mut self, node: Node) {
        if !node.is_empty() {
            self.nodes.push(node);
        }
    }

    /// Restores the order after pushes in the order of a list.
    pub(crate) fn sort(&mut self) {
        self.nodes.sort_by(|a, b| a.element.cmp(&b.element));
    }

    /// Adds the members of `other`.
    pub fn union_with(&mut self, other: Self) {
        if self.is_empty() {
            self.nodes = other.nodes;
            return;
        }
        if other.is_empty() {
            return;
        }
        let mut merged = Vec::with_capacity(self.nodes.len() + other.nodes.len());
        let mut left = std::mem::take(&mut self.nodes).into_iter().peekable();
        let mut right = other.nodes.into_iter().peekable();
        while let (Some(a), Some(b)) = (left.peek(), right.peek()) {
            match a.element.cmp(&b.element) {
                std::cmp::Ordering::Less => merged.extend(left.next()),
                std::cmp::Ordering::Greater => merged.extend(right.next()),
                std::cmp::Ordering::Equal => {
                    if let (Some(mut a), Some(b)) = (left.next(), right.next()) {
                        a.member |= b.member;
                        a.children.union_with(b.children);
                        merged.push(a);
                    }
                }
            }
        }
        merged.extend(left);
        merged.extend(right);
        self.nodes = merged;
    }

    /// The members of both sets.
    #[must_use]
    pub fn intersection(&self, other: &Self) -> Self {
        let mut out = Self::default();
        if other.is_empty() {
            return out;
        }
        for a in &self.nodes {
            if let Some(b) = other.node(&a.element) {
                out.push(Node {
                    element: a.element.clone(),
                    member: a.member && b.member,
                    children: a.children.intersection(&b.children),
                });
            }
        }
        out
    }

    /// Takes out the members of `other`; what is below them stays.
    pub fn subtract(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            if let Some(gone) = other.node(&node.element) {
                node.member &= !gone.member;
                node.children.subtract(&gone.children);
            }
            !node.is_empty()
        });
    }

    /// Takes out the members of `other` and all that is below them.
    pub fn subtract_trees(&mut self, other: &Self) {
        if other.is_empty() {
            return;
        }
        self.nodes.retain_mut(|node| {
            if let Some(gone) = other.node(&node.element) {
                if gone.member {
                    return false;
                }
                node.children.subtract_trees(&gone.children);
            }
            !node.is_empty()
        });
    }

    /// Makes declared fields members when something below them is: a struct
    /// that is left without fields goes as well.
    pub(crate) fn ensure_named(&mut self, schema: &Schema, ty: Option<TypeId>) {
        let ty = ty.map(|id| schema.get(id));
        for node in &mut self.nodes {
            if node.children.is_empty() {
                continue;
            }
            let below = match (&node.element, ty) {
                (PathElement::Field(name), Some(ty)) => ty.map.as_ref().and_then(|map| {
                    let field = map.field(name);
                    node.member |= field.is_some();
                    field.map_or(map.element, |field| Some(field.ty))
                }),
                (PathElement::Key(_), Some(ty)) => ty.list.as_ref().map(|list| list.element),
                _ => None,
            };
            node.children.ensure_named(schema, below);
        }
    }

    /// All members: those of a level first, then what is below them.
    #[must_use]
    pub fn paths(&self) -> Vec<Path> {
        let mut out = Vec::new();
        self.walk(&mut Vec::new(), &mut out);
        out
    }

    fn walk(&self, prefix: &mut Vec<PathElement>, out: &mut Vec<Path>) {
        for node in self.nodes.iter().filter(|node| node.member) {
            let mut path = prefix.clone();
            path.push(node.element.clone());
            out.push(Path(path));
        }
        for node in &self.nodes {
            prefix.push(node.element.clone());
            node.children.walk(prefix, out);
            prefix.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(paths: &[&str]) -> FieldSet {
        FieldSet::of_fields(paths)
    }

    #[test]
    fn subtraction_keeps_or_takes_subtrees() {
        let mut a = set(&["a", "a.b", "c.d"]);
        a.subtract(&set(&["a", "c"]));
        assert_eq!(a, set(&["a.b", "c.d"]));
        a.subtract_trees(&set(&["c"]));
        assert_eq!(a, set(&["a.b"]));
    }

    #[test]
    fn union_intersection_inclusion() {
        let mut a = set(&["a", "c.d"]);
        a.union_with(set(&["b", "c.e"]));
        assert_eq!(a, set(&["a", "b", "c.d", "c.e"]));
        assert_eq!(a.intersection(&set(&["c.e", "x"])), set(&["c.e"]));
        assert!(a.includes(&set(&["a", "c.e"])));
        assert!(!a.includes(&set(&["c"])));
        assert!(!set(&["c"]).includes(&set(&["c.d"])));
    }
}
