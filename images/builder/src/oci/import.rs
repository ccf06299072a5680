//! Images out of the store into containerd.

use std::collections::BTreeSet;
use std::io;
use std::path::Path;
use std::process::{Command, Stdio};

use crate::build::sandbox::missing;
use crate::error::{Context, Error, Result};
use crate::oci::archive;
use crate::oci::store::{Descriptor, Store};

/// The images that were named, or all; what is no image must be named.
pub(crate) fn choose(store: &Store, names: &[String]) -> Result<Vec<Descriptor>> {
    if names.is_empty() {
        let index = store.index()?;
        let images = index.named().filter(|image| image.artifact_type.is_none());
        return Ok(images.cloned().collect());
    }
    names.iter().map(|name| store.find(name)).collect()
}

/// A containerd and the namespace in which its images are.
pub(crate) struct Containerd<'a> {
    pub socket: &'a Path,
    pub namespace: &'a str,
}

impl Containerd<'_> {
    fn ctr(&self) -> Command {
        let mut command = Command::new("ctr");
        command
            .arg("--address")
            .arg(self.socket)
            .args(["--namespace", self.namespace, "images"]);
        command
    }

    fn failed(&self, stderr: &[u8]) -> Error {
        let text = String::from_utf8_lossy(stderr);
        Error::Request(format!(
            "containerd at {}: {}",
            self.socket.display(),
            text.trim()
        ))
    }

    /// The images that containerd has under the same name with the same digest.
    fn present(&self) -> Result<BTreeSet<(String, String)>> {
        if !self.socket.exists() {
            return Err(Error::Request(format!(
                "there is no containerd at {}: start it, or name its socket with --socket",
                self.socket.display()
            )));
        }
        let output = self
            .ctr()
            .arg("list")
            .output()
            .map_err(|error| missing("ctr", "containerd", error))?;
        if !output.status.success() {
            return Err(self.failed(&output.stderr));
        }
        Ok(parse_list(&String::from_utf8_lossy(&output.stdout)))
    }

    /// Imports what is not there yet; tells which images that were.
    pub(crate) fn import(&self, store: &Store, images: &[Descriptor]) -> Result<Vec<Descriptor>> {
        let present = self.present()?;
        let has =
            |image: &Descriptor| present.contains(&(image.reference().to_owned(), image.digest.clone()));
        let absent: Vec<Descriptor> = images.iter().filter(|image| !has(image)).cloned().collect();
        if absent.is_empty() {
            return Ok(absent);
        }
        let mut child = self
            .ctr()
            .args(["import", "-"])
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| missing("ctr", "containerd", error))?;
        // ctr says why when it stops reading.
        let written = child.stdin.take().map_or(Ok(()), |stdin| {
            archive::write(store, &absent, io::BufWriter::new(stdin))
        });
        let output = child
            .wait_with_output()
            .context("waiting for", Path::new("ctr"))?;
        if !output.status.success() {
            return Err(self.failed(&output.stderr));
        }
        written.map(|()| absent)
    }
}

/// Name and digest in the output of `ctr images list`.
fn parse_list(text: &str) -> BTreeSet<(String, String)> {
    let row = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.nth(1)?.to_owned()))
    };
    text.lines().skip(1).filter_map(row).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_containerd_is_read() {
        let text = "REF TYPE DIGEST SIZE PLATFORMS LABELS\n\
            ghcr.io/c5c3/valkey:8.0 application/vnd.oci.image.manifest.v1+json sha256:aa 1.2 KiB linux/amd64 -\n";
        assert_eq!(
            parse_list(text),
            BTreeSet::from([("ghcr.io/c5c3/valkey:8.0".into(), "sha256:aa".into())])
        );
    }
}
