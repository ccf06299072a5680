//! All recipes together: which lies on which.

use std::collections::{BTreeMap, BTreeSet};

use crate::error::{Error, Result};
use crate::sources::data::Data;
use crate::sources::recipe::Recipe;

/// Every recipe by name; bases exist and there is no cycle.
#[derive(Debug, Clone)]
pub(crate) struct Recipes(BTreeMap<String, Recipe>);

impl Recipes {
    pub(crate) fn load(data: &Data) -> Result<Self> {
        let mut recipes = BTreeMap::new();
        for (file, text) in data.below("recipes") {
            if file.ends_with(".yaml") {
                let mut recipe = Recipe::parse(file, text)?;
                fill_in(&mut recipe, file, data)?;
                recipes.insert(recipe.name.clone(), recipe);
            }
        }
        let recipes = Self(recipes);
        for recipe in recipes.0.values() {
            recipes.check(recipe)?;
        }
        Ok(recipes)
    }

    pub(crate) fn get(&self, name: &str) -> Result<&Recipe> {
        self.0.get(name).ok_or_else(|| {
            let meant = c5c3_catalogue::nearest(name, self.0.keys().map(String::as_str));
            let hint = meant
                .map(|meant| format!("; did you mean `{meant}`?"))
                .unwrap_or_default();
            Error::Request(format!(
                "there is no recipe `{name}`{hint} Known: {}",
                self.names().join(", ")
            ))
        })
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Recipe> {
        self.0.values()
    }

    /// Recipes that end in an image or a disk.
    pub(crate) fn products(&self) -> impl Iterator<Item = &Recipe> {
        self.iter().filter(|recipe| recipe.is_product())
    }

    fn names(&self) -> Vec<&str> {
        self.0.keys().map(String::as_str).collect()
    }

    /// A recipe and all below it, lowest first.
    pub(crate) fn chain(&self, name: &str) -> Result<Vec<&Recipe>> {
        let mut chain = vec![self.get(name)?];
        while let Some(base) = chain.last().and_then(|recipe| recipe.base.as_ref()) {
            // Loading checked that bases exist and end.
            chain.push(self.get(&base.value)?);
        }
        chain.reverse();
        Ok(chain)
    }

    /// The user that the image of a recipe runs as, as `uid:gid`.
    pub(crate) fn owner(&self, recipe: &Recipe, user: &str) -> Option<(u32, u32)> {
        if let Some((uid, gid)) = user.split_once(':') {
            return Some((uid.parse().ok()?, gid.parse().ok()?));
        }
        let chain = self.chain(&recipe.name).ok()?;
        let found = chain
            .iter()
            .flat_map(|recipe| &recipe.users)
            .find(|known| known.value.name == user)?;
        Some((found.value.id, found.value.id))
    }

    fn check(&self, recipe: &Recipe) -> Result<()> {
        let file = format!("recipes/{}.yaml", recipe.name);
        let bad = |line: u64, message: String| {
            Err(Error::Data {
                file: file.clone(),
                line,
                message,
            })
        };
        let mut seen = BTreeSet::from([recipe.name.as_str()]);
        let mut path = vec![recipe.name.as_str()];
        let mut current = recipe;
        while let Some(base) = &current.base {
            let line = base.referenced.line();
            let Some(next) = self.0.get(&base.value) else {
                // Reported at the recipe that names it.
                return Err(Error::Data {
                    file: format!("recipes/{}.yaml", current.name),
                    line,
                    message: format!(
                        "base `{}` does not exist; known: {}",
                        base.value,
                        self.names().join(", ")
                    ),
                });
            };
            path.push(&next.name);
            if !seen.insert(&next.name) {
                return Err(Error::Data {
                    file: format!("recipes/{}.yaml", current.name),
                    line,
                    message: format!("the bases form a cycle: {}", path.join(" → ")),
                });
            }
            current = next;
        }
        if let Some(python) = &recipe.python
            && !self
                .chain(&recipe.name)?
                .iter()
                .any(|below| environment(below).is_some())
        {
            let message = "no recipe below has made a Python `environment`".into();
            return bad(python.set.referenced.line(), message);
        }
        for member in recipe.python.iter().flat_map(|python| &python.shared_by) {
            if !self.0.contains_key(&member.value) {
                return bad(
                    member.referenced.line(),
                    format!("recipe `{}` does not exist", member.value),
                );
            }
        }
        let owned = recipe
            .directories
            .iter()
            .map(|d| (d.referenced.line(), &d.value.owner));
        let owned = owned.chain(recipe.files.iter().map(|f| (f.referenced.line(), &f.value.owner)));
        for (line, owner) in owned {
            if let Some(owner) = owner
                && self.owner(recipe, owner).is_none()
            {
                return bad(line, format!("user `{owner}` is not in this recipe or one below"));
            }
        }
        if let Some(image) = &recipe.image {
            let line = image.user.referenced.line();
            match self.owner(recipe, &image.user.value) {
                None => {
                    return bad(
                        line,
                        format!("user `{}` is not in this recipe or one below", image.user.value),
                    );
                }
                Some((0, _) | (_, 0)) => return bad(line, "an image does not run as root".into()),
                Some(_) => {}
            }
        }
        Ok(())
    }
}

/// Files beside the recipes become content.
fn fill_in(recipe: &mut Recipe, file: &str, data: &Data) -> Result<()> {
    for entry in &mut recipe.files {
        let Some(from) = entry.value.from.take() else {
            continue;
        };
        let text = data.get(&format!("files/{from}")).ok_or_else(|| Error::Data {
            file: file.to_owned(),
            line: entry.referenced.line(),
            message: format!("there is no file files/{from}"),
        })?;
        entry.value.content = Some(text.to_owned());
    }
    Ok(())
}

/// Where a recipe makes the Python environment.
pub(crate) fn environment(recipe: &Recipe) -> Option<&str> {
    recipe
        .python
        .as_ref()?
        .environment
        .as_ref()
        .map(|path| path.value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn load<'a>(files: impl IntoIterator<Item = (&'a str, &'a str)>) -> Result<Recipes> {
        Recipes::load(&Data::from_files(files))
    }

    #[test]
    fn the_recipes_of_the_program_are_sound() {
        let recipes = Recipes::load(&Data::embedded()).unwrap();
        let chain: Vec<_> = recipes
            .chain("keystone")
            .unwrap()
            .iter()
            .map(|r| r.name.clone())
            .collect();
        assert_eq!(chain, ["base", "python-base", "common", "keystone"]);
        assert!(recipes.products().count() >= 16);
    }

    #[test]
    fn missing_base_cycle_and_users_are_named_with_file_and_line() {
        let root = (
            "recipes/base.yaml",
            "description: d\nbootstrap: {variant: minbase}\n",
        );
        for (files, wanted) in [
            (
                vec![root, ("recipes/a.yaml", "description: d\n\nbase: bass\n")],
                "recipes/a.yaml:3: base `bass` does not exist; known: a, base",
            ),
            (
                vec![
                    ("recipes/a.yaml", "description: d\nbase: b\n"),
                    ("recipes/b.yaml", "base: a\ndescription: d\n"),
                ],
                "recipes/b.yaml:1: the bases form a cycle: a → b → a",
            ),
            (
                vec![("recipes/a.yaml", "description: d\nbase: a\n")],
                "recipes/a.yaml:2: the bases form a cycle: a → a",
            ),
            (
                vec![
                    root,
                    (
                        "recipes/a.yaml",
                        "description: d\nbase: base\nimage:\n  user: joe\n  version: [a]\n",
                    ),
                ],
                "recipes/a.yaml:4: user `joe` is not in this recipe or one below",
            ),
            (
                vec![
                    root,
                    (
                        "recipes/a.yaml",
                        "description: d\nbase: base\nimage:\n  user: '0:0'\n  version: [a]\n",
                    ),
                ],
                "recipes/a.yaml:4: an image does not run as root",
            ),
            (
                vec![
                    root,
                    (
                        "recipes/a.yaml",
                        "description: d\nbase: base\nfiles:\n  - {path: /a, from: b, mode: '0644'}\n",
                    ),
                ],
                "recipes/a.yaml:4: there is no file files/b",
            ),
            (
                vec![
                    root,
                    (
                        "recipes/a.yaml",
                        "description: d\nbase: base\npython:\n  set: x\n",
                    ),
                ],
                "recipes/a.yaml:4: no recipe below has made a Python `environment`",
            ),
        ] {
            assert_eq!(load(files).unwrap_err().to_string(), wanted);
        }
    }

    #[test]
    fn an_unknown_name_gets_a_hint() {
        let recipes = Recipes::load(&Data::embedded()).unwrap();
        let error = recipes.get("keytsone").unwrap_err().to_string();
        assert!(error.contains("did you mean `keystone`?"), "{error}");
    }
}
