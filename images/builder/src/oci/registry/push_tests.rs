use super::super::testing::{image, registry};
use super::*;

#[test]
fn an_image_goes_with_what_is_about_it_and_nothing_is_sent_twice() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let image = image(&store);
    let (host, kept) = registry();
    let target = Repository::parse("--to", &format!("{host}/mine")).unwrap();
    for _ in 0..2 {
        let there = push(&store, &image, &target, None).unwrap();
        assert_eq!(there, format!("{host}/mine/one:1"));
    }
    let kept = kept.lock().unwrap();
    // Layer, configuration, empty configuration, bill.
    assert_eq!((kept.uploads, kept.blobs.len()), (4, 4));
    let text = &kept.manifests["manifests/1"];
    assert_eq!(text, &std::fs::read(store.blob(&image.digest)).unwrap());
    let fallback = format!("manifests/{}", image.digest.replace(':', "-"));
    let index: Value = serde_json::from_slice(&kept.manifests[&fallback]).unwrap();
    assert_eq!(index["manifests"].as_array().unwrap().len(), 1);
    assert_eq!(index["manifests"][0]["artifactType"], "application/x");
    let digest = index["manifests"][0]["digest"].as_str().unwrap();
    assert!(kept.manifests.contains_key(&format!("manifests/{digest}")));
}

#[test]
fn a_refusal_names_the_registry_and_the_way_out() {
    let directory = tempfile::tempdir().unwrap();
    let store = Store::open(directory.path()).unwrap();
    let image = image(&store);
    let (host, _kept) = registry();
    let error = push(&store, &image, &Repository::parse("--to", &host).unwrap(), None).unwrap_err();
    assert!(
        error
            .to_string()
            .contains(&format!("registry {host}, one: POST answered 404")),
        "{error}"
    );
}
