//! What containerd tells about containers, as it happens.

use std::time::Duration;

use containerd_client::events::{TaskExit, TaskOom};
use containerd_client::services::v1::SubscribeRequest;
use containerd_client::services::v1::events_client::EventsClient;
use prost::Message;
use tokio::sync::mpsc;
use tonic::transport::Channel;

/// What happened to a container or sandbox, by its id.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happened {
    /// Its main process ended.
    Ended(String),
    /// A process of it was ended for want of memory.
    OutOfMemory(String),
}

/// The stream ends when the receiver is dropped.
pub(super) fn runtime_events(channel: Channel) -> mpsc::Receiver<Happened> {
    let (tell, told) = mpsc::channel(256);
    tokio::spawn(async move {
        while !tell.is_closed() {
            if let Err(e) = follow(channel.clone(), &tell).await {
                tracing::debug!("events of containerd: {}", e.message());
            }
            tokio::time::sleep(Duration::from_millis(200)).await;
        }
    });
    told
}

async fn follow(channel: Channel, tell: &mpsc::Sender<Happened>) -> Result<(), tonic::Status> {
    let filters = [r#"topic=="/tasks/exit""#, r#"topic=="/tasks/oom""#].map(String::from);
    let request = SubscribeRequest {
        filters: filters.into(),
    };
    let mut stream = EventsClient::new(channel).subscribe(request).await?.into_inner();
    loop {
        let envelope = tokio::select! {
            message = stream.message() => message?,
            () = tell.closed() => None,
        };
        let Some(envelope) = envelope else { return Ok(()) };
        if envelope.namespace != "k8s.io" {
            continue;
        }
        let event = envelope.event.and_then(|e| read(&envelope.topic, &e.value));
        if let Some(event) = event
            && tell.send(event).await.is_err()
        {
            return Ok(());
        }
    }
}

/// Nothing when only a command in a container ended.
fn read(topic: &str, bytes: &[u8]) -> Option<Happened> {
    if topic == "/tasks/oom" {
        let oom = TaskOom::decode(bytes).ok()?;
        return Some(Happened::OutOfMemory(oom.container_id));
    }
    let exit = TaskExit::decode(bytes).ok()?;
    (exit.id == exit.container_id).then_some(Happened::Ended(exit.container_id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_probe_that_ends_is_no_end() {
        let exit = |id: &str| {
            TaskExit {
                container_id: "c".into(),
                id: id.into(),
                ..TaskExit::default()
            }
            .encode_to_vec()
        };
        let ended = Some(Happened::Ended("c".into()));
        assert_eq!(read("/tasks/exit", &exit("c")), ended);
        assert_eq!(read("/tasks/exit", &exit("probe")), None);
        assert_eq!(read("/tasks/exit", b"\xff"), None);
    }
}
