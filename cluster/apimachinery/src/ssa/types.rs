//! The served versions of a kind.

use thiserror::Error;

use super::set::FieldSet;
use crate::openapi::ObjectType;

/// A version that is not served (any more).
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("no corresponding type for {0}")]
pub(super) struct Missing(pub String);

/// One served version of a kind.
#[derive(Clone, Debug)]
pub struct Version {
    /// `group/version`, or `version` for the core group.
    pub api_version: String,
    pub ty: ObjectType,
    /// Fields that writes through this endpoint cannot change: nobody comes to
    /// own them by it.
    pub reset: FieldSet,
}

/// The served versions of a kind. Conversion between them changes nothing but
/// `apiVersion` (strategy None); other strategies would hook in where objects
/// are checked against a second version.
#[derive(Clone, Debug, Default)]
pub(super) struct Versions(Vec<Version>);

impl Versions {
    #[must_use]
    pub(super) fn new(versions: Vec<Version>) -> Self {
        Self(versions)
    }

    fn find(&self, api_version: &str) -> Option<&Version> {
        self.0.iter().find(|version| version.api_version == api_version)
    }

    /// # Errors
    /// The version is not served.
    pub(crate) fn get(&self, api_version: &str) -> Result<&ObjectType, Missing> {
        self.find(api_version)
            .map(|version| &version.ty)
            .ok_or_else(|| Missing(api_version.to_owned()))
    }

    pub(crate) fn reset(&self, api_version: &str) -> Option<&FieldSet> {
        self.find(api_version)
            .map(|version| &version.reset)
            .filter(|reset| !reset.is_empty())
    }
}
