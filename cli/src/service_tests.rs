//! Adding a service goes as CONTRIBUTING says, and no service lacks a part.

use std::path::{Path, PathBuf};

use c5c3_api::services::SERVICES;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

fn read(path: &str) -> String {
    std::fs::read_to_string(root().join(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

#[test]
fn every_service_is_whole() {
    let mut missing = Vec::new();
    for service in SERVICES.iter().filter(|service| service.served) {
        let name = service.name;
        let mut need = |there: bool, what: String| {
            if !there {
                missing.push(what);
            }
        };
        let is_there = |path: &str| root().join(path).exists();
        let shape = format!("operators/services/src/kinds/{name}");
        need(
            is_there(&format!("{shape}.rs")) || is_there(&format!("{shape}/mod.rs")),
            format!("the shape: {shape}.rs"),
        );
        let samples = format!("deploy/samples/{}", service.group);
        need(is_there(&samples), format!("samples: {samples}"));
        for image in [service.image()].iter().chain(service.images) {
            let recipe = format!("images/recipes/{image}.yaml");
            need(is_there(&recipe), format!("the recipe: {recipe}"));
        }
        // A role of this program has the program's version and no options.
        let releases = c5c3_catalogue::releases();
        for release in releases.iter().filter(|_| service.image() == name) {
            let references = format!("images/releases/{release}/source-refs.yaml");
            let line = format!("{name}: ");
            need(
                read(&references).lines().any(|found| found.starts_with(&line)),
                format!("its version: {references}"),
            );
            let options = format!("images/releases/{release}/options/{name}.json");
            // What judges a cloud is configured by what it finds there.
            need(
                service.judges || is_there(&options),
                format!("its options: {options}"),
            );
        }
        let roles = "deploy/rbac/operators.yaml";
        need(
            read(roles).contains(service.group),
            format!("its role: {roles} (make docs)"),
        );
    }
    assert_eq!(missing, Vec::<String>::new());
}

#[test]
fn contributing_names_places_that_are_there() {
    let text = read("CONTRIBUTING.md");
    let section = text
        .split("\n## ")
        .find(|section| section.starts_with("Add an OpenStack service"))
        .expect("the section");
    let quoted: Vec<&str> = section.split('`').skip(1).step_by(2).collect();
    let paths: Vec<&str> = quoted
        .iter()
        .copied()
        .filter(|quoted| quoted.contains('/') && !quoted.contains([' ', '<']))
        .collect();
    assert!(paths.len() >= 4, "{paths:?}");
    for path in paths {
        assert!(root().join(path).exists(), "{path}");
    }
    for (name, file) in [
        ("SERVICES", "api/src/services.rs"),
        ("each_service", "api/src/services.rs"),
        ("fn shape", "operators/services/src/shape/mod.rs"),
        ("own_fields", "operators/control-plane/src/plan/catalogue.rs"),
        ("fn every_service_is_whole", "cli/src/service_tests.rs"),
    ] {
        assert!(read(file).contains(name), "{name} in {file}");
    }
}
