//! Events, published when something changed and never to repeat what was said.

use std::collections::HashMap;
use std::sync::Mutex;

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;
use k8s_openapi::api::events::v1::Event;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, MicroTime, ObjectMeta};
use kube::Client;
use kube::core::ApiResource;

use crate::fault::plain;
use crate::kinds::Key;
use crate::lock;
use crate::process::metrics::Metrics;
use crate::report::conditions::READY;
use crate::write::store::Store;

/// An event about an object. It must not contain secret values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    pub warning: bool,
    pub reason: String,
    pub text: String,
}

impl Note {
    pub fn normal(reason: &str, text: impl Into<String>) -> Self {
        Note {
            warning: false,
            reason: reason.to_owned(),
            text: text.into(),
        }
    }

    pub fn warning(reason: &str, text: impl Into<String>) -> Self {
        Note {
            warning: true,
            ..Note::normal(reason, text)
        }
    }
}

/// What a change of `Ready` has to tell: it became true, or there is another blocker.
pub(crate) fn on_change(before: &[Condition], after: &[Condition]) -> Option<Note> {
    let ready = |list: &[Condition]| list.iter().find(|c| c.type_ == READY).cloned();
    let after = ready(after)?;
    let same = ready(before).is_some_and(|b| b.status == after.status && b.reason == after.reason);
    if same {
        return None;
    }
    match after.status.as_str() {
        "True" => Some(Note::normal(READY, "every required part is up")),
        "False" => Some(Note::warning(&after.reason, after.message)),
        _ => None,
    }
}

/// The API's limit for a note, in bytes.
const LONGEST: usize = 1024;

/// Publishes to the home cluster. An event that cannot be published is logged, no more: it must
/// not fail the pass that it reports.
#[derive(Default)]
pub(crate) struct Events {
    told: Mutex<HashMap<Key, HashMap<String, String>>>,
}

impl Events {
    pub(crate) async fn publish(
        &self,
        client: &Client,
        metrics: &Metrics,
        controller: &'static str,
        about: &ObjectReference,
        note: &Note,
    ) {
        let name = about.name.as_deref().unwrap_or_default();
        let now = Timestamp::now();
        let namespace = about.namespace.as_deref().unwrap_or("default");
        let event = Event {
            metadata: ObjectMeta {
                name: Some(format!("{}.{:x}", shortened(name, 230), now.as_nanosecond())),
                namespace: Some(namespace.to_owned()),
                ..ObjectMeta::default()
            },
            action: Some("Reconcile".to_owned()),
            event_time: Some(MicroTime(now)),
            note: Some(shortened(&note.text, LONGEST).to_owned()),
            reason: Some(note.reason.clone()),
            regarding: Some(about.clone()),
            reporting_controller: Some(format!("c5c3.io/{controller}")),
            reporting_instance: Some(instance()),
            type_: Some(if note.warning { "Warning" } else { "Normal" }.to_owned()),
            ..Event::default()
        };
        let store = Store {
            client,
            resource: &ApiResource::erase::<Event>(&()),
            controller,
            metrics,
        };
        if let Err(error) = store.create(&Key::new(Some(namespace), ""), &event).await {
            tracing::warn!(reason = note.reason, "event not published: {}", plain(&error));
        }
    }

    /// `false` when the controller said the same last time.
    pub(crate) fn is_news(&self, key: &Key, note: &Note) -> bool {
        let mut told = lock(&self.told);
        let told = told.entry(key.clone()).or_default();
        told.insert(note.reason.clone(), note.text.clone()).as_ref() != Some(&note.text)
    }

    pub(crate) fn forget(&self, key: &Key) {
        lock(&self.told).remove(key);
    }
}

/// This process, for events and leases.
pub(crate) fn instance() -> String {
    let host = std::env::var("HOSTNAME").ok().filter(|h| !h.is_empty());
    let host = host.or_else(|| {
        let name = std::fs::read_to_string("/proc/sys/kernel/hostname").ok()?;
        Some(name.trim().to_owned())
    });
    format!("{}-{}", host.as_deref().unwrap_or("c5c3"), std::process::id())
}

pub(crate) fn shortened(text: &str, bytes: usize) -> &str {
    let mut end = text.len().min(bytes);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    &text[..end]
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::apimachinery::pkg::apis::meta::v1::Time;

    fn ready(status: &str, reason: &str) -> Vec<Condition> {
        vec![Condition {
            type_: READY.into(),
            status: status.into(),
            reason: reason.into(),
            message: format!("because {reason}"),
            last_transition_time: Time(Timestamp::UNIX_EPOCH),
            observed_generation: None,
        }]
    }

    #[test]
    fn only_a_change_of_ready_is_told() {
        let up = ready("True", "Ready");
        let down = ready("False", "SourceMissing");
        assert_eq!(on_change(&up, &up), None);
        assert_eq!(on_change(&down, &down), None);
        assert_eq!(on_change(&[], &up).map(|n| n.warning), Some(false));
        let note = on_change(&up, &down).expect("a change");
        assert_eq!((note.warning, note.reason.as_str()), (true, "SourceMissing"));
        assert!(on_change(&down, &ready("False", "DuplicateKey")).is_some());
        assert_eq!(on_change(&[], &ready("Unknown", "NotReached")), None);
    }

    #[test]
    fn a_controller_may_repeat_itself_and_is_heard_once() {
        let (events, key) = (Events::default(), Key::new(None, "a"));
        let note = Note::normal("Rotated", "key 3");
        assert!(events.is_news(&key, &note));
        assert!(!events.is_news(&key, &note));
        assert!(events.is_news(&key, &Note::normal("Rotated", "key 4")));
        events.forget(&key);
        assert!(events.is_news(&key, &Note::normal("Rotated", "key 4")));
    }

    #[test]
    fn long_notes_are_cut_between_characters() {
        assert_eq!(shortened("äöü", 3), "ä");
        assert_eq!(shortened("abc", 9), "abc");
    }
}
