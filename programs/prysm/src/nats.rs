//! NATS, where events go. Whoever publishes never waits: what the server does not take in time is
//! dropped, and counted.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use async_nats::{Client, ConnectOptions, Event, Subject};
use bytes::Bytes;
use clap::Args;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;

use crate::error::Error;
use crate::exposition::{Page, Type};

/// Messages and bytes that may wait for the server.
const MESSAGES: usize = 1 << 16;
const BYTES: usize = 16 << 20;
/// For what is still waiting when the program ends.
const FAREWELL: Duration = Duration::from_secs(5);

/// Logins come from the environment alone (NATS_USER and NATS_PASSWORD, or NATS_TOKEN): arguments can
/// be seen by everybody on the machine.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct NatsArguments {
    /// Publish to this server too, nats://HOST:4222 or tls://HOST:4222; NATS_USER and NATS_PASSWORD, or
    /// NATS_TOKEN, in the environment log in
    #[arg(long = "nats", env = "NATS_URL", value_name = "URL")]
    pub url: Option<String>,
    /// CA certificates of the server (PEM)
    #[arg(long = "nats-ca", env = "NATS_CA", value_name = "FILE", requires = "url")]
    pub authority: Option<std::path::PathBuf>,
}

impl NatsArguments {
    /// A client that keeps trying to reach the server; `None` when nobody asked for NATS.
    pub(crate) async fn connect(&self, name: &str) -> Result<Option<Client>, Error> {
        let Some(url) = &self.url else {
            return Ok(None);
        };
        let refused = |why: String| Error::Nats {
            url: url.clone(),
            why,
        };
        if url.contains('@') {
            let why = "the address must not contain a login: set NATS_USER and NATS_PASSWORD".to_owned();
            return Err(Error::Nats {
                url: "--nats".to_owned(),
                why,
            });
        }
        let mut options = ConnectOptions::new()
            .name(name)
            .client_capacity(256)
            .retry_on_initial_connect()
            .event_callback(async |event| match event {
                Event::Connected => tracing::info!("connected to NATS"),
                Event::Disconnected => tracing::warn!("connection to NATS lost; reconnecting"),
                Event::ServerError(error) => tracing::warn!("NATS: {error}"),
                Event::ClientError(error) => tracing::warn!("NATS: {error}"),
                other => tracing::debug!("NATS: {other}"),
            });
        let variable = |name: &str| std::env::var(name).ok().filter(|value| !value.is_empty());
        match (
            variable("NATS_USER"),
            variable("NATS_PASSWORD"),
            variable("NATS_TOKEN"),
        ) {
            (Some(user), Some(password), _) => options = options.user_and_password(user, password),
            (None, None, Some(token)) => options = options.token(token),
            (None, None, None) => {}
            _ => {
                let why = "set both NATS_USER and NATS_PASSWORD, or NATS_TOKEN alone".to_owned();
                return Err(refused(why));
            }
        }
        if let Some(file) = &self.authority {
            options = options.add_root_certificates(file.clone()).require_tls(true);
        }
        let client = options.connect(url.as_str()).await;
        client.map(Some).map_err(|error| refused(error.to_string()))
    }
}

/// How it went with the messages.
#[derive(Debug, Default)]
pub(crate) struct Figures {
    published: AtomicU64,
    dropped: AtomicU64,
    waiting: AtomicUsize,
}

impl Figures {
    pub(crate) fn render(&self, page: &mut Page) {
        for (name, help, value) in [
            (
                "prysm_nats_published_total",
                "Messages sent to NATS.",
                &self.published,
            ),
            (
                "prysm_nats_dropped_total",
                "Messages that NATS did not accept in time.",
                &self.dropped,
            ),
        ] {
            page.family(name, Type::Counter, help);
            page.sample(name, [], value.load(Relaxed));
        }
    }

    fn drop_one(&self) {
        self.dropped.fetch_add(1, Relaxed);
    }
}

type Message = (Subject, Bytes);

