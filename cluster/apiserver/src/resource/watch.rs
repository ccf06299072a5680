//! Watches: cursors into the history of a collection.

use std::{collections::VecDeque, sync::Arc, time::Duration};

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Response, header};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::time::Instant;

use super::{
    Target,
    list::{forbidden, parse_revision},
    select::Selection,
    shape::{Shape, View},
};
use crate::{
    serve::{self, Body, Call, OpenWatch},
    status::{ApiError, Result},
    store::{Event, EventKind, Stored},
};

/// Time between bookmarks of a watch that asked for them.
const BOOKMARK: Duration = Duration::from_secs(60);
/// Events taken from the history at once.
const BATCH: usize = 256;
const CHUNK: usize = 64 << 10;

pub(super) async fn watch(call: Call, target: Target) -> Result<Response<Body>> {
    let view = View::of(&call, &target.kind)?;
    let selection = Selection::parse(&target.kind, &call.query)?;
    let start = start(&call)?;
    let timeout = call.query.number("timeoutSeconds")?.unwrap_or(0);
    let timeout = if timeout == 0 {
        rand::rng().random_range(1800..3600)
    } else {
        timeout.min(24 * 3600)
    };
    let state = Watch {
        deadline: Instant::now() + Duration::from_secs(timeout),
        changed: call.core.store.changes(&target.collection),
        bookmarks: call.query.flag("allowWatchBookmarks"),
        next_bookmark: Instant::now() + BOOKMARK,
        initial: VecDeque::new(),
        pending_end: false,
        cursor: 0,
        columns: true,
        ended: false,
        _open: OpenWatch::new(&call.core.metrics),
        view,
        selection,
        call,
        target,
    }
    .begin(start)
    .await?;
    let mut response = Response::new(serve::stream(stream::unfold(state, Watch::next)));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    Ok(response)
}

/// Where a watch starts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Start {
    /// What is there now, then what changes; with a bookmark between them.
    Present { not_older_than: u64, bookmark: bool },
    /// What changed after a revision.
    After(u64),
    /// What changes from now on.
    Now { not_older_than: u64 },
}

