//! A recipe: one layer as data, and the image that may end with it.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};
use serde_saphyr::Spanned;

use crate::error::{Error, Result};

/// `recipes/<name>.yaml`.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Recipe {
    #[serde(skip)]
    pub name: String,
    pub description: String,
    /// The recipe whose layer lies below; none for a first layer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub base: Option<Spanned<String>>,
    /// Makes a Debian root from nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bootstrap: Option<Bootstrap>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub users: Vec<Spanned<User>>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub debian: Option<Debian>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub python: Option<Python>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<Spanned<File>>,
    /// Paths to delete after the packages are installed; `*` stands for any part of a name.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub remove: Vec<Spanned<String>>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub directories: Vec<Spanned<Directory>>,
    /// How the image starts; a recipe without it and without a disk is a layer for others only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub image: Option<Image>,
    /// Makes the disk of a virtual machine instead of an image.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<Disk>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Bootstrap {
    pub variant: Spanned<String>,
    /// The Debian suite of this layer and of all that lie on it; that of the release when not given.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub suite: Option<Spanned<String>>,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct User {
    pub name: String,
    pub id: u32,
    pub home: String,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Debian {
    pub packages: Vec<Spanned<String>>,
    /// Packages of which only the files are wanted: what they depend on is left out, and none of their scripts runs.
    #[serde(default)]
    pub alone: Vec<Spanned<String>>,
    /// The package whose version must belong to the series that the release names.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub main: Option<Spanned<String>>,
    /// Take the packages from the suite's backports.
    #[serde(default)]
    pub backports: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Python {
    /// The set of pins in the release's `sets.yaml`.
    pub set: Spanned<String>,
    /// Make the virtual environment here; recipes above install into it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub environment: Option<Spanned<String>>,
    /// The recipes that all have the packages of this set: `c5c3 image lock` finds out which those are.
    #[serde(default, rename = "shared-by", skip_serializing_if = "Vec::is_empty")]
    pub shared_by: Vec<Spanned<String>>,
    /// The name of the service on the package index.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub package: Option<String>,
    /// Let the environment see Debian's Python modules: those that have no wheel. The environment's own win.
    #[serde(default, rename = "system-modules")]
    pub system_modules: bool,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
    /// A file that the caller of the build gives (`--input name=path`).
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub input: Option<String>,
    /// A file below `files/`, beside the recipes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub mode: Mode,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Directory {
    pub path: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    pub mode: Mode,
}

#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Image {
    /// A user of this recipe or of one below, or `uid:gid`. Never root.
    pub user: Spanned<String>,
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub env: BTreeMap<String, String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub entrypoint: Vec<String>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub command: Vec<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workdir: Option<String>,
    /// The command that tells the program's version: what `c5c3 image check` runs.
    pub version: Spanned<Vec<String>>,
    /// Python modules that must be there with all that they import; `c5c3 image check` tries.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub modules: Vec<Spanned<String>>,
}

/// A disk for virtual machines: made by a program of the layer, which is thrown away afterwards.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Disk {
    /// Writes the disk to the file that `DISK` names.
    pub command: Spanned<Vec<String>>,
    /// The architecture that it is for, as Rust names it; others pass it over.
    pub architecture: String,
}

/// File permissions, written in octal between quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Mode(pub u32);

impl<'de> Deserialize<'de> for Mode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        match u32::from_str_radix(&text, 8) {
            Ok(mode) if text.len() == 4 && mode & !0o1777 == 0 => Ok(Self(mode)),
            _ => Err(serde::de::Error::custom(format!(
                "mode `{text}` must be four octal digits between quotes, without set-user-id and set-group-id"
            ))),
        }
    }
}

impl Serialize for Mode {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(&format!("{:04o}", self.0))
    }
}

impl Recipe {
    /// Reads one recipe and checks what can be checked without the others.
    pub(crate) fn parse(file: &str, text: &str) -> Result<Self> {
        let name = file
            .rsplit('/')
            .next()
            .and_then(|name| name.strip_suffix(".yaml"))
            .unwrap_or(file);
        let mut recipe: Self = crate::sources::yaml::parse(file, text)?;
        recipe.name = name.to_owned();
        recipe.check(file)?;
        Ok(recipe)
    }

