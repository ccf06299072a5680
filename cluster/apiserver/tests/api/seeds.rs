//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../../fuzz/targets/apiserver.rs"]
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
fn bodies_are_objects_or_errors() {
    run("bodies", targets::bodies);
}

#[test]
fn frames_do_not_depend_on_how_they_arrive() {
    run("spdy", targets::spdy);
}

#[test]
fn messages_of_text_are_a_channel_and_bytes() {
    run("websocket", targets::websocket);
}
