//! The tree of an expression. Macros are expanded while it is parsed.

/// A node; `id` is unique in the expression, `at` its place in code points.
#[derive(Debug, Clone)]
pub struct Expr {
    pub id: usize,
    pub at: usize,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    Literal(Literal),
    Ident(String),
    Select {
        operand: Box<Expr>,
        field: String,
        /// `has(a.b)`.
        test: bool,
    },
    Call {
        function: String,
        target: Option<Box<Expr>>,
        args: Vec<Expr>,
    },
    List {
        elements: Vec<Expr>,
        optional: Vec<usize>,
    },
    Map(Vec<Entry>),
    Struct {
        name: String,
        fields: Vec<StructField>,
    },
    Comprehension(Box<Comprehension>),
    /// What a refused macro leaves behind.
    Broken,
}

impl Kind {
    /// Calls `f` with each direct child.
    pub fn children<'a>(&'a self, f: &mut dyn FnMut(&'a Expr)) {
        match self {
            Self::Select { operand, .. } => f(operand),
            Self::Call { target, args, .. } => {
                if let Some(target) = target {
                    f(target);
                }
                args.iter().for_each(f);
            }
            Self::List { elements, .. } => elements.iter().for_each(f),
            Self::Map(entries) => {
                for entry in entries {
                    f(&entry.key);
                    f(&entry.value);
                }
            }
            Self::Struct { fields, .. } => fields.iter().for_each(|field| f(&field.value)),
            Self::Comprehension(c) => {
                [&c.range, &c.init, &c.condition, &c.step, &c.result]
                    .into_iter()
                    .for_each(f);
            }
            Self::Literal(_) | Self::Ident(_) | Self::Broken => {}
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
pub enum Literal {
    Null,
    Bool(bool),
    Int(i64),
    Uint(u64),
    Double(f64),
    String(String),
    Bytes(Vec<u8>),
}

#[derive(Debug, Clone)]
pub struct Entry {
    pub key: Expr,
    pub value: Expr,
    pub optional: bool,
}

#[derive(Debug, Clone)]
pub struct StructField {
    pub at: usize,
    pub name: String,
    pub value: Expr,
}

/// A loop over `range` that folds into `accu`.
#[derive(Debug, Clone)]
pub struct Comprehension {
    pub range: Expr,
    pub var: String,
    pub var2: Option<String>,
    pub accu: String,
    pub init: Expr,
    pub condition: Expr,
    pub step: Expr,
    pub result: Expr,
}

/// The accumulator of the standard macros; no identifier can have this name.
pub const ACCU: &str = "@result";

pub mod op {
    pub const CONDITIONAL: &str = "_?_:_";
    pub const AND: &str = "_&&_";
    pub const OR: &str = "_||_";
    pub const NOT: &str = "!_";
    pub const NEGATE: &str = "-_";
    pub const EQUALS: &str = "_==_";
    pub const ADD: &str = "_+_";
    pub const INDEX: &str = "_[_]";
    pub const OPT_INDEX: &str = "_[?_]";
    pub const OPT_SELECT: &str = "_?._";
    pub const NOT_STRICTLY_FALSE: &str = "@not_strictly_false";
    pub const IN: &str = "@in";
    pub const MAP_INSERT: &str = "cel.@mapInsert";
}

/// A fault with its place in the source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Issue {
    pub at: usize,
    pub message: String,
}

/// Faults as cel-go prints them: with the line and a mark below the place.
pub fn render(source: &str, issues: &[Issue]) -> String {
    let lines: Vec<&str> = source.split('\n').collect();
    let mut out = Vec::with_capacity(issues.len());
    for issue in issues {
        let (mut line, mut column) = (0, issue.at);
        for text in &lines {
            let len = text.chars().count();
            if column <= len || line + 1 == lines.len() {
                break;
            }
            column -= len + 1;
            line += 1;
        }
        let snippet = lines.get(line).copied().unwrap_or_default().replace('\t', " ");
        let mut marks: String = snippet
            .chars()
            .take(column)
            .map(|c| if c.len_utf8() > 1 { '\u{ff0e}' } else { '.' })
            .collect();
        marks.push(match snippet.chars().nth(column) {
            Some(c) if c.len_utf8() > 1 => '\u{ff3e}',
            _ => '^',
        });
        out.push(format!(
            "ERROR: <input>:{}:{}: {}\n | {snippet}\n | {marks}",
            line + 1,
            column + 1,
            issue.message
        ));
    }
    out.join("\n")
}
