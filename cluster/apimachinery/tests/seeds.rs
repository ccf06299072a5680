//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../fuzz/targets/apimachinery.rs"]
mod targets;

#[path = "../../../fuzz/seeds.rs"]
mod runner;

#[test]
fn patches_end_in_an_object_or_an_error() {
    runner::run("patches", targets::patches);
}

#[test]
fn expressions_run_or_are_refused() {
    runner::run("cel", targets::cel);
}

#[test]
fn selectors_mean_the_same_when_they_are_read_again() {
    runner::run("selectors", targets::selectors);
}

#[test]
fn quantities_mean_the_same_when_they_are_read_again() {
    runner::run("quantities", targets::quantities);
}

#[test]
fn strategic_patches_end_in_an_object_or_an_error() {
    runner::run("strategic", targets::strategic);
}

#[test]
fn what_was_applied_can_be_applied_again() {
    runner::run("apply", targets::apply);
}
