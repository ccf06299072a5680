//! The build itself: layers that are not there yet, then images of them.

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Instant;

use crate::build::failure::free_bytes;
use crate::build::host::Host;
use crate::build::plan::{Layer, Plan};
use crate::build::progress::Progress;
use crate::build::sandbox::Sandbox;
use crate::build::schedule::{Board, Task, run};
use crate::build::steps::{Variables, debian, python, tree};
use crate::build::{disk, plan, uv};
use crate::error::{Context, Error, Result};
use crate::oci::store::{Descriptor, Record, Store, Work};
use crate::oci::{image, sbom, tarball, unpack};
use crate::sources::graph::Recipes;
use crate::sources::recipe::Recipe;
use crate::sources::release::ReleaseData;

/// A layer needs about this much while it is made.
const ROOM: u64 = 1 << 30;

pub(crate) struct Builder<'a> {
    pub store: &'a Store,
    pub host: &'a Host,
    pub recipes: &'a Recipes,
    pub release: &'a ReleaseData,
    pub progress: &'a Progress,
    pub schedule: usize,
}

/// What a build came to.
#[derive(Debug)]
pub(crate) struct Outcome {
    /// Every layer of the plan, in its order.
    pub layers: Vec<Record>,
    /// Those that were made now.
    pub made: Vec<String>,
    /// Reference and digest of every image.
    pub images: Published,
    /// Deletes what the build leaves over: thousands of files, for which nobody has to wait but a
    /// process that ends.
    pub cleaning: Vec<JoinHandle<()>>,
}

/// Reference and digest.
pub(crate) type Published = Vec<(String, String)>;

/// A tree that waits to become a blob.
struct Half {
    work: Work,
    tree: PathBuf,
    record: Record,
    _lock: File,
}

