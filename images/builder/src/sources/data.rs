//! Recipes, releases, patches and overrides: part of the program, or a directory of the user's.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::error::{Context, Error, Result};

static EMBEDDED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// The text files below `images/`, by path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Data {
    files: BTreeMap<String, Cow<'static, str>>,
    directory: Option<PathBuf>,
}

impl Data {
    /// What the program was built with.
    pub(crate) fn embedded() -> Self {
        let files = EMBEDDED
            .iter()
            .map(|(name, text)| ((*name).to_owned(), Cow::Borrowed(*text)))
            .collect();
        Self {
            files,
            directory: None,
        }
    }

    /// What lies in a directory with `recipes/` and `releases/`.
    pub(crate) fn read(directory: &Path) -> Result<Self> {
        let mut files = BTreeMap::new();
        for folder in ["files", "overrides", "patches", "recipes", "releases"] {
            let path = directory.join(folder);
            if path.is_dir() {
                collect(directory, &path, &mut files)?;
            }
        }
        if !files.keys().any(|name| name.starts_with("recipes/")) {
            return Err(Error::Request(format!(
                "{} holds no recipes: --images-dir must name a directory with recipes/ and releases/",
                directory.display()
            )));
        }
        Ok(Self {
            files,
            directory: Some(directory.to_owned()),
        })
    }

    #[cfg(test)]
    pub(crate) fn from_files<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let files = files
            .into_iter()
            .map(|(name, text)| (name.to_owned(), Cow::Owned(text.to_owned())))
            .collect();
        Self {
            files,
            directory: None,
        }
    }

    pub(crate) fn get(&self, path: &str) -> Option<&str> {
        self.files.get(path).map(AsRef::as_ref)
    }

    /// Files directly or deeper below `folder/`, sorted, with their full path.
    pub(crate) fn below<'a>(&'a self, folder: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
        self.files
            .range(format!("{folder}/")..)
            .take_while(move |(name, _)| {
                name.strip_prefix(folder)
                    .is_some_and(|rest| rest.starts_with('/'))
            })
            .map(|(name, text)| (name.as_str(), text.as_ref()))
    }

    /// The directory to write to, when the data did not come from the program itself.
    pub(crate) fn directory(&self) -> Option<&Path> {
        self.directory.as_deref()
    }

    /// The names of all releases, oldest first.
    pub(crate) fn releases(&self) -> Vec<String> {
        self.below("releases")
            .filter_map(|(name, _)| name.strip_prefix("releases/")?.strip_suffix("/release.yaml"))
            .map(str::to_owned)
            .collect()
    }
}

fn collect(root: &Path, directory: &Path, files: &mut BTreeMap<String, Cow<'static, str>>) -> Result<()> {
    for entry in fs::read_dir(directory).context("reading", directory)? {
        let path = entry.context("reading", directory)?.path();
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "options") {
                collect(root, &path, files)?;
            }
        } else if let Ok(name) = path.strip_prefix(root) {
            let text = fs::read_to_string(&path).context("reading", &path)?;
            files.insert(name.display().to_string(), Cow::Owned(text));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_program_carries_its_recipes_and_releases() {
        let data = Data::embedded();
        assert!(data.get("recipes/keystone.yaml").is_some());
        assert!(data.releases().contains(&"2025.2".to_owned()));
        assert!(
            data.below("releases")
                .all(|(name, _)| !name.contains("/options/"))
        );
    }

    #[test]
    fn a_directory_without_recipes_is_refused() {
        let empty = tempfile::tempdir().unwrap();
        let error = Data::read(empty.path()).unwrap_err().to_string();
        assert!(error.contains("holds no recipes"), "{error}");
    }

    #[test]
    fn below_does_not_mix_up_similar_names() {
        let data = Data::from_files([("patches/a/x", "1"), ("patches/ab/x", "2")]);
        assert_eq!(
            data.below("patches/a").collect::<Vec<_>>(),
            [("patches/a/x", "1")]
        );
    }
}
