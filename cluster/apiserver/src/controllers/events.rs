//! Events are for now: an hour after they were last seen they go.

use std::{
    collections::{BTreeSet, HashMap},
    time::Duration,
};

use jiff::Timestamp;
use serde_json::Value;

use super::{
    follow::{Follow, News},
    requests::Requests,
};
use crate::store::ObjectKey;

const LIFE: i64 = 3600;

pub(super) async fn run(requests: Requests) {
    let cluster = requests.cluster.clone();
    let mut follow = Follow::new(&cluster.store, cluster.collection("", "events"));
    let mut due = Due::default();
    let stopping = requests.stopping();
    loop {
        match follow.news() {
            News::All(objects) => {
                due = Due::default();
                objects
                    .iter()
                    .for_each(|object| due.insert(&object.key, &object.value()));
            }
            changes => {
                for object in changes.present() {
                    due.insert(&object.key, &object.value());
                }
            }
        }
        let now = Timestamp::now().as_second();
        for key in due.take(now) {
            let path = format!("/api/v1/namespaces/{}/events/{}", key.namespace, key.name);
            if let Err(error) = requests.delete(&path, None).await
                && !error.is_outdated()
            {
                tracing::warn!(%error, event = %key.name, "cannot remove an old event");
            }
        }
        let next = due.next();
        let wait = async {
            match next {
                Some(time) => {
                    let seconds = u64::try_from(time - now).unwrap_or(0).max(1);
                    tokio::time::sleep(Duration::from_secs(seconds)).await;
                }
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            () = stopping.cancelled() => return,
            () = follow.changed() => {}
            () = wait => {}
        }
    }
}

/// Events by the second at which they are over.
#[derive(Default)]
struct Due {
    by_time: BTreeSet<(i64, ObjectKey)>,
    times: HashMap<ObjectKey, i64>,
}

impl Due {
    fn insert(&mut self, key: &ObjectKey, event: &Value) {
        if let Some(old) = self.times.remove(key) {
            self.by_time.remove(&(old, key.clone()));
        }
        let time = last_seen(event) + LIFE;
        self.times.insert(key.clone(), time);
        self.by_time.insert((time, key.clone()));
    }

    fn next(&self) -> Option<i64> {
        self.by_time.first().map(|(time, _)| *time)
    }

    /// Removes and returns what is over.
    fn take(&mut self, now: i64) -> Vec<ObjectKey> {
        let mut over = Vec::new();
        while let Some((time, _)) = self.by_time.first()
            && *time <= now
            && let Some((_, key)) = self.by_time.pop_first()
        {
            self.times.remove(&key);
            over.push(key);
        }
        over
    }
}

/// The latest of the times that an event carries.
fn last_seen(event: &Value) -> i64 {
    [
        "/metadata/creationTimestamp",
        "/lastTimestamp",
        "/deprecatedLastTimestamp",
        "/eventTime",
        "/series/lastObservedTime",
    ]
    .iter()
    .filter_map(|pointer| event.pointer(pointer)?.as_str()?.parse::<Timestamp>().ok())
    .map(Timestamp::as_second)
    .max()
    .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn an_event_that_is_seen_again_stays() {
        let key = |name: &str| ObjectKey::new("a", name);
        let event = |time: &str| json!({"metadata": {"creationTimestamp": "2026-01-01T00:00:00Z"}, "lastTimestamp": time});
        let mut due = Due::default();
        due.insert(&key("x"), &event("2026-01-01T00:00:00Z"));
        due.insert(&key("y"), &event("2026-01-01T00:00:10Z"));
        let start = last_seen(&event("2026-01-01T00:00:00Z"));
        assert_eq!(due.next(), Some(start + LIFE));
        due.insert(&key("x"), &event("2026-01-01T01:00:00Z"));
        assert_eq!(due.take(start + LIFE + 10), [key("y")]);
        assert_eq!(due.next(), Some(start + 2 * LIFE));
        assert!(due.take(start + LIFE).is_empty());
        assert_eq!(due.take(start + 2 * LIFE), [key("x")]);
        assert_eq!(due.next(), None);
    }
}
