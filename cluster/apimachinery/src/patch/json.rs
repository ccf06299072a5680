use serde_json::{Map, Value};

use super::PatchError;
use crate::field::text::quote;
use crate::json_syntax;

/// Most operations in one patch.
const MAX_OPERATIONS: usize = 10_000;
/// Most bytes that the copies of one patch may add.
const MAX_COPIED: usize = 3 * 1024 * 1024;
/// Deepest nesting of a patched object, the same as for objects that are read.
const MAX_DEPTH: usize = 127;

const MISSING: &str = "missing value";
const TEST_FAILED: &str = "test failed";
const INVALID_INDEX: &str = "invalid index referenced";

/// A patch that could be read. Operations are checked when they run.
#[derive(Clone, Debug)]
pub struct JsonPatch {
    operations: Vec<Map<String, Value>>,
}

/// Reads a patch and applies it to an object.
///
/// # Errors
/// The patch cannot be read, or one of its operations does not fit the object.
pub fn apply(object: Value, patch: &[u8]) -> Result<Value, PatchError> {
    JsonPatch::parse(patch)?.apply(object)
}

impl JsonPatch {
    /// # Errors
    /// The text is no list of operations, or has too many.
    pub fn parse(patch: &[u8]) -> Result<Self, PatchError> {
        let value = json_syntax::parse(patch).map_err(PatchError::BadRequest)?;
        let wrong = |value: &Value, ty: &str| {
            let name = json_syntax::type_name(value);
            PatchError::BadRequest(format!(
                "json: cannot unmarshal {name} into Go value of type jsonpatch.{ty}"
            ))
        };
        let items = match value {
            Value::Null => Vec::new(),
            Value::Array(items) => items,
            other => return Err(wrong(&other, "Patch")),
        };
        if items.len() > MAX_OPERATIONS {
            return Err(PatchError::TooLarge(format!(
                "The allowed maximum operations in a JSON patch is {MAX_OPERATIONS}, got {}",
                items.len()
            )));
        }
        let operations = items
            .into_iter()
            .map(|item| match item {
                Value::Object(operation) => Ok(operation),
                Value::Null => Ok(Map::new()),
                other => Err(wrong(&other, "Operation")),
            })
            .collect::<Result<_, _>>()?;
        Ok(Self { operations })
    }

    /// # Errors
    /// An operation does not fit the object; none of them takes effect then.
    pub fn apply(&self, mut object: Value) -> Result<Value, PatchError> {
        let mut copied = 0;
        for operation in &self.operations {
            Operation(operation)
                .run(&mut object, &mut copied)
                .map_err(PatchError::Unprocessable)?;
        }
        Ok(object)
    }
}

struct Operation<'p>(&'p Map<String, Value>);

