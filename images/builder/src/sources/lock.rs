//! Makes the pins of a release: uv resolves all services together within upper-constraints.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs::{self, File};
use std::path::{Path, PathBuf};

use crate::build::builder::Builder;
use crate::build::plan::Plan;
use crate::build::sandbox::{INSIDE, Inside, Sandbox};
use crate::build::steps::Variables;
use crate::build::uv;
use crate::error::{Context, Error, Result};
use crate::sources::pins::{Pins, constraints, normalise};
use crate::sources::recipe::Recipe;

/// What has to be resolved: requirement lines of each service.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Set → requirement lines.
    pub services: BTreeMap<String, Vec<String>>,
    /// The shared set and the sets that share it.
    pub shared: Vec<(String, Vec<String>)>,
}

/// The result: pins of everything, and names for each set.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Locked {
    pub pins: String,
    pub sets: BTreeMap<String, BTreeSet<String>>,
}

impl Wanted {
    /// Services of the release with the packages that they ask for.
    pub(crate) fn gather(builder: &Builder<'_>) -> Result<Self> {
        let extra = |set: &str| builder.release.extra.python.get(set).cloned().unwrap_or_default();
        let mut wanted = Self {
            services: BTreeMap::new(),
            shared: Vec::new(),
        };
        let shared_by = |recipe: &Recipe| -> Vec<String> {
            let names = recipe.python.iter().flat_map(|python| &python.shared_by);
            names.map(|name| name.value.clone()).collect()
        };
        for recipe in builder.recipes.iter() {
            let Some(python) = &recipe.python else { continue };
            let version = builder.release.release.versions.get(&recipe.name);
            if let (Some(package), Some(version)) = (&python.package, version) {
                let mut lines = vec![format!("{package}=={version}")];
                lines.extend(extra(&recipe.name));
                for lower in builder.recipes.chain(&recipe.name)? {
                    if let Some(below) = &lower.python
                        && shared_by(lower).contains(&recipe.name)
                    {
                        lines.extend(extra(&below.set.value));
                    }
                }
                wanted.services.insert(python.set.value.clone(), lines);
            }
            if !python.shared_by.is_empty() {
                wanted.shared.push((python.set.value.clone(), shared_by(recipe)));
            }
        }
        Ok(wanted)
    }

    /// What all services that share a set have in common.
    fn share(&self, sets: &mut BTreeMap<String, BTreeSet<String>>) {
        for (set, members) in &self.shared {
            let present: Vec<&BTreeSet<String>> =
                members.iter().filter_map(|member| sets.get(member)).collect();
            let Some((first, rest)) = present.split_first() else {
                continue;
            };
            let services: BTreeSet<String> = self
                .services
                .values()
                .filter_map(|lines| lines.first()?.split("==").next().map(normalise))
                .collect();
            let common = first
                .iter()
                .filter(|name| rest.iter().all(|other| other.contains(*name)) && !services.contains(*name));
            let common = common.cloned().collect();
            sets.insert(set.clone(), common);
        }
    }
}

/// Resolves in the layer that has Python and nothing else, so that the machine's Python does not matter.
pub(crate) fn resolve(
    builder: &Builder<'_>,
    plan: &Plan,
    wanted: &Wanted,
    upper_constraints: &str,
) -> Result<Locked> {
    let outcome = builder.build(plan)?;
    let lower: Vec<PathBuf> = outcome
        .layers
        .iter()
        .map(|layer| builder.store.unpacked(layer))
        .collect::<Result<_>>()?;
    let work = builder.store.work("lock")?;
    let log = builder.store.log("lock");
    File::create(&log).context("creating", &log)?;
    let sandbox = Sandbox {
        layer: "lock",
        lower: &lower,
        work: &work.path,
        log: &log,
        store: builder.store.root(),
    };
    let limits = constraints(upper_constraints, &builder.release.overrides);
    sandbox.enter(|inside| {
        inside.furnish()?;
        let host = builder.host;
        let variables = uv::provide(
            inside,
            builder.store,
            host,
            &builder.release.release.uv,
            &host.env,
        )?;
        inside.note("constraints.txt", &limits)?;
        inside.note(
            "build.txt",
            &(builder.release.build_constraints.join("\n") + "\n"),
        )?;
        let all: BTreeSet<&String> = wanted.services.values().flatten().collect();
        let all: Vec<&str> = all.into_iter().map(String::as_str).collect();
        builder
            .progress
            .note(&format!("resolving {} services together", wanted.services.len()));
        let pins = compile(inside, "all", &all, "constraints.txt", true, &variables)?;
        let known = Pins::parse("pins.txt", &pins)?;
        if let Some((name, _)) = known.0.iter().find(|(_, pin)| pin.hashes.is_empty()) {
            return Err(Error::Request(format!(
                "the package index has no digest of {name}: it cannot be locked"
            )));
        }
        let plain = known.0.iter().fold(String::new(), |text, (name, pin)| {
            text + &format!("{name}=={}\n", pin.version)
        });
        inside.note("pins.txt", &plain)?;
        let mut sets = BTreeMap::new();
        for (set, lines) in &wanted.services {
            builder.progress.note(&format!("resolving {set}"));
            let lines: Vec<&str> = lines.iter().map(String::as_str).collect();
            let text = compile(inside, set, &lines, "pins.txt", false, &variables)?;
            sets.insert(set.clone(), Pins::parse(set, &text)?.0.into_keys().collect());
        }
        wanted.share(&mut sets);
        Ok(Locked { pins, sets })
    })
}

