//! Watches of kinds that a cluster may not have yet.

use std::fmt::Debug;
use std::time::Duration;

use futures::stream::{self, BoxStream, Stream, StreamExt};
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::api::Api;
use kube::core::{ApiResource, PartialObjectMeta};
use kube::runtime::WatchStreamExt;
use kube::runtime::watcher::{self, Event, watcher};
use kube::{Client, Resource};
use serde::de::DeserializeOwned;

/// Between looks for a kind when its definition cannot be followed.
const BLIND: Duration = Duration::from_secs(300);
/// A server reports a definition a moment before it serves the kind: how often to look for it again,
/// after pauses that double from the first.
const LOOKS: u32 = 8;
const FIRST_PAUSE: Duration = Duration::from_millis(250);

pub(crate) type Events<K> = BoxStream<'static, Result<Event<K>, watcher::Error>>;

/// What a watch brings. A kind that the cluster does not have is an error once; after it the stream is
/// silent until the definition of the kind comes or changes.
pub fn events<K>(api: Api<K>, resource: &ApiResource, config: watcher::Config) -> Events<K>
where
    K: Resource + Clone + Debug + DeserializeOwned + Send + 'static,
{
    let begin = move |api: &Api<K>| {
        calm(watcher(api.clone(), config.clone()))
            .default_backoff()
            .boxed()
    };
    let definition = format!("{}.{}", resource.plural, resource.group);
    let watching = Watching {
        stream: begin(&api),
        missing: false,
        tried: Tried::default(),
    };
    stream::unfold(watching, move |mut watching| {
        let (api, begin, definition) = (api.clone(), begin.clone(), definition.clone());
        async move {
            if watching.missing {
                let client = api.clone().into_client();
                changed(client, &definition, &mut watching.tried).await;
                watching.stream = begin(&api);
            }
            let event = watching.stream.next().await?;
            watching.missing = matches!(&event, Err(error) if is_unknown(error));
            Some((event, watching))
        }
    })
    .boxed()
}

struct Watching<K> {
    stream: Events<K>,
    missing: bool,
    tried: Tried,
}

/// The version of the definition with which the kind was last looked for, and how often it was.
#[derive(Default)]
struct Tried {
    version: Option<String>,
    looks: u32,
}

/// Resolves when there is a definition of this name in another version than was tried, or when it is time
/// to look once more with the same.
async fn changed(client: Client, definition: &str, tried: &mut Tried) {
    let api: Api<PartialObjectMeta<CustomResourceDefinition>> = Api::all(client);
    let config = watcher::Config::default().fields(&format!("metadata.name={definition}"));
    let mut events = watcher(api, config).boxed();
    let again = tokio::time::sleep(FIRST_PAUSE * 2u32.saturating_pow(tried.looks));
    tokio::pin!(again);
    loop {
        let event = tokio::select! {
            event = events.next() => event,
            () = &mut again, if tried.version.is_some() && tried.looks < LOOKS => {
                tried.looks += 1;
                return;
            }
        };
        match event {
            Some(Ok(Event::Apply(found) | Event::InitApply(found))) => {
                if found.metadata.resource_version != tried.version {
                    *tried = Tried {
                        version: found.metadata.resource_version,
                        looks: 0,
                    };
                    return;
                }
            }
            Some(Ok(Event::Init | Event::InitDone | Event::Delete(_))) => {}
            Some(Err(error)) => {
                tracing::debug!(definition, "cannot be followed: {error}");
                tokio::time::sleep(BLIND).await;
                return;
            }
            None => return,
        }
    }
}

/// The cluster does not have the kind: there are no objects of it.
pub(crate) fn is_unknown(error: &watcher::Error) -> bool {
    match error {
        watcher::Error::InitialListFailed(kube::Error::Api(status)) => status.code == 404,
        _ => false,
    }
}

/// Tells of the beginning of a list together with what comes of it. A back-off takes every event for
/// success; a list that begins and fails, again and again, is none.
fn calm<K: Send + 'static>(
    events: impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static,
) -> impl Stream<Item = Result<Event<K>, watcher::Error>> + Send + 'static {
    events
        .scan(false, |begun, event| {
            let told = match event {
                Ok(Event::Init) => {
                    *begun = true;
                    [None, None]
                }
                Ok(event) => [std::mem::take(begun).then_some(Ok(Event::Init)), Some(Ok(event))],
                Err(error) => {
                    *begun = false;
                    [None, Some(Err(error))]
                }
            };
            std::future::ready(Some(stream::iter(told.into_iter().flatten())))
        })
        .flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise a back-off would take each beginning for success and restart.
    #[tokio::test]
    async fn a_list_that_begins_and_fails_is_nothing_but_a_failure() {
        let failing = || {
            let error = kube::Error::LinesCodecMaxLineLengthExceeded;
            [
                Ok(Event::<()>::Init),
                Err(watcher::Error::InitialListFailed(error)),
            ]
        };
        let events = stream::iter(failing()).chain(stream::iter(failing()));
        let told: Vec<_> = calm(events).map(|event| event.is_err()).collect().await;
        assert_eq!(told, [true, true]);
    }

    #[tokio::test]
    async fn what_a_list_brings_is_told_in_order() {
        let events = stream::iter([
            Ok(Event::Init),
            Ok(Event::InitApply(1)),
            Ok(Event::InitDone),
            Ok(Event::Init),
            Ok(Event::InitDone),
        ]);
        let told: Vec<_> = calm(events)
            .map(|event| format!("{:?}", event.unwrap()))
            .collect()
            .await;
        assert_eq!(told, ["Init", "InitApply(1)", "InitDone", "Init", "InitDone"]);
    }
}
