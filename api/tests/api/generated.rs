use c5c3_api::generate;

/// `UPDATE=1` writes the files instead of comparing them.
#[test]
fn files_are_up_to_date() {
    let root = crate::root();
    if std::env::var_os("UPDATE").is_some() {
        generate::write(root).unwrap();
    }
    let stale = generate::stale(root).unwrap();
    assert!(
        stale.is_empty(),
        "run UPDATE=1 cargo test -p c5c3-api\n{}",
        stale.join("\n")
    );
}

#[test]
fn a_change_is_noticed() {
    let root = tempfile::tempdir().unwrap();
    generate::write(root.path()).unwrap();
    assert!(generate::stale(root.path()).unwrap().is_empty());

    let crd = root.path().join("deploy/crds/c5c3.io_controlplanes.yaml");
    let text = std::fs::read_to_string(&crd).unwrap();
    std::fs::write(&crd, text.replace("RegionOne", "RegionTwo")).unwrap();
    std::fs::write(root.path().join("docs/api/old.md"), "").unwrap();
    std::fs::remove_file(root.path().join("docs/api/ovn.c5c3.io.md")).unwrap();
    assert_eq!(
        generate::stale(root.path()).unwrap(),
        [
            "deploy/crds/c5c3.io_controlplanes.yaml differs",
            "docs/api/ovn.c5c3.io.md is missing",
            "docs/api/old.md is left over",
        ]
    );
}