impl Operation<'_> {
    fn run(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        match self.0.get("op").and_then(Value::as_str).unwrap_or("unknown") {
            "add" => self.add(document),
            "remove" => self.remove(document),
            "replace" => self.replace(document),
            "move" => self.relocate(document),
            "test" => self.test(document),
            "copy" => self.copy(document, copied),
            other => Err(format!("Unexpected kind: {other}")),
        }
    }

    fn text(&self, field: &str, missing: &str) -> Result<&str, String> {
        match self.0.get(field) {
            None | Some(Value::Null) => Err(format!("{missing}: {MISSING}")),
            Some(Value::String(text)) => Ok(text),
            Some(other) => Err(format!(
                "json: cannot unmarshal {} into Go value of type string",
                json_syntax::type_name(other)
            )),
        }
    }

    fn path(&self) -> Result<&str, String> {
        self.text("path", "operation missing path field")
    }

    fn from(&self) -> Result<&str, String> {
        self.text("from", "operation, missing from field")
    }

    /// No value is the same as null.
    fn value(&self) -> Value {
        self.0.get("value").cloned().unwrap_or(Value::Null)
    }

    fn add(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .map_err(|_| format!("add operation failed to decode path: {MISSING}"))?;
        let (mut parent, key) = find(document, path).ok_or_else(|| {
            format!("add operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        let value = self.value();
        check_depth(path, &value)?;
        parent
            .add(&key, value)
            .map_err(|error| format!("error in add for path: '{path}': {error}"))
    }

    fn remove(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .map_err(|_| format!("remove operation failed to decode path: {MISSING}"))?;
        let (mut parent, key) = find(document, path).ok_or_else(|| {
            format!("remove operation does not apply: doc is missing path: \"{path}\": {MISSING}")
        })?;
        parent
            .remove(&key)
            .map(drop)
            .map_err(|error| format!("error in remove for path: '{path}': {error}"))
    }

    fn replace(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .map_err(|error| format!("replace operation failed to decode path: {error}"))?;
        if path.is_empty() {
            let value = self.value();
            if !value.is_object() && !value.is_array() {
                return Err("replace operation value must be object or array: %!w(<nil>)".to_owned());
            }
            *document = value;
            return Ok(());
        }
        let (mut parent, key) = find(document, path).ok_or_else(|| {
            format!("replace operation does not apply: doc is missing path: {path}: {MISSING}")
        })?;
        let value = self.value();
        check_depth(path, &value)?;
        match &mut parent {
            Parent::Object(map) => {
                map.insert(key, value);
            }
            Parent::Array(items) => {
                let at = position(&key, items.len()).map_err(|_| {
                    format!("replace operation does not apply: doc is missing key: {path}: {MISSING}")
                })?;
                items[at] = value;
            }
        }
        Ok(())
    }

    fn relocate(&self, document: &mut Value) -> Result<(), String> {
        let from = self
            .from()
            .map_err(|error| format!("move operation failed to decode from: {error}"))?;
        let (mut parent, key) = find(document, from).ok_or_else(|| {
            format!("move operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = parent
            .remove(&key)
            .map_err(|error| format!("error in move for path: '{key}': {error}"))?;
        let path = self
            .path()
            .map_err(|error| format!("move operation failed to decode path: {error}"))?;
        let (mut parent, key) = find(document, path).ok_or_else(|| {
            format!("move operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        check_depth(path, &value)?;
        parent
            .add(&key, value)
            .map_err(|error| format!("error in move for path: '{path}': {error}"))
    }

    fn test(&self, document: &mut Value) -> Result<(), String> {
        let path = self
            .path()
            .map_err(|error| format!("test operation failed to decode path: {error}"))?;
        let wanted = self.value();
        let matches = if path.is_empty() {
            *document == wanted
        } else {
            let (parent, key) = find(document, path).ok_or_else(|| {
                format!("test operation does not apply: is missing path: {path}: {MISSING}")
            })?;
            let value = parent
                .get(&key)
                .map_err(|error| format!("error in test for path: '{path}': {error}"))?;
            *value.unwrap_or(&Value::Null) == wanted
        };
        if matches {
            Ok(())
        } else {
            Err(format!("testing value {path} failed: {TEST_FAILED}"))
        }
    }

    fn copy(&self, document: &mut Value, copied: &mut usize) -> Result<(), String> {
        let from = self
            .from()
            .map_err(|error| format!("copy operation failed to decode from: {error}"))?;
        let (parent, key) = find(document, from).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing from path: {from}: {MISSING}")
        })?;
        let value = parent
            .get(&key)
            .map_err(|error| format!("error in copy for from: '{from}': {error}"))?
            .cloned()
            .unwrap_or(Value::Null);
        let path = self
            .path()
            .map_err(|_| format!("copy operation failed to decode path: {MISSING}"))?;
        let (mut parent, key) = find(document, path).ok_or_else(|| {
            format!("copy operation does not apply: doc is missing destination path: {path}: {MISSING}")
        })?;
        *copied += value.to_string().len();
        if *copied > MAX_COPIED {
            return Err(format!(
                "Unable to complete the copy, the accumulated size increase of copy is {copied}, \
                 exceeding the limit {MAX_COPIED}"
            ));
        }
        check_depth(path, &value)?;
        parent
            .add(&key, value)
            .map_err(|error| format!("error while adding value during copy: {error}"))
    }
}

/// Refuses what could not be read again.
fn check_depth(path: &str, value: &Value) -> Result<(), String> {
    fn depth(value: &Value) -> usize {
        match value {
            Value::Array(items) => 1 + items.iter().map(depth).max().unwrap_or(0),
            Value::Object(map) => 1 + map.values().map(depth).max().unwrap_or(0),
            _ => 0,
        }
    }
    if path.matches('/').count() + depth(value) > MAX_DEPTH {
        return Err(format!(
            "the patched object is nested deeper than {MAX_DEPTH} levels"
        ));
    }
    Ok(())
}

/// The container of the value that a path points at.
enum Parent<'d> {
    Object(&'d mut Map<String, Value>),
    Array(&'d mut Vec<Value>),
}

/// Walks down to the parent and the last key of a path.
fn find<'d>(document: &'d mut Value, path: &str) -> Option<(Parent<'d>, String)> {
    let mut parts = path.split('/').skip(1).map(unescape);
    let mut key = parts.next()?;
    let mut place = document;
    for next in parts {
        place = match place {
            Value::Object(map) => map.get_mut(&key)?,
            Value::Array(items) => {
                let at = position(&key, items.len()).ok()?;
                items.get_mut(at)?
            }
            _ => return None,
        };
        key = next;
    }
    let parent = match place {
        Value::Object(map) => Parent::Object(map),
        Value::Array(items) => Parent::Array(items),
        _ => return None,
    };
    Some((parent, key))
}

fn unescape(part: &str) -> String {
    if !part.contains('~') {
        return part.to_owned();
    }
    // In one pass, so that `~01` becomes `~1`.
    let mut out = String::with_capacity(part.len());
    let mut rest = part;
    while let Some(at) = rest.find('~') {
        out.push_str(&rest[..at]);
        let (text, used) = match rest.as_bytes().get(at + 1) {
            Some(b'0') => ("~", 2),
            Some(b'1') => ("/", 2),
            _ => ("~", 1),
        };
        out.push_str(text);
        rest = &rest[at + used..];
    }
    out.push_str(rest);
    out
}

impl Parent<'_> {
    fn get(&self, key: &str) -> Result<Option<&Value>, String> {
        match self {
            Self::Object(map) => Ok(map.get(key)),
            Self::Array(items) => {
                let at = position(key, items.len())?;
                Ok(items.get(at))
            }
        }
    }

    fn add(&mut self, key: &str, value: Value) -> Result<(), String> {
        match self {
            Self::Object(map) => {
                map.insert(key.to_owned(), value);
            }
            Self::Array(items) if key == "-" => items.push(value),
            Self::Array(items) => {
                let index = integer(key)
                    .map_err(|error| format!("value was not a proper array index: '{key}': {error}"))?;
                let at = within(index, items.len() + 1)?;
                items.insert(at, value);
            }
        }
        Ok(())
    }

    fn remove(&mut self, key: &str) -> Result<Value, String> {
        match self {
            Self::Object(map) => map
                .remove(key)
                .ok_or_else(|| format!("Unable to remove nonexistent key: {key}: {MISSING}")),
            Self::Array(items) => {
                let at = position(key, items.len())?;
                Ok(items.remove(at))
            }
        }
    }
}

/// The index of an item that is there; negative ones count from the end.
fn position(key: &str, len: usize) -> Result<usize, String> {
    within(integer(key)?, len)
}

fn integer(key: &str) -> Result<i64, String> {
    let digits = key.strip_prefix(['+', '-']).unwrap_or(key);
    if digits.is_empty() || !digits.bytes().all(|byte| byte.is_ascii_digit()) {
        return Err(format!("strconv.Atoi: parsing {}: invalid syntax", quote(key)));
    }
    key.parse()
        .map_err(|_| format!("strconv.Atoi: parsing {}: value out of range", quote(key)))
}

fn within(index: i64, len: usize) -> Result<usize, String> {
    let size = i64::try_from(len).unwrap_or(i64::MAX);
    let at = if index < 0 { index + size } else { index };
    usize::try_from(at)
        .ok()
        .filter(|at| *at < len)
        .ok_or_else(|| format!("Unable to access invalid index: {index}: {INVALID_INDEX}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn patched(object: Value, patch: &Value) -> Result<Value, PatchError> {
        apply(object, patch.to_string().as_bytes())
    }

    #[test]
    fn nesting_is_bounded() {
        let mut operations = vec![json!({"op": "add", "path": "/a", "value": {}})];
        for i in 0..400 {
            let (from, to) = if i % 2 == 0 { ("/a", "/b") } else { ("/b", "/a") };
            operations.push(json!({"op": "add", "path": to, "value": {}}));
            operations.push(json!({"op": "move", "from": from, "path": format!("{to}/x")}));
        }
        let error = patched(json!({}), &Value::Array(operations)).unwrap_err();
        assert!(error.to_string().contains("nested deeper"), "{error}");
    }

    #[test]
    fn copies_are_bounded() {
        let text = "x".repeat(100_000);
        let copies: Vec<Value> = (0..40)
            .map(|_| json!({"op": "copy", "from": "/a", "path": "/list/-"}))
            .collect();
        let error = patched(json!({"a": text, "list": []}), &Value::Array(copies)).unwrap_err();
        assert!(error.to_string().contains("exceeding the limit"), "{error}");
    }

    #[test]
    fn operations_are_bounded() {
        let patch = Value::Array(vec![json!({"op": "test", "path": "/a"}); 10_001]);
        assert!(matches!(patched(json!({}), &patch), Err(PatchError::TooLarge(_))));
    }

    #[test]
    fn escapes_are_read_once() {
        let patch = json!([{"op": "add", "path": "/a~01~1b~0", "value": 1}]);
        assert_eq!(patched(json!({}), &patch).unwrap(), json!({"a~1/b~": 1}));
    }
}
