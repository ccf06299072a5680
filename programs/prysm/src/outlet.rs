//! Where messages are sent: to NATS, and to standard output.

use std::io::Write;
use std::sync::Arc;

use async_nats::Subject;
use bytes::Bytes;

use crate::error::Error;
use crate::exposition::Page;
use crate::nats::{Figures, NatsArguments, Publisher};

/// Both ways may be closed.
pub(crate) struct Outlet {
    publisher: Option<Publisher>,
    print: bool,
}

impl Outlet {
    pub(crate) async fn open(arguments: &NatsArguments, print: bool, name: &str) -> Result<Self, Error> {
        let client = arguments.connect(name).await?;
        Ok(Outlet {
            publisher: client.map(Publisher::start),
            print,
        })
    }

    /// Somebody will hear what is said.
    pub(crate) fn is_open(&self) -> bool {
        self.print || self.publisher.is_some()
    }

    pub(crate) fn has_nats(&self) -> bool {
        self.publisher.is_some()
    }

    pub(crate) fn say(&self, subject: &Subject, message: impl Into<Bytes>) -> Result<(), Error> {
        let message = message.into();
        if self.print {
            let mut out = std::io::stdout().lock();
            let written = out.write_all(&message).and_then(|()| out.write_all(b"\n"));
            written.map_err(Error::Print)?;
        }
        if let Some(publisher) = &self.publisher {
            publisher.publish(subject, message);
        }
        Ok(())
    }

    pub(crate) fn figures(&self) -> Option<Arc<Figures>> {
        self.publisher.as_ref().map(Publisher::figures)
    }

    /// Sends what still waits.
    pub(crate) async fn close(self) {
        if let Some(publisher) = self.publisher {
            publisher.finish().await;
        }
    }
}

/// Adds how it goes with NATS to a page.
pub(crate) fn with_figures(page: String, figures: Option<&Figures>) -> String {
    let Some(figures) = figures else {
        return page;
    };
    let mut more = Page::default();
    figures.render(&mut more);
    page + &more.text()
}
