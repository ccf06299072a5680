//! `bucket-notify`.

use std::sync::{Arc, Mutex, PoisonError};

use async_nats::Subject;
use c5c3_kit::Stop;
use c5c3_webhook::{Answer, Call, Server};
use clap::Args;
use http::{Method, StatusCode};

use super::Shared;
use crate::error::Error;
use crate::exposition::{self, Page};
use crate::nats::{NatsArguments, subject};
use crate::notify::Received;
use crate::outlet::{Outlet, with_figures};

/// RadosGW sends one record at a time; the longest name of an object has 1024 bytes.
const LARGEST: usize = 1 << 20;

/// Take RadosGW's bucket notifications at POST /notifications and publish them.
#[derive(Debug, Args)]
#[command(
    after_help = "Topics of RadosGW send to it with push-endpoint=http://HOST:8080/notifications.

Examples:
  c5c3 prysm bucket-notify --listen [::]:8080 --nats nats://nats:4222
  c5c3 prysm bucket-notify --listen 127.0.0.1:8080 --print"
)]
pub(super) struct BucketNotify {
    #[command(flatten)]
    pub(super) shared: Shared,
    #[command(flatten)]
    nats: NatsArguments,
    /// Subject of the messages
    #[arg(long, default_value = "rgw.buckets.notify", env = "NATS_SUBJECT", value_parser = subject)]
    subject: Subject,
    /// Print every notification
    #[arg(long)]
    print: bool,
}

impl BucketNotify {
    pub(super) async fn run(self, stop: Stop) -> Result<(), Error> {
        let outlet = Outlet::open(&self.nats, self.print, "prysm bucket-notify").await?;
        if !outlet.is_open() {
            return Err(Error::NoNats);
        }
        let outlet = Arc::new(outlet);
        let server = Server::bind(self.shared.listen, LARGEST, None).await?;
        tracing::info!("notifications at http://{}/notifications", server.address());
        let (received, way, subject) = (Mutex::new(Received::default()), outlet.clone(), self.subject);
        let answer = move |call: Call| {
            let mut received = received.lock().unwrap_or_else(PoisonError::into_inner);
            std::future::ready(match (&call.method, call.path.as_str()) {
                (&Method::POST, "/notifications") => take(&mut received, &way, &subject, call),
                (&Method::GET, "/metrics") => Answer {
                    status: StatusCode::OK,
                    kind: exposition::CONTENT_TYPE,
                    body: {
                        let mut page = Page::default();
                        received.render(&mut page);
                        with_figures(page.text(), way.figures().as_deref())
                    },
                },
                (&Method::GET, "/healthz") => Answer::text(StatusCode::OK, "ok\n"),
                _ => Answer::text(
                    StatusCode::NOT_FOUND,
                    "see POST /notifications, /metrics and /healthz\n",
                ),
            })
        };
        server.serve(stop, answer).await;
        // The handler is gone with the server; a caller that is still served keeps the rest from being sent.
        if let Some(outlet) = Arc::into_inner(outlet) {
            outlet.close().await;
        }
        Ok(())
    }
}

fn take(received: &mut Received, outlet: &Outlet, subject: &Subject, call: Call) -> Answer {
    if let Err(why) = received.take(&call.body) {
        return Answer::text(StatusCode::BAD_REQUEST, format!("{why}\n"));
    }
    match outlet.say(subject, call.body) {
        Ok(()) => Answer::text(StatusCode::OK, "taken\n"),
        Err(error) => Answer::text(StatusCode::INTERNAL_SERVER_ERROR, format!("{error}\n")),
    }
}
