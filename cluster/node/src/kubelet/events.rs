//! What containerd tells about containers, as it happens.

use std::time::Duration;

use containerd_client::events::{TaskExit, TaskOom};
use containerd_client::services::v1::SubscribeRequest;
use containerd_client::services::v1::events_client::EventsClient;
use prost::Message;
use tokio::sync::mpsc;
use tonic::transport::Channel;

/// Ids of containers and sandboxes whose main process ended or ran out of memory. The
/// stream ends when the receiver is dropped.
pub fn runtime_events(channel: Channel) -> mpsc::Receiver<String> {
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

async fn follow(channel: Channel, tell: &mpsc::Sender<String>) -> Result<(), tonic::Status> {
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
        let id = envelope.event.and_then(|e| ended(&envelope.topic, &e.value));
        if let Some(id) = id
            && tell.send(id).await.is_err()
        {
            return Ok(());
        }
    }
}

/// The container, unless only a command in it ended.
fn ended(topic: &str, bytes: &[u8]) -> Option<String> {
    if topic == "/tasks/oom" {
        return TaskOom::decode(bytes).ok().map(|e| e.container_id);
    }
    let exit = TaskExit::decode(bytes).ok()?;
    (exit.id == exit.container_id).then_some(exit.container_id)
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
        assert_eq!(ended("/tasks/exit", &exit("c")).as_deref(), Some("c"));
        assert_eq!(ended("/tasks/exit", &exit("probe")), None);
        assert_eq!(ended("/tasks/exit", b"\xff"), None);
    }
}
