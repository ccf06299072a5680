//! Whether a node is wanted on or off: a mark in the state directory, so that a node that
//! was switched off stays off over restarts.

use std::path::PathBuf;

use embedded_node::error::{Error, Result};
use embedded_node::layout::NodeLayout;

fn mark(node: &NodeLayout) -> PathBuf {
    node.data.with_extension("off")
}

pub(crate) fn is_off(node: &NodeLayout) -> bool {
    mark(node).exists()
}

pub(crate) fn set_off(node: &NodeLayout) -> Result<()> {
    let mark = mark(node);
    if let Some(parent) = mark.parent() {
        std::fs::create_dir_all(parent).map_err(Error::file("make directory", parent))?;
    }
    std::fs::write(&mark, "").map_err(Error::file("write", &mark))
}

pub(crate) fn set_on(node: &NodeLayout) -> Result<()> {
    let mark = mark(node);
    match std::fs::remove_file(&mark) {
        Err(e) if e.kind() != std::io::ErrorKind::NotFound => Err(Error::file("remove", mark)(e)),
        _ => Ok(()),
    }
}
