//! What is in the store: list, inspect, diff.

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;
use serde_json::Value;

use crate::build::progress::megabytes;
use crate::error::Result;
use crate::oci::image::RELEASE;
use crate::oci::store::{Descriptor, Manifest, Record, Store};
use crate::output::{Show, columns};

/// One line of `list`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Listed {
    pub reference: String,
    pub release: String,
    pub digest: String,
    /// Compressed bytes of all layers.
    pub size: u64,
    pub layers: usize,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct List {
    pub images: Vec<Listed>,
    /// Compressed bytes of all layers, each counted once.
    pub total: u64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Inspection {
    pub reference: String,
    pub digest: String,
    pub release: String,
    pub config: Value,
    pub layers: Vec<Record>,
    pub debian: BTreeMap<String, String>,
    pub python: BTreeMap<String, String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(crate) struct Difference {
    pub from: String,
    pub to: String,
    pub size_from: u64,
    pub size_to: u64,
    /// Layers by recipe: bytes before and after, where they differ.
    pub layers: Vec<Change<u64>>,
    pub packages: Vec<Change<String>>,
}

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) struct Change<T> {
    pub name: String,
    pub from: Option<T>,
    pub to: Option<T>,
}

pub(crate) fn list(store: &Store) -> Result<List> {
    let mut layers = BTreeMap::new();
    let mut images = Vec::new();
    for image in store.index()?.named() {
        let manifest: Manifest = store.read(&image.digest)?;
        for layer in &manifest.layers {
            layers.insert(layer.digest.clone(), layer.size);
        }
        images.push(Listed {
            reference: image.reference().to_owned(),
            release: release(image),
            digest: image.digest.clone(),
            size: manifest.layers.iter().map(|layer| layer.size).sum(),
            layers: manifest.layers.len(),
        });
    }
    Ok(List {
        images,
        total: layers.values().sum(),
    })
}

fn release(image: &Descriptor) -> String {
    image.annotations.get(RELEASE).cloned().unwrap_or_default()
}

pub(crate) fn inspect(store: &Store, reference: &str) -> Result<Inspection> {
    let image = store.find(reference)?;
    let manifest: Manifest = store.read(&image.digest)?;
    let records = store.records()?;
    let by_digest = |digest: &String| records.iter().find(|record| record.digest == *digest).cloned();
    let layers: Vec<Record> = manifest
        .layers
        .iter()
        .filter_map(|layer| by_digest(&layer.digest))
        .collect();
    let gather = |of: fn(&Record) -> &BTreeMap<String, String>| -> BTreeMap<String, String> {
        layers
            .iter()
            .flat_map(of)
            .map(|(name, version)| (name.clone(), version.clone()))
            .collect()
    };
    Ok(Inspection {
        reference: image.reference().to_owned(),
        digest: image.digest.clone(),
        release: release(&image),
        config: store.read(&manifest.config.digest)?,
        debian: gather(|record| &record.debian),
        python: gather(|record| &record.python),
        layers,
    })
}

/// What changes from one image to another. Pure.
pub(crate) fn diff(from: &Inspection, to: &Inspection) -> Difference {
    let sizes = |image: &Inspection| -> BTreeMap<String, (String, u64)> {
        image
            .layers
            .iter()
            .map(|l| (l.recipe.clone(), (l.digest.clone(), l.size)))
            .collect()
    };
    let (before, after) = (sizes(from), sizes(to));
    let recipes: BTreeSet<&String> = before.keys().chain(after.keys()).collect();
    let layers = recipes
        .into_iter()
        .filter(|recipe| before.get(*recipe) != after.get(*recipe))
        .map(|recipe| Change {
            name: recipe.clone(),
            from: before.get(recipe).map(|(_, size)| *size),
            to: after.get(recipe).map(|(_, size)| *size),
        })
        .collect();
    let mut packages = changes("debian", &from.debian, &to.debian);
    packages.extend(changes("python", &from.python, &to.python));
    let total = |image: &Inspection| image.layers.iter().map(|layer| layer.size).sum();
    Difference {
        from: from.reference.clone(),
        to: to.reference.clone(),
        size_from: total(from),
        size_to: total(to),
        layers,
        packages,
    }
}

fn changes(
    kind: &str,
    from: &BTreeMap<String, String>,
    to: &BTreeMap<String, String>,
) -> Vec<Change<String>> {
    let names: BTreeSet<&String> = from.keys().chain(to.keys()).collect();
    names
        .into_iter()
        .filter(|name| from.get(*name) != to.get(*name))
        .map(|name| Change {
            name: format!("{kind}/{name}"),
            from: from.get(name).cloned(),
            to: to.get(name).cloned(),
        })
        .collect()
}

fn row<const N: usize>(cells: [&str; N]) -> Vec<String> {
    cells.map(str::to_owned).to_vec()
}

impl Show for List {
    fn table(&self) -> String {
        let mut rows = vec![row(["IMAGE", "RELEASE", "DIGEST", "LAYERS", "SIZE"])];
        for image in &self.images {
            let digest: String = image.digest.chars().take("sha256:".len() + 12).collect();
            rows.push(row([
                &image.reference,
                &image.release,
                &digest,
                &image.layers.to_string(),
                &megabytes(image.size),
            ]));
        }
        format!(
            "{}{} images, {} on disk\n",
            columns(&rows),
            self.images.len(),
            megabytes(self.total)
        )
    }
}

impl Show for Inspection {
    fn table(&self) -> String {
        let setting = |name: &str| match &self.config["config"][name] {
            Value::Null => String::new(),
            Value::String(text) => text.clone(),
            Value::Array(words) => words
                .iter()
                .filter_map(Value::as_str)
                .collect::<Vec<_>>()
                .join(" "),
            other => other.to_string(),
        };
        let mut text = columns(&[
            row(["Image:", &self.reference]),
            row(["Digest:", &self.digest]),
            row(["Release:", &self.release]),
            row(["User:", &setting("User")]),
            row(["Entrypoint:", &setting("Entrypoint")]),
            row(["Environment:", &setting("Env")]),
        ]);
        let mut rows = vec![row([
            "LAYER", "DIGEST", "UNPACKED", "SIZE", "SECONDS", "PACKAGES", "PATCHES",
        ])];
        for layer in &self.layers {
            let digest: String = layer.digest.chars().take("sha256:".len() + 12).collect();
            rows.push(row([
                &layer.recipe,
                &digest,
                &megabytes(layer.tar_size),
                &megabytes(layer.size),
                &format!("{:.1}", layer.seconds),
                &(layer.debian.len() + layer.python.len()).to_string(),
                &layer.patches.len().to_string(),
            ]));
        }
        text.push('\n');
        text.push_str(&columns(&rows));
        let mut rows = vec![row(["PACKAGE", "VERSION"])];
        let named = |kind: &str, packages: &BTreeMap<String, String>| -> Vec<Vec<String>> {
            packages
                .iter()
                .map(|(name, version)| row([&format!("{kind}/{name}"), version]))
                .collect()
        };
        rows.extend(named("debian", &self.debian));
        rows.extend(named("python", &self.python));
        text.push('\n');
        text + &columns(&rows)
    }
}

impl Show for Difference {
    fn table(&self) -> String {
        let mut rows = vec![row(["", &self.from, &self.to])];
        let mut add = |name: &str, from: Option<String>, to: Option<String>| {
            let cell = |value: Option<String>| value.unwrap_or_else(|| "-".into());
            rows.push(row([name, &cell(from), &cell(to)]));
        };
        add(
            "size",
            Some(megabytes(self.size_from)),
            Some(megabytes(self.size_to)),
        );
        for layer in &self.layers {
            add(
                &format!("layer/{}", layer.name),
                layer.from.map(megabytes),
                layer.to.map(megabytes),
            );
        }
        for package in &self.packages {
            add(&package.name, package.from.clone(), package.to.clone());
        }
        columns(&rows)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image(reference: &str, layers: &[(&str, &str, u64)], python: &[(&str, &str)]) -> Inspection {
        let pairs = |items: &[(&str, &str)]| {
            items
                .iter()
                .map(|(a, b)| ((*a).to_owned(), (*b).to_owned()))
                .collect()
        };
        let record = |(recipe, digest, size): &(&str, &str, u64)| Record {
            recipe: (*recipe).into(),
            key: String::new(),
            diff_id: String::new(),
            digest: (*digest).into(),
            size: *size,
            tar_size: 0,
            seconds: 0.0,
            debian: BTreeMap::new(),
            python: BTreeMap::new(),
            patches: Vec::new(),
        };
        Inspection {
            reference: reference.into(),
            digest: String::new(),
            release: String::new(),
            config: Value::Null,
            layers: layers.iter().map(record).collect(),
            debian: BTreeMap::new(),
            python: pairs(python),
        }
    }

    #[test]
    fn a_diff_names_layers_and_packages_that_changed() {
        let one = image(
            "k:1",
            &[("base", "a", 10), ("keystone", "b", 5)],
            &[("six", "1"), ("old", "1"), ("lib", "1")],
        );
        let two = image(
            "k:2",
            &[("base", "a", 10), ("keystone", "c", 7)],
            &[("six", "1"), ("new", "1"), ("lib", "2")],
        );
        let found = diff(&one, &two);
        assert_eq!((found.size_from, found.size_to), (15, 17));
        assert_eq!(
            found.layers,
            [Change {
                name: "keystone".into(),
                from: Some(5),
                to: Some(7)
            }]
        );
        let packages: Vec<_> = found
            .packages
            .iter()
            .map(|p| (p.name.as_str(), p.from.as_deref(), p.to.as_deref()))
            .collect();
        assert_eq!(
            packages,
            [
                ("python/lib", Some("1"), Some("2")),
                ("python/new", None, Some("1")),
                ("python/old", Some("1"), None)
            ]
        );
        assert!(diff(&one, &one).packages.is_empty());
    }
}
