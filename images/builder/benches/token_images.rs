//! The images that a token needs, from empty caches; beside it the second run, which has nothing to do.
//!
//! `cargo bench -p c5c3-image-builder`: needs root, mmdebstrap and a package archive.

use std::time::Instant;

use c5c3_image_builder::ImageCommand;
use clap::Parser;

#[derive(Parser)]
struct Program {
    #[command(flatten)]
    command: ImageCommand,
}

/// The first image alone would be of no use: a token takes all three.
const IMAGES: [&str; 3] = ["mariadb", "memcached", "keystone"];

fn main() {
    // `cargo test --benches` only wants to know that it starts.
    if !std::env::args().any(|argument| argument == "--bench") {
        return;
    }
    if !nix::unistd::geteuid().is_root() {
        println!("token images: left out, building images needs root");
        return;
    }
    let store = match tempfile::tempdir() {
        Ok(store) => store,
        Err(error) => return println!("token images: left out: {error}"),
    };
    let path = store.path().display().to_string();
    for what in ["from empty caches", "again, nothing to do"] {
        println!("token images {what}");
        let arguments = [&["image", "build", "--store", &path][..], &IMAGES].concat();
        let begin = Instant::now();
        match Program::parse_from(arguments).command.run() {
            Ok(()) => println!("token images {what}: {:.2} s\n", begin.elapsed().as_secs_f64()),
            Err(error) => return println!("token images {what}: {error}"),
        }
    }
}
