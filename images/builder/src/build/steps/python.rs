//! Python packages into the environment: installed by uv, patched, compiled.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::{Variables, quote, tree};
use crate::build::host::Host;
use crate::build::plan::PythonInputs;
use crate::build::sandbox::{INSIDE, Inside};
use crate::build::{bytecode, uv};
use crate::error::{Context, Error, Result};
use crate::oci::store::Store;
use crate::sources::patch::{FilePatch, Patch};
use crate::sources::pins::normalise;
use crate::sources::release::PatchFile;

pub(crate) struct Python<'a> {
    pub host: &'a Host,
    pub store: &'a Store,
    pub inputs: &'a PythonInputs,
    pub patches: &'a [PatchFile],
    pub variables: &'a Variables,
    pub upper: &'a Path,
    pub uv: &'a c5c3_catalogue::Uv,
}

impl Python<'_> {
    pub(crate) fn install(&self, inside: &Inside<'_>) -> Result<()> {
        let mut variables = uv::provide(inside, self.store, self.host, self.uv, self.variables)?;
        variables.insert("UV_LINK_MODE".into(), "copy".into());
        variables.insert("PYTHONHASHSEED".into(), "0".into());
        let requirements = inside.note("requirements.txt", &lines(&self.inputs.requirements))?;
        let build = inside.note("build.txt", &lines(&self.inputs.build_constraints))?;
        let environment = quote(&self.inputs.environment);
        let mut script = String::new();
        if self.inputs.create {
            script.push_str(&format!(
                "{INSIDE}/uv venv --quiet --python /usr/bin/python3 {environment}\n"
            ));
        }
        script.push_str(&format!(
            "{INSIDE}/uv pip install --quiet --no-deps --python {environment}/bin/python \
             --build-constraints {build} --requirements {requirements}\n\
             rm -f {environment}/.lock\n"
        ));
        inside.run("uv pip install", &script, &variables)?;
        if self.inputs.system_modules {
            see_system_modules(&inside.path(&self.inputs.environment))?;
        }
        let library = self
            .upper
            .join(self.inputs.environment.trim_start_matches('/'))
            .join("lib");
        remove_tests(&library)?;
        self.patch(inside)?;
        self.compile(inside, &variables)
    }

    /// Compiles what this layer brings; the layers below have their bytecode already.
    fn compile(&self, inside: &Inside<'_>, variables: &Variables) -> Result<()> {
        let library = self
            .upper
            .join(self.inputs.environment.trim_start_matches('/'))
            .join("lib");
        let mut sources = Vec::new();
        tree::walk(&library, &mut |path, metadata| {
            if metadata.is_file() && path.extension().is_some_and(|extension| extension == "py") {
                sources.extend(
                    path.strip_prefix(self.upper)
                        .ok()
                        .map(|path| format!("/{}", path.display())),
                );
            }
            Ok(())
        })?;
        sources.sort();
        inside.note("compile.py", include_str!("compile.py"))?;
        inside.note("sources.txt", &lines(&sources))?;
        let script = format!("/usr/bin/python3 -I {INSIDE}/compile.py {INSIDE}/sources.txt");
        inside.run("compiling Python", &script, variables)
    }

    fn patch(&self, inside: &Inside<'_>) -> Result<()> {
        if self.patches.is_empty() {
            return Ok(());
        }
        let packages = site_packages(&inside.path(&self.inputs.environment))?;
        for file in self.patches {
            let patch = Patch::parse(&file.name, &file.text)?;
            let mut applied = 0;
            for change in &patch.files {
                applied += usize::from(apply(&packages, &patch.name, change)?);
            }
            if applied == 0 {
                let reason = "none of the files that it changes is part of an installed package".into();
                return Err(Error::Patch {
                    patch: patch.name,
                    reason,
                });
            }
        }
        Ok(())
    }
}

