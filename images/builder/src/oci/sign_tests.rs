use std::fs;
use std::io::Write as _;
use std::process::Command;

use super::*;
use crate::oci::key;
use crate::oci::registry::testing::image;

fn pair(directory: &std::path::Path, name: &str) -> (PrivateKey, PublicKey) {
    let private = directory.join(name);
    let public = key::make(&private).unwrap();
    (
        PrivateKey::read(&private).unwrap(),
        PublicKey::read(&public).unwrap(),
    )
}

/// An image with a bill of materials.
fn with_bill(store: &Store) -> Descriptor {
    let image = image(store);
    let bill = store.put(sbom::BILL, br#"{"bomFormat":"CycloneDX"}"#).unwrap();
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: Some(sbom::BILL.into()),
        config: store.put(CONFIG, b"{}").unwrap(),
        layers: vec![bill],
        subject: Some(image.clone()),
    };
    let bill = store.refer(&manifest).unwrap();
    store.update_index(|index| index.enter(vec![bill])).unwrap();
    image
}

#[test]
fn only_what_the_key_signed_is_verified() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let image = with_bill(&store);
    let (mine, my_public) = pair(directory.path(), "mine.key");
    let (_, other_public) = pair(directory.path(), "other.key");
    let error = verify(&store, &image, &my_public).unwrap_err().to_string();
    assert!(error.contains("did not sign it"), "{error}");

    sign(&store, &image, &mine).unwrap();
    verify(&store, &image, &my_public).unwrap();
    assert!(verify(&store, &image, &other_public).is_err());

    // Signed again: nothing piles up.
    let before = store.index().unwrap().manifests.len();
    sign(&store, &image, &mine).unwrap();
    assert_eq!(store.index().unwrap().manifests.len(), before);
}

#[test]
fn a_signature_of_another_image_does_not_count() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let image = with_bill(&store);
    let (mine, public) = pair(directory.path(), "mine.key");
    sign(&store, &image, &mine).unwrap();
    let about = store.index().unwrap().manifests;
    let other = format!("sha256:{}", "0".repeat(64));
    assert!(is_signed(&store, &image.digest, &about, &public).unwrap());
    assert!(!is_signed(&store, &other, &about, &public).unwrap());
}

#[test]
fn a_changed_bill_of_materials_is_noticed() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(&directory.path().join("store")).unwrap();
    let image = with_bill(&store);
    let (mine, public) = pair(directory.path(), "mine.key");
    sign(&store, &image, &mine).unwrap();
    let forged = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: Some(sbom::BILL.into()),
        config: store.put(CONFIG, b"{}").unwrap(),
        layers: vec![
            store
                .put(sbom::BILL, br#"{"bomFormat":"CycloneDX","x":1}"#)
                .unwrap(),
        ],
        subject: Some(image.clone()),
    };
    let forged = store.refer(&forged).unwrap();
    store.update_index(|index| index.enter(vec![forged])).unwrap();
    let error = verify(&store, &image, &public).unwrap_err().to_string();
    assert!(error.contains("not the one that was signed"), "{error}");
}

#[test]
fn openssl_verifies_what_is_signed_and_reads_the_keys() {
    let directory = tempfile::tempdir().unwrap();
    let (mine, _) = pair(directory.path(), "mine.key");
    let path = |name: &str| directory.path().join(name);
    fs::write(path("message"), "hello").unwrap();
    fs::write(path("signature"), mine.sign(b"hello").unwrap()).unwrap();
    let output = Command::new("openssl")
        .args(["dgst", "-sha256", "-verify"])
        .arg(path("mine.pub"))
        .arg("-signature")
        .args([path("signature"), path("message")])
        .output();
    let Ok(output) = output else {
        let _ = writeln!(std::io::stderr(), "skipped: openssl is not installed");
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(said.contains("Verified OK"), "{said}");
}

#[test]
fn keys_are_never_replaced_and_private_ones_are_for_their_owner() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let private = directory.path().join("mine.key");
    key::make(&private).unwrap();
    let mode = fs::metadata(&private).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let error = key::make(&private).unwrap_err().to_string();
    assert!(error.contains("already exists"), "{error}");
    fs::write(
        directory.path().join("bad.pub"),
        "-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n",
    )
    .unwrap();
    let error = PublicKey::read(&directory.path().join("bad.pub"))
        .err()
        .unwrap()
        .to_string();
    assert!(error.contains("c5c3 image key"), "{error}");
}
