//! The pipeline as a program: what it refuses, what an interruption leaves, and (on request) real builds.
//!
//! `cargo test -p c5c3-image-builder -- --ignored` builds real images: it needs root, mmdebstrap, runc
//! and a package archive.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use tempfile::TempDir;

/// The example program, which cargo builds beside the tests.
fn program() -> PathBuf {
    let own = std::env::current_exe().unwrap();
    let path = own.ancestors().nth(2).unwrap().join("examples/image");
    assert!(
        path.exists(),
        "build the example first: cargo build -p c5c3-image-builder --examples"
    );
    path
}

/// Not by a macro: those are silent in tests that pass.
fn skipped() {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "skipped: building a layer needs root");
}

fn is_root() -> bool {
    nix::unistd::geteuid().is_root()
}

/// Recipes for tests: a first layer of a file, one that needs an archive, one that asks for a file.
fn images() -> TempDir {
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    };
    write(
        "recipes/note.yaml",
        "description: d\nfiles: [{path: /note, content: hello, mode: '0644'}]\nimage: {user: '7:7', version: [x]}\n",
    );
    write(
        "recipes/base.yaml",
        "description: d\nbootstrap: {variant: minbase}\n",
    );
    write(
        "recipes/server.yaml",
        "description: d\nbase: base\ndebian: {packages: [memcached]}\nimage: {user: '7:7', version: [x]}\n",
    );
    write(
        "recipes/big.yaml",
        "description: d\nfiles: [{path: /big, input: big, mode: '0644'}]\nimage: {user: '7:7', version: [x]}\n",
    );
    write(
        "releases/2025.2/release.yaml",
        "{title: T, debian: bookworm, date: '2025-10-01T00:00:00Z', registry: r.example/x, uv: {version: '1', sha256: {}}}",
    );
    write(
        "releases/2025.2/source-refs.yaml",
        "{note: '1', server: '1.6', big: '1'}",
    );
    directory
}

fn build(images: &Path, store: &Path, arguments: &[&str]) -> Command {
    let mut command = Command::new(program());
    command
        .arg("build")
        .args(arguments)
        .arg("--images-dir")
        .arg(images)
        .arg("--store")
        .arg(store);
    command.env("C5C3_DEBIAN_MIRROR", "http://127.0.0.1:1");
    command
}

fn text(output: &Output) -> String {
    format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    )
}

/// Processes that work below a directory, by their command line.
fn processes(directory: &Path) -> Vec<String> {
    let name = directory.display().to_string();
    let entries = fs::read_dir("/proc").unwrap().flatten();
    entries
        .filter_map(|entry| {
            let line = fs::read(entry.path().join("cmdline")).ok()?;
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            line.contains(&name).then_some(line)
        })
        .collect()
}