fn start(call: &Call) -> Result<Start> {
    let version = call
        .query
        .get("resourceVersion")
        .map(parse_revision)
        .transpose()?;
    let mode = call.query.get("resourceVersionMatch");
    match call.query.optional_flag("sendInitialEvents") {
        None if mode.is_some() => Err(forbidden(
            "resourceVersionMatch is forbidden for watch unless sendInitialEvents is provided",
        )),
        Some(_) if mode.is_none() => Err(forbidden(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        Some(_) if mode != Some("NotOlderThan") => Err(forbidden(
            "sendInitialEvents requires setting resourceVersionMatch to NotOlderThan",
        )),
        Some(true) => Ok(Start::Present {
            not_older_than: version.unwrap_or(0),
            bookmark: call.query.flag("allowWatchBookmarks"),
        }),
        Some(false) => Ok(match version {
            Some(revision) if revision > 0 => Start::After(revision),
            _ => Start::Now { not_older_than: 0 },
        }),
        None => Ok(match version {
            Some(revision) if revision > 0 => Start::After(revision),
            _ => Start::Present {
                not_older_than: 0,
                bookmark: false,
            },
        }),
    }
}

struct Watch {
    call: Call,
    target: Target,
    view: View,
    selection: Selection,
    changed: tokio::sync::watch::Receiver<u64>,
    /// Everything up to this revision has been sent.
    cursor: u64,
    initial: VecDeque<Arc<Stored>>,
    /// The bookmark that ends the initial events is still to be sent.
    pending_end: bool,
    bookmarks: bool,
    next_bookmark: Instant,
    deadline: Instant,
    /// Table columns have not been sent yet.
    columns: bool,
    ended: bool,
    _open: OpenWatch,
}

impl Watch {
    async fn begin(mut self, start: Start) -> Result<Self> {
        let store = &self.call.core.store;
        match start {
            Start::Present {
                not_older_than,
                bookmark,
            } => {
                super::list::wait_for(&self.call, not_older_than).await?;
                let listing = store.list(&self.target.collection, self.target.list_namespace());
                self.cursor = listing.revision;
                self.initial = listing.objects.into();
                self.pending_end = bookmark;
            }
            Start::After(revision) => self.cursor = revision,
            Start::Now { not_older_than } => {
                super::list::wait_for(&self.call, not_older_than).await?;
                self.cursor = store.revision();
            }
        }
        Ok(self)
    }

    /// The next piece of the stream; `None` ends it.
    async fn next(mut self) -> Option<(Bytes, Self)> {
        let stopping = self.call.core.stopping.clone();
        loop {
            if self.ended {
                return None;
            }
            let chunk = self.ready();
            if !chunk.is_empty() {
                return Some((chunk, self));
            }
            let bookmark = self.next_bookmark;
            tokio::select! {
                changed = self.changed.changed() => {
                    if changed.is_err() {
                        return None;
                    }
                }
                () = tokio::time::sleep_until(bookmark), if self.bookmarks => {
                    self.next_bookmark = Instant::now() + BOOKMARK;
                    let frame = self.bookmark(false);
                    return Some((frame, self));
                }
                () = tokio::time::sleep_until(self.deadline) => {
                    self.ended = true;
                    if !self.bookmarks {
                        return None;
                    }
                    let frame = self.bookmark(false);
                    return Some((frame, self));
                }
                () = stopping.cancelled() => return None,
            }
        }
    }

    /// What can be sent without waiting.
    fn ready(&mut self) -> Bytes {
        let mut chunk = BytesMut::new();
        while let Some(object) = self.initial.pop_front() {
            if self.selection.matches(&object) {
                self.frame(&mut chunk, "ADDED", &object);
            }
            if chunk.len() >= CHUNK {
                return chunk.freeze();
            }
        }
        if std::mem::take(&mut self.pending_end) {
            let frame = self.bookmark(true);
            chunk.put_slice(&frame);
        }
        // Marks the value as seen before reading: a later change wakes us again.
        self.changed.borrow_and_update();
        match self
            .call
            .core
            .store
            .events_after(&self.target.collection, self.cursor, BATCH)
        {
            Ok((events, complete)) => {
                for event in &events {
                    self.event(&mut chunk, event);
                }
                // A reader from the future stays there until the present has come.
                self.cursor = self.cursor.max(complete);
                if !chunk.is_empty() && events.len() == BATCH {
                    self.changed.mark_changed();
                }
                if chunk.is_empty() && events.len() == BATCH {
                    return self.ready();
                }
            }
            Err(expired) => {
                self.ended = true;
                self.call.core.metrics.dropped_watches.inc();
                let status = ApiError::expired(expired.to_string()).to_status();
                put_frame(&mut chunk, "ERROR", status.to_string().as_bytes());
            }
        }
        chunk.freeze()
    }

    fn event(&mut self, chunk: &mut BytesMut, event: &Event) {
        let object = &event.object;
        if object.revision <= self.cursor {
            return;
        }
        if let Some(namespace) = self.target.list_namespace()
            && *namespace != *object.key.namespace
        {
            return;
        }
        let before = event
            .previous
            .as_ref()
            .is_some_and(|previous| self.selection.matches(previous));
        let after = event.kind == EventKind::Put && self.selection.matches(object);
        match (before, after) {
            (false, false) => {}
            (false, true) => self.frame(chunk, "ADDED", object),
            (true, true) => self.frame(chunk, "MODIFIED", object),
            (true, false) if event.kind == EventKind::Delete => self.frame(chunk, "DELETED", object),
            (true, false) => {
                // It left the selection: shown as it last matched, at the revision at which it left.
                let Some(previous) = &event.previous else { return };
                let draft = crate::store::draft(&previous.value());
                let last = Stored::new(previous.key.clone(), object.revision, draft.seal(object.revision));
                self.frame(chunk, "DELETED", &last);
            }
        }
    }

    fn frame(&mut self, chunk: &mut BytesMut, kind: &str, object: &Stored) {
        if self.view.shape == Shape::Table {
            let columns = std::mem::take(&mut self.columns);
            let mut table = self.view.table(vec![self.view.value(object)], columns);
            table["metadata"] = json!({"resourceVersion": object.revision.to_string()});
            put_frame(chunk, kind, table.to_string().as_bytes());
        } else {
            put_frame(chunk, kind, &self.view.item(object));
        }
    }

    fn bookmark(&mut self, initial_end: bool) -> Bytes {
        let mut metadata = json!({"creationTimestamp": null, "resourceVersion": self.cursor.to_string()});
        if initial_end {
            metadata["annotations"] = json!({"k8s.io/initial-events-end": "true"});
        }
        let object: Value = match self.view.shape {
            Shape::Object => {
                json!({"apiVersion": self.view.kind.api_version(), "kind": self.view.kind.kind, "metadata": metadata})
            }
            Shape::Metadata => {
                json!({"apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata})
            }
            Shape::Table => json!({
                "apiVersion": "meta.k8s.io/v1",
                "kind": "Table",
                "metadata": {"resourceVersion": self.cursor.to_string()},
                "columnDefinitions": null,
                "rows": [{"cells": [], "object": {
                    "apiVersion": "meta.k8s.io/v1", "kind": "PartialObjectMetadata", "metadata": metadata}}],
            }),
        };
        let mut chunk = BytesMut::new();
        put_frame(&mut chunk, "BOOKMARK", object.to_string().as_bytes());
        chunk.freeze()
    }
}

fn put_frame(chunk: &mut BytesMut, kind: &str, object: &[u8]) {
    chunk.reserve(object.len() + 40);
    chunk.put_slice(b"{\"type\":\"");
    chunk.put_slice(kind.as_bytes());
    chunk.put_slice(b"\",\"object\":");
    chunk.put_slice(object);
    chunk.put_slice(b"}\n");
}
