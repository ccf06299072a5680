//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../../fuzz/targets/services.rs"]
mod targets;

#[path = "../../../../fuzz/seeds.rs"]
mod runner;

#[test]
fn a_value_stays_in_its_option() {
    runner::run("ini", targets::ini);
}