fn eventually(what: &str, test: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(60);
    while !test() {
        assert!(Instant::now() < end, "{what} did not happen");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A server that takes connections and never answers.
fn silent_archive() -> (TcpListener, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = format!("http://{}", listener.local_addr().unwrap());
    (listener, address)
}

fn kill(child: &mut Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn the_same_inputs_are_built_once() {
    if !is_root() {
        return skipped();
    }
    let (images, store) = (images(), tempfile::tempdir().unwrap());
    let first = build(images.path(), store.path(), &["note", "-o", "json"])
        .output()
        .unwrap();
    assert!(first.status.success(), "{}", text(&first));
    assert!(text(&first).contains("\"made\": true"), "{}", text(&first));
    let second = build(images.path(), store.path(), &["note", "-o", "json"])
        .output()
        .unwrap();
    assert!(text(&second).contains("\"made\": false"), "{}", text(&second));
    // Another store, the same digest.
    let other = tempfile::tempdir().unwrap();
    assert!(
        build(images.path(), other.path(), &["note", "-q"])
            .status()
            .unwrap()
            .success()
    );
    let index = |store: &Path| fs::read_to_string(store.join("index.json")).unwrap();
    assert_eq!(index(store.path()), index(other.path()));
}

#[test]
fn a_kill_leaves_no_process_no_mount_and_no_half_layer() {
    if !is_root() {
        return skipped();
    }
    let (images, store) = (images(), tempfile::tempdir().unwrap());
    let (archive, address) = silent_archive();
    let mut child = build(images.path(), store.path(), &["server"])
        .env("C5C3_DEBIAN_MIRROR", &address)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    // apt has asked: the build is in the middle of its first layer.
    let connection = archive.accept().unwrap();
    assert!(!processes(store.path()).is_empty());
    kill(&mut child);
    eventually("the end of all processes", || processes(store.path()).is_empty());
    drop(connection);
    let mounts = fs::read_to_string("/proc/self/mountinfo").unwrap();
    assert!(
        !mounts.contains(&store.path().display().to_string()),
        "a mount is left"
    );
    assert_eq!(fs::read_dir(store.path().join("layers")).unwrap().count(), 0);
    assert_eq!(fs::read_dir(store.path().join("trees")).unwrap().count(), 0);
    assert!(fs::read_dir(store.path().join("work")).unwrap().count() > 0);
    // The next build goes on and removes what was left.
    let next = build(images.path(), store.path(), &["note"]).output().unwrap();
    assert!(
        next.status.success() && text(&next).contains("interrupted"),
        "{}",
        text(&next)
    );
    assert_eq!(fs::read_dir(store.path().join("work")).unwrap().count(), 0);
}

#[test]
fn a_registry_that_does_not_answer_is_named() {
    if !is_root() {
        return skipped();
    }
    let (images, store) = (images(), tempfile::tempdir().unwrap());
    let output = build(images.path(), store.path(), &["server"]).output().unwrap();
    let said = text(&output);
    assert!(!output.status.success());
    assert!(
        said.contains("a package registry cannot be used") && said.contains("127.0.0.1"),
        "{said}"
    );
}

#[test]
fn a_full_disk_is_named_and_leaves_nothing() {
    if !is_root() {
        return skipped();
    }
    let (images, store) = (images(), tempfile::tempdir().unwrap());
    let big = images.path().join("big");
    // Not compressible, larger than the disk.
    let mut noise = vec![0; 16 << 20];
    fs::File::open("/dev/urandom")
        .unwrap()
        .read_exact(&mut noise)
        .unwrap();
    fs::File::create(&big).unwrap().write_all(&noise).unwrap();
    let small_disk = |arguments: &str| {
        let script = format!(
            "mount -t tmpfs -o size=8m tmpfs {store} && {program} build {arguments} --images-dir {images} --store {store}; \
             code=$?; ls {store}/layers {store}/trees | grep -c .; exit $code",
            store = store.path().display(),
            program = program().display(),
            images = images.path().display(),
        );
        Command::new("unshare")
            .args(["--mount", "sh", "-c", &script])
            .output()
            .unwrap()
    };
    let output = small_disk(&format!("big --input big={}", big.display()));
    let said = text(&output);
    assert!(
        !output.status.success() && said.contains("no space left on"),
        "{said}"
    );
    // Only the two headings of ls.
    assert!(
        said.lines().any(|line| line == "2"),
        "something half-made was kept: {said}"
    );
    let said = text(&small_disk("server"));
    assert!(
        said.contains("no space left on") && said.contains("a build wants"),
        "{said}"
    );
}

#[test]
fn without_privilege_the_way_out_is_named() {
    if !is_root() {
        return skipped();
    }
    let (images, store) = (images(), tempfile::tempdir().unwrap());
    // Where anybody may read and write.
    let open = tempfile::Builder::new()
        .permissions(PermissionsExt::from_mode(0o777))
        .tempdir()
        .unwrap();
    let copy = open.path().join("image");
    fs::copy(program(), &copy).unwrap();
    for path in [images.path(), store.path()] {
        fs::set_permissions(path, PermissionsExt::from_mode(0o777)).unwrap();
    }
    let output = Command::new("setpriv")
        .args(["--reuid=65534", "--regid=65534", "--clear-groups"])
        .arg(&copy)
        .args(["build", "note", "--images-dir"])
        .arg(images.path())
        .arg("--store")
        .arg(store.path().join("own"))
        .output()
        .unwrap();
    let said = text(&output);
    assert!(
        !output.status.success() && said.contains("run it with sudo"),
        "{said}"
    );
    // Root in a container often lacks this one.
    let output = Command::new("setpriv")
        .args(["--bounding-set=-sys_admin", "--inh-caps=-sys_admin"])
        .arg(program())
        .args(["build", "note", "--images-dir"])
        .arg(images.path())
        .arg("--store")
        .arg(store.path().join("root"))
        .output()
        .unwrap();
    let said = text(&output);
    assert!(
        !output.status.success() && said.contains("CAP_SYS_ADMIN"),
        "{said}"
    );
}

#[test]
fn bad_data_is_named_with_file_and_line() {
    let (images, store) = (images(), tempfile::tempdir().unwrap());
    let bad = [
        (
            "recipes/odd.yaml",
            "description: d\nbase: base\nbasis: x\n",
            "recipes/odd.yaml:3: ",
        ),
        (
            "recipes/odd.yaml",
            "description: d\nbase: bass\n",
            "recipes/odd.yaml:2: base `bass` does not exist",
        ),
        (
            "recipes/odd.yaml",
            "description: d\nbase: odd\n",
            "recipes/odd.yaml:2: the bases form a cycle: odd → odd",
        ),
        (
            "overrides/2025.2/constraints.txt",
            "six>1\n",
            "overrides/2025.2/constraints.txt:1: ",
        ),
    ];
    for (file, content, wanted) in bad {
        let path = images.path().join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, content).unwrap();
        let output = build(images.path(), store.path(), &["note"]).output().unwrap();
        assert!(
            !output.status.success() && text(&output).contains(wanted),
            "{}",
            text(&output)
        );
        fs::remove_file(&path).unwrap();
    }
}

/// What must be in no layer: the machine's name service, names, keys and settings.
fn secrets_of_the_machine() -> Vec<(String, String)> {
    let mut found = vec![("a proxy setting".to_owned(), "marker.c5c3.invalid".to_owned())];
    for file in [
        "/etc/machine-id",
        "/etc/resolv.conf",
        "/etc/ssh/ssh_host_ed25519_key",
    ] {
        if let Ok(content) = fs::read_to_string(file)
            && content.len() > 16
        {
            found.push((file.to_owned(), content.trim().to_owned()));
        }
    }
    // Certificates that somebody added to the machine: a line from the middle of each.
    for entry in fs::read_dir("/usr/local/share/ca-certificates")
        .into_iter()
        .flatten()
        .flatten()
    {
        let lines = fs::read_to_string(entry.path()).unwrap_or_default();
        if let Some(line) = lines.lines().nth(5).filter(|line| line.len() > 40) {
            found.push((entry.path().display().to_string(), line.to_owned()));
        }
    }
    found
}

fn scan(store: &Path) {
    let secrets = secrets_of_the_machine();
    let mut layers = 0;
    for entry in fs::read_dir(store.join("layers")).unwrap().flatten() {
        let record: serde_json::Value = serde_json::from_slice(&fs::read(entry.path()).unwrap()).unwrap();
        let digest = record["digest"].as_str().unwrap().trim_start_matches("sha256:");
        let file = fs::File::open(store.join("blobs/sha256").join(digest)).unwrap();
        let mut archive = tar::Archive::new(zstd::Decoder::new(file).unwrap());
        layers += 1;
        for entry in archive.entries().unwrap() {
            let mut entry = entry.unwrap();
            let path = entry.path().unwrap().display().to_string();
            let mut content = Vec::new();
            entry.read_to_end(&mut content).unwrap();
            let place = format!("layer {}: {path}", record["recipe"]);
            for unwanted in [
                "machine-id",
                ".erlang.cookie",
                "ssh_host_",
                "run/c5c3",
                ".bash_history",
                "etc/hostname",
            ] {
                assert!(!path.contains(unwanted) || content.is_empty(), "{place}");
            }
            if path == "etc/hosts" {
                let own =
                    |line: &str| line.starts_with("127.0.0.1 localhost") || line.starts_with("::1 localhost");
                assert!(
                    String::from_utf8_lossy(&content).lines().all(own),
                    "{place} names a machine"
                );
            }
            if path == "etc/resolv.conf" {
                assert!(content.is_empty(), "{place} is not empty");
            }
            let content = String::from_utf8_lossy(&content);
            for (name, secret) in &secrets {
                assert!(!content.contains(secret.as_str()), "{place} holds {name}");
            }
        }
    }
    assert!(layers > 0);
}

fn real(store: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(program());
    command
        .args(arguments)
        .arg("--store")
        .arg(store)
        .env("no_proxy", "marker.c5c3.invalid");
    command.output().unwrap()
}

/// From empty caches, twice: the same digests, nothing of the machine in them, and they run.
#[test]
#[ignore = "builds real images: needs root, mmdebstrap, runc, a package archive and some minutes"]
fn real_images_are_reproducible_clean_and_run_unprivileged() {
    let (one, two) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let names = ["build", "keystone", "memcached"];
    for store in [&one, &two] {
        let output = real(store.path(), &names);
        assert!(output.status.success(), "{}", text(&output));
    }
    // Of Python 3.13's bytecode one file in thousands may differ: which constants are shared is decided
    // while it is compiled. Everything else is the same to the last bit.
    let digest = |store: &TempDir| {
        let index = fs::read_to_string(store.path().join("index.json")).unwrap();
        let index: serde_json::Value = serde_json::from_str(&index).unwrap();
        let name = "org.opencontainers.image.ref.name";
        let all = index["manifests"].as_array().unwrap().clone();
        let found = all.into_iter().find(|one| {
            let name = one["annotations"][name].as_str().unwrap_or_default();
            name.contains("/memcached:")
        });
        found.unwrap()["digest"].clone()
    };
    assert_eq!(digest(&one), digest(&two), "the same inputs gave other digests");
    scan(one.path());
    let checked = real(one.path(), &["check", "keystone", "memcached"]);
    assert!(checked.status.success(), "{}", text(&checked));
    let again = real(one.path(), &["build", "keystone", "memcached", "-o", "json"]);
    assert!(again.status.success(), "{}", text(&again));
    assert!(text(&again).contains("\"made\": false"), "{}", text(&again));
    assert!(!text(&again).contains("\"made\": true"), "{}", text(&again));
}

/// A patch and an override on the real keystone: one that fits, one that does not.
#[test]
#[ignore = "builds real images: needs root, mmdebstrap, runc, a package archive and some minutes"]
fn patches_and_overrides_change_the_real_service() {
    let images = tempfile::tempdir().unwrap();
    let repository = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
    for folder in ["files", "recipes", "releases"] {
        symlink(repository.join(folder), images.path().join(folder)).unwrap();
    }
    let patches = images.path().join("patches/keystone/2025.2");
    fs::create_dir_all(&patches).unwrap();
    let overrides = images.path().join("overrides/2025.2");
    fs::create_dir_all(&overrides).unwrap();
    fs::write(overrides.join("constraints.txt"), "statsd===4.0.0\n").unwrap();
    let patch = |wanted: &str| {
        format!(
            "--- a/keystone/version.py\n+++ b/keystone/version.py\n@@ -12,4 +12,4 @@\n \n \n {wanted}\n\
             -    return 'v3.14'\n+    return 'v3.14'  # patched\n"
        )
    };
    let store = tempfile::tempdir().unwrap();
    let directory = images.path().display().to_string();
    let run = |arguments: &[&str]| real(store.path(), &[arguments, &["--images-dir", &directory]].concat());

    fs::write(patches.join("0001-version.patch"), patch("def something_else():")).unwrap();
    let refused = run(&["build", "keystone"]);
    let said = text(&refused);
    assert!(!refused.status.success(), "{said}");
    assert!(
        said.contains("patch keystone/2025.2/0001-version.patch, hunk 1"),
        "{said}"
    );

    fs::write(patches.join("0001-version.patch"), patch("def release_string():")).unwrap();
    let built = run(&["build", "keystone"]);
    let said = text(&built);
    assert!(
        built.status.success() && said.contains("keystone:28.1.0-p1"),
        "{said}"
    );
    let inspected = text(&run(&["inspect", "keystone", "-o", "json"]));
    assert!(
        inspected.contains("\"statsd\": \"4.0.0\"") && inspected.contains("0001-version.patch"),
        "{inspected}"
    );
    let checked = run(&["check", "keystone"]);
    assert!(checked.status.success(), "{}", text(&checked));
}

#[path = "../../../fuzz/targets/builder.rs"]
mod fuzzed;

#[path = "../../../fuzz/seeds.rs"]
mod seeds;

/// The seeds of the fuzz target, as an ordinary test.
#[test]
fn nothing_outside_a_layer_changes() {
    seeds::run("layers", fuzzed::layers);
}
