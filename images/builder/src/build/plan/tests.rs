use super::*;
use crate::sources::data::Data;
use crate::sources::release::tests::HEAD;

const FILES: &[(&str, &str)] = &[
    (
        "recipes/base.yaml",
        "description: d\nbootstrap: {variant: minbase}\n",
    ),
    (
        "recipes/common.yaml",
        "description: d\nbase: base\npython: {set: common, environment: /venv}\nusers: [{name: u, id: 4000, home: /}]\n",
    ),
    (
        "recipes/svc.yaml",
        "description: d\nbase: common\npython: {set: svc, package: openstack-svc}\nimage: {user: u, version: [v]}\n",
    ),
    (
        "recipes/db.yaml",
        "description: d\nbase: base\nusers: [{name: m, id: 5000, home: /}]\ndebian: {packages: [mariadb-server], main: mariadb-server}\nimage: {user: m, version: [v]}\n",
    ),
    (
        "recipes/tool.yaml",
        "description: d\nfiles: [{path: /t, input: t, mode: '0755'}]\nimage: {user: '7:7', version: [v]}\n",
    ),
    ("releases/R/release.yaml", HEAD),
    ("releases/R/source-refs.yaml", "{svc: '1.0', db: '10.11'}"),
    ("releases/R/pins.txt", "six==1\nlib==2\nopenstack-svc==1.0\n"),
    (
        "releases/R/sets.yaml",
        "{common: [six], svc: [six, lib, openstack-svc]}",
    ),
];
const DIFF: &str = "--- a/k/a.py\n+++ b/k/a.py\n@@ -1 +1 @@\n-a\n+b\n";

fn plan_of(extra: &[(&str, &str)], names: &[&str], given: &Given) -> Result<Plan> {
    let mut files: BTreeMap<&str, &str> = FILES.iter().copied().collect();
    files.extend(extra.iter().copied());
    let data = Data::from_files(files);
    let names: Vec<String> = names.iter().map(|name| (*name).to_owned()).collect();
    Plan::make(&Request {
        recipes: &Recipes::load(&data)?,
        release: &ReleaseData::load(&data, "R")?,
        names: &names,
        given,
        architecture: "x86_64",
        own_version: "0.1.0",
    })
}

fn plan(extra: &[(&str, &str)]) -> Plan {
    plan_of(extra, &[], &Given::new()).unwrap()
}

fn keys(plan: &Plan) -> BTreeMap<&str, &str> {
    plan.layers
        .iter()
        .map(|layer| (layer.recipe.as_str(), layer.key.as_str()))
        .collect()
}

/// The recipes whose layer differs between two plans.
fn changed(extra: &[(&str, &str)]) -> Vec<String> {
    let (before, after) = (plan(&[]), plan(extra));
    let (before, after) = (keys(&before), keys(&after));
    before
        .iter()
        .filter(|(name, key)| after.get(*name) != Some(key))
        .map(|(name, _)| (*name).to_owned())
        .collect()
}

#[test]
fn layers_are_shared_and_installed_once() {
    let plan = plan(&[]);
    assert_eq!(
        plan.layers.iter().filter(|layer| layer.recipe == "base").count(),
        1
    );
    let service = plan.layers.iter().find(|layer| layer.recipe == "svc").unwrap();
    let python = service.inputs.python.as_ref().unwrap();
    assert_eq!(python.requirements, ["lib==2", "openstack-svc==1.0"]);
    assert!(!python.create && python.environment == "/venv");
    let image = plan.images.iter().find(|image| image.recipe == "svc").unwrap();
    assert_eq!(
        (image.references.as_slice(), image.user),
        (&["ghcr.io/c5c3/svc:1.0".to_owned()][..], Some((4000, 4000)))
    );
}

