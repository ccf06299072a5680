//! From OpenAPI documents to typed schemas.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Map, Value};
use thiserror::Error;

use super::{
    Field, ListKind, ListType, MapType, ObjectType, PatchMeta, Scalar, Schema, Type, TypeId,
    builtin_definitions,
};

const RAW_EXTENSION: &str = "runtime.RawExtension";
const OBJECT_META: &str = "meta.v1.ObjectMeta";
/// Deepest nesting of a schema; deeper ones come only from bad input.
const MAX_DEPTH: usize = 200;

/// A schema that cannot be understood.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("schema {place}: {problem}")]
pub struct SchemaError {
    pub place: String,
    pub problem: String,
}

impl SchemaError {
    pub(super) fn new(place: &str, problem: impl Into<String>) -> Self {
        Self {
            place: place.to_owned(),
            problem: problem.into(),
        }
    }
}

pub(super) fn definitions(source: &Map<String, Value>) -> Result<Schema, SchemaError> {
    let mut parser = Parser::new(source);
    for name in source.keys() {
        parser.named(name, name)?;
    }
    Ok(parser.finish())
}

pub(super) fn custom(root: &Value) -> Result<ObjectType, SchemaError> {
    let Some(object) = root.as_object() else {
        return Err(SchemaError::new("openAPIV3Schema", "must be an object"));
    };
    let mut parser = Parser::new(builtin_definitions());
    let mut at = Place {
        path: "openAPIV3Schema".into(),
        depth: 0,
        preserve: false,
    };
    let mut ty = parser.parse(object, &mut at)?;
    if let Some(map) = &mut ty.map {
        parser.add_object_fields(map)?;
        // The root now has fields, whatever it declared.
        map.deduced = false;
    }
    let root = parser.push(ty);
    Ok(ObjectType {
        schema: Arc::new(parser.finish()),
        root,
    })
}

pub(super) fn deduced() -> ObjectType {
    ObjectType {
        schema: Arc::new(Parser::new(&Map::new()).finish()),
        root: DEDUCED,
    }
}

/// Scalars and whole containers, each one leaf.
const UNTYPED: TypeId = TypeId(0);
/// Scalars, atomic lists, granular maps.
const DEDUCED: TypeId = TypeId(1);

#[derive(Clone)]
struct Place {
    path: String,
    depth: usize,
    /// Unknown fields are kept from here on.
    preserve: bool,
}

struct Parser<'a> {
    source: &'a Map<String, Value>,
    types: Vec<Type>,
    names: BTreeMap<String, TypeId>,
    /// References that override whether the type is atomic, filled in at the
    /// end because the base may not be parsed yet.
    overrides: Vec<(TypeId, TypeId, bool)>,
}

impl<'a> Parser<'a> {
    fn new(source: &'a Map<String, Value>) -> Self {
        let list = ListType {
            element: UNTYPED,
            kind: ListKind::Atomic,
        };
        let untyped = |element, atomic| Type {
            name: None,
            scalar: Some(Scalar::Untyped),
            list: Some(list.clone()),
            map: Some(MapType {
                fields: Vec::new(),
                element: Some(element),
                atomic,
                deduced: element == DEDUCED,
            }),
        };
        Self {
            source,
            types: vec![untyped(UNTYPED, true), untyped(DEDUCED, false)],
            names: BTreeMap::new(),
            overrides: Vec::new(),
        }
    }

    fn push(&mut self, ty: Type) -> TypeId {
        let id = TypeId(u32::try_from(self.types.len()).unwrap_or(u32::MAX));
        self.types.push(ty);
        id
    }

    fn named(&mut self, name: &str, referrer: &str) -> Result<TypeId, SchemaError> {
        if let Some(id) = self.names.get(name) {
            return Ok(*id);
        }
        let source = self.source;
        let body = source
            .get(name)
            .and_then(Value::as_object)
            .ok_or_else(|| SchemaError::new(referrer, format!("no definition named {name:?}")))?;
        let id = self.push(Type::default());
        self.names.insert(name.to_owned(), id);
        let mut ty = match name {
            RAW_EXTENSION => self.types[UNTYPED.0 as usize].clone(),
            _ => self.parse(
                body,
                &mut Place {
                    path: name.to_owned(),
                    depth: 0,
                    preserve: false,
                },
            )?,
        };
        ty.name = Some(Arc::from(name));
        self.types[id.0 as usize] = ty;
        Ok(id)
    }

