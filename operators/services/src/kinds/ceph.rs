//! Services that store data in Ceph: their users there, and the keyrings that they get.

use c5c3_api::common::{LocalRef, ObjectRef};
use c5c3_api::conditions::CEPH_CONNECTED;
use c5c3_api::openstack::Rbd;
use md5::{Digest, Md5};

use crate::facts::Facts;
use crate::shape::{CephLogin, CephOption, CephValue, Volume, VolumeSource};

/// Configuration and keyring of a process; librados looks here.
pub(crate) const DIRECTORY: &str = "/etc/ceph";
pub(crate) const CONFIGURATION: &str = "/etc/ceph/ceph.conf";
/// The key of a Secret with the keys of its users.
pub(crate) const KEYRING: &str = "keyring";

/// Before a label with the name of a user that a pod was started with: who rotates keys goes by it.
const USER_LABEL: &str = c5c3_api::ceph::USER_LABEL;
/// What follows the slash of a label.
const LABEL_LENGTH: usize = 63;

/// Rook names the user after its CephClient.
pub(crate) fn login(secret: &LocalRef, client: Option<&ObjectRef>, service: &'static str) -> CephLogin {
    CephLogin {
        secret: secret.name.clone(),
        named: client.map(|client| client.name.clone()),
        service,
    }
}

pub(crate) fn of_rbd(rbd: &Rbd, service: &'static str) -> CephLogin {
    login(&rbd.ceph_secret_ref, rbd.ceph_client_ref.as_ref(), service)
}

/// Users that a keyring names, in its order.
pub(crate) fn users(keyring: &str) -> Vec<&str> {
    let lines = keyring.lines().map(str::trim);
    let names = lines.filter_map(|line| line.strip_prefix("[client.")?.strip_suffix(']'));
    names.filter(|name| !name.is_empty()).collect()
}

/// All users of the keyring of a Secret.
pub(crate) fn all_users<'a>(facts: &'a Facts, login: &'a CephLogin) -> Vec<&'a str> {
    let keyring = facts
        .secrets
        .get(&login.secret)
        .and_then(|data| data.get(KEYRING));
    let keyring = keyring.and_then(|bytes| std::str::from_utf8(bytes).ok());
    users(keyring.unwrap_or_default())
}

/// As whom the keyring of a Secret is used: as the user that the spec names, where the keyring has it, else as the
/// first of the keyring. So a keyring may have the key of the user before, too.
pub(crate) fn user<'a>(facts: &'a Facts, login: &'a CephLogin) -> &'a str {
    let known = all_users(facts, login);
    let named = login.named.as_deref();
    let named = named.filter(|named| known.is_empty() || known.contains(named));
    named.or_else(|| known.first().copied()).unwrap_or(login.service)
}

/// Everybody that a process may be told to be: first the one that it is.
pub(crate) fn who(facts: Option<&Facts>, login: &CephLogin) -> Vec<String> {
    let Some(facts) = facts else {
        return vec![login.service.to_owned()];
    };
    let first = user(facts, login);
    let others = all_users(facts, login).into_iter().filter(|user| *user != first);
    [first].into_iter().chain(others).map(str::to_owned).collect()
}

/// The label of pods that were started with this user's key, where a label can hold the name.
pub(crate) fn label(user: &str) -> Option<String> {
    let (_, prefix) = USER_LABEL.split_once('/')?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let fits = prefix.len() + user.len() <= LABEL_LENGTH
        && user.chars().all(plain)
        && user.ends_with(|c: char| c.is_ascii_alphanumeric());
    fits.then(|| format!("{USER_LABEL}{user}"))
}

/// The way to Ceph for a process that opens block devices itself.
pub(crate) fn keyring(name: String, rbd: &Rbd, service: &'static str) -> Volume {
    Volume {
        name,
        path: DIRECTORY.to_owned(),
        part: Some(CEPH_CONNECTED),
        source: VolumeSource::Keyring {
            login: of_rbd(rbd, service),
            files: &["ceph.conf", KEYRING],
            ceph_client: rbd.ceph_client_ref.clone(),
            opens: Some(rbd.pool.clone()),
            tried: false,
            also: Vec::new(),
        },
    }
}

/// The same for a process that opens devices of others too, as whom these say.
pub(crate) fn keyrings(name: String, rbd: &Rbd, service: &'static str, others: Vec<CephLogin>) -> Volume {
    let mut volume = keyring(name, rbd, service);
    if let VolumeSource::Keyring { also, .. } = &mut volume.source {
        *also = others;
    }
    volume
}

