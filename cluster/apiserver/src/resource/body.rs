//! Objects that clients send: JSON or YAML, with what strict clients want to hear about them.

use std::{collections::HashMap, fmt};

use apimachinery::protobuf::{self, ProtobufError};
use http::header;
use serde::de::{DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};

use super::{
    Target,
    options::{FieldValidation, WriteOptions},
};
use crate::{
    registry::Kind,
    semantics,
    serve::Call,
    status::{ApiError, Result},
};

/// Nesting that is read; deeper objects are refused before they can exhaust the stack.
const DEPTH: usize = 100;

/// The media type without its parameters.
pub(super) fn content_type(call: &Call) -> String {
    let text = call.header(header::CONTENT_TYPE);
    text.split(';')
        .next()
        .unwrap_or_default()
        .trim()
        .to_ascii_lowercase()
}

/// Reads an object of the target's kind from a request and reports what is unknown or twice in it.
pub(super) fn object(
    call: &Call,
    target: &Target,
    body: &[u8],
    options: &WriteOptions,
) -> Result<(Value, Vec<String>)> {
    let media = content_type(call);
    let (mut object, duplicates) = parse(&media, body)?;
    check_kind(&target.kind, &mut object)?;
    let warnings = decode(
        &target.kind,
        &mut object,
        duplicates,
        options,
        Some((&media, body)),
    )?;
    Ok((object, warnings))
}

/// Decodes a tree as an object of `kind`; unknown and duplicate fields become an error or warnings.
/// Those of built-in kinds are told in the order in which they stand in the document, if that is given.
pub(super) fn decode(
    kind: &Kind,
    object: &mut Value,
    mut duplicates: Vec<String>,
    options: &WriteOptions,
    document: Option<(&str, &[u8])>,
) -> Result<Vec<String>> {
    let unknown = semantics::decode(kind, object)?;
    if options.field_validation == FieldValidation::Ignore {
        return Ok(Vec::new());
    }
    // A field that a built-in type does not have is read by nobody, so nobody minds it twice.
    if !kind.is_custom() {
        duplicates.retain(|field| !unknown.contains(field));
    }
    let duplicates = duplicates.into_iter().map(|field| ("duplicate", field));
    let unknown = unknown.into_iter().map(|field| ("unknown", field));
    let mut problems: Vec<(&str, String)> = duplicates.chain(unknown).collect();
    if let Some((media, bytes)) = document.filter(|_| problems.len() > 1 && !kind.is_custom()) {
        let order = order(media, bytes);
        problems.sort_by_key(|(what, field)| {
            let places = order.places.get(field.as_str()).copied();
            // One that comes twice is noticed at its second place.
            places.map_or(
                usize::MAX,
                |(first, last)| if *what == "unknown" { first } else { last },
            )
        });
    }
    let problems: Vec<String> = problems
        .into_iter()
        .map(|(what, field)| format!("{what} field {field:?}"))
        .collect();
    if options.field_validation == FieldValidation::Strict && !problems.is_empty() {
        return Err(ApiError::bad_request(format!(
            "{} in version {:?} cannot be handled as a {}: strict decoding error: {}",
            kind.kind,
            kind.version,
            kind.kind,
            problems.join(", ")
        )));
    }
    Ok(problems)
}

/// Where the fields of a document stand.
#[derive(Default)]
struct Order {
    read: usize,
    /// The first and the last place of each.
    places: HashMap<String, (usize, usize)>,
}

fn order(media: &str, bytes: &[u8]) -> Order {
    let (mut duplicates, mut order) = (Vec::new(), Order::default());
    if !media.contains("yaml") && media != protobuf::MEDIA_TYPE {
        let tree = Tree {
            duplicates: &mut duplicates,
            order: Some(&mut order),
            path: String::new(),
            depth: 0,
        };
        // It was read before: there is no error in it.
        let _ = tree.deserialize(&mut serde_json::Deserializer::from_slice(bytes));
    }
    order
}

/// Reads JSON or YAML; fields that are there twice are reported, the last one counts.
pub(crate) fn parse(media: &str, bytes: &[u8]) -> Result<(Value, Vec<String>)> {
    let bad = |error: String| {
        ApiError::bad_request(format!(
            "the object provided is unrecognized (must be of type object): {error}"
        ))
    };
    match media {
        ""
        | "application/json"
        | "application/merge-patch+json"
        | "application/strategic-merge-patch+json"
        | "application/json-patch+json" => {
            let mut duplicates = Vec::new();
            let mut reader = serde_json::Deserializer::from_slice(bytes);
            let value = Tree {
                duplicates: &mut duplicates,
                order: None,
                path: String::new(),
                depth: 0,
            }
            .deserialize(&mut reader)
            .map_err(|error| bad(error.to_string()))?;
            reader.end().map_err(|error| bad(error.to_string()))?;
            Ok((value, duplicates))
        }
        "application/yaml" | "application/apply-patch+yaml" | "application/x-yaml" => {
            if bytes.first() == Some(&b'{') {
                return parse("application/json", bytes);
            }
            let text = std::str::from_utf8(bytes).map_err(|error| bad(error.to_string()))?;
            let value: Value = serde_saphyr::from_str(text)
                .map_err(|error| ApiError::bad_request(format!("error decoding YAML: {error}")))?;
            Ok((value, Vec::new()))
        }
        protobuf::MEDIA_TYPE => match protobuf::decode(bytes) {
            Ok(value) => Ok((value, Vec::new())),
            Err(error @ ProtobufError::Kind { .. }) => {
                Err(ApiError::unsupported_media_type(error.to_string()))
            }
            Err(error) => Err(bad(error.to_string())),
        },
        other => Err(ApiError::unsupported_media_type(format!(
            "the body of the request was in an unknown format - accepted media types include: \
             application/json, application/yaml, {} (got {other:?})",
            protobuf::MEDIA_TYPE
        ))),
    }
}

