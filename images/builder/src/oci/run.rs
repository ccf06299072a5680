//! Runs a program of an image on this machine: the image's files, the machine's network, and the
//! caller's own directories at their own paths, so that file arguments mean what they say.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use crate::build::sandbox::{Inside, Sandbox, missing};
use crate::error::{Context, Result};
use crate::oci::store::{Record, Store};
use crate::sources::recipe::Recipe;

/// Directories that are the image's own business.
const SYSTEM: [&str; 14] = [
    "bin", "boot", "dev", "etc", "lib", "lib32", "lib64", "libx32", "proc", "run", "sbin", "sys", "usr",
    "var",
];

/// What is run, and with which variables beside those of the image.
#[derive(Clone, Default)]
pub struct Call {
    pub arguments: Vec<String>,
    pub environment: Vec<(String, String)>,
}

pub(crate) fn run(store: &Store, recipe: &Recipe, layers: &[Record], call: &Call) -> Result<ExitStatus> {
    let lower: Vec<PathBuf> = layers
        .iter()
        .map(|layer| store.unpacked(layer))
        .collect::<Result<_>>()?;
    let name = format!("run-{}", recipe.name);
    let work = store.work(&name)?;
    let log = store.log(&name);
    let sandbox = Sandbox {
        layer: &recipe.name,
        lower: &lower,
        work: &work.path,
        log: &log,
        store: store.root(),
    };
    let own = std::env::current_dir().context("reading", Path::new("the working directory"))?;
    sandbox.enter(|inside| {
        inside.furnish()?;
        inside.bind_all(Path::new("/proc"), "/proc")?;
        for directory in directories(&own)? {
            inside.bind_all(&directory, &directory.to_string_lossy())?;
        }
        started(inside, recipe, call, &own)
    })
}

/// What of the machine is shown inside: everything that is not part of a system, and the
/// working directory wherever it is.
fn directories(own: &Path) -> Result<Vec<PathBuf>> {
    let root = Path::new("/");
    let mut shown = Vec::new();
    for entry in fs::read_dir(root).context("reading", root)? {
        let entry = entry.context("reading", root)?;
        let system = SYSTEM.iter().any(|name| entry.file_name() == *name);
        if !system && entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            shown.push(entry.path());
        }
    }
    let covered = own == root || shown.iter().any(|directory| own.starts_with(directory));
    if !covered {
        shown.push(own.to_owned());
    }
    Ok(shown)
}

fn started(inside: &Inside<'_>, recipe: &Recipe, call: &Call, own: &Path) -> Result<ExitStatus> {
    let settings = recipe.image.as_ref();
    let entry = settings.map(|image| image.entrypoint.clone()).unwrap_or_default();
    let image = settings.map(|image| image.env.clone()).unwrap_or_default();
    // What a program may know of the terminal and the person.
    let kept = ["HOME", "TERM", "TZ", "NO_COLOR", "COLUMNS", "LINES"];
    Command::new("chroot")
        .arg(&inside.root)
        .args(["/bin/sh", "-c", r#"cd "$0" && exec "$@""#])
        .arg(own)
        .args(&entry)
        .args(&call.arguments)
        .env_clear()
        .envs(
            kept.iter()
                .filter_map(|name| Some((name, std::env::var_os(name)?))),
        )
        .envs(image)
        .envs(call.environment.clone())
        .status()
        .map_err(|error| missing("chroot", "coreutils", error))
}
