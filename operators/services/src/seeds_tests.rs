//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../fuzz/targets/services.rs"]
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
fn a_value_stays_in_its_option() {
    run("ini", targets::ini);
}