    /// Ends in something that is used by itself.
    pub(crate) fn is_product(&self) -> bool {
        self.image.is_some() || self.disk.is_some()
    }

    fn check(&self, file: &str) -> Result<()> {
        let bad = |(line, message): (u64, String)| Error::Data {
            file: file.to_owned(),
            line,
            message,
        };
        self.check_ground().map_err(bad)?;
        self.check_packages().map_err(bad)?;
        self.check_paths(file)?;
        self.check_product().map_err(bad)
    }

    /// Name, what it stands on, and users.
    fn check_ground(&self) -> Checked {
        if !is_name(&self.name) {
            let message = format!("`{}` is not an image name: use a-z, 0-9 and dashes", self.name);
            return Err((1, message));
        }
        match (&self.base, &self.bootstrap) {
            (Some(base), Some(_)) => {
                let message = "a recipe has `base` or `bootstrap`, not both".to_owned();
                return Err((base.referenced.line(), message));
            }
            (None, None) if self.debian.is_some() || self.python.is_some() => {
                return Err((1, "packages need a `base` or a `bootstrap` below them".to_owned()));
            }
            _ => {}
        }
        if let Some(bootstrap) = &self.bootstrap {
            let variant = &bootstrap.variant;
            if !["minbase", "apt", "essential"].contains(&variant.value.as_str()) {
                let message = format!("variant `{}` is not minbase, apt or essential", variant.value);
                return Err((variant.referenced.line(), message));
            }
            if let Some(suite) = bootstrap.suite.as_ref().filter(|suite| !is_name(&suite.value)) {
                let message = format!("`{}` is not a Debian suite", suite.value);
                return Err((suite.referenced.line(), message));
            }
        }
        for user in &self.users {
            let line = user.referenced.line();
            if !is_name(&user.value.name) {
                return Err((line, format!("`{}` is not a user name", user.value.name)));
            }
            if user.value.id < 1000 {
                let message = format!("user {}: id {} is below 1000", user.value.name, user.value.id);
                return Err((line, message));
            }
        }
        Ok(())
    }

    fn check_packages(&self) -> Checked {
        let Some(debian) = &self.debian else {
            return Ok(());
        };
        let mut packages = debian.packages.iter().chain(&debian.alone);
        if let Some(package) = packages.find(|package| !is_debian_name(&package.value)) {
            let message = format!("`{}` is not a Debian package name", package.value);
            return Err((package.referenced.line(), message));
        }
        if let Some(main) = &debian.main
            && !debian.packages.iter().any(|package| package.value == main.value)
        {
            let message = format!("main package `{}` is not among `packages`", main.value);
            return Err((main.referenced.line(), message));
        }
        Ok(())
    }

    fn check_paths(&self, file: &str) -> Result<()> {
        for path in &self.remove {
            absolute(file, path.referenced.line(), &path.value)?;
        }
        for directory in &self.directories {
            absolute(file, directory.referenced.line(), &directory.value.path)?;
        }
        for entry in &self.files {
            let line = entry.referenced.line();
            absolute(file, line, &entry.value.path)?;
            let sources = [&entry.value.content, &entry.value.input, &entry.value.from];
            if sources.iter().filter(|source| source.is_some()).count() != 1 {
                return Err(Error::Data {
                    file: file.to_owned(),
                    line,
                    message: "a file has exactly one of `content`, `input` and `from`".to_owned(),
                });
            }
        }
        Ok(())
    }

    /// The image or the disk.
    fn check_product(&self) -> Checked {
        if let Some(image) = &self.image
            && image.version.value.is_empty()
        {
            let line = image.version.referenced.line();
            return Err((line, "the version command is empty".to_owned()));
        }
        if let Some(disk) = &self.disk {
            let line = disk.command.referenced.line();
            if disk.command.value.is_empty() {
                return Err((line, "the command that makes the disk is empty".to_owned()));
            }
            if self.image.is_some() {
                return Err((line, "a recipe has `image` or `disk`, not both".to_owned()));
            }
        }
        let mut modules = self.image.iter().flat_map(|image| &image.modules);
        if let Some(module) = modules.find(|module| !is_module(&module.value)) {
            let message = format!("`{}` is not a Python module", module.value);
            return Err((module.referenced.line(), message));
        }
        Ok(())
    }
}

