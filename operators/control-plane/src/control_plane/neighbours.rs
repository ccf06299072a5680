//! When a ControlPlane is deleted, others that were waiting for its namespace are processed at once.

use std::collections::BTreeSet;

use c5c3_api::c5c3::ControlPlane;
use c5c3_kit::kinds::Key;
use futures::{Stream, StreamExt, stream};
use kube::Client;
use kube::api::Api;
use kube::core::PartialObjectMeta;
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};

/// Who is to be looked at again.
pub(crate) fn freed(client: Client, namespace: Option<&str>) -> impl Stream<Item = Key> + use<> {
    let api: Api<PartialObjectMeta<ControlPlane>> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    let key = |object: &_| Key::of(object);
    watcher(api, watcher::Config::default())
        .default_backoff()
        .filter_map(async |event| event.ok())
        .scan(BTreeSet::new(), move |known, event| {
            let keys = match event {
                Event::Apply(object) | Event::InitApply(object) => {
                    known.insert(key(&object));
                    Vec::new()
                }
                Event::Delete(object) => left(known, &key(&object)),
                Event::Init | Event::InitDone => Vec::new(),
            };
            std::future::ready(Some(stream::iter(keys)))
        })
        .flatten()
}

/// The others of the namespace.
fn left(known: &mut BTreeSet<Key>, gone: &Key) -> Vec<Key> {
    known.remove(gone);
    let near = |key: &&Key| key.namespace == gone.namespace;
    known.iter().filter(near).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn those_of_the_same_namespace_get_their_turn() {
        let key = |namespace: &str, name: &str| Key::new(Some(namespace), name);
        let mut known: BTreeSet<Key> = [key("a", "1"), key("a", "2"), key("b", "1")].into();
        assert_eq!(left(&mut known, &key("a", "1")), [key("a", "2")]);
        assert_eq!(left(&mut known, &key("b", "1")), []);
    }
}
