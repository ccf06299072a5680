//! Typed views of OpenAPI schemas: what server-side apply and strategic merge
//! patch need to know of a type, for built-in kinds and custom resources alike.
//!
//! A `Schema` is an arena of `Type`s; references are resolved when it is
//! parsed, so that a walk over an object costs no lookups by name.

mod builtin;
mod parse;

use std::sync::Arc;

use serde_json::Value;

pub use builtin::{builtin_definitions, builtin_document};
pub use parse::SchemaError;

/// A type inside its [`Schema`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(u32);

/// What a scalar may hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scalar {
    Numeric,
    String,
    Boolean,
    /// Any scalar: int-or-string, quantities, formatted strings.
    Untyped,
}

/// The forms that a value of this type may take; more than one for untyped
/// values.
#[derive(Clone, Debug, Default)]
pub struct Type {
    /// Name of the definition, if it has one.
    pub name: Option<Arc<str>>,
    pub scalar: Option<Scalar>,
    pub list: Option<ListType>,
    pub map: Option<MapType>,
}

/// How the items of a list relate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListKind {
    /// One leaf: replaced as a whole.
    Atomic,
    /// Scalars, each its own owner.
    Set,
    /// Objects known by the values of these keys.
    Map(Vec<Arc<str>>),
}

#[derive(Clone, Debug)]
pub struct ListType {
    pub element: TypeId,
    pub kind: ListKind,
}

/// A struct (`fields`), a map (`element`), or both.
#[derive(Clone, Debug, Default)]
pub struct MapType {
    /// Declared fields, sorted by name.
    pub fields: Vec<Field>,
    /// Type of undeclared fields; `None` if they are not allowed.
    pub element: Option<TypeId>,
    pub atomic: bool,
    /// No declared fields and untyped elements: ownership in it is kept as it
    /// was written when the schema changes.
    pub deduced: bool,
}

#[derive(Clone, Debug)]
pub struct Field {
    pub name: Arc<str>,
    pub ty: TypeId,
    pub default: Option<Value>,
    pub patch: PatchMeta,
}

/// Strategic merge patch tags of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatchMeta {
    pub merge: bool,
    pub replace: bool,
    pub retain_keys: bool,
    pub merge_key: Option<Arc<str>>,
}

impl MapType {
    /// The declared field of this name.
    #[must_use]
    pub fn field(&self, name: &str) -> Option<&Field> {
        self.fields
            .binary_search_by(|field| (*field.name).cmp(name))
            .ok()
            .map(|at| &self.fields[at])
    }

    /// Type of the value under this name, declared or not.
    #[must_use]
    pub fn type_of(&self, name: &str) -> Option<TypeId> {
        self.field(name).map_or(self.element, |field| Some(field.ty))
    }
}

/// An arena of types.
#[derive(Debug)]
pub struct Schema {
    types: Vec<Type>,
    /// Named definitions, sorted by name.
    names: Vec<(Arc<str>, TypeId)>,
}

impl Schema {
    /// The type behind an id of this schema.
    #[must_use]
    pub fn get(&self, id: TypeId) -> &Type {
        // Ids are only made by the parser of this arena.
        &self.types[id.0 as usize]
    }

    /// Finds a named definition.
    #[must_use]
    pub fn named(&self, name: &str) -> Option<TypeId> {
        self.names
            .binary_search_by(|(candidate, _)| (**candidate).cmp(name))
            .ok()
            .map(|at| self.names[at].1)
    }
}

/// The type of a whole object: cheap to clone and to share.
#[derive(Clone, Debug)]
pub struct ObjectType {
    pub schema: Arc<Schema>,
    pub root: TypeId,
}

impl ObjectType {
    /// The type of a built-in kind by its definition name (`apps.v1.Deployment`).
    #[must_use]
    pub fn builtin(definition: &str) -> Option<Self> {
        let schema = builtin::builtin_schema();
        let root = schema.named(definition)?;
        Some(Self {
            schema: Arc::clone(schema),
            root,
        })
    }

    /// The type of a custom resource from its root `openAPIV3Schema`.
    /// `apiVersion`, `kind` and `metadata` are added as Kubernetes does.
    ///
    /// # Errors
    /// Names the place in the schema that cannot be understood.
    pub fn custom(open_api_v3_schema: &Value) -> Result<Self, SchemaError> {
        parse::custom(open_api_v3_schema)
    }

    /// The type of a custom resource without a schema: lists are atomic, maps
    /// are not.
    #[must_use]
    pub fn deduced() -> Self {
        parse::deduced()
    }

    /// A type of a document of definitions (`$ref` is a bare definition name).
    ///
    /// # Errors
    /// Names the definition that is missing or cannot be understood.
    pub fn from_definitions(
        definitions: &serde_json::Map<String, Value>,
        name: &str,
    ) -> Result<Self, SchemaError> {
        let schema = Arc::new(parse::definitions(definitions)?);
        let root = schema
            .named(name)
            .ok_or_else(|| SchemaError::new(name, "no such definition"))?;
        Ok(Self { schema, root })
    }
}
