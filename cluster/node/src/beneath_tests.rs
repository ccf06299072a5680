use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::sync::atomic::{AtomicBool, Ordering};

use super::*;

/// A volume and something beside it that no container may reach.
fn town() -> (tempfile::TempDir, PathBuf, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let (volume, outside) = (dir.path().join("volume"), dir.path().join("outside"));
    for directory in [&volume, &outside] {
        fs::create_dir(directory).unwrap();
    }
    (dir, volume, outside)
}

fn inode(found: &Found) -> u64 {
    rustix::fs::fstat(&found.0).unwrap().st_ino
}

#[test]
fn a_part_of_a_volume_stays_inside_it() {
    let (_dir, volume, outside) = town();
    symlink(&outside, volume.join("absolute")).unwrap();
    symlink("../outside", volume.join("relative")).unwrap();
    symlink("real", volume.join("inside")).unwrap();
    fs::create_dir(volume.join("real")).unwrap();
    fs::write(volume.join("real/file"), "").unwrap();
    let root = Beneath::of(&volume).unwrap();
    let find = |path: &str| root.find_or_make(Path::new(path), 0o755);
    for path in [
        "absolute",
        "relative",
        "absolute/new",
        "relative/new",
        "../outside",
        "real/..",
        "/etc",
    ] {
        let said = find(path).err().map(|e| e.to_string());
        assert!(said.is_some_and(|e| e.contains("leads out")), "{path}");
    }
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 0);
    let of = |path: &str| fs::metadata(volume.join(path)).unwrap().ino();
    assert_eq!(inode(&find("inside").unwrap()), of("real"));
    assert_eq!(inode(&find("inside/file").unwrap()), of("real/file"));
    let made = find("inside/a/b").unwrap();
    assert_eq!(inode(&made), of("real/a/b"));
    // A link to nowhere becomes nothing.
    symlink("nowhere", volume.join("dangling")).unwrap();
    assert!(find("dangling").is_err() && find("dangling/x").is_err());
}

#[test]
fn a_link_that_is_swapped_in_meanwhile_leads_nowhere() {
    let (_dir, volume, outside) = town();
    fs::create_dir(outside.join("sub")).unwrap();
    fs::create_dir_all(volume.join("way/sub")).unwrap();
    symlink(&outside, volume.join("link")).unwrap();
    let forbidden = fs::metadata(outside.join("sub")).unwrap().ino();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            // What a container does that wants the node to look at one and to use the other.
            while !done.load(Ordering::Relaxed) {
                let (way, link) = (volume.join("way"), volume.join("link"));
                let swap = rustix::fs::RenameFlags::EXCHANGE;
                rustix::fs::renameat_with(rustix::fs::CWD, way, rustix::fs::CWD, link, swap).unwrap();
            }
        });
        let root = Beneath::of(&volume).unwrap();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(30);
        let (mut inside, mut refused, mut out) = (0, 0, 0);
        // Until both states were met often.
        while out == 0 && (inside < 500 || refused < 500) && std::time::Instant::now() < deadline {
            match root.find_or_make(Path::new("way/sub"), 0o755) {
                Ok(found) if inode(&found) == forbidden => out += 1,
                Ok(_) => inside += 1,
                Err(_) => refused += 1,
            }
        }
        // Before anything can fail: the other waits for it.
        done.store(true, Ordering::Relaxed);
        assert_eq!(out, 0, "it led out");
    });
    assert_eq!(fs::read_dir(&outside).unwrap().count(), 1);
}

#[test]
fn a_tree_is_given_and_nothing_that_it_links_to() {
    let (_dir, volume, outside) = town();
    fs::write(outside.join("secret"), "").unwrap();
    fs::set_permissions(outside.join("secret"), fs::Permissions::from_mode(0o600)).unwrap();
    fs::create_dir_all(volume.join("a/b")).unwrap();
    fs::write(volume.join("a/b/file"), "").unwrap();
    symlink(outside.join("secret"), volume.join("a/file-link")).unwrap();
    symlink(&outside, volume.join("a/directory-link")).unwrap();
    nix::unistd::mkfifo(&volume.join("a/pipe"), nix::sys::stat::Mode::S_IRWXU).unwrap();
    let socket = std::os::unix::net::UnixListener::bind(volume.join("a/socket")).unwrap();
    Beneath::of(&volume).unwrap().give(4711).unwrap();
    drop(socket);
    for path in ["", "a", "a/b", "a/b/file", "a/pipe", "a/socket", "a/file-link"] {
        let meta = fs::symlink_metadata(volume.join(path)).unwrap();
        assert_eq!(meta.gid(), 4711, "{path}");
        if meta.is_dir() {
            assert_eq!(meta.mode() & 0o2070, 0o2070, "{path}");
        }
    }
    assert_eq!(
        fs::metadata(volume.join("a/b/file")).unwrap().mode() & 0o060,
        0o060
    );
    let secret = fs::metadata(outside.join("secret")).unwrap();
    assert_eq!((secret.gid(), secret.mode() & 0o777), (0, 0o600));
    assert_eq!(fs::metadata(&outside).unwrap().gid(), 0);
}

#[test]
fn files_are_written_in_place_and_never_through_a_link() {
    let (_dir, volume, outside) = town();
    let secret = outside.join("secret");
    fs::write(&secret, "old").unwrap();
    let root = Beneath::of(&volume).unwrap();
    let at = Path::new("file");
    root.write(at, b"long text", 0o644).unwrap();
    let first = fs::metadata(volume.join(at)).unwrap();
    root.write(at, b"short", 0o600).unwrap();
    let second = fs::metadata(volume.join(at)).unwrap();
    assert_eq!(fs::read_to_string(volume.join(at)).unwrap(), "short");
    assert_eq!((first.ino(), 0o600), (second.ino(), second.mode() & 0o777));
    symlink(&secret, volume.join("link")).unwrap();
    for path in ["link", "../outside/secret", secret.to_str().unwrap()] {
        assert!(root.write(Path::new(path), b"new", 0o644).is_err(), "{path}");
        assert!(root.read(Path::new(path), true).is_err(), "{path}");
    }
    assert_eq!(fs::read_to_string(&secret).unwrap(), "old");
    for name in ["a/b", "..", "", "/etc"] {
        assert!(root.link(Path::new("x"), OsStr::new(name)).is_err(), "{name}");
        assert!(root.unlink(OsStr::new(name)).is_err(), "{name}");
    }
}
