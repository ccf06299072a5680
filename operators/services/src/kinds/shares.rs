//! Volumes of Cinder as files in a claim that nodes share.
//!
//! The NFS drivers of Cinder and Nova mount a share at a place that follows from its name, unless
//! something is mounted there. Kubernetes mounts the claim at that place, so neither needs the right to
//! mount, and the claim may be of any file system that nodes share.

use md5::{Digest, Md5};

use crate::shape::{Volume, VolumeSource};

/// Shares are mounted below. No volume is mounted at it or above it: Nova takes a directory for mounted
/// only when it is on another device than the one around it.
pub(super) const BASE: &str = "/var/lib/volumes";

/// What stands for the server in the name of a share. Volumes keep that name: it never changes.
pub(super) const HOST: &str = "claim";

pub(super) fn path(claim: &str) -> String {
    format!("/{claim}")
}

/// Where both drivers look for the share.
pub(super) fn mounted_at(claim: &str) -> String {
    let share = format!("{HOST}:{}", path(claim));
    let hash = hex::encode(Md5::digest(share.as_bytes()));
    format!("{BASE}/{hash}")
}

/// The claims of Cinder, on a hypervisor.
pub(super) fn lent(claims: &[c5c3_api::common::LocalRef]) -> impl Iterator<Item = Volume> {
    claims.iter().enumerate().map(|(index, claim)| Volume {
        name: format!("volumes-{index}"),
        path: mounted_at(&claim.name),
        part: None,
        source: VolumeSource::Lent {
            claim: claim.name.clone(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_share_is_where_os_brick_and_nova_look_for_it() {
        // As os_brick.remotefs and nova.utils.get_hash_str compute it of claim:/cinder-volumes-files.
        let hash = "7ab09d7c862331be001cde2792142c67";
        assert_eq!(mounted_at("cinder-volumes-files"), format!("{BASE}/{hash}"));
    }
}
