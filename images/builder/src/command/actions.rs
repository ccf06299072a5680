//! `c5c3 image …`: what each subcommand does.

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;

use serde::Serialize;

use super::bundle::write_archive;
use super::workspace::Workspace;
use super::{
    BuildArgs, CheckArgs, Common, DiffArgs, DiskArgs, ExportArgs, ImportArgs, InspectArgs, ListArgs,
    LockArgs, OptionsArgs, Output, PruneArgs, SbomArgs,
};
use crate::build::builder::Outcome;
use crate::build::disk;
use crate::build::progress::{Progress, megabytes};
use crate::error::{Context, Error, Result};
use crate::oci::store::Store;
use crate::oci::{check, import, inspect, prune, sbom};
use crate::output::{Show, columns, render};
use crate::sources::graph::environment;
use crate::sources::pins::Pins;
use crate::sources::{lock, options};

fn show(value: &impl Show, output: &Output) -> Result<()> {
    say(&render(value, output.output)?);
    Ok(())
}

/// A reader that went away is no failure of ours.
pub(super) fn say(text: &str) {
    let _ = std::io::stdout().write_all(text.as_bytes());
}

/// The result of a build: every layer with its time and bytes.
#[derive(Serialize)]
struct Built {
    images: Vec<BuiltImage>,
    layers: Vec<BuiltLayer>,
    seconds: f64,
}

#[derive(Serialize)]
struct BuiltImage {
    reference: String,
    digest: String,
}

#[derive(Serialize)]
struct BuiltLayer {
    recipe: String,
    /// Made by this run, or there before.
    made: bool,
    seconds: f64,
    unpacked: u64,
    size: u64,
    digest: String,
}

impl Built {
    fn new(outcome: Outcome, seconds: f64) -> Self {
        let layers = outcome.layers.into_iter().map(|layer| BuiltLayer {
            made: outcome.made.contains(&layer.recipe),
            recipe: layer.recipe,
            seconds: layer.seconds,
            unpacked: layer.tar_size,
            size: layer.size,
            digest: layer.digest,
        });
        let images = outcome
            .images
            .into_iter()
            .map(|(reference, digest)| BuiltImage { reference, digest });
        Self {
            layers: layers.collect(),
            images: images.collect(),
            seconds,
        }
    }
}

impl Show for Built {
    fn table(&self) -> String {
        let head = ["LAYER", "", "SECONDS", "UNPACKED", "SIZE"]
            .map(str::to_owned)
            .to_vec();
        let row = |layer: &BuiltLayer| {
            let state = if layer.made { "built" } else { "cached" };
            let seconds = if layer.made {
                format!("{:.1}", layer.seconds)
            } else {
                "-".into()
            };
            vec![
                layer.recipe.clone(),
                state.into(),
                seconds,
                megabytes(layer.unpacked),
                megabytes(layer.size),
            ]
        };
        let layers: Vec<_> = std::iter::once(head).chain(self.layers.iter().map(row)).collect();
        let head = ["IMAGE", "DIGEST"].map(str::to_owned).to_vec();
        let images = self
            .images
            .iter()
            .map(|image| vec![image.reference.clone(), image.digest.clone()]);
        let images: Vec<_> = std::iter::once(head).chain(images).collect();
        format!(
            "{}\n{}\n{:.1} s\n",
            columns(&layers),
            columns(&images),
            self.seconds
        )
    }
}

pub(super) fn build(common: &Common, args: &BuildArgs) -> Result<()> {
    let shop = Workspace::open(
        common,
        &args.release.release,
        &args.inputs,
        Progress::to_stderr(args.quiet),
    )?;
    let plan = shop.plan(&args.names)?;
    let mut outcome = shop.builder(args.jobs).build(&plan)?;
    let cleaning = std::mem::take(&mut outcome.cleaning);
    let shown = show(&Built::new(outcome, shop.progress.seconds()), &args.output);
    for handle in cleaning {
        // It cannot fail; what stays behind is removed by the next build.
        let _ = handle.join();
    }
    shown
}

pub(super) fn check(common: &Common, args: &CheckArgs) -> Result<()> {
    let shop = Workspace::open(
        common,
        &args.release.release,
        &args.inputs,
        Progress::to_stderr(true),
    )?;
    let plan = shop.plan(&args.names)?;
    let mut checks = Vec::new();
    // A disk is no container.
    for image in plan.images.iter().filter(|image| image.user.is_some()) {
        match shop.layers(&plan, image)? {
            Some(layers) => checks.push(check::check(
                &shop.store,
                shop.recipes.get(&image.recipe)?,
                image,
                &layers,
            )?),
            None if args.names.is_empty() => {}
            None => {
                let reference = image.references.first().cloned().unwrap_or_default();
                return Err(Error::NoImage {
                    reference,
                    store: shop.store.root().to_owned(),
                });
            }
        }
    }
    shop.tidy(&plan)?;
    let checks = check::Checks(checks);
    show(&checks, &args.output)?;
    match checks.0.iter().filter(|check| !check.ok).count() {
        0 => Ok(()),
        failed => Err(Error::Check {
            failed,
            total: checks.0.len(),
        }),
    }
}

pub(super) fn list(common: &Common, args: &ListArgs) -> Result<()> {
    show(&inspect::list(&Store::existing(&common.store)?)?, &args.output)
}

