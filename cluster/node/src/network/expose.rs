//! Services on loopback of the machine: a listener there, the connection from inside.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep};

use super::frontends::Exposure;
use crate::netns::NetNs;

/// A client waits this long for a Service without a ready pod: with one replica, a pod that is replaced is a gap.
const PATIENCE: Duration = Duration::from_secs(20);
const AGAIN: Duration = Duration::from_millis(250);

/// Listeners that are open now.
#[derive(Default)]
pub struct Exposed {
    open: BTreeMap<Exposure, JoinHandle<()>>,
}

impl Drop for Exposed {
    fn drop(&mut self) {
        for task in self.open.values() {
            task.abort();
        }
    }
}

impl Exposed {
    /// Opens what is missing and closes what is not wanted any more; gives back what could
    /// not be opened, and why. `dial` gives a namespace to connect from, for each connection
    /// again: nodes come and go.
    pub async fn set(
        &mut self,
        wanted: &[Exposure],
        dial: impl Fn() -> Option<NetNs> + Clone + Send + Sync + 'static,
    ) -> Vec<(Exposure, io::Error)> {
        let mut failed = Vec::new();
        let gone: Vec<Exposure> = self
            .open
            .keys()
            .filter(|e| !wanted.contains(e))
            .cloned()
            .collect();
        for task in gone.iter().filter_map(|exposure| self.open.remove(exposure)) {
            task.abort();
            // The port is free only when the task has ended; its result is merely that it was aborted.
            let _ = task.await;
        }
        for exposure in wanted {
            if self.open.contains_key(exposure) {
                continue;
            }
            let at = SocketAddr::from((Ipv4Addr::LOCALHOST, exposure.listen));
            match TcpListener::bind(at).await {
                Ok(listener) => {
                    tracing::info!("{} is on {at}", exposure.service);
                    let to = SocketAddr::V4(exposure.to);
                    let task = tokio::spawn(accept(listener, to, dial.clone()));
                    self.open.insert(exposure.clone(), task);
                }
                Err(e) => failed.push((exposure.clone(), e)),
            }
        }
        failed
    }
}

async fn accept(
    listener: TcpListener,
    to: SocketAddr,
    dial: impl Fn() -> Option<NetNs> + Send + Sync + 'static,
) {
    loop {
        let Ok((client, _)) = listener.accept().await else {
            sleep(Duration::from_millis(100)).await;
            continue;
        };
        let Some(ns) = dial() else { continue };
        tokio::spawn(async move {
            if let Err(e) = forward(client, &ns, to).await {
                tracing::debug!("forward to {to}: {e}");
            }
        });
    }
}

async fn forward(mut client: TcpStream, ns: &NetNs, to: SocketAddr) -> io::Result<()> {
    client.set_nodelay(true)?;
    let mut server = reach(|| ns.connect(to), PATIENCE).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server)
        .await
        .map(drop)
}

/// Connects as soon as the other side listens.
async fn reach<T, F>(connect: impl Fn() -> F, patience: Duration) -> io::Result<T>
where
    F: Future<Output = io::Result<T>>,
{
    let end = Instant::now() + patience;
    loop {
        match connect().await {
            Err(error) if error.kind() == io::ErrorKind::ConnectionRefused && Instant::now() < end => {
                sleep(AGAIN).await;
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[tokio::test]
    async fn a_client_waits_for_a_pod_that_is_replaced_but_not_for_ever() {
        let tries = AtomicUsize::new(0);
        let refused = |times: usize| {
            let tries = &tries;
            move || async move {
                match tries.fetch_add(1, Ordering::Relaxed) {
                    count if count < times => Err(io::Error::from(io::ErrorKind::ConnectionRefused)),
                    _ => Ok(()),
                }
            }
        };
        reach(refused(2), PATIENCE).await.unwrap();
        assert_eq!(tries.swap(0, Ordering::Relaxed), 3);
        reach(refused(usize::MAX), AGAIN).await.unwrap_err();
        assert!(tries.load(Ordering::Relaxed) >= 2);
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn the_port_of_a_changed_service_stays_open() {
        let free = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let listen = free.local_addr().unwrap().port();
        drop(free);
        let mut exposed = Exposed::default();
        for port in 1..200 {
            let wanted = Exposure {
                service: "n/web".into(),
                listen,
                to: SocketAddrV4::new(Ipv4Addr::LOCALHOST, port),
            };
            let failed = exposed.set(&[wanted], || None).await;
            assert!(failed.is_empty(), "{failed:?}");
        }
    }
}
