use super::super::push;
use super::super::testing::{image, registry};
use super::*;
use crate::oci::key::{self, PrivateKey};

fn wanted<'a>(key: Option<&'a PublicKey>) -> Wanted<'a> {
    Wanted {
        reference: "r.example/c5c3/one:1",
        release: "2025.2",
        key,
    }
}

#[test]
fn what_was_pushed_is_pulled_with_what_is_about_it() {
    let directory = tempfile::tempdir().unwrap();
    let here = Store::open(&directory.path().join("here")).unwrap();
    let there = Store::open(&directory.path().join("there")).unwrap();
    let sent = image(&here);
    let (host, _kept) = registry();
    let place = Repository::parse("--to", &format!("{host}/mine")).unwrap();
    push::push(&here, &sent, &place, None).unwrap();
    for _ in 0..2 {
        let got = pull(&there, &wanted(None), &place, None).unwrap();
        assert_eq!((got.digest, got.size), (sent.digest.clone(), sent.size));
    }
    assert_eq!(there.find("one").unwrap().digest, sent.digest);
    let about = there.index().unwrap().manifests;
    let about = about.iter().filter(|known| known.subject() == Some(&sent.digest));
    assert_eq!(about.count(), 1, "its bill came along, once");
    let manifest: Manifest = there.read(&sent.digest).unwrap();
    assert_eq!(
        fs::read(there.blob(&manifest.layers[0].digest)).unwrap(),
        b"layer"
    );
}

#[test]
fn a_blob_that_is_not_what_it_says_is_refused_and_nothing_is_entered() {
    let directory = tempfile::tempdir().unwrap();
    let here = Store::open(&directory.path().join("here")).unwrap();
    let there = Store::open(&directory.path().join("there")).unwrap();
    let (host, kept) = registry();
    let place = Repository::parse("--to", &format!("{host}/mine")).unwrap();
    push::push(&here, &image(&here), &place, None).unwrap();
    for blob in kept.lock().unwrap().blobs.values_mut() {
        *blob = b"evil".to_vec();
    }
    let error = pull(&there, &wanted(None), &place, None).unwrap_err().to_string();
    assert!(error.contains("has the digest sha256:"), "{error}");
    assert!(there.index().unwrap().manifests.is_empty());
}

#[test]
fn with_a_key_only_what_it_signed_is_taken() {
    let directory = tempfile::tempdir().unwrap();
    let here = Store::open(&directory.path().join("here")).unwrap();
    let there = Store::open(&directory.path().join("there")).unwrap();
    let private = directory.path().join("mine.key");
    let public = PublicKey::read(&key::make(&private).unwrap()).unwrap();
    let private = PrivateKey::read(&private).unwrap();
    let (host, kept) = registry();
    let place = Repository::parse("--to", &format!("{host}/mine")).unwrap();
    let sent = image(&here);
    push::push(&here, &sent, &place, None).unwrap();
    let error = pull(&there, &wanted(Some(&public)), &place, None)
        .unwrap_err()
        .to_string();
    assert!(error.contains("has no signature of this key"), "{error}");
    assert!(there.index().unwrap().manifests.is_empty());

    sign::sign(&here, &sent, &private).unwrap();
    push::push(&here, &sent, &place, None).unwrap();
    pull(&there, &wanted(Some(&public)), &place, None).unwrap();
    let tag = format!("manifests/{}.sig", fallback(&sent.digest));
    assert!(
        kept.lock().unwrap().manifests.contains_key(&tag),
        "cosign finds it"
    );
}