#[test]
fn a_change_rebuilds_what_depends_on_it_and_nothing_else() {
    assert_eq!(changed(&[]), [""; 0]);
    assert_eq!(changed(&[("overrides/R/constraints.txt", "lib===3\n")]), ["svc"]);
    assert_eq!(
        changed(&[("overrides/R/constraints.txt", "-six\n")]),
        ["common", "svc"]
    );
    assert_eq!(
        changed(&[("patches/six/R/0001-a.patch", DIFF)]),
        ["common", "svc"]
    );
    assert_eq!(changed(&[("patches/svc/R/0001-a.patch", DIFF)]), ["svc"]);
    assert_eq!(changed(&[("releases/R/debian.yaml", "db: {x: '1'}")]), ["db"]);
    assert_eq!(
        changed(&[("releases/R/extra-packages.yaml", "debian: {db: [rsync]}")]),
        ["db"]
    );
    let described = "description: other\nbootstrap: {variant: minbase}\n";
    assert_eq!(changed(&[("recipes/base.yaml", described)]), [""; 0]);
    let variant = "description: d\nbootstrap: {variant: apt}\n";
    assert_eq!(
        changed(&[("recipes/base.yaml", variant)]),
        ["base", "common", "db", "svc"]
    );
}

#[test]
fn a_first_layer_may_name_another_suite_for_all_above_it() {
    let suite = |plan: &Plan, recipe: &str| {
        let layer = plan.layers.iter().find(|layer| layer.recipe == recipe).unwrap();
        layer.inputs.debian.as_ref().map(|debian| debian.suite.clone())
    };
    assert_eq!(suite(&plan(&[]), "db").as_deref(), Some("bookworm"));
    let other = plan(&[(
        "recipes/base.yaml",
        "description: d\nbootstrap: {variant: minbase, suite: sid}\n",
    )]);
    assert_eq!(suite(&other, "db").as_deref(), Some("sid"));
    assert_eq!(
        other.layers[0].inputs.bootstrap,
        Some(("minbase".to_owned(), "sid".to_owned()))
    );
}

#[test]
fn a_patched_image_has_a_tag_with_the_count() {
    let plan = plan(&[
        ("patches/six/R/0001-a.patch", DIFF),
        ("patches/svc/R/0001-b.patch", DIFF),
    ]);
    let image = plan.images.iter().find(|image| image.recipe == "svc").unwrap();
    assert_eq!(
        image.references,
        ["ghcr.io/c5c3/svc:1.0", "ghcr.io/c5c3/svc:1.0-p2"]
    );
    let database = plan.images.iter().find(|image| image.recipe == "db").unwrap();
    assert_eq!(database.references, ["ghcr.io/c5c3/db:10.11"]);
}

#[test]
fn what_is_missing_is_said() {
    for (names, extra, part) in [
        (&["svv"][..], &[][..], "no recipe `svv`; did you mean `svc`?"),
        (
            &["tool"],
            &[("releases/R/source-refs.yaml", "tool: '1'")],
            "give --input t=PATH",
        ),
        (&["tool"], &[], "add it to releases/R/source-refs.yaml"),
        (
            &["svc"],
            &[("releases/R/sets.yaml", "{}")],
            "run `c5c3 image lock R`",
        ),
    ] {
        let error = plan_of(extra, names, &Given::new()).unwrap_err().to_string();
        assert!(error.contains(part), "{error}");
    }
}

#[test]
fn a_given_file_is_part_of_the_key() {
    let refs = [("releases/R/source-refs.yaml", "tool: '1'")];
    let with = |digest: &str| {
        let given = Given::from([("t".to_owned(), ("/bin/t".into(), digest.to_owned()))]);
        plan_of(&refs, &["tool"], &given).unwrap().layers[0].key.clone()
    };
    assert_ne!(with("aa"), with("bb"));
    assert_eq!(with("aa"), with("aa"));
}

#[test]
fn a_build_of_everything_passes_over_what_nobody_gave() {
    let refs = [("releases/R/source-refs.yaml", "{svc: '1', tool: '1'}")];
    let plan = plan_of(&refs, &[], &Given::new()).unwrap();
    assert_eq!(
        plan.images
            .iter()
            .map(|image| image.recipe.as_str())
            .collect::<Vec<_>>(),
        ["svc"]
    );
}