/// `apiVersion` and `kind` must be those of the path; absent ones are filled in.
pub(super) fn check_kind(kind: &Kind, object: &mut Value) -> Result<()> {
    let Value::Object(map) = object else {
        return Err(ApiError::bad_request(format!(
            "the object provided is unrecognized: expected an object of kind {:?}",
            kind.kind
        )));
    };
    let wanted = kind.api_version();
    for (field, wanted) in [("apiVersion", wanted.as_str()), ("kind", kind.kind.as_str())] {
        match map.get(field) {
            None | Some(Value::Null) => {
                map.insert(field.into(), wanted.into());
            }
            Some(Value::String(text)) if text == wanted => {}
            Some(Value::String(text)) if text.is_empty() => {
                map.insert(field.into(), wanted.into());
            }
            Some(found) => {
                let found = found.as_str().map_or_else(|| found.to_string(), str::to_owned);
                return Err(ApiError::bad_request(other_kind(kind, field, &found, wanted)));
            }
        }
    }
    match map.get_mut("metadata") {
        Some(Value::Object(_)) => {}
        Some(Value::Null) | None => {
            map.insert("metadata".into(), Value::Object(Map::new()));
        }
        Some(_) => return Err(ApiError::bad_request("metadata: expected an object")),
    }
    Ok(())
}

/// Built-in kinds are converted, and the message speaks of that.
fn other_kind(kind: &Kind, field: &str, found: &str, wanted: &str) -> String {
    match field {
        "kind" if kind.is_custom() => {
            format!("the kind in the data ({found}) does not match the expected kind ({wanted})")
        }
        "kind" => {
            let version = &kind.version;
            let group = kind
                .group
                .split('.')
                .next()
                .filter(|group| !group.is_empty())
                .unwrap_or("core");
            format!(
                "{found} in version {version:?} cannot be handled as a {wanted}: \
                 converting ({version}.{found}) to ({group}.{wanted}): unknown conversion"
            )
        }
        _ => format!(
            "the API version in the data ({found}) does not match the expected API version ({wanted})"
        ),
    }
}

/// Builds a tree and notes the paths of fields that come twice.
struct Tree<'a> {
    duplicates: &'a mut Vec<String>,
    /// The place of each field, where that is asked for.
    order: Option<&'a mut Order>,
    path: String,
    depth: usize,
}

impl<'de> DeserializeSeed<'de> for Tree<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if self.depth > DEPTH {
            return Err(serde::de::Error::custom(format!("nested deeper than {DEPTH}")));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Tree<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Number::from_f64(value).map_or(Value::Null, Value::Number))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(value.into())
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut items: A) -> Result<Value, A::Error> {
        let mut list = Vec::new();
        loop {
            let path = format!("{}[{}]", self.path, list.len());
            let seed = Tree {
                duplicates: self.duplicates,
                order: self.order.as_deref_mut(),
                path,
                depth: self.depth + 1,
            };
            match items.next_element_seed(seed)? {
                Some(item) => list.push(item),
                None => return Ok(Value::Array(list)),
            }
        }
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut fields: A) -> Result<Value, A::Error> {
        let mut map = Map::new();
        while let Some(key) = fields.next_key::<String>()? {
            let path = if self.path.is_empty() {
                key.clone()
            } else {
                format!("{}.{key}", self.path)
            };
            if map.contains_key(&key) {
                self.duplicates.push(path.clone());
            }
            if let Some(order) = &mut self.order {
                let place = order.read;
                order.read += 1;
                order.places.entry(path.clone()).or_insert((place, place)).1 = place;
            }
            let seed = Tree {
                duplicates: self.duplicates,
                order: self.order.as_deref_mut(),
                path,
                depth: self.depth + 1,
            };
            let value = fields.next_value_seed(seed)?;
            map.insert(key, value);
        }
        Ok(Value::Object(map))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn duplicates_are_noticed() {
        let (value, duplicates) = parse("application/json", br#"{"a":1,"b":[{"c":1,"c":2}],"a":3}"#).unwrap();
        assert_eq!(value, json!({"a": 3, "b": [{"c": 2}]}));
        assert_eq!(duplicates, ["b[0].c", "a"]);
    }

    #[test]
    fn hostile_bodies_are_refused() {
        let deep = "[".repeat(100_000);
        for bad in [deep.as_bytes(), b"", b"{", b"{} {}", b"\xff", b"{\"a\":"] {
            assert_eq!(parse("application/json", bad).unwrap_err().code, 400);
        }
        assert_eq!(parse(protobuf::MEDIA_TYPE, b"k8s\0").unwrap_err().code, 415);
    }
}
