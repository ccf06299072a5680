use std::{collections::BTreeMap, path::Path};

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn open(path: &Path) -> Result<Store, DiskError> {
    Store::open(Box::new(Redb::open(path)?), History::default())
}

fn things() -> Collection {
    Collection::new("test", "example.com", "things")
}

fn put(name: &str, expect: Expect, value: u32) -> Write {
    let object = json!({"metadata": {"name": name, "namespace": "ns"}, "value": value});
    Write {
        collection: things(),
        key: ObjectKey::new("ns", name),
        expect,
        action: Action::Put(draft(&object)),
    }
}

fn delete(name: &str, revision: u64) -> Write {
    Write {
        collection: things(),
        key: ObjectKey::new("ns", name),
        expect: Expect::Revision(revision),
        action: Action::Delete(draft(&json!({"metadata": {"name": name}}))),
    }
}

#[tokio::test]
async fn writes_compare_and_swap_and_survive() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("store.redb");
    let store = open(&path).unwrap();
    let first = store.write(put("a", Expect::Absent, 1)).await.unwrap();
    assert_eq!(
        store.write(put("a", Expect::Absent, 1)).await.unwrap_err(),
        WriteError::Exists
    );
    let second = store
        .write(put("a", Expect::Revision(first.revision), 2))
        .await
        .unwrap();
    assert!(second.revision > first.revision);
    assert_eq!(
        store
            .write(put("a", Expect::Revision(first.revision), 3))
            .await
            .unwrap_err(),
        WriteError::Conflict
    );
    assert_eq!(
        store.write(delete("b", 1)).await.unwrap_err(),
        WriteError::NotFound
    );
    store.write(put("b", Expect::Absent, 1)).await.unwrap();
    let b = store.get(&things(), &ObjectKey::new("ns", "b")).unwrap();
    store.write(delete("b", b.revision)).await.unwrap();
    let revision = store.revision();
    store.close();
    assert_eq!(
        store.write(put("c", Expect::Absent, 1)).await.unwrap_err(),
        WriteError::Stopped
    );

    let store = open(&path).unwrap();
    assert_eq!(store.revision(), revision);
    let objects = store.list(&things(), Some("ns")).objects;
    assert_eq!(objects.len(), 1);
    assert_eq!(objects[0].value()["value"], 2);
    assert_eq!(
        objects[0].value()["metadata"]["resourceVersion"],
        second.revision.to_string()
    );
    // What happened before the start is gone: older places have expired, the present has not.
    assert!(store.events_after(&things(), revision - 1, 10).is_err());
    assert!(store.events_after(&things(), revision, 10).unwrap().0.is_empty());
}

#[tokio::test]
async fn history_is_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let disk = Redb::open(&dir.path().join("s")).unwrap();
    let store = Store::open(
        Box::new(disk),
        History {
            events: 3,
            bytes: 1 << 20,
        },
    )
    .unwrap();
    let mut revisions = Vec::new();
    for i in 0..5 {
        revisions.push(
            store
                .write(put(&format!("o{i}"), Expect::Absent, i))
                .await
                .unwrap()
                .revision,
        );
    }
    let expired = store.events_after(&things(), revisions[0], 10).unwrap_err();
    assert_eq!(
        expired,
        Expired {
            asked: revisions[0],
            oldest: revisions[1]
        }
    );
    assert_eq!(
        store.events_after(&things(), revisions[1], 10).unwrap().0.len(),
        3
    );
    let (events, complete) = store.events_after(&things(), revisions[1], 2).unwrap();
    assert_eq!((events.len(), complete), (2, revisions[3]));
    assert_eq!(
        store
            .list_at(&things(), None, revisions[2])
            .unwrap()
            .objects
            .len(),
        3
    );
    assert!(store.list_at(&things(), None, revisions[0]).is_err());
}

#[test]
fn a_second_opener_is_kept_out() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let _first = Redb::open(&path).unwrap();
    assert!(matches!(Redb::open(&path), Err(DiskError::Locked { .. })));
}

