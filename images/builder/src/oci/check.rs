//! Starts a container of an image as its own user, with a read-only root and no capabilities, and
//! asks it for its version.

use std::fs::{self, File};
use std::path::PathBuf;

use serde::Serialize;
use serde_json::{Value, json};

use crate::build::plan::Image;
use crate::build::sandbox::Sandbox;
use crate::build::steps::{Variables, quote};
use crate::error::{Context, Result};
use crate::oci::store::{Record, Store};
use crate::output::{Show, columns};
use crate::sources::recipe::Recipe;

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Checked {
    pub image: String,
    pub user: String,
    pub command: String,
    pub ok: bool,
    /// The first line of the answer, or why there was none.
    pub answer: String,
    pub seconds: f64,
}

#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Checks(pub Vec<Checked>);

pub(crate) fn check(store: &Store, recipe: &Recipe, image: &Image, layers: &[Record]) -> Result<Checked> {
    let lower: Vec<PathBuf> = layers
        .iter()
        .map(|layer| store.unpacked(layer))
        .collect::<Result<_>>()?;
    let work = store.work(&format!("check-{}", recipe.name))?;
    let log = store.log(&format!("check-{}", recipe.name));
    File::create(&log).context("creating", &log)?;
    let sandbox = Sandbox {
        layer: &recipe.name,
        lower: &lower,
        work: &work.path,
        log: &log,
        store: store.root(),
    };
    let settings = recipe.image.as_ref();
    let user = image.user.unwrap_or_default();
    let command = settings.map(words).unwrap_or_default();
    let env: Vec<String> = settings
        .iter()
        .flat_map(|i| &i.env)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let begin = std::time::Instant::now();
    let result = sandbox.enter(|inside| {
        for directory in ["dev", "proc", "run", "sys", "tmp"] {
            let path = inside.root.join(directory);
            fs::create_dir_all(&path).context("creating", &path)?;
        }
        let bundle = work.path.join("bundle");
        fs::create_dir_all(&bundle).context("creating", &bundle)?;
        let config = specification(&inside.root.display().to_string(), user, &env, &command);
        let path = bundle.join("config.json");
        fs::write(&path, config.to_string()).context("writing", &path)?;
        let state = work.path.join("runc").display().to_string();
        let id = format!("c5c3-check-{}-{}", recipe.name, std::process::id());
        let script = format!(
            "command -v runc >/dev/null || {{ echo 'runc: not found: install the package `runc`'; exit 127; }}\n\
             runc --root {} run --bundle {} {id}",
            quote(&state),
            quote(&bundle.display().to_string())
        );
        inside.run_outside("runc", &script, &Variables::new())
    });
    let text = String::from_utf8_lossy(&fs::read(&log).unwrap_or_default()).into_owned();
    let line = text.lines().find(|line| line.contains(&image.version));
    Ok(Checked {
        image: image.references.first().cloned().unwrap_or_default(),
        user: format!("{}:{}", user.0, user.1),
        command: settings
            .map(|image| image.version.value.join(" "))
            .unwrap_or_default(),
        ok: result.is_ok() && line.is_some(),
        answer: match (result, line) {
            (Ok(()), Some(line)) => line.trim().to_owned(),
            (Ok(()), None) => format!("it does not name {}: {}", image.version, text.trim()),
            (Err(error), _) => error.to_string(),
        },
        seconds: begin.elapsed().as_secs_f64(),
    })
}

/// The version command, and before it the modules. Those that start a service when they are imported
/// fail for want of a configuration, which is no fault of the image: only code that is not there is.
fn words(image: &crate::sources::recipe::Image) -> Vec<String> {
    let version = &image.version.value;
    if image.modules.is_empty() {
        return version.clone();
    }
    let modules: Vec<&str> = image.modules.iter().map(|module| module.value.as_str()).collect();
    let script = format!(
        "python -c '{}' {} && exec \"$@\"",
        include_str!("check.py"),
        modules.join(" ")
    );
    let shell = ["/bin/sh", "-c", &script, "sh"].map(str::to_owned);
    shell.into_iter().chain(version.iter().cloned()).collect()
}

/// The container as runc wants it: what a pod gets under the restricted profile.
fn specification(root: &str, user: (u32, u32), env: &[String], command: &[String]) -> Value {
    let tmpfs = |path: &str| json!({"destination": path, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev"]});
    json!({
        "ociVersion": "1.0.2",
        "process": {
            "terminal": false,
            "user": {"uid": user.0, "gid": user.1},
            "args": command,
            "env": env,
            "cwd": "/",
            "capabilities": {"bounding": [], "effective": [], "permitted": [], "ambient": []},
            "noNewPrivileges": true
        },
        "root": {"path": root, "readonly": true},
        "hostname": "check",
        "mounts": [
            {"destination": "/proc", "type": "proc", "source": "proc"},
            {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755"]},
            {"destination": "/dev/shm", "type": "tmpfs", "source": "shm", "options": ["nosuid", "nodev", "mode=1777"]},
            tmpfs("/tmp"),
            tmpfs("/run"),
        ],
        "linux": {
            "namespaces": [
                {"type": "pid"}, {"type": "network"}, {"type": "ipc"}, {"type": "uts"}, {"type": "mount"}
            ],
            "maskedPaths": ["/proc/kcore", "/proc/keys", "/proc/sysrq-trigger"],
            "readonlyPaths": ["/proc/sys"]
        }
    })
}

impl Show for Checks {
    fn table(&self) -> String {
        let mut rows = vec![
            ["IMAGE", "USER", "", "SECONDS", "ANSWER"]
                .map(str::to_owned)
                .to_vec(),
        ];
        for check in &self.0 {
            let state = if check.ok { "ok" } else { "FAILED" };
            rows.push(vec![
                check.image.clone(),
                check.user.clone(),
                state.to_owned(),
                format!("{:.1}", check.seconds),
                check.answer.clone(),
            ]);
        }
        columns(&rows)
    }
}
