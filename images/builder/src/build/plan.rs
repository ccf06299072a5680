//! What a build has to create: layers, named by the hash of all their inputs, and images of layers.
//! Pure.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::error::{Error, Result};
use crate::sources::graph::{Recipes, environment};
use crate::sources::recipe::{Recipe, User};
use crate::sources::release::{PatchFile, ReleaseData};

/// Raised when the builder itself makes other bytes of the same inputs.
const FORMAT: u32 = 2;

#[derive(Debug, Clone)]
pub(crate) struct Plan {
    /// Bases come before what lies on them.
    pub layers: Vec<Layer>,
    pub images: Vec<Image>,
}

#[derive(Debug, Clone)]
pub(crate) struct Layer {
    pub recipe: String,
    /// Hash of all inputs, hexadecimal.
    pub key: String,
    /// Indexes of the layers below, lowest first.
    pub below: Vec<usize>,
    pub inputs: Inputs,
    pub patches: Vec<PatchFile>,
    /// Other recipes build on it, so that its unpacked tree is worth keeping.
    pub is_base: bool,
}

/// All that decides the bytes of a layer.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Inputs {
    format: u32,
    parent: Option<String>,
    pub architecture: String,
    pub date: String,
    /// Variant and suite of a first layer.
    pub bootstrap: Option<(String, String)>,
    pub users: Vec<User>,
    pub debian: Option<DebianInputs>,
    pub python: Option<PythonInputs>,
    pub files: Vec<FileInput>,
    pub remove: Vec<String>,
    pub directories: Vec<DirectoryInput>,
    /// The command that makes a disk, which then is all of the layer.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk: Option<Vec<String>>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct DebianInputs {
    pub suite: String,
    pub packages: Vec<String>,
    /// Packages without what they depend on.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub alone: Vec<String>,
    pub backports: bool,
    /// Package and the series that its version must belong to.
    pub main: Option<(String, String)>,
    /// Versions from the last lock.
    pub locked: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct PythonInputs {
    pub environment: String,
    pub create: bool,
    pub system_modules: bool,
    pub uv: String,
    pub requirements: Vec<String>,
    pub build_constraints: Vec<String>,
    /// Name and digest of each patch.
    patches: Vec<(String, String)>,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct FileInput {
    pub path: String,
    pub mode: u32,
    pub owner: (u32, u32),
    pub sha256: String,
    #[serde(skip)]
    pub source: Source,
}

#[derive(Debug, Clone, Serialize)]
pub(crate) struct DirectoryInput {
    pub path: String,
    pub mode: u32,
    pub owner: (u32, u32),
}

/// Where the content of a file comes from.
#[derive(Debug, Clone)]
pub(crate) enum Source {
    Bytes(Vec<u8>),
    Path(std::path::PathBuf),
}

#[derive(Debug, Clone)]
pub(crate) struct Image {
    pub recipe: String,
    pub version: String,
    /// Full references: the upstream version, and with its patch count when there is one.
    pub references: Vec<String>,
    /// Indexes of its layers, lowest first.
    pub layers: Vec<usize>,
    /// Of a container; a disk has none.
    pub user: Option<(u32, u32)>,
    pub patches: usize,
}

/// Files that the caller gives, with their digests.
pub(crate) type Given = BTreeMap<String, (std::path::PathBuf, String)>;

/// What the plan is made of.
pub(crate) struct Request<'a> {
    pub recipes: &'a Recipes,
    pub release: &'a ReleaseData,
    /// Empty: all images that the release has a version for.
    pub names: &'a [String],
    pub given: &'a Given,
    /// As Rust names it.
    pub architecture: &'a str,
    /// The version of c5c3 itself.
    pub own_version: &'a str,
}

impl Plan {
    pub(crate) fn make(request: &Request<'_>) -> Result<Self> {
        let mut plan = Self {
            layers: Vec::new(),
            images: Vec::new(),
        };
        for recipe in request.chosen()? {
            let layers = plan.add_chain(request, recipe)?;
            if recipe.is_product() {
                let image = request.image(recipe, layers, &plan.layers)?;
                plan.images.push(image);
            }
        }
        Ok(plan)
    }

    fn add_chain(&mut self, request: &Request<'_>, recipe: &Recipe) -> Result<Vec<usize>> {
        let mut below: Vec<usize> = Vec::new();
        for recipe in request.recipes.chain(&recipe.name)? {
            let index = match self.layers.iter().position(|layer| layer.recipe == recipe.name) {
                Some(index) => index,
                None => {
                    let parent = below.last().map(|index| self.layers[*index].key.clone());
                    let (inputs, patches) = request.inputs(recipe, parent)?;
                    self.layers.push(Layer {
                        recipe: recipe.name.clone(),
                        key: key(&inputs),
                        below: below.clone(),
                        inputs,
                        patches,
                        is_base: request.is_base(recipe),
                    });
                    self.layers.len() - 1
                }
            };
            below.push(index);
        }
        Ok(below)
    }
}