    fn parse(&mut self, body: &Map<String, Value>, at: &mut Place) -> Result<Type, SchemaError> {
        if flag(body, "x-kubernetes-preserve-unknown-fields") {
            at.preserve = true;
        }
        let kind = body.get("type").and_then(Value::as_str).unwrap_or("");
        let mut ty = Type::default();
        match kind {
            "" => {
                ty.scalar = Some(Scalar::Untyped);
                ty.list = Some(self.list(body, at, false)?);
                ty.map = Some(self.map(body, at)?);
            }
            "object" => ty.map = Some(self.map(body, at)?),
            "array" => ty.list = Some(self.list(body, at, true)?),
            "integer" | "number" => ty.scalar = Some(Scalar::Numeric),
            "boolean" => ty.scalar = Some(Scalar::Boolean),
            "string" => {
                ty.scalar = Some(match body.get("format").and_then(Value::as_str) {
                    None | Some("" | "byte") => Scalar::String,
                    Some(_) => Scalar::Untyped,
                });
            }
            other => {
                return Err(SchemaError::new(
                    &at.path,
                    format!("unrecognized type: '{other}'"),
                ));
            }
        }
        Ok(ty)
    }

    /// The type that a property, item or additional property refers to; the
    /// flag tells whether it is written in place.
    fn reference(&mut self, body: &Value, at: &Place) -> Result<(TypeId, bool), SchemaError> {
        let Some(body) = body.as_object() else {
            return Err(SchemaError::new(&at.path, "a schema must be an object"));
        };
        if at.depth > MAX_DEPTH {
            return Err(SchemaError::new(&at.path, "nested too deeply"));
        }
        let reference = body.get("$ref").or_else(|| match body.get("allOf") {
            Some(Value::Array(all)) if all.len() == 1 => all[0].get("$ref"),
            _ => None,
        });
        if let Some(Value::String(reference)) = reference {
            let name = reference.rsplit('/').next().unwrap_or(reference);
            let base = self.named(name, &at.path)?;
            let id = match map_atomic(body, &at.path)? {
                None => base,
                Some(atomic) => {
                    let id = self.push(Type::default());
                    self.overrides.push((id, base, atomic));
                    id
                }
            };
            return Ok((id, false));
        }
        let mut inner = at.clone();
        inner.depth += 1;
        let mut ty = self.parse(body, &mut inner)?;
        if flag(body, "x-kubernetes-embedded-resource")
            && let Some(map) = &mut ty.map
        {
            self.add_object_fields(map)?;
            map.deduced = false;
        }
        Ok((self.push(ty), true))
    }

    fn map(&mut self, body: &Map<String, Value>, at: &Place) -> Result<MapType, SchemaError> {
        let mut map = MapType {
            atomic: map_atomic(body, &at.path)?.unwrap_or(false),
            ..MapType::default()
        };
        if let Some(Value::Object(properties)) = body.get("properties") {
            for (name, property) in properties {
                let mut place = at.clone();
                place.path = format!("{}.{name}", at.path);
                let (ty, _) = self.reference(property, &place)?;
                map.fields.push(Field {
                    name: Arc::from(name.as_str()),
                    ty,
                    default: property.get("default").filter(|v| !v.is_null()).cloned(),
                    patch: patch_meta(property),
                });
            }
        }
        // serde_json may keep the order of the document.
        map.fields.sort_by(|a, b| a.name.cmp(&b.name));
        let mut untyped_element = false;
        map.element = match body.get("additionalProperties") {
            None if at.preserve || map.fields.is_empty() => {
                untyped_element = true;
                Some(DEDUCED)
            }
            None | Some(Value::Bool(false)) => None,
            Some(Value::Bool(true)) => {
                untyped_element = true;
                Some(DEDUCED)
            }
            Some(schema) => {
                let mut place = at.clone();
                place.path.push_str("[*]");
                let (id, inlined) = self.reference(schema, &place)?;
                untyped_element = inlined && self.types[id.0 as usize].scalar == Some(Scalar::Untyped);
                Some(id)
            }
        };
        map.deduced = map.fields.is_empty() && untyped_element;
        Ok(map)
    }