impl Builder<'_> {
    pub(crate) fn build(&self, plan: &Plan) -> Result<Outcome> {
        let _share = self.store.share()?;
        let known: Vec<Option<Record>> = plan
            .layers
            .iter()
            .map(|layer| self.store.layer(&layer.key))
            .collect::<Result<_>>()?;
        let pending: Vec<bool> = known.iter().map(Option::is_none).collect();
        let made = plan.layers.iter().zip(&pending).filter(|(_, pending)| **pending);
        let made: Vec<String> = made.map(|(layer, _)| layer.recipe.clone()).collect();
        let cleaning = Mutex::new(Vec::new());
        let result = if made.is_empty() {
            Ok(())
        } else {
            self.make(plan, &known, &pending, &cleaning)
        };
        let cleaning = cleaning.into_inner().unwrap_or_else(PoisonError::into_inner);
        // Images whose layers are all there are published even when another layer failed.
        let (layers, images) = self.publish(plan)?;
        result?;
        Ok(Outcome {
            layers,
            made,
            images,
            cleaning,
        })
    }

    fn make(
        &self,
        plan: &Plan,
        known: &[Option<Record>],
        pending: &[bool],
        cleaning: &Mutex<Vec<JoinHandle<()>>>,
    ) -> Result<()> {
        self.check_machine(plan, pending)?;
        let left = self.store.sweep()?;
        if left > 0 {
            self.progress
                .note(&format!("removed what {left} interrupted steps left behind"));
        }
        // Trees of layers that exist already, for those above.
        for (layer, record) in plan.layers.iter().zip(known) {
            let index = plan.layers.iter().position(|other| other.key == layer.key);
            let used =
                plan.layers.iter().zip(pending).any(|(above, pending)| {
                    *pending && index.is_some_and(|index| above.below.contains(&index))
                });
            if let (true, Some(record)) = (used, record) {
                self.store.unpacked(record)?;
            }
        }
        let below: Vec<Vec<usize>> = plan.layers.iter().map(|layer| layer.below.clone()).collect();
        let halves: Mutex<BTreeMap<usize, Half>> = Mutex::new(BTreeMap::new());
        let needs_uv = plan
            .layers
            .iter()
            .zip(pending)
            .any(|(layer, new)| *new && layer.inputs.python.is_some());
        let held = || halves.lock().unwrap_or_else(PoisonError::into_inner);
        thread::scope(|scope| {
            if needs_uv {
                // Runs ahead while the base is made; an error shows again where it is used.
                scope.spawn(|| drop(uv::fetch(self.store, self.host, &self.release.release.uv)));
            }
            run(Board::new(&below, pending), self.schedule, |task| match task {
                Task::Tree(index) => {
                    let half = self.tree(plan, index)?;
                    if let Some(half) = half {
                        held().insert(index, half);
                    }
                    Ok(())
                }
                Task::Blob(index) => {
                    let half = held().remove(&index);
                    if let Some(half) = half {
                        let work = self.blob(&plan.layers[index], half)?;
                        let handle = thread::spawn(move || drop(work));
                        cleaning
                            .lock()
                            .unwrap_or_else(PoisonError::into_inner)
                            .push(handle);
                    }
                    Ok(())
                }
            })
        })
    }

    fn check_machine(&self, plan: &Plan, pending: &[bool]) -> Result<()> {
        if !nix::unistd::geteuid().is_root() {
            return Err(Error::Privilege {
                what: "building a layer".into(),
            });
        }
        let new = || {
            plan.layers
                .iter()
                .zip(pending)
                .filter(|(_, new)| **new)
                .map(|(layer, _)| layer)
        };
        let mut programs = vec![("unshare", "util-linux"), ("chroot", "coreutils")];
        if new().any(|layer| layer.inputs.bootstrap.is_some()) {
            programs.push(("mmdebstrap", "mmdebstrap"));
        }
        if new().any(|layer| layer.inputs.python.is_some()) {
            programs.push(("curl", "curl"));
        }
        for (program, package) in programs {
            if !on_path(program) {
                return Err(Error::Program {
                    program: program.into(),
                    package: package.into(),
                });
            }
        }
        // Layers of a few files need no such room; a full disk shows when they are written.
        let installs = new().any(|layer| layer.inputs.debian.is_some() || layer.inputs.python.is_some());
        match free_bytes(self.store.root()).filter(|_| installs) {
            Some(free) if free < ROOM => Err(Error::DiskFull {
                path: self.store.root().to_owned(),
                detail: format!("{} MB free, a build wants {} MB", free >> 20, ROOM >> 20),
            }),
            _ => Ok(()),
        }
    }

    /// Makes the tree of a layer. `None`: another process made the layer meanwhile.
    fn tree(&self, plan: &Plan, index: usize) -> Result<Option<Half>> {
        let layer = &plan.layers[index];
        let lock = self.store.lock(&layer.key)?;
        if let Some(record) = self.store.layer(&layer.key)? {
            self.store.unpacked(&record)?;
            return Ok(None);
        }
        let begin = Instant::now();
        self.progress.begin(&layer.recipe);
        let work = self.store.work(&layer.recipe)?;
        let log = self.store.log(&layer.recipe);
        File::create(&log).context("creating", &log)?;
        let lower: Vec<PathBuf> = layer
            .below
            .iter()
            .map(|below| self.store.tree(&plan.layers[*below].key))
            .collect();
        let sandbox = Sandbox {
            layer: &layer.recipe,
            lower: &lower,
            work: &work.path,
            log: &log,
            store: self.store.root(),
        };
        let upper = sandbox.upper();
        self.fill(layer, &sandbox)?;
        if layer.inputs.debian.is_some() || layer.inputs.bootstrap.is_some() {
            tree::clean(&upper)?;
            // Those below /run that a recipe asks for stay.
            tree::add_directories(&upper, &layer.inputs.directories)?;
        }
        python::normalise_bytecode(&upper)?;
        let record = self.describe(layer, &upper, &lower)?;
        // The layers above use it from here on, while its blob is still being written.
        let tree = self.store.tree(&layer.key);
        unpack::remove_tree(&tree)?;
        fs::rename(&upper, &tree).context("storing", &tree)?;
        let seconds = begin.elapsed().as_secs_f64();
        self.progress.built(&layer.recipe, seconds);
        Ok(Some(Half {
            work,
            tree,
            record: Record { seconds, ..record },
            _lock: lock,
        }))
    }

    fn fill(&self, layer: &Layer, sandbox: &Sandbox<'_>) -> Result<()> {
        let inputs = &layer.inputs;
        let upper = sandbox.upper();
        let mut variables: Variables = self.host.env.clone();
        variables.insert("SOURCE_DATE_EPOCH".into(), epoch(&inputs.date)?.to_string());
        sandbox.enter(|inside| {
            let debian = inputs.debian.as_ref().map(|inputs| debian::Debian {
                host: self.host,
                store: self.store,
                inputs,
                variables: &variables,
                upper: &upper,
                work: sandbox.work,
            });
            if let (Some((variant, _)), Some(debian)) = (&inputs.bootstrap, &debian) {
                debian.bootstrap(inside, variant)?;
            }
            tree::add_users(&inside.root, &inputs.users, epoch(&inputs.date)? / 86400)?;
            let installs = inputs.bootstrap.is_none() && debian.is_some();
            if installs || inputs.python.is_some() || inputs.disk.is_some() {
                inside.furnish()?;
            }
            if let (true, Some(debian)) = (installs, &debian) {
                debian.install(inside)?;
            }
            if let Some(inputs) = &inputs.python {
                let python = python::Python {
                    host: self.host,
                    store: self.store,
                    inputs,
                    patches: &layer.patches,
                    variables: &variables,
                    upper: &upper,
                    uv: &self.release.release.uv,
                };
                python.install(inside)?;
            }
            tree::remove(&inside.root, &inputs.remove)?;
            tree::add_files(&inside.root, &inputs.files)?;
            tree::add_directories(&inside.root, &inputs.directories)?;
            match &inputs.disk {
                Some(command) => disk::make(inside, command, &variables),
                None => Ok(()),
            }
        })
    }

    /// The packages that a layer adds or changes.
    fn describe(&self, layer: &Layer, upper: &std::path::Path, lower: &[PathBuf]) -> Result<Record> {
        let status = |root: &std::path::Path| fs::read_to_string(root.join("var/lib/dpkg/status")).ok();
        let all = status(upper)
            .map(|text| debian::installed(&text))
            .unwrap_or_default();
        let below = lower
            .iter()
            .rev()
            .find_map(|root| status(root))
            .map(|text| debian::installed(&text))
            .unwrap_or_default();
        if let Some(inputs) = &layer.inputs.debian {
            let moved = debian::compare(inputs, &all)?;
            if !moved.is_empty() {
                self.progress.note(&format!(
                    "{}: the archive has moved on from the lock ({}); `c5c3 image lock {}` records it",
                    layer.recipe,
                    moved.join(", "),
                    self.release.release.name
                ));
            }
        }
        let environment = layer
            .inputs
            .python
            .as_ref()
            .map(|python| upper.join(python.environment.trim_start_matches('/')));
        Ok(Record {
            recipe: layer.recipe.clone(),
            key: layer.key.clone(),
            diff_id: String::new(),
            digest: String::new(),
            size: 0,
            tar_size: 0,
            seconds: 0.0,
            debian: all
                .into_iter()
                .filter(|(name, version)| below.get(name) != Some(version))
                .collect(),
            python: environment
                .map(|path| python::installed(&path))
                .unwrap_or_default(),
            patches: layer.patches.iter().map(|patch| patch.name.clone()).collect(),
        })
    }

    /// Writes the blob of a tree and records the layer; what is left over is in the result.
    fn blob(&self, layer: &Layer, half: Half) -> Result<Work> {
        let begin = Instant::now();
        let blob = half.work.path.join("blob");
        let mtime = u64::try_from(epoch(&layer.inputs.date)?).unwrap_or(0);
        let written = if layer.inputs.disk.is_some() {
            disk::write(&half.tree, &blob)?
        } else {
            tarball::write(&half.tree, mtime, &blob)?
        };
        let record = Record {
            diff_id: written.diff_id,
            digest: written.digest,
            size: written.size,
            tar_size: written.tar_size,
            seconds: half.record.seconds + begin.elapsed().as_secs_f64(),
            ..half.record
        };
        self.store.commit(&record, &blob)?;
        if !layer.is_base {
            let waste = half.work.path.join("tree");
            fs::rename(&half.tree, &waste).context("putting away", &half.tree)?;
        }
        self.progress.stored(&record, begin.elapsed().as_secs_f64());
        Ok(half.work)
    }

    fn publish(&self, plan: &Plan) -> Result<(Vec<Record>, Published)> {
        let records: Vec<Option<Record>> = plan
            .layers
            .iter()
            .map(|layer| self.store.layer(&layer.key))
            .collect::<Result<_>>()?;
        let mut published = Vec::new();
        let mut descriptors = Vec::new();
        for image in &plan.images {
            let layers: Option<Vec<&Record>> = image
                .layers
                .iter()
                .map(|index| records[*index].as_ref())
                .collect();
            let Some(layers) = layers else { continue };
            let recipe = self.recipes.get(&image.recipe)?;
            let named = image::write(self.store, &self.release.release, recipe, image, &layers)?;
            descriptors.extend(self.bill(plan, recipe, image, &layers, &named)?);
            for descriptor in named {
                published.push((descriptor.reference().to_owned(), descriptor.digest.clone()));
                descriptors.push(descriptor);
            }
        }
        self.store.update_index(|index| index.enter(descriptors))?;
        Ok((records.into_iter().flatten().collect(), published))
    }
}