fn compile(
    inside: &Inside<'_>,
    name: &str,
    requirements: &[&str],
    limits: &str,
    hashes: bool,
    variables: &Variables,
) -> Result<String> {
    let input = inside.note(&format!("{name}.in"), &(requirements.join("\n") + "\n"))?;
    let script = format!(
        "{INSIDE}/uv pip compile --quiet --no-header --no-annotate --no-emit-index-url --python /usr/bin/python3 \
         --build-constraints {INSIDE}/build.txt --constraints {INSIDE}/{limits} {} \
         --output-file {INSIDE}/{name}.out {input}",
        if hashes { "--generate-hashes" } else { "" }
    );
    inside.run("uv pip compile", &script, variables)?;
    let output = inside.path(&format!("{INSIDE}/{name}.out"));
    fs::read_to_string(&output).context("reading", &output)
}

/// Writes pins and sets into the directory of the release.
pub(crate) fn save(directory: &Path, locked: &Locked) -> Result<()> {
    let pins = format!(
        "# Made by `c5c3 image lock`: every Python package of the release with the digests of its files.\n{}",
        locked.pins
    );
    write(&directory.join("pins.txt"), &pins)?;
    let mut sets = String::from("# Made by `c5c3 image lock`: which of the pins belong to which layer.\n");
    for (set, names) in &locked.sets {
        let _ = writeln!(sets, "{set}:");
        for name in names {
            let _ = writeln!(sets, "  - {name}");
        }
    }
    write(&directory.join("sets.yaml"), &sets)
}

/// Records the Debian packages of the layers that are in the store.
pub(crate) fn save_debian(directory: &Path, builder: &Builder<'_>, plan: &Plan) -> Result<usize> {
    let mut text = String::from(
        "# Made by `c5c3 image lock --debian`: the Debian packages of each layer. A build takes these versions as\n\
         # long as the archive has them, and says so when it does not.\n",
    );
    let mut count = 0;
    let mut layers: Vec<_> = plan
        .layers
        .iter()
        .filter(|layer| layer.inputs.debian.is_some())
        .collect();
    layers.sort_by(|a, b| a.recipe.cmp(&b.recipe));
    for layer in layers {
        let record = builder.store.layer(&layer.key)?;
        let packages = record.map(|record| record.debian);
        let Some(packages) = packages.or_else(|| builder.release.debian.get(&layer.recipe).cloned()) else {
            continue;
        };
        let _ = writeln!(text, "{}:", layer.recipe);
        for (name, version) in &packages {
            let _ = writeln!(text, "  {name}: \"{version}\"");
            count += 1;
        }
    }
    write(&directory.join("debian.yaml"), &text)?;
    Ok(count)
}

fn write(path: &Path, text: &str) -> Result<()> {
    fs::write(path, text).context("writing", path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_shared_set_is_what_all_have_and_no_service() {
        let wanted = Wanted {
            services: BTreeMap::from([
                ("a".to_owned(), vec!["openstack-a==1".to_owned()]),
                ("b".to_owned(), vec!["b==1".to_owned()]),
                ("client".to_owned(), vec!["client==1".to_owned()]),
            ]),
            shared: vec![("common".into(), vec!["a".into(), "b".into(), "absent".into()])],
        };
        let set =
            |names: &[&str]| -> BTreeSet<String> { names.iter().map(|name| (*name).to_owned()).collect() };
        let mut sets = BTreeMap::from([
            ("a".to_owned(), set(&["six", "lib", "openstack-a"])),
            ("b".to_owned(), set(&["six", "lib", "openstack-a", "b"])),
            ("client".to_owned(), set(&["six"])),
        ]);
        wanted.share(&mut sets);
        assert_eq!(sets["common"], set(&["six", "lib"]));
    }
}