/// Debian's modules come after the environment's own: a path file adds to the end of the search path.
fn see_system_modules(environment: &Path) -> Result<()> {
    let path = site_packages(environment)?.join("debian.pth");
    fs::write(&path, "/usr/lib/python3/dist-packages\n").context("writing", &path)?;
    fs::set_permissions(&path, fs::Permissions::from_mode(0o644)).context("writing", &path)
}

fn lines(items: &[String]) -> String {
    items.iter().fold(String::new(), |text, item| text + item + "\n")
}

fn site_packages(environment: &Path) -> Result<PathBuf> {
    let library = environment.join("lib");
    for entry in fs::read_dir(&library).context("reading", &library)? {
        let path = entry.context("reading", &library)?.path().join("site-packages");
        if path.is_dir() {
            return Ok(path);
        }
    }
    Err(Error::Damaged(format!(
        "{} has no site-packages",
        environment.display()
    )))
}

/// Applies one file's change below `root`. Upstream patches also touch tests, documentation and
/// release notes, which no package installs: those are passed over (`false`).
pub(crate) fn apply(root: &Path, patch: &str, change: &FilePatch) -> Result<bool> {
    let inside = Path::new(change.path());
    if inside
        .components()
        .any(|part| !matches!(part, std::path::Component::Normal(_)))
    {
        let reason = format!("`{}` leaves the package", inside.display());
        return Err(Error::Patch {
            patch: patch.to_owned(),
            reason,
        });
    }
    let top = inside.iter().next().map(|top| root.join(top));
    let installed = top.is_some_and(|top| top.exists());
    let is_test = inside.iter().any(|part| part == "tests");
    if !installed || is_test {
        return Ok(false);
    }
    let path = root.join(inside);
    let original = match fs::read_to_string(&path) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => None,
        Err(error) => return Err(Error::io("reading", &path, error)),
    };
    match change.apply(patch, original.as_deref())? {
        // A new file and a rename: the old one may be a hard link into a cache.
        Some(text) => {
            let mode = fs::metadata(&path).map_or(0o644, |metadata| metadata.mode() & 0o7777);
            if let Some(parent) = path.parent() {
                fs::create_dir_all(parent).context("creating", parent)?;
            }
            let temporary = path.with_extension("c5c3-new");
            fs::write(&temporary, text).context("writing", &temporary)?;
            fs::set_permissions(&temporary, fs::Permissions::from_mode(mode))
                .context("writing", &temporary)?;
            fs::rename(&temporary, &path).context("writing", &path)?;
        }
        None => fs::remove_file(&path).context("removing", &path)?,
    }
    Ok(true)
}

/// Packages bring a fifth of their size in tests.
fn remove_tests(directory: &Path) -> Result<()> {
    let Ok(entries) = fs::read_dir(directory) else {
        return Ok(());
    };
    for entry in entries {
        let entry = entry.context("reading", directory)?;
        if entry.file_type().context("reading", directory)?.is_dir() {
            if entry.file_name() == "tests" {
                crate::oci::unpack::remove_tree(&entry.path())?;
            } else {
                remove_tests(&entry.path())?;
            }
        }
    }
    Ok(())
}

/// Makes all bytecode below `root` independent of the run that made it.
pub(crate) fn normalise_bytecode(root: &Path) -> Result<()> {
    let mut compiled = Vec::new();
    tree::walk(root, &mut |path, metadata| {
        if metadata.is_file() && path.as_os_str().as_bytes().ends_with(b".pyc") {
            compiled.push(path.to_owned());
        }
        Ok(())
    })?;
    for path in compiled {
        let before = fs::read(&path).context("reading", &path)?;
        if let Some(after) = bytecode::normalise(&before)
            && after != before
        {
            fs::write(&path, after).context("writing", &path)?;
        }
    }
    Ok(())
}

