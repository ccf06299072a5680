//! The seeds of the fuzz targets (`fuzz/`), as ordinary tests.

#[path = "../../../../fuzz/targets/apiserver.rs"]
mod targets;

#[path = "../../../../fuzz/seeds.rs"]
mod runner;

#[test]
fn bodies_are_objects_or_errors() {
    runner::run("bodies", targets::bodies);
}

#[test]
fn frames_do_not_depend_on_how_they_arrive() {
    runner::run("spdy", targets::spdy);
}

#[test]
fn messages_of_text_are_a_channel_and_bytes() {
    runner::run("websocket", targets::websocket);
}
