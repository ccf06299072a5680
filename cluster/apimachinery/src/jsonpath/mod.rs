//! JSONPath as Kubernetes has it, for printer columns and the paths of the scale subresource.

mod filter;
mod parse;

use serde_json::Value;

use filter::Filter;

/// A path that was read. Missing fields select nothing; they are no error.
#[derive(Clone, Debug, PartialEq)]
pub struct JsonPath {
    steps: Vec<Step>,
}

#[derive(Clone, Debug, PartialEq)]
enum Step {
    Field(String),
    Fields(Vec<String>),
    Wildcard,
    /// Everything below, itself first.
    Recursive,
    Indexes(Vec<i64>),
    Slice {
        start: Option<i64>,
        end: Option<i64>,
        step: i64,
    },
    Filter(Box<Filter>),
}

#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at position {position} of the JSONPath {path:?}")]
pub struct JsonPathError {
    path: String,
    position: usize,
    reason: String,
}

impl JsonPath {
    /// Reads a path: `.status.conditions[?(@.type=="Ready")].status`. Braces around it may be there.
    pub fn parse(path: &str) -> Result<Self, JsonPathError> {
        parse::parse(path)
    }

    /// What the path selects, in order.
    pub fn select<'a>(&self, root: &'a Value) -> Vec<&'a Value> {
        self.steps.iter().fold(vec![root], |values, step| {
            values
                .into_iter()
                .flat_map(|value| step.apply(value, root))
                .collect()
        })
    }

    /// The first value that the path selects.
    pub fn first<'a>(&self, root: &'a Value) -> Option<&'a Value> {
        self.select(root).into_iter().next()
    }
}

impl Step {
    fn apply<'a>(&self, value: &'a Value, root: &'a Value) -> Vec<&'a Value> {
        match self {
            Self::Field(name) => value.get(name).into_iter().collect(),
            Self::Fields(names) => names.iter().filter_map(|name| value.get(name)).collect(),
            Self::Wildcard => children(value),
            Self::Recursive => descendants(value),
            Self::Indexes(indexes) => {
                let items = elements(value);
                indexes
                    .iter()
                    .filter_map(|i| items.get(position(*i, items.len())?))
                    .collect()
            }
            Self::Slice { start, end, step } => slice(elements(value), *start, *end, *step),
            Self::Filter(filter) => elements(value)
                .iter()
                .filter(|item| filter.holds(item, root))
                .collect(),
        }
    }
}

fn elements(value: &Value) -> &[Value] {
    value.as_array().map_or(&[], Vec::as_slice)
}

fn children(value: &Value) -> Vec<&Value> {
    match value {
        Value::Array(items) => items.iter().collect(),
        Value::Object(fields) => fields.values().collect(),
        _ => Vec::new(),
    }
}

fn descendants(value: &Value) -> Vec<&Value> {
    let mut all = vec![value];
    let mut next = 0;
    while next < all.len() {
        let below = children(all[next]);
        next += 1;
        all.splice(next..next, below);
    }
    all
}

/// A negative index counts from the end.
fn position(index: i64, length: usize) -> Option<usize> {
    let length = i64::try_from(length).ok()?;
    let index = if index < 0 { index + length } else { index };
    usize::try_from(index).ok()
}

fn slice(items: &[Value], start: Option<i64>, end: Option<i64>, step: i64) -> Vec<&Value> {
    let bound = |at: Option<i64>, default: usize| match at {
        None => Some(default),
        Some(at) => position(at, items.len()).map(|at| at.min(items.len())),
    };
    let (Some(start), Some(end)) = (bound(start, 0), bound(end, items.len())) else {
        return Vec::new();
    };
    let step = usize::try_from(step.max(1)).unwrap_or(1);
    if start >= end {
        return Vec::new();
    }
    items[start..end].iter().step_by(step).collect()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::json;

    use super::*;

    #[test]
    fn selects() {
        let object = json!({
            "spec": {"replicas": 3, "a.b": "dotted", "list": [1, 2, 3, 4]},
            "status": {"conditions": [
                {"type": "Ready", "status": "True", "n": 1},
                {"type": "Done", "status": "False", "n": 2},
            ]},
        });
        for (path, want) in [
            (".spec.replicas", json!([3])),
            ("{.spec.replicas}", json!([3])),
            ("spec.replicas", json!([3])),
            ("$.spec.replicas", json!([3])),
            (".spec['a.b']", json!(["dotted"])),
            (r".spec.a\.b", json!(["dotted"])),
            (".spec.missing.deep", json!([])),
            (".spec.list[0]", json!([1])),
            (".spec.list[-1]", json!([4])),
            (".spec.list[9]", json!([])),
            (".spec.list[0,2]", json!([1, 3])),
            (".spec.list[1:3]", json!([2, 3])),
            (".spec.list[:2]", json!([1, 2])),
            (".spec.list[-2:]", json!([3, 4])),
            (".spec.list[::2]", json!([1, 3])),
            (".spec.list[*]", json!([1, 2, 3, 4])),
            (".status.conditions[*].type", json!(["Ready", "Done"])),
            (
                r#".status.conditions[?(@.type=="Ready")].status"#,
                json!(["True"]),
            ),
            (".status.conditions[?(@.type=='Done')].status", json!(["False"])),
            (".status.conditions[?(@.type != 'Done')].n", json!([1])),
            (".status.conditions[?(@.n > 1)].type", json!(["Done"])),
            (
                ".status.conditions[?(@.n >= $.status.conditions[1].n)].type",
                json!(["Done"]),
            ),
            (".status.conditions[?(@.missing)].type", json!([])),
            (".status.conditions[?(@.type)].n", json!([1, 2])),
            ("..type", json!(["Ready", "Done"])),
        ] {
            let selected = JsonPath::parse(path).expect(path);
            assert_eq!(json!(selected.select(&object)), want, "{path}");
        }
    }

    #[test]
    fn refuses_with_a_position() {
        for path in [".a[", ".a[?(@.b", ".a[x]", ".a['b", ".a[1:b]", "[?(1==)]"] {
            let error = JsonPath::parse(path).expect_err(path).to_string();
            assert!(error.contains("position"), "{error}");
        }
    }

    proptest! {
        #[test]
        fn no_text_panics(path in "[.\\[\\]@?()'\"$*a-c0-2:,=<>! \\\\-]{0,24}") {
            if let Ok(path) = JsonPath::parse(&path) {
                path.select(&json!({"a": [{"b": 1}, {"b": "c"}], "b": {"a": 2}}));
            }
        }
    }
}