    fn list(
        &mut self,
        body: &Map<String, Value>,
        at: &Place,
        needs_items: bool,
    ) -> Result<ListType, SchemaError> {
        let kind = list_kind(body, &at.path)?;
        let element = match body.get("items") {
            Some(items) => {
                let mut place = at.clone();
                place.path.push_str("[]");
                self.reference(items, &place)?.0
            }
            None if needs_items => {
                return Err(SchemaError::new(&at.path, "`items` must be specified on arrays"));
            }
            None => UNTYPED,
        };
        Ok(ListType { element, kind })
    }

    /// Gives a custom or embedded resource the fields that every object has.
    fn add_object_fields(&mut self, map: &mut MapType) -> Result<(), SchemaError> {
        let string = self.push(Type {
            scalar: Some(Scalar::String),
            ..Type::default()
        });
        let metadata = self.named(OBJECT_META, "metadata")?;
        for (name, ty) in [("apiVersion", string), ("kind", string), ("metadata", metadata)] {
            map.fields.retain(|field| &*field.name != name);
            map.fields.push(Field {
                name: Arc::from(name),
                ty,
                default: None,
                patch: PatchMeta::default(),
            });
        }
        map.fields.sort_by(|a, b| a.name.cmp(&b.name));
        Ok(())
    }

    fn finish(mut self) -> Schema {
        for (id, base, atomic) in std::mem::take(&mut self.overrides) {
            let mut ty = self.types[base.0 as usize].clone();
            if let Some(map) = &mut ty.map {
                map.atomic = atomic;
            } else if let Some(list) = &mut ty.list
                && atomic
            {
                list.kind = ListKind::Atomic;
            }
            self.types[id.0 as usize] = ty;
        }
        let names = self
            .names
            .into_iter()
            .map(|(name, id)| (Arc::from(name), id))
            .collect();
        Schema {
            types: self.types,
            names,
        }
    }
}

fn flag(body: &Map<String, Value>, name: &str) -> bool {
    body.get(name) == Some(&Value::Bool(true))
}

fn map_atomic(body: &Map<String, Value>, place: &str) -> Result<Option<bool>, SchemaError> {
    match body.get("x-kubernetes-map-type").and_then(Value::as_str) {
        None => Ok(None),
        Some("atomic") => Ok(Some(true)),
        Some("granular") => Ok(Some(false)),
        Some(other) => Err(SchemaError::new(place, format!("unknown map type {other}"))),
    }
}

fn list_kind(body: &Map<String, Value>, place: &str) -> Result<ListKind, SchemaError> {
    if let Some(kind) = body.get("x-kubernetes-list-type").and_then(Value::as_str) {
        return match kind {
            "atomic" => Ok(ListKind::Atomic),
            "set" => Ok(ListKind::Set),
            "map" => match body.get("x-kubernetes-list-map-keys") {
                Some(Value::Array(keys)) => Ok(map_or_set(
                    keys.iter().filter_map(Value::as_str).map(Arc::from).collect(),
                )),
                _ => Err(SchemaError::new(place, "missing map keys")),
            },
            other => Err(SchemaError::new(place, format!("unknown list type {other}"))),
        };
    }
    match body.get("x-kubernetes-patch-strategy").and_then(Value::as_str) {
        Some("merge" | "merge,retainKeys") => Ok(
            match body.get("x-kubernetes-patch-merge-key").and_then(Value::as_str) {
                Some(key) => ListKind::Map(vec![Arc::from(key)]),
                None => ListKind::Set,
            },
        ),
        None | Some(_) => Ok(ListKind::Atomic),
    }
}

/// A map list without keys acts as a set.
fn map_or_set(keys: Vec<Arc<str>>) -> ListKind {
    if keys.is_empty() {
        ListKind::Set
    } else {
        ListKind::Map(keys)
    }
}

fn patch_meta(property: &Value) -> PatchMeta {
    let strategies = property["x-kubernetes-patch-strategy"]
        .as_str()
        .unwrap_or_default();
    let has = |name| strategies.split(',').any(|strategy| strategy == name);
    PatchMeta {
        merge: has("merge"),
        replace: has("replace"),
        retain_keys: has("retainKeys"),
        merge_key: property["x-kubernetes-patch-merge-key"].as_str().map(Arc::from),
    }
}
