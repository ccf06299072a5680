use super::*;
use crate::oci::key::{self, PrivateKey};
use crate::oci::registry::testing::image;

struct Stores {
    directory: tempfile::TempDir,
    here: Store,
    there: Store,
}

fn stores() -> Stores {
    let directory = tempfile::tempdir().unwrap();
    let here = Store::open(&directory.path().join("here")).unwrap();
    let there = Store::open(&directory.path().join("there")).unwrap();
    Stores {
        directory,
        here,
        there,
    }
}

fn bytes(store: &Store, images: &[Descriptor]) -> Vec<u8> {
    let mut bytes = Vec::new();
    write(store, &with_referrers(store, images).unwrap(), &mut bytes).unwrap();
    bytes
}

#[test]
fn an_archive_carries_images_and_what_is_about_them() {
    let Stores {
        directory,
        here,
        there,
    } = stores();
    let sent = image(&here);
    let file = directory.path().join("all.tar");
    fs::write(&file, bytes(&here, std::slice::from_ref(&sent))).unwrap();
    for _ in 0..2 {
        assert_eq!(read(&there, &file, None).unwrap(), std::slice::from_ref(&sent));
        assert_eq!(there.index().unwrap(), here.index().unwrap());
    }
    let manifest: Manifest = there.read(&sent.digest).unwrap();
    assert_eq!(there.content(&manifest.layers[0].digest).unwrap(), b"layer");
}

/// The archive without the entries whose name begins like this.
fn without(bytes: &[u8], start: &str) -> Vec<u8> {
    let mut rest = Builder::new(Vec::new());
    for entry in Archive::new(bytes).entries().unwrap() {
        let entry = entry.unwrap();
        if !entry.path().unwrap().starts_with(start) {
            rest.append(&entry.header().clone(), entry).unwrap();
        }
    }
    rest.into_inner().unwrap()
}

#[test]
fn an_archive_that_is_altered_or_cut_short_leaves_no_image_behind() {
    let Stores {
        directory,
        here,
        there,
    } = stores();
    let good = bytes(&here, &[image(&here)]);
    let file = directory.path().join("bad.tar");
    let replaced = |from: &[u8], to: &[u8]| {
        let mut bytes = good.clone();
        let at = (0..good.len()).find(|at| good[*at..].starts_with(from)).unwrap();
        bytes[at..at + to.len()].copy_from_slice(to);
        bytes
    };
    for (bad, said) in [
        // Blobs that were taken in stay; so this one has to come first.
        (without(&good, "blobs"), "lacks the blob"),
        (replaced(b"layer", b"laxer"), "has the digest sha256:"),
        (good[..good.len() / 2].to_vec(), ""),
        (without(&good, "index.json"), "no OCI archive"),
        (
            replaced(b"{\"schemaVersion\":2", b"{\"schemaVersion\":x"),
            "cannot be read",
        ),
        (b"not a tar".to_vec(), ""),
    ] {
        fs::write(&file, bad).unwrap();
        let error = read(&there, &file, None).unwrap_err().to_string();
        assert!(error.contains(said), "{error}");
        assert!(there.index().unwrap().manifests.is_empty(), "{error}");
    }
}

#[test]
fn with_a_key_only_what_it_signed_is_taken() {
    let Stores {
        directory,
        here,
        there,
    } = stores();
    let private = directory.path().join("mine.key");
    let public = PublicKey::read(&key::make(&private).unwrap()).unwrap();
    let sent = image(&here);
    let file = directory.path().join("all.tar");
    fs::write(&file, bytes(&here, std::slice::from_ref(&sent))).unwrap();
    let error = read(&there, &file, Some(&public)).unwrap_err().to_string();
    assert!(error.contains("has no signature of this key"), "{error}");
    assert!(there.index().unwrap().manifests.is_empty());
    sign::sign(&here, &sent, &PrivateKey::read(&private).unwrap()).unwrap();
    fs::write(&file, bytes(&here, std::slice::from_ref(&sent))).unwrap();
    assert_eq!(read(&there, &file, Some(&public)).unwrap(), [sent]);
}