impl Builder<'_> {
    /// The bill of materials of an image that was just written.
    fn bill(
        &self,
        plan: &Plan,
        recipe: &Recipe,
        image: &plan::Image,
        layers: &[&Record],
        named: &[Descriptor],
    ) -> Result<Option<Descriptor>> {
        let Some(manifest) = named.first() else {
            return Ok(None);
        };
        let suite = image
            .layers
            .iter()
            .find_map(|index| plan.layers[*index].inputs.debian.as_ref())
            .map_or("", |debian| debian.suite.as_str());
        let overridden: Vec<String> = self
            .release
            .overrides
            .iter()
            .map(|change| change.name.clone())
            .collect();
        let subject = sbom::Subject {
            manifest,
            name: &image.recipe,
            version: &image.version,
            package: recipe
                .python
                .as_ref()
                .and_then(|python| python.package.as_deref()),
            is_disk: recipe.disk.is_some(),
            suite,
            date: &self.release.release.date,
            layers,
            overridden: &overridden,
        };
        sbom::write(self.store, &subject).map(Some)
    }
}

/// Seconds since 1970 of a release's date.
pub(crate) fn epoch(date: &str) -> Result<i64> {
    date.parse::<jiff::Timestamp>()
        .map(jiff::Timestamp::as_second)
        .map_err(|error| Error::Request(format!("release.yaml: date `{date}`: {error}")))
}

/// Whether a program is on the path or in one of the system's directories.
pub(crate) fn on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let system = ["/usr/sbin", "/usr/bin", "/sbin", "/bin"].map(PathBuf::from);
    std::env::split_paths(&path)
        .chain(system)
        .any(|directory| directory.join(program).is_file())
}