/// The way to the server.
pub(crate) struct Publisher {
    sender: mpsc::Sender<Message>,
    figures: Arc<Figures>,
    task: JoinHandle<()>,
}

impl Publisher {
    pub(crate) fn start(client: Client) -> Self {
        let (sender, mut receiver) = mpsc::channel::<Message>(MESSAGES);
        let figures = Arc::new(Figures::default());
        let counted = figures.clone();
        let task = tokio::spawn(async move {
            while let Some((subject, payload)) = receiver.recv().await {
                let length = payload.len();
                match client.publish(subject, payload).await {
                    Ok(()) => _ = counted.published.fetch_add(1, Relaxed),
                    Err(error) => {
                        counted.drop_one();
                        tracing::debug!("NATS did not accept a message: {error}");
                    }
                }
                counted.waiting.fetch_sub(length, Relaxed);
            }
            if let Err(error) = client.flush().await {
                tracing::warn!("NATS: {error}");
            }
        });
        Publisher {
            sender,
            figures,
            task,
        }
    }

    pub(crate) fn figures(&self) -> Arc<Figures> {
        self.figures.clone()
    }

    pub(crate) fn publish(&self, subject: &Subject, payload: impl Into<Bytes>) {
        let payload = payload.into();
        let length = payload.len();
        let waiting = self.figures.waiting.fetch_add(length, Relaxed);
        let full = waiting.saturating_add(length) > BYTES;
        if full || self.sender.try_send((subject.clone(), payload)).is_err() {
            self.figures.waiting.fetch_sub(length, Relaxed);
            self.figures.drop_one();
        }
    }

    /// Sends what waits, for a few seconds at most.
    pub(crate) async fn finish(self) {
        drop(self.sender);
        if tokio::time::timeout(FAREWELL, self.task).await.is_err() {
            tracing::warn!(
                "NATS did not accept the last messages within {} s",
                FAREWELL.as_secs()
            );
        }
    }
}

/// A name like `rgw.s3.ops`: no spaces, no wildcards, no empty parts.
pub(crate) fn subject(text: &str) -> Result<Subject, String> {
    let part = |part: &str| {
        !part.is_empty()
            && part
                .bytes()
                .all(|byte| byte.is_ascii_graphic() && !b"*>".contains(&byte))
    };
    if text.len() <= 255 && text.split('.').all(part) {
        Ok(Subject::from(text))
    } else {
        Err("a subject is words between dots, without spaces and wildcards, like rgw.s3.ops".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subject_names_one_place() {
        assert!(subject("rgw.s3.ops").is_ok());
        for bad in ["", ".", "a..b", "a b", "a.*", "a.>", "ü"] {
            assert!(subject(bad).is_err(), "{bad}");
        }
    }

    /// Nobody listens there: messages wait up to the limit, and the rest is counted.
    #[tokio::test]
    async fn without_a_server_memory_is_bounded_and_nobody_waits() {
        let arguments = NatsArguments {
            url: Some("nats://127.0.0.1:1".to_owned()),
            ..NatsArguments::default()
        };
        let client = arguments.connect("test").await.expect("a client").expect("one");
        let publisher = Publisher::start(client);
        let place = subject("a.b").expect("a subject");
        let payload = Bytes::from(vec![0; 1 << 20]);
        for _ in 0..600 {
            publisher.publish(&place, payload.clone());
        }
        let figures = publisher.figures();
        assert!(figures.waiting.load(Relaxed) <= BYTES);
        // Besides what waits here the client holds its own few.
        assert!(figures.dropped.load(Relaxed) >= 600 - 16 - 256);
    }

    #[tokio::test]
    async fn a_login_in_the_address_is_refused_and_not_repeated() {
        let arguments = NatsArguments {
            url: Some("nats://ann:hunter2@127.0.0.1:1".to_owned()),
            ..NatsArguments::default()
        };
        let error = arguments.connect("test").await.expect_err("refused").to_string();
        assert!(
            error.contains("NATS_PASSWORD") && !error.contains("hunter2"),
            "{error}"
        );
    }
}
