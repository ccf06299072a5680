//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../../fuzz/targets/images.rs"]
mod targets;

#[path = "../../../../fuzz/seeds.rs"]
mod seeds;

#[test]
fn layouts_of_any_content_are_read_or_refused() {
    seeds::run("oci", targets::oci);
}
