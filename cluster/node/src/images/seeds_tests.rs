//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../../fuzz/targets/images.rs"]
mod targets;

#[path = "../../../../fuzz/seeds.rs"]
mod runner;

#[test]
fn layouts_of_any_content_are_read_or_refused() {
    runner::run("oci", targets::oci);
}