/// Or the line that is wrong, and what is.
type Checked = std::result::Result<(), (u64, String)>;

fn absolute(file: &str, line: u64, path: &str) -> Result<()> {
    let clean = path.len() > 1 && path.starts_with('/') && path.split('/').all(|part| part != "..");
    if clean {
        return Ok(());
    }
    let message = format!("`{path}` must be an absolute path without `..`");
    Err(Error::Data {
        file: file.to_owned(),
        line,
        message,
    })
}

fn is_name(name: &str) -> bool {
    name.starts_with(|c: char| c.is_ascii_lowercase())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-')
}

fn is_module(name: &str) -> bool {
    name.split('.').all(|part| {
        part.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && part.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')
    })
}

/// Also keeps anything out of a shell command that has a meaning there.
pub(crate) fn is_debian_name(name: &str) -> bool {
    name.len() > 1
        && name.starts_with(|c: char| c.is_ascii_lowercase() || c.is_ascii_digit())
        && name
            .chars()
            .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "+-.".contains(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bad_recipes_are_named_with_file_and_line() {
        for (text, line, part) in [
            ("description: x\nbase: base\nbasis: y\n", 3, "unknown field"),
            ("description: x\n", 0, ""),
            (
                "description: x\nbase: a\nbootstrap: {variant: minbase}\n",
                2,
                "not both",
            ),
            ("description: x\ndebian: {packages: [curl]}\n", 1, "need a `base`"),
            (
                "description: x\nbase: a\nusers:\n  - {name: x, id: 5, home: /}\n",
                4,
                "below 1000",
            ),
            (
                "description: x\nbase: a\nremove:\n  - var/log\n",
                4,
                "absolute path",
            ),
            (
                "description: x\nbase: a\nremove:\n  - /a\n  - /../etc\n",
                5,
                "absolute path",
            ),
            (
                "description: x\nfiles:\n  - {path: /a, mode: \"0644\"}\n",
                3,
                "exactly one of",
            ),
            (
                "description: x\nfiles:\n  - {path: /a, content: b, mode: \"4755\"}\n",
                3,
                "four octal digits",
            ),
            (
                "description: x\nbase: a\ndebian:\n  packages: [curl, \"a b\"]\n",
                4,
                "not a Debian package name",
            ),
            (
                "description: x\nbase: a\ndebian:\n  packages: [curl]\n  main: wget\n",
                5,
                "not among",
            ),
            ("description: [x\n", 1, ""),
            (
                "description: x\nbase: a\ndisk:\n  architecture: x86_64\n  command: []\n",
                5,
                "makes the disk is empty",
            ),
            (
                "description: x\nbase: a\ndisk:\n  architecture: x86_64\n  command: [a]\nimage: {user: a, version: [v]}\n",
                5,
                "not both",
            ),
            (
                "description: x\nbootstrap:\n  variant: apt\n  suite: a/b\n",
                4,
                "not a Debian suite",
            ),
            (
                "description: x\nimage:\n  user: a\n  version: [v]\n  modules: [\"a;b\"]\n",
                5,
                "not a Python module",
            ),
            (
                "description: x\nimage:\n  user: a\n  version: []\n",
                4,
                "version command",
            ),
        ] {
            match Recipe::parse("recipes/test.yaml", text) {
                Err(Error::Data {
                    file,
                    line: found,
                    message,
                }) => {
                    assert_eq!(
                        (file.as_str(), found),
                        ("recipes/test.yaml", line),
                        "{text}{message}"
                    );
                    assert!(message.contains(part), "{text}{message}");
                }
                Err(other) => panic!("{text}{other}"),
                Ok(_) => assert_eq!(line, 0, "{text}"),
            }
        }
    }
}
