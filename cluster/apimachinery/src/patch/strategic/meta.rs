//! What the type of an object says about its fields.

use super::{PatchError, internal};
use crate::field::text::quote;
use crate::openapi::{Field, ObjectType, PatchMeta, Scalar, Schema, Type, TypeId};

/// The type at a place in an object.
#[derive(Clone, Copy)]
pub(super) struct Meta<'s> {
    schema: &'s Schema,
    ty: TypeId,
}

impl PatchMeta {
    /// The key by which items of the list are known; empty if none is.
    pub(super) fn key(&self) -> &str {
        self.merge_key.as_deref().unwrap_or_default()
    }
}

impl<'s> Meta<'s> {
    pub(super) fn root(ty: &'s ObjectType) -> Self {
        Self {
            schema: &ty.schema,
            ty: ty.root,
        }
    }

    fn ty(self) -> &'s Type {
        self.schema.get(self.ty)
    }

    fn at(self, ty: TypeId) -> Self {
        Self { ty, ..self }
    }

    /// The type of a field and how to patch it.
    pub(super) fn field(self, name: &str) -> Result<(Self, &'s PatchMeta), PatchError> {
        let ty = self.ty();
        if self.kind() != "struct" {
            return Err(internal(format!(
                "merging an object in json but data type is not struct, instead is: {}",
                self.kind()
            )));
        }
        let fields: &[Field] = ty.map.as_ref().map_or(&[], |map| &map.fields);
        let exact = ty.map.as_ref().and_then(|map| map.field(name));
        // Decoding in Go falls back to names in another case.
        let field = exact.or_else(|| {
            fields
                .iter()
                .find(|field| field.name.to_lowercase() == name.to_lowercase())
        });
        match field {
            Some(field) => Ok((self.at(field.ty), &field.patch)),
            None => {
                let full = ty.name.as_deref().unwrap_or_default();
                let short = full.rsplit('.').next().unwrap_or(full);
                Err(internal(format!(
                    "unable to find api field in struct {short} for the json field {}",
                    quote(name)
                )))
            }
        }
    }

    /// The type of the items of a list and how to patch it.
    pub(super) fn list_field(self, name: &str) -> Result<(Self, &'s PatchMeta), PatchError> {
        let (field, patch) = self.field(name)?;
        let Some(list) = &field.ty().list else {
            return Err(internal(format!(
                "expected slice or array type, but got: {}",
                self.kind()
            )));
        };
        let element = self.at(list.element);
        if element.kind() == "slice" {
            return Err(internal("unexpected slice of slice"));
        }
        Ok((element, patch))
    }

    /// The kind of the type in Go.
    pub(super) fn kind(self) -> &'static str {
        let ty = self.ty();
        let fields = ty.map.as_ref().is_some_and(|map| !map.fields.is_empty());
        if ty.name.is_some() || fields {
            "struct"
        } else if ty.map.is_some() {
            "map"
        } else if ty.list.is_some() {
            "slice"
        } else {
            match ty.scalar {
                Some(Scalar::Boolean) => "bool",
                Some(Scalar::Numeric) => "int32",
                _ => "string",
            }
        }
    }
}
