//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../fuzz/targets/apimachinery.rs"]
mod targets;

fn run(target: &str, check: fn(&[u8])) {
    let directory = format!("{}/../../fuzz/seeds/{target}", env!("CARGO_MANIFEST_DIR"));
    let mut seeds = 0;
    for seed in std::fs::read_dir(&directory).expect("seeds") {
        let path = seed.expect("a seed").path();
        println!("{}", path.display());
        check(&std::fs::read(path).expect("read"));
        seeds += 1;
    }
    assert!(seeds > 0, "{directory} is empty");
}

#[test]
fn patches_end_in_an_object_or_an_error() {
    run("patches", targets::patches);
}

#[test]
fn expressions_run_or_are_refused() {
    run("cel", targets::cel);
}

#[test]
fn selectors_mean_the_same_when_they_are_read_again() {
    run("selectors", targets::selectors);
}

#[test]
fn quantities_mean_the_same_when_they_are_read_again() {
    run("quantities", targets::quantities);
}
