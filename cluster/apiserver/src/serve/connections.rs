//! Connections: how many there may be, and how long one may be silent.

use std::{
    collections::HashMap,
    io,
    net::IpAddr,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use http_body::{Frame, SizeHint};
use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    time::{Instant, Sleep},
};

use super::{Body, body::BodyError};

/// Open connections over all listeners.
pub struct Connections {
    limit: usize,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Connections {
    pub fn new(limit: usize) -> Self {
        Self {
            limit,
            open: Arc::default(),
        }
    }

    /// `None` when there are too many, of all or of this address: one machine cannot keep the others out.
    pub fn open(&self, from: IpAddr) -> Option<Open> {
        let mut open = lock(&self.open);
        let all: usize = open.values().sum();
        let count = open.get(&from).copied().unwrap_or_default();
        if all >= self.limit || count >= (self.limit / 2).max(1) {
            return None;
        }
        open.insert(from, count + 1);
        Some(Open {
            from,
            open: self.open.clone(),
        })
    }
}

/// One open connection.
pub struct Open {
    from: IpAddr,
    open: Arc<Mutex<HashMap<IpAddr, usize>>>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let mut open = lock(&self.open);
        match open.get_mut(&self.from) {
            Some(count) if *count > 1 => *count -= 1,
            _ => {
                open.remove(&self.from);
            }
        }
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Bytes with which HTTP/2 begins; any request of HTTP/1 that names a host is longer.
const PREFACE: usize = 24;

/// A stream that must begin to speak HTTP before its deadline; hyper's own timeouts begin later.
pub(super) struct Prompt<S> {
    stream: S,
    deadline: Option<Pin<Box<Sleep>>>,
    read: usize,
}

impl<S> Prompt<S> {
    pub(super) fn new(stream: S, within: Duration) -> Self {
        Self {
            stream,
            deadline: Some(Box::pin(tokio::time::sleep(within))),
            read: 0,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Prompt<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        let answer = Pin::new(&mut self.stream).poll_read(context, buffer);
        if let Some(deadline) = &mut self.deadline {
            match &answer {
                Poll::Pending => {
                    if deadline.as_mut().poll(context).is_ready() {
                        return Poll::Ready(Err(io::ErrorKind::TimedOut.into()));
                    }
                }
                Poll::Ready(_) => {
                    self.read += buffer.filled().len() - before;
                    if self.read >= PREFACE {
                        self.deadline = None;
                    }
                }
            }
        }
        answer
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Prompt<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// What goes on in one connection.
#[derive(Clone)]
pub(super) struct Activity(Arc<Inner>);

struct Inner {
    under_way: AtomicUsize,
    last: Mutex<Instant>,
}

impl Default for Activity {
    fn default() -> Self {
        Self(Arc::new(Inner {
            under_way: AtomicUsize::new(0),
            last: Mutex::new(Instant::now()),
        }))
    }
}

impl Activity {
    /// From a request to the end of its answer.
    pub(super) fn begin(&self) -> Busy {
        self.0.under_way.fetch_add(1, Ordering::AcqRel);
        Busy(self.clone())
    }

    /// Resolves when nothing has been asked or answered for so long.
    pub(super) async fn idle(&self, time: Duration) {
        loop {
            let last = *lock(&self.0.last);
            if self.0.under_way.load(Ordering::Acquire) > 0 {
                tokio::time::sleep(time).await;
            } else if last.elapsed() >= time {
                return;
            } else {
                tokio::time::sleep_until(last + time).await;
            }
        }
    }
}

pub(super) struct Busy(Activity);

impl Drop for Busy {
    fn drop(&mut self) {
        *lock(&self.0.0.last) = Instant::now();
        self.0.0.under_way.fetch_sub(1, Ordering::AcqRel);
    }
}

/// An answer that is being sent.
pub(super) struct Answering {
    body: Body,
    _busy: Busy,
}

impl Answering {
    pub(super) fn new(body: Body, busy: Busy) -> Self {
        Self { body, _busy: busy }
    }
}

impl http_body::Body for Answering {
    type Data = bytes::Bytes;
    type Error = BodyError;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Self::Data>, BodyError>>> {
        Pin::new(&mut self.body).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[test]
    fn one_address_cannot_take_all_connections() {
        let connections = Connections::new(4);
        let [a, b, c] = [1, 2, 3].map(|n| IpAddr::from([10, 0, 0, n]));
        let mut held: Vec<Open> = (0..5).filter_map(|_| connections.open(a)).collect();
        assert_eq!(held.len(), 2);
        held.extend((0..5).filter_map(|_| connections.open(b)));
        assert_eq!(held.len(), 4);
        assert!(connections.open(c).is_none(), "all are taken");
        held.pop();
        assert!(connections.open(c).is_some());
        held.clear();
        assert!(lock(&connections.open).is_empty());
    }

    #[tokio::test]
    async fn a_connection_that_does_not_speak_is_closed() {
        for said in [&b""[..], b"PRI * HTTP/2.0"] {
            let (mut client, server) = tokio::io::duplex(64);
            client.write_all(said).await.unwrap();
            let mut prompt = Prompt::new(server, Duration::from_millis(50));
            let error = prompt.read_exact(&mut [0; PREFACE]).await.unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::TimedOut, "{said:?}");
        }
        let (mut client, server) = tokio::io::duplex(64);
        client.write_all(&[b'x'; PREFACE]).await.unwrap();
        let mut prompt = Prompt::new(server, Duration::from_millis(50));
        prompt.read_exact(&mut [0; PREFACE]).await.unwrap();
        tokio::time::sleep(Duration::from_millis(100)).await;
        client.write_all(b"y").await.unwrap();
        assert_eq!(prompt.read_u8().await.unwrap(), b'y', "later it may be silent");
    }

    #[tokio::test]
    async fn idle_is_measured_from_the_end_of_the_last_answer() {
        let activity = Activity::default();
        let start = Instant::now();
        let busy = activity.begin();
        tokio::spawn(async move {
            tokio::time::sleep(Duration::from_millis(250)).await;
            drop(busy);
        });
        activity.idle(Duration::from_millis(100)).await;
        assert!(
            start.elapsed() >= Duration::from_millis(350),
            "{:?}",
            start.elapsed()
        );
    }
}
