//! Services that keep their data in Ceph: who they are there, and what they are given for it.

use c5c3_api::common::{LocalRef, ObjectRef};
use c5c3_api::conditions::CEPH_CONNECTED;
use c5c3_api::openstack::Rbd;
use md5::{Digest, Md5};

use crate::shape::{Pool, Volume, VolumeSource};

/// Configuration and keyring of a process; librados looks here.
pub const DIRECTORY: &str = "/etc/ceph";
pub const CONFIGURATION: &str = "/etc/ceph/ceph.conf";

/// Rook names the user after its CephClient.
pub fn user<'a>(client: Option<&'a ObjectRef>, service: &'a str) -> &'a str {
    client.map_or(service, |client| client.name.as_str())
}

/// The way to Ceph for a process that opens block devices itself.
pub fn keyring(name: String, rbd: &Rbd, service: &str) -> Volume {
    let user = user(rbd.ceph_client_ref.as_ref(), service);
    Volume {
        name,
        path: DIRECTORY.to_owned(),
        part: Some(CEPH_CONNECTED),
        source: VolumeSource::Secret {
            name: rbd.ceph_secret_ref.name.clone(),
            files: vec![
                ("ceph.conf", "ceph.conf".to_owned()),
                ("keyring", format!("ceph.client.{user}.keyring")),
            ],
            ceph_client: rbd.ceph_client_ref.clone(),
            opens: Some(Pool {
                name: rbd.pool.clone(),
                user: user.to_owned(),
            }),
        },
    }
}

/// The name under which libvirt on every hypervisor knows the key of a Secret: a UUID of version 3 of
/// the Secret's name, so that Cinder and Nova need not tell each other.
pub fn secret_uuid(secret: &LocalRef) -> String {
    let mut bytes: [u8; 16] = Md5::digest(format!("ceph:{}", secret.name)).into();
    bytes[6] = bytes[6] & 0x0f | 0x30;
    bytes[8] = bytes[8] & 0x3f | 0x80;
    let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
    let parts = [&hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..]];
    parts.join("-")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_has_one_name_everywhere() {
        let uuid = secret_uuid(&LocalRef::new("cinder-ceph"));
        assert_eq!(uuid, secret_uuid(&LocalRef::new("cinder-ceph")));
        assert_ne!(uuid, secret_uuid(&LocalRef::new("nova-ceph")));
        let digits: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(digits, [8, 4, 4, 4, 12], "{uuid}");
        assert_eq!(&uuid[14..15], "3", "{uuid}");
    }
}
