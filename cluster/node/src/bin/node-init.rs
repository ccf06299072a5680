//! The init process of a node, on its own: for tests, and for programs that bring nodes
//! up without the c5c3 binary.

use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    embedded_node::init::main(&args)
}
