//! Objects that K-ORC should have deleted and did not. After the deadline nobody handles its finalizers
//! any more, because Keystone is deleted with the cloud: they are removed, and what may be left in
//! Keystone is named.

use c5c3_kit::{Kind, Note, Reference};
use kube::Client;
use kube::api::{Api, DeleteParams, DynamicObject, Patch, PatchParams};
use kube::{Error, ResourceExt};
use serde_json::json;

const KORC: &str = "openstack.k-orc.cloud";
/// Between reading and writing somebody else may have taken off a finalizer.
const TRIES: u32 = 5;

/// K-ORC holds its own objects, and the Secrets that these name.
pub(crate) fn may_be_held(reference: &Reference) -> bool {
    is_in_keystone(reference) || reference.kind == "Secret"
}

/// It stands for something in Keystone.
fn is_in_keystone(reference: &Reference) -> bool {
    reference.kind.ends_with(&format!(".{KORC}"))
}

fn is_of_korc(finalizer: &str) -> bool {
    finalizer.split('/').next() == Some(KORC)
}

/// Names what nobody takes away any more.
pub(crate) fn note<'a>(left: impl IntoIterator<Item = &'a Reference>) -> Option<Note> {
    let left = left.into_iter().filter(|left| is_in_keystone(left));
    let names: Vec<String> = left.map(ToString::to_string).collect();
    let text = format!(
        "K-ORC did not remove these in time; check Keystone for their leftovers: {}",
        names.join(", ")
    );
    (!names.is_empty()).then(|| Note::warning("Orphaned", text))
}

/// Deletes an object and takes the finalizers of K-ORC off. Those of others stay.
pub(crate) async fn abandon(client: &Client, kind: &Kind, held: &Reference) -> Result<(), Error> {
    let namespace = held.key.namespace.as_deref().unwrap_or_default();
    let name = &held.key.name;
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &kind.resource);
    for attempt in 1..=TRIES {
        // Deleted first: K-ORC would put a finalizer on what is to stay.
        match api.delete(name, &DeleteParams::background()).await {
            Ok(_) => {}
            Err(error) if code(&error) == Some(404) => return Ok(()),
            Err(error) => return Err(error),
        }
        let Some(live) = api.get_metadata_opt(name).await? else {
            return Ok(());
        };
        let rest: Vec<&String> = live.finalizers().iter().filter(|f| !is_of_korc(f)).collect();
        if rest.len() == live.finalizers().len() {
            return Ok(());
        }
        let version = live.resource_version();
        let patch = json!({"metadata": {"resourceVersion": version, "finalizers": rest}});
        match api
            .patch_metadata(name, &PatchParams::default(), &Patch::Merge(&patch))
            .await
        {
            Ok(_) => return Ok(()),
            Err(error) if code(&error) == Some(404) => return Ok(()),
            Err(error) if code(&error) == Some(409) && attempt < TRIES => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn code(error: &Error) -> Option<u16> {
    match error {
        Error::Api(status) => Some(status.code),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_kit::HOME;
    use c5c3_kit::kinds::Key;

    fn object(kind: &str) -> Reference {
        Reference {
            cluster: HOME,
            kind: kind.to_owned(),
            key: Key::new(Some("ns"), "glance"),
        }
    }

    #[test]
    fn only_what_stands_in_keystone_is_named() {
        let left = [
            "User.openstack.k-orc.cloud",
            "Secret",
            "Keystone.keystone.openstack.c5c3.io",
        ]
        .map(object);
        let held: Vec<bool> = left.iter().map(may_be_held).collect();
        assert_eq!(held, [true, true, false]);
        let note = format!("{:?}", note(&left).expect("one is left"));
        assert!(
            note.contains("User.openstack.k-orc.cloud ns/glance") && !note.contains("Secret"),
            "{note}"
        );
        assert!(super::note(&left[1..]).is_none());
    }

    #[test]
    fn finalizers_of_others_are_not_those_of_korc() {
        assert!(is_of_korc("openstack.k-orc.cloud/user"));
        assert!(!is_of_korc("openstack.k-orc.cloud.example.com/user") && !is_of_korc("foregroundDeletion"));
    }
}
