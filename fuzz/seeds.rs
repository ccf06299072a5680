// Runs the seeds of a fuzz target as an ordinary test. Crates include this file by its path.

pub(crate) fn run(target: &str, check: fn(&[u8])) {
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