fn key(inputs: &Inputs) -> String {
    // Maps are sorted and every type is plain data: serialising cannot fail.
    let json = serde_json::to_vec(inputs).unwrap_or_default();
    hex::encode(Sha256::digest(&json))
}

impl Request<'_> {
    fn is_base(&self, recipe: &Recipe) -> bool {
        self.recipes
            .iter()
            .any(|other| other.base.as_ref().is_some_and(|base| base.value == recipe.name))
    }

    fn version(&self, recipe: &Recipe) -> Option<&str> {
        if recipe
            .files
            .iter()
            .any(|file| file.value.input.as_deref() == Some("c5c3"))
        {
            return Some(self.own_version);
        }
        self.release
            .release
            .versions
            .get(&recipe.name)
            .map(String::as_str)
    }

    /// A disk is made on machines of its own kind only.
    fn fits(&self, recipe: &Recipe) -> bool {
        let disk = recipe.disk.as_ref();
        disk.is_none_or(|disk| disk.architecture == self.architecture)
    }

    /// The first file that a recipe asks for and that was not given.
    fn ungiven<'r>(&self, recipe: &'r Recipe) -> Option<&'r str> {
        let asked = recipe.files.iter().filter_map(|file| file.value.input.as_deref());
        asked.into_iter().find(|input| !self.given.contains_key(*input))
    }

    /// Images that a build of everything passes over, each with the file that it lacks.
    pub(crate) fn passed_over(&self) -> Vec<(&str, &str)> {
        let images = self
            .recipes
            .products()
            .filter(|recipe| self.version(recipe).is_some());
        images
            .filter_map(|recipe| Some((recipe.name.as_str(), self.ungiven(recipe)?)))
            .collect()
    }

    fn chosen(&self) -> Result<Vec<&Recipe>> {
        if self.names.is_empty() {
            let ready = |recipe: &&Recipe| {
                self.version(recipe).is_some() && self.ungiven(recipe).is_none() && self.fits(recipe)
            };
            return Ok(self.recipes.products().filter(ready).collect());
        }
        let unique: BTreeSet<&String> = self.names.iter().collect();
        self.names
            .iter()
            .filter(|name| unique.contains(name))
            .map(|name| {
                let recipe = self.recipes.get(name)?;
                if !self.fits(recipe) {
                    return Err(Error::Request(format!(
                        "the disk `{name}` cannot be made on {}",
                        self.architecture
                    )));
                }
                if recipe.is_product() && self.version(recipe).is_none() {
                    return Err(Error::Request(format!(
                        "release {0} has no version of `{name}`: add it to releases/{0}/source-refs.yaml",
                        self.release.release.name
                    )));
                }
                Ok(recipe)
            })
            .collect()
    }

    fn image(&self, recipe: &Recipe, layers: Vec<usize>, all: &[Layer]) -> Result<Image> {
        let version = self.version(recipe).unwrap_or_default().to_owned();
        let user = recipe
            .image
            .as_ref()
            .and_then(|image| self.recipes.owner(recipe, &image.user.value));
        let name = format!("{}/{}", self.release.release.registry, recipe.name);
        let patches = layers
            .iter()
            .filter_map(|index| all.get(*index))
            .map(|layer| layer.patches.len())
            .sum();
        let mut references = vec![format!("{name}:{version}")];
        if patches > 0 {
            references.push(format!("{name}:{version}-p{patches}"));
        }
        if user.is_none() && recipe.image.is_some() {
            let message = format!("recipe {}: its user is unknown", recipe.name);
            return Err(Error::Request(message));
        }
        Ok(Image {
            recipe: recipe.name.clone(),
            version,
            references,
            layers,
            user,
            patches,
        })
    }

    fn inputs(&self, recipe: &Recipe, parent: Option<String>) -> Result<(Inputs, Vec<PatchFile>)> {
        let (python, patches) = match &recipe.python {
            Some(_) => {
                let (python, patches) = self.python(recipe)?;
                (Some(python), patches)
            }
            None => (None, Vec::new()),
        };
        let suite = self.suite(recipe)?;
        let inputs = Inputs {
            format: FORMAT,
            parent,
            architecture: self.architecture.to_owned(),
            date: self.release.release.date.clone(),
            bootstrap: recipe
                .bootstrap
                .as_ref()
                .map(|b| (b.variant.value.clone(), suite.clone())),
            users: recipe.users.iter().map(|user| user.value.clone()).collect(),
            debian: self.debian(recipe, &suite),
            python,
            files: self.files(recipe)?,
            remove: recipe.remove.iter().map(|path| path.value.clone()).collect(),
            directories: self.directories(recipe),
            disk: recipe.disk.as_ref().map(|disk| disk.command.value.clone()),
        };
        Ok((inputs, patches))
    }

    /// The suite that a recipe's packages come from: its first layer's, else the release's.
    fn suite(&self, recipe: &Recipe) -> Result<String> {
        let chain = self.recipes.chain(&recipe.name)?;
        let own = chain
            .iter()
            .find_map(|below| below.bootstrap.as_ref()?.suite.as_ref());
        Ok(own.map_or_else(
            || self.release.release.debian.clone(),
            |suite| suite.value.clone(),
        ))
    }

    fn debian(&self, recipe: &Recipe, suite: &str) -> Option<DebianInputs> {
        let mut packages: Vec<String> = recipe
            .debian
            .iter()
            .flat_map(|debian| &debian.packages)
            .map(|p| p.value.clone())
            .collect();
        packages.extend(
            self.release
                .extra
                .debian
                .get(&recipe.name)
                .cloned()
                .unwrap_or_default(),
        );
        let locked = self.release.debian.get(&recipe.name).cloned().unwrap_or_default();
        if packages.is_empty() && recipe.bootstrap.is_none() {
            return None;
        }
        let main = recipe.debian.as_ref().and_then(|debian| debian.main.as_ref());
        let alone = recipe.debian.iter().flat_map(|debian| &debian.alone);
        Some(DebianInputs {
            suite: suite.to_owned(),
            packages,
            alone: alone.map(|package| package.value.clone()).collect(),
            backports: recipe.debian.as_ref().is_some_and(|debian| debian.backports),
            main: main.and_then(|main| Some((main.value.clone(), self.version(recipe)?.to_owned()))),
            locked,
        })
    }

    fn python(&self, recipe: &Recipe) -> Result<(PythonInputs, Vec<PatchFile>)> {
        let chain = self.recipes.chain(&recipe.name)?;
        let set = recipe
            .python
            .as_ref()
            .map(|python| python.set.value.as_str())
            .unwrap_or_default();
        let below: Vec<&str> = chain
            .iter()
            .filter(|lower| lower.name != recipe.name)
            .filter_map(|lower| lower.python.as_ref().map(|python| python.set.value.as_str()))
            .collect();
        let names = self.release.requirements(set, &below)?;
        let mut patches: Vec<PatchFile> = self.release.patches_for(&names).into_iter().cloned().collect();
        // A service may be known by another name than its package: patches/placement.
        let package = recipe
            .python
            .as_ref()
            .and_then(|python| python.package.as_deref());
        if package.is_some_and(|package| package != recipe.name) {
            let own = self.release.patches_for(&BTreeSet::from([recipe.name.clone()]));
            patches.extend(own.into_iter().filter(|_| !names.contains(&recipe.name)).cloned());
        }
        let inputs = PythonInputs {
            // Loading the recipes checked that one below makes it.
            environment: chain
                .iter()
                .find_map(|lower| environment(lower))
                .unwrap_or_default()
                .to_owned(),
            create: environment(recipe).is_some(),
            system_modules: recipe.python.as_ref().is_some_and(|python| python.system_modules),
            uv: self.release.release.uv.version.clone(),
            requirements: self.release.pins.lines(&names),
            build_constraints: self.release.build_constraints.clone(),
            patches: patches
                .iter()
                .map(|p| (p.name.clone(), hex::encode(Sha256::digest(p.text.as_bytes()))))
                .collect(),
        };
        Ok((inputs, patches))
    }

    fn directories(&self, recipe: &Recipe) -> Vec<DirectoryInput> {
        let directories = recipe.directories.iter().map(|entry| {
            let owner = entry
                .value
                .owner
                .as_ref()
                .and_then(|owner| self.recipes.owner(recipe, owner));
            DirectoryInput {
                path: entry.value.path.clone(),
                mode: entry.value.mode.0,
                owner: owner.unwrap_or((0, 0)),
            }
        });
        directories.collect()
    }

    fn files(&self, recipe: &Recipe) -> Result<Vec<FileInput>> {
        let mut files = Vec::new();
        for entry in &recipe.files {
            let file = &entry.value;
            let owner = file
                .owner
                .as_ref()
                .and_then(|owner| self.recipes.owner(recipe, owner))
                .unwrap_or((0, 0));
            let source = if let Some(input) = &file.input {
                let (path, sha256) = self.given.get(input).ok_or_else(|| {
                    Error::Request(format!(
                        "recipe {} needs the file `{input}`: give --input {input}=PATH",
                        recipe.name
                    ))
                })?;
                let (path, sha256, mode) = (path.clone(), sha256.clone(), file.mode.0);
                files.push(FileInput {
                    path: file.path.clone(),
                    mode,
                    owner,
                    sha256,
                    source: Source::Path(path),
                });
                continue;
            } else {
                file.content.clone().unwrap_or_default().into_bytes()
            };
            files.push(FileInput {
                path: file.path.clone(),
                mode: file.mode.0,
                owner,
                sha256: hex::encode(Sha256::digest(&source)),
                source: Source::Bytes(source),
            });
        }
        Ok(files)
    }
}

#[cfg(test)]
mod tests;
