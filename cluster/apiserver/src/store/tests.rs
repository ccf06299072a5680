use std::{collections::BTreeMap, os::unix::fs::PermissionsExt, path::Path, sync::Mutex};

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

/// A disk that fails as it is told, and then refuses everything until it is opened again.
struct Failing {
    inner: Redb,
    fault: Arc<Mutex<Fault>>,
    latched: bool,
}

#[derive(Clone, Copy, PartialEq)]
enum Fault {
    None,
    /// Nothing of the commit is written.
    Refuse,
    /// It is written, but its sync fails.
    Land,
    /// Not even the file can be opened.
    Away,
}

impl Disk for Failing {
    fn load(&self, each: &mut dyn FnMut(Collection, Arc<Stored>)) -> Result<u64, DiskError> {
        self.inner.load(each)
    }

    fn commit(&mut self, revision: u64, changes: &[Change<'_>]) -> Result<(), DiskError> {
        let fault = *self.fault.lock().unwrap();
        if self.latched || fault == Fault::Refuse || fault == Fault::Away {
            self.latched = true;
            return Err(DiskError::Write("no space".into()));
        }
        self.inner.commit(revision, changes)?;
        if fault == Fault::Land {
            self.latched = true;
            return Err(DiskError::Write("sync".into()));
        }
        Ok(())
    }

    fn rewrite(&mut self, revision: u64, objects: &[(Collection, Arc<Stored>)]) -> Result<(), DiskError> {
        if *self.fault.lock().unwrap() == Fault::Away {
            return Err(DiskError::Write("away".into()));
        }
        self.latched = false;
        self.inner.rewrite(revision, objects)
    }
}

#[tokio::test]
async fn writing_goes_on_after_a_failure_of_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let fault = Arc::new(Mutex::new(Fault::None));
    let disk = Failing {
        inner: Redb::open(&path).unwrap(),
        fault: fault.clone(),
        latched: false,
    };
    let store = Store::open(Box::new(disk), History::default()).unwrap();
    let set = |new| *fault.lock().unwrap() = new;
    let names = |store: &Store| -> Vec<String> {
        let objects = store.list(&things(), None).objects;
        objects.iter().map(|o| o.key.name.to_string()).collect()
    };
    let a = store.write(put("a", Expect::Absent, 1)).await.unwrap();

    set(Fault::Refuse);
    assert!(store.write(put("b", Expect::Absent, 1)).await.is_err());
    set(Fault::Away);
    assert!(store.write(put("b", Expect::Absent, 1)).await.is_err());
    let why = store.ready().unwrap_err();
    assert!(why.to_string().contains("away"), "{why}");
    // Nobody writes, and it heals all the same.
    set(Fault::None);
    let start = std::time::Instant::now();
    while store.ready().is_err() {
        assert!(start.elapsed() < std::time::Duration::from_secs(10));
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    let b = store.write(put("b", Expect::Absent, 2)).await.unwrap();
    assert_eq!(b.revision, a.revision + 1, "nothing had reached the disk");

    // One whose sync failed: the file reads as if it had landed, and nobody may believe that.
    set(Fault::Land);
    assert!(store.write(put("c", Expect::Absent, 1)).await.is_err());
    assert!(store.write(delete("a", a.revision)).await.is_err());
    assert_eq!(names(&store), ["a", "b"]);
    set(Fault::None);
    let last = store.write(put("c", Expect::Absent, 2)).await.unwrap();
    let (events, _) = store.events_after(&things(), b.revision, 10).unwrap();
    let seen: Vec<_> = events.iter().map(|e| (e.kind, &*e.object.key.name)).collect();
    assert_eq!(seen, [(EventKind::Put, "c")]);
    let all = ["a", "b", "c"].map(str::to_owned).to_vec();
    assert_eq!((names(&store), store.revision()), (all.clone(), last.revision));
    store.close();
    assert_eq!(store.ready(), Err(WriteError::Stopped));
    let store = open(&path).unwrap();
    assert_eq!((names(&store), store.revision()), (all, last.revision));
    let c = store.get(&things(), &ObjectKey::new("ns", "c")).unwrap();
    assert_eq!(c.value()["value"], 2);
}

/// Two writes of one batch, the second refused because of the first: if the first does not reach the
/// disk, nobody may be told that it exists.
#[test]
fn no_refusal_rests_on_a_commit_that_failed() {
    let dir = tempfile::tempdir().unwrap();
    let fault = Arc::new(Mutex::new(Fault::Refuse));
    let disk = Failing {
        inner: Redb::open(&dir.path().join("s")).unwrap(),
        fault: fault.clone(),
        latched: false,
    };
    let state = state::State::load(&disk, History::default()).unwrap();
    let mut committer = commit::Committer::new(Box::new(disk), Arc::new(RwLock::new(state)));
    let mut both = || {
        let (requests, answers): (Vec<_>, Vec<_>) = [1, 2]
            .map(|value| {
                let (answer, answered) = oneshot::channel();
                let write = put("a", Expect::Absent, value);
                (Request { write, answer }, answered)
            })
            .into_iter()
            .unzip();
        committer.serve(requests);
        answers
            .into_iter()
            .map(|mut a| a.try_recv().unwrap().map(|o| o.revision))
            .collect::<Vec<_>>()
    };
    let refused = both();
    assert!(
        refused.iter().all(|a| matches!(a, Err(WriteError::Disk(_)))),
        "{refused:?}"
    );
    *fault.lock().unwrap() = Fault::None;
    assert_eq!(both(), [Ok(1), Err(WriteError::Exists)]);
}

/// The process ended between the failed sync and the rewrite.
#[test]
fn a_distrusted_file_is_written_anew_at_the_start() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let inode = || std::os::unix::fs::MetadataExt::ino(&std::fs::metadata(&path).unwrap());
    drop(Redb::open(&path).unwrap());
    let first = inode();
    drop(Redb::open(&path).unwrap());
    assert_eq!(inode(), first);
    std::fs::write(dir.path().join("s.distrusted"), "").unwrap();
    drop(Redb::open(&path).unwrap());
    assert_ne!(inode(), first);
    assert!(!dir.path().join("s.distrusted").exists());
}

#[test]
fn a_lost_file_is_not_made_anew_while_running() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mut disk = Redb::open(&path).unwrap();
    disk.rewrite(0, &[]).unwrap();
    std::fs::remove_file(&path).unwrap();
    assert!(disk.rewrite(0, &[]).is_err());
    assert!(!path.exists());
    // Nor is one overwritten that was put there meanwhile.
    std::fs::write(&path, "a copy").unwrap();
    assert!(disk.rewrite(0, &[]).is_err());
    assert_eq!(std::fs::read(&path).unwrap(), b"a copy");
}

#[test]
fn the_file_is_closed_to_other_users() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("s");
    let mode = || std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
    drop(Redb::open(&path).unwrap());
    assert_eq!(mode(), 0o600);
    // As an earlier version left it.
    std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o644)).unwrap();
    drop(Redb::open(&path).unwrap());
    assert_eq!(mode(), 0o600);
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