/// The option of a group that names the user.
pub(crate) fn user_option(group: &str, option: &'static str, rbd: &Rbd, service: &'static str) -> CephOption {
    CephOption {
        group: group.to_owned(),
        option,
        login: of_rbd(rbd, service),
        value: CephValue::User,
    }
}

/// The option of a group that says under which name libvirt knows the key.
pub(crate) fn uuid_option(group: &str, rbd: &Rbd, service: &'static str) -> CephOption {
    CephOption {
        value: CephValue::SecretUuid,
        ..user_option(group, "rbd_secret_uuid", rbd, service)
    }
}

pub(crate) fn value(option: &CephOption, facts: &Facts) -> String {
    let user = user(facts, &option.login);
    match option.value {
        CephValue::User => user.to_owned(),
        CephValue::SecretUuid => secret_uuid(&option.login.secret, user),
    }
}

/// The name of a volume with the keys of a Secret.
pub(crate) fn volume_name(secret: &LocalRef) -> String {
    format!("key-{}", hexadecimal(&format!("ceph:{}", secret.name)))
}

/// The name under which libvirt on every hypervisor knows the key of a user: a UUID that follows from the names of
/// Secret and user, so that Cinder and Nova need not tell each other, and the key of the user before stays where
/// guests look for it. `libvirtd.sh` computes the same.
pub(crate) fn secret_uuid(secret: &str, user: &str) -> String {
    let hex = hexadecimal(&format!("ceph:{secret}:{user}"));
    let parts = [&hex[..8], &hex[8..12], &hex[13..16], &hex[17..20], &hex[20..]];
    let [first, second, third, fourth, last] = parts;
    format!("{first}-{second}-3{third}-8{fourth}-{last}")
}

fn hexadecimal(text: &str) -> String {
    hex::encode(Md5::digest(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::facts::SecretData;

    #[test]
    fn a_key_has_one_name_everywhere() {
        let uuid = secret_uuid("cinder-ceph", "cinder");
        assert_eq!(uuid, secret_uuid("cinder-ceph", "cinder"));
        assert_ne!(uuid, secret_uuid("nova-ceph", "cinder"));
        assert_ne!(uuid, secret_uuid("cinder-ceph", "cinder-2"));
        let digits: Vec<usize> = uuid.split('-').map(str::len).collect();
        assert_eq!(digits, [8, 4, 4, 4, 12], "{uuid}");
        assert_eq!((&uuid[14..15], &uuid[19..20]), ("3", "8"), "{uuid}");
    }

    #[test]
    fn the_keyring_says_who_it_is() {
        let one = "[client.cinder]\n\tkey = A\n";
        let two = "[client.cinder-2]\nkey = B\n\n  [client.cinder-1]  \nkey = A\n";
        let by_hand = "[client.cinder-1]\nkey = B\n[client.cinder]\nkey = A\n";
        for (keyring, named, expected) in [
            (None, None, "cinder"),
            (None, Some("mine"), "mine"),
            (Some(one), None, "cinder"),
            (Some(two), None, "cinder-2"),
            (Some(by_hand), None, "cinder-1"),
            (Some(two), Some("cinder-1"), "cinder-1"),
            (Some(two), Some("mine"), "cinder-2"),
            (Some("no keyring\n[mon.]\n[client.]"), None, "cinder"),
        ] {
            let data = keyring.map(|text| SecretData::from([(KEYRING.to_owned(), text.as_bytes().to_vec())]));
            let facts = Facts {
                secrets: data.into_iter().map(|data| ("ceph".to_owned(), data)).collect(),
                ..Facts::default()
            };
            let login = CephLogin {
                secret: "ceph".to_owned(),
                named: named.map(str::to_owned),
                service: "cinder",
            };
            assert_eq!(user(&facts, &login), expected, "{keyring:?}");
        }
    }

    #[test]
    fn a_name_that_no_label_holds_has_none() {
        assert_eq!(label("cinder-2").as_deref(), Some("ceph.c5c3.io/user.cinder-2"));
        assert_eq!(label(&"a".repeat(58)).map(|label| label.len()), Some(13 + 63));
        assert_eq!(label(&"a".repeat(59)), None);
        assert_eq!(label("cinder."), None);
        assert_eq!(label("cinder volumes"), None);
        assert_eq!(label(""), None);
    }
}