#[tokio::test]
async fn damage_is_told_and_never_overwritten() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let store = open(&path).unwrap();
    for i in 0..200 {
        store
            .write(put(&format!("object-{i}"), Expect::Absent, i))
            .await
            .unwrap();
    }
    store.close();
    let healthy = std::fs::read(&path).unwrap();
    let marker = healthy
        .windows(12)
        .position(|w| w.starts_with(b"\"object-100\""))
        .unwrap();
    let mut flipped = healthy.clone();
    flipped[marker + 3] ^= 0x20;
    let mut cut = healthy.clone();
    cut.truncate(healthy.len() / 3);
    let mut headless = healthy.clone();
    headless[..4096].fill(0);
    for damaged in [flipped, cut, headless, Vec::new(), b"not a store at all".to_vec()] {
        std::fs::write(&path, &damaged).unwrap();
        let error = open(&path).err().expect("damage must be noticed");
        assert!(matches!(error, DiskError::Damaged { .. }), "{error}");
        assert_eq!(
            std::fs::read(&path).unwrap(),
            damaged,
            "the file must stay as it was: {error}"
        );
    }
    std::fs::write(&path, &healthy).unwrap();
    assert_eq!(open(&path).unwrap().list(&things(), None).objects.len(), 200);
}

#[test]
fn another_format_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    drop(Redb::open(&path).unwrap());
    let database = redb::Database::open(&path).unwrap();
    let write = database.begin_write().unwrap();
    let meta: redb::TableDefinition<'_, &str, u64> = redb::TableDefinition::new("meta");
    write.open_table(meta).unwrap().insert("format", 2).unwrap();
    write.commit().unwrap();
    drop(database);
    let error = Redb::open(&path).err().unwrap();
    assert!(error.to_string().contains("format 2"), "{error}");
}

#[derive(Clone, Debug)]
enum Step {
    Put(u8),
    Delete(u8),
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]
    /// A watch from revision r equals the list at r plus its events.
    #[test]
    fn history_replays_to_the_present(
        steps in proptest::collection::vec(
            prop_oneof![(0u8..6).prop_map(Step::Put), (0u8..6).prop_map(Step::Delete)], 1..40),
        events in 4usize..64,
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
        runtime.block_on(async {
            let dir = tempfile::tempdir().unwrap();
            let disk = Redb::open(&dir.path().join("s")).unwrap();
            let store = Store::open(Box::new(disk), History { events, bytes: 1 << 20 }).unwrap();
            let mut past = vec![(store.revision(), BTreeMap::new())];
            for (i, step) in steps.iter().enumerate() {
                let (Step::Put(n) | Step::Delete(n)) = step;
                let name = format!("o{n}");
                let now = store.get(&things(), &ObjectKey::new("ns", &name)).map(|o| o.revision);
                let write = match (step, now) {
                    (Step::Put(_), None) => put(&name, Expect::Absent, i as u32),
                    (Step::Put(_), Some(r)) => put(&name, Expect::Revision(r), i as u32),
                    (Step::Delete(_), Some(r)) => delete(&name, r),
                    (Step::Delete(_), None) => continue,
                };
                store.write(write).await.unwrap();
                let listing = store.list(&things(), None);
                let objects = listing.objects.iter().map(|o| (o.key.clone(), o.bytes.clone())).collect();
                past.push((listing.revision, objects));
            }
            let present = past.last().unwrap().1.clone();
            for (revision, objects) in past {
                let listed = store.list_at(&things(), None, revision);
                let Ok((events, _)) = store.events_after(&things(), revision, usize::MAX) else {
                    assert!(listed.is_err());
                    continue;
                };
                let mut replayed: BTreeMap<_, _> =
                    listed.unwrap().objects.iter().map(|o| (o.key.clone(), o.bytes.clone())).collect();
                assert_eq!(replayed, objects);
                for event in events {
                    match event.kind {
                        EventKind::Put => replayed.insert(event.object.key.clone(), event.object.bytes.clone()),
                        EventKind::Delete => replayed.remove(&event.object.key),
                    };
                }
                assert_eq!(replayed, present);
            }
        });
    }
}