/// Package → version by the `*.dist-info` directories below an environment.
pub(crate) fn installed(environment: &Path) -> BTreeMap<String, String> {
    let Ok(packages) = site_packages(environment) else {
        return BTreeMap::new();
    };
    let Ok(entries) = fs::read_dir(packages) else {
        return BTreeMap::new();
    };
    let names = entries
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter_map(|name| {
            let (package, version) = name.strip_suffix(".dist-info")?.rsplit_once('-')?;
            Some((normalise(package), version.to_owned()))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const PATCH: &str = "--- a/keystone/api.py\n+++ b/keystone/api.py\n@@ -1 +1 @@\n-one\n+two\n\
        --- a/keystone/tests/test_api.py\n+++ b/keystone/tests/test_api.py\n@@ -1 +1 @@\n-x\n+y\n\
        --- /dev/null\n+++ b/releasenotes/notes/fix.yaml\n@@ -0,0 +1 @@\n+fixes\n";

    fn patch_tree(root: &Path, text: &str) -> Vec<Result<bool>> {
        let patch = Patch::parse("keystone/R/0001-fix.patch", text).unwrap();
        patch
            .files
            .iter()
            .map(|change| apply(root, &patch.name, change))
            .collect()
    }

    #[test]
    fn a_patch_changes_the_package_and_passes_over_the_rest() {
        let root = tempfile::tempdir().unwrap();
        let (file, cached) = (root.path().join("keystone/api.py"), root.path().join("cached"));
        fs::create_dir(root.path().join("keystone")).unwrap();
        fs::write(&cached, "one\n").unwrap();
        fs::hard_link(&cached, &file).unwrap();
        let results: Vec<bool> = patch_tree(root.path(), PATCH)
            .into_iter()
            .map(Result::unwrap)
            .collect();
        assert_eq!(results, [true, false, false]);
        assert_eq!(fs::read_to_string(file).unwrap(), "two\n");
        assert_eq!(
            fs::read_to_string(cached).unwrap(),
            "one\n",
            "a cache was changed"
        );
    }

    #[test]
    fn a_patch_that_does_not_fit_or_leaves_the_package_is_an_error() {
        let root = tempfile::tempdir().unwrap();
        fs::create_dir(root.path().join("keystone")).unwrap();
        let error = patch_tree(root.path(), PATCH).remove(0).unwrap_err().to_string();
        assert!(
            error.contains("0001-fix.patch, hunk 1") && error.contains("no such file"),
            "{error}"
        );
        let escape = "--- /dev/null\n+++ b/keystone/../../x\n@@ -0,0 +1 @@\n+x\n";
        let error = patch_tree(root.path(), escape).remove(0).unwrap_err().to_string();
        assert!(error.contains("leaves the package"), "{error}");
    }

    #[test]
    fn the_path_of_debians_modules_follows_the_python_version() {
        for version in ["python3.11", "python3.13"] {
            let root = tempfile::tempdir().unwrap();
            let packages = root.path().join("lib").join(version).join("site-packages");
            fs::create_dir_all(&packages).unwrap();
            see_system_modules(root.path()).unwrap();
            let text = fs::read_to_string(packages.join("debian.pth")).unwrap();
            assert_eq!(text, "/usr/lib/python3/dist-packages\n");
        }
    }

    #[test]
    fn tests_are_removed_and_packages_listed() {
        let root = tempfile::tempdir().unwrap();
        let packages = root.path().join("lib/python3.11/site-packages");
        fs::create_dir_all(packages.join("nova/tests/unit")).unwrap();
        fs::create_dir_all(packages.join("nova/virt")).unwrap();
        fs::create_dir_all(packages.join("oslo_config-10.0.0.dist-info")).unwrap();
        remove_tests(root.path()).unwrap();
        assert!(!packages.join("nova/tests").exists() && packages.join("nova/virt").exists());
        assert_eq!(
            installed(root.path()),
            BTreeMap::from([("oslo-config".to_owned(), "10.0.0".to_owned())])
        );
    }
}
