//! Lists: pages, revisions, selectors, shapes.

use apimachinery::field::ErrorType;
use std::{sync::Arc, time::Duration};

use base64::{Engine, engine::general_purpose::URL_SAFE_NO_PAD};
use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::{HeaderValue, Response, header};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use super::{
    Target,
    select::Selection,
    shape::{Shape, View},
    version::is_current,
};
use crate::{
    serve::{self, Body, Call},
    status::{ApiError, Cause, CauseReason, Result},
    store::{Listing, ObjectKey, Stored, untyped},
};

/// How long a reader waits for a revision that is not there yet.
const CATCH_UP: Duration = Duration::from_secs(3);
/// Objects are gathered into chunks of about this size.
const CHUNK: usize = 64 << 10;

/// Where the next page starts.
#[derive(Debug, Serialize, Deserialize)]
struct Continue {
    v: String,
    rv: u64,
    start: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Match {
    Latest,
    NotOlderThan(u64),
    Exact(u64),
}

pub(super) async fn list(call: &Call, target: &Target) -> Result<Response<Body>> {
    let view = View::of(call, &target.kind)?;
    let selection = Selection::parse(&target.kind, &call.query)?;
    let limit = call.query.number("limit")?.unwrap_or(0) as usize;
    let (listing, after) = objects(call, target, limit).await?;
    let Listing { revision, objects } = listing;
    let objects = match after {
        None => objects,
        Some(after) => objects.into_iter().filter(|object| object.key > after).collect(),
    };
    let mut page = Vec::new();
    let mut next = None;
    let mut remaining = 0;
    let everything = selection.is_everything();
    for object in objects {
        if limit > 0 && page.len() == limit {
            // Counting on is only exact, and only told, where nothing is filtered.
            if next.is_none() {
                next = page.last().map(|last: &Arc<Stored>| last.key.clone());
            }
            if !everything {
                break;
            }
            remaining += 1;
            continue;
        }
        if everything || selection.matches(&object) {
            page.push(object);
        }
    }
    let mut metadata = json!({"resourceVersion": revision.to_string()});
    if let Some(next) = next {
        metadata["continue"] = token(revision, &next).into();
        if everything {
            metadata["remainingItemCount"] = remaining.into();
        }
    }
    Ok(answer(view, page, metadata))
}

fn answer(view: View, page: Vec<Arc<Stored>>, metadata: Value) -> Response<Body> {
    if view.shape == Shape::Table {
        let mut table = view.table(page.iter().map(|object| view.value(object)).collect(), true);
        table["metadata"] = metadata;
        return serve::json(http::StatusCode::OK, &table);
    }
    let (api_version, kind) = match view.shape {
        Shape::Metadata => (
            "meta.k8s.io/v1".to_owned(),
            "PartialObjectMetadataList".to_owned(),
        ),
        _ => (view.kind.api_version(), view.kind.list_kind.clone()),
    };
    let head = format!("{{\"apiVersion\":{},\"items\":[", json!(api_version));
    let tail = format!("],\"kind\":{},\"metadata\":{metadata}}}\n", json!(kind));
    let mut response = Response::new(serve::stream(chunks(view, page, head, tail)));
    response
        .headers_mut()
        .insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// The list in pieces, made as the reader takes them.
fn chunks(
    view: View,
    page: Vec<Arc<Stored>>,
    head: String,
    tail: String,
) -> impl futures::Stream<Item = Bytes> + Send {
    let items = page.into_iter();
    stream::iter(std::iter::successors(Some(()), |()| Some(())).scan(
        (items, Some(head), Some(tail), true),
        move |(items, head, tail, first), ()| {
            let mut chunk = BytesMut::new();
            if let Some(head) = head.take() {
                chunk.put_slice(head.as_bytes());
            }
            for object in items.by_ref() {
                if !std::mem::take(first) {
                    chunk.put_u8(b',');
                }
                chunk.put_slice(&item(&view, &object));
                if chunk.len() >= CHUNK {
                    return Some(chunk.freeze());
                }
            }
            let tail = tail.take()?;
            chunk.put_slice(tail.as_bytes());
            Some(chunk.freeze())
        },
    ))
}

/// Items of built-in kinds do not repeat what the list says of them.
fn item(view: &View, object: &Stored) -> Bytes {
    let kind = &view.kind;
    if view.shape == Shape::Metadata || kind.is_custom() {
        return view.item(object);
    }
    if is_current(kind, object) {
        return untyped(&object.bytes, &kind.kind, &kind.api_version());
    }
    let mut value = view.value(object);
    if let Some(map) = value.as_object_mut() {
        map.remove("kind");
        map.remove("apiVersion");
    }
    serde_json::to_vec(&value).unwrap_or_default().into()
}

/// Objects at the revision that the parameters ask for, and the key after which to start.
async fn objects(call: &Call, target: &Target, limit: usize) -> Result<(Listing, Option<ObjectKey>)> {
    let store = &call.core.store;
    let namespace = target.list_namespace();
    if let Some(text) = call.query.get("continue") {
        if call
            .query
            .get("resourceVersion")
            .is_some_and(|version| version != "0")
        {
            let message = "specifying resource version is not allowed when using continue";
            return Err(ApiError::bad_request(message));
        }
        let token: Continue = URL_SAFE_NO_PAD
            .decode(text)
            .ok()
            .and_then(|json| serde_json::from_slice(&json).ok())
            .filter(|token: &Continue| token.v == "meta.k8s.io/v1")
            .ok_or_else(|| {
                ApiError::bad_request("continue key is not valid: it must come from an earlier list")
            })?;
        let (start_namespace, start_name) = token.start.split_once('/').unwrap_or(("", &token.start));
        let after = ObjectKey::new(start_namespace, start_name);
        if token.rv == 0 {
            return Ok((store.list(&target.collection, namespace), Some(after)));
        }
        return match store.list_at(&target.collection, namespace, token.rv) {
            Ok(listing) => Ok((listing, Some(after))),
            Err(_) => {
                // A list that goes on at the present, at the price of consistency.
                let inconsistent = encode(&Continue { rv: 0, ..token });
                let mut error = ApiError::expired(
                    "The provided continue parameter is too old to display a consistent list result. You can start a new list without the continue parameter, or use the continue token in this response to retrieve the remainder of the results. Continuing with the provided token results in an inconsistent list - objects that were created, modified, or deleted between the time the first chunk was returned and now may show up in the list.",
                );
                error.continue_token = Some(inconsistent);
                Err(error)
            }
        };
    }
    let listing = match wanted(call, limit)? {
        Match::Latest => store.list(&target.collection, namespace),
        Match::NotOlderThan(revision) => {
            wait_for(call, revision).await?;
            store.list(&target.collection, namespace)
        }
        Match::Exact(revision) => {
            wait_for(call, revision).await?;
            store
                .list_at(&target.collection, namespace, revision)
                .map_err(|_| {
                    ApiError::expired(format!(
                        "The resourceVersion for the provided list is too old: {revision}"
                    ))
                })?
        }
    };
    Ok((listing, None))
}

/// `resourceVersionMatch` does not go with the other parameters.
pub(super) fn forbidden(message: &str) -> ApiError {
    ApiError::invalid(
        "meta.k8s.io",
        "ListOptions",
        "",
        vec![Cause {
            reason: ErrorType::Forbidden.into(),
            message: format!("Forbidden: {message}"),
            field: "resourceVersionMatch".into(),
        }],
    )
}

fn wanted(call: &Call, limit: usize) -> Result<Match> {
    let version = call.query.get("resourceVersion");
    let mode = call.query.get("resourceVersionMatch");
    let Some(text) = version else {
        return match mode {
            None => Ok(Match::Latest),
            Some(_) => Err(forbidden(
                "resourceVersionMatch is forbidden unless resourceVersion is provided",
            )),
        };
    };
    let revision: u64 = parse_revision(text)?;
    match mode {
        None if limit > 0 && revision > 0 => Ok(Match::Exact(revision)),
        None | Some("NotOlderThan") => Ok(Match::NotOlderThan(revision)),
        Some("Exact") if revision == 0 => Err(forbidden(
            "resourceVersionMatch \"exact\" is forbidden for resourceVersion \"0\"",
        )),
        Some("Exact") => Ok(Match::Exact(revision)),
        Some(other) => Err(ApiError::invalid(
            "meta.k8s.io",
            "ListOptions",
            "",
            vec![Cause {
                reason: ErrorType::NotSupported.into(),
                message: format!(
                    "Unsupported value: {other:?}: supported values: \"Exact\", \"NotOlderThan\", \"\""
                ),
                field: "resourceVersionMatch".into(),
            }],
        )),
    }
}

pub(super) fn parse_revision(text: &str) -> Result<u64> {
    text.parse()
        .map_err(|_| ApiError::bad_request(format!("invalid resource version: {text:?}")))
}

/// Waits a little for a revision from the future, then says so.
pub(super) async fn wait_for(call: &Call, revision: u64) -> Result<()> {
    let deadline = tokio::time::Instant::now() + CATCH_UP;
    loop {
        let current = call.core.store.revision();
        if current >= revision {
            return Ok(());
        }
        if tokio::time::Instant::now() >= deadline {
            let message = format!("Too large resource version: {revision}, current: {current}");
            return Err(ApiError::timeout(message)
                .with_causes(vec![Cause {
                    reason: CauseReason::ResourceVersionTooLarge,
                    message: "Too large resource version".into(),
                    field: String::new(),
                }])
                .retry_after(1));
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

fn token(revision: u64, last: &ObjectKey) -> String {
    let start = format!("{}/{}", last.namespace, last.name);
    encode(&Continue {
        v: "meta.k8s.io/v1".into(),
        rv: revision,
        start,
    })
}

fn encode(token: &Continue) -> String {
    URL_SAFE_NO_PAD.encode(serde_json::to_vec(token).unwrap_or_default())
}