pub(super) fn inspect(common: &Common, args: &InspectArgs) -> Result<()> {
    show(
        &inspect::inspect(&Store::existing(&common.store)?, &args.image)?,
        &args.output,
    )
}

pub(super) fn diff(common: &Common, args: &DiffArgs) -> Result<()> {
    let store = Store::existing(&common.store)?;
    let (from, to) = (
        inspect::inspect(&store, &args.from)?,
        inspect::inspect(&store, &args.to)?,
    );
    show(&inspect::diff(&from, &to), &args.output)
}

pub(super) fn disk(common: &Common, args: &DiskArgs) -> Result<()> {
    let path = disk::path(&Store::existing(&common.store)?, &args.name)?;
    match &args.file {
        Some(file) => fs::copy(&path, file).map(drop).context("writing", file),
        None => {
            say(&format!("{}\n", path.display()));
            Ok(())
        }
    }
}

pub(super) fn export(common: &Common, args: &ExportArgs) -> Result<()> {
    let store = Store::existing(&common.store)?;
    let images = import::choose(&store, &args.names)?;
    write_archive(&store, &images, &args.file)
}

pub(super) fn import(common: &Common, args: &ImportArgs) -> Result<()> {
    let store = Store::existing(&common.store)?;
    let images = import::choose(&store, &args.names)?;
    let containerd = import::Containerd {
        socket: &args.socket,
        namespace: &args.namespace,
    };
    let imported = containerd.import(&store, &images)?;
    for image in &images {
        let state = if imported.contains(image) {
            "imported"
        } else {
            "present"
        };
        say(&format!("{state:<9} {}\n", image.reference()));
    }
    Ok(())
}

pub(super) fn sbom(common: &Common, args: &SbomArgs) -> Result<()> {
    let bill = sbom::read(&Store::existing(&common.store)?, &args.image)?;
    say(&format!("{bill:#}\n"));
    Ok(())
}

pub(super) fn prune(common: &Common, args: &PruneArgs) -> Result<()> {
    let wish = prune::Wish {
        images: &args.names,
        caches: args.cache,
        dry_run: args.dry_run,
    };
    show(
        &prune::prune(&Store::existing(&common.store)?, &wish)?,
        &args.output,
    )
}

pub(super) fn lock(common: &Common, args: &LockArgs) -> Result<()> {
    let shop = Workspace::open(common, &args.release, &[], Progress::to_stderr(false))?;
    let directory = shop.release_directory()?;
    let builder = shop.builder(None);
    if args.debian {
        let images = shop.recipes.products().map(|recipe| recipe.name.clone());
        let known: Vec<String> = images
            .filter(|name| shop.release.release.versions.contains_key(name))
            .collect();
        let count = lock::save_debian(&directory, &builder, &shop.plan(&known)?)?;
        shop.progress.note(&format!("{count} Debian packages recorded"));
        return Ok(());
    }
    let file = format!("releases/{}/upper-constraints.txt", args.release);
    let limits = shop.data.get(&file).unwrap_or_default();
    let wanted = lock::Wanted::gather(&builder)?;
    // The environment's recipe lies on the layer that has Python and nothing else.
    let python = shop.recipes.iter().find(|recipe| environment(recipe).is_some());
    let base = python
        .and_then(|recipe| recipe.base.as_ref())
        .map(|base| base.value.clone());
    let base = base.ok_or_else(|| Error::Request("no recipe makes a Python environment".into()))?;
    let locked = lock::resolve(&builder, &shop.plan(&[base])?, &wanted, limits)?;
    lock::save(&directory, &locked)?;
    let count = Pins::parse("pins.txt", &locked.pins)?.0.len();
    shop.progress.note(&format!(
        "{count} packages pinned for {} services",
        wanted.services.len()
    ));
    Ok(())
}

pub(super) fn options(common: &Common, args: &OptionsArgs) -> Result<()> {
    let shop = Workspace::open(common, &args.release.release, &[], Progress::to_stderr(false))?;
    let directory = shop.release_directory()?.join("options");
    fs::create_dir_all(&directory).context("creating", &directory)?;
    let mut services = shop.services();
    if let Some(unknown) = args.names.iter().find(|name| !services.contains(name)) {
        let (release, known) = (&args.release.release, services.join(", "));
        return Err(Error::Request(format!(
            "release {release} has no service `{unknown}` to ask; known: {known}"
        )));
    }
    services.retain(|name| args.names.is_empty() || args.names.contains(name));
    let plan = shop.plan(&services)?;
    shop.builder(None).build(&plan)?;
    for image in &plan.images {
        let layers = shop.layers(&plan, image)?.unwrap_or_default();
        let python = image
            .layers
            .iter()
            .find_map(|index| plan.layers[*index].inputs.python.as_ref());
        let environment = python
            .map(|python| python.environment.as_str())
            .unwrap_or_default();
        let catalogue = options::ask(&shop.store, &image.recipe, &image.version, &layers, environment)?;
        let path = directory.join(format!("{}.json", image.recipe));
        fs::write(&path, catalogue.render()).context("writing", &path)?;
        let count: usize = catalogue.groups.values().map(BTreeMap::len).sum();
        shop.progress.note(&format!(
            "{:<16} {count} options in {} groups",
            image.recipe,
            catalogue.groups.len()
        ));
    }
    shop.tidy(&plan)
}
