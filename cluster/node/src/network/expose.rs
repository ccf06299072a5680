//! Services on loopback of the machine: a listener there, the connection from inside.

use std::collections::BTreeMap;
use std::io;
use std::net::{Ipv4Addr, SocketAddr};

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use super::frontends::Exposure;
use crate::netns::NetNs;

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
            // The port is free only when the task has let go of it; the answer is that it was aborted.
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
            tokio::time::sleep(std::time::Duration::from_millis(100)).await;
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
    let mut server = ns.connect(to).await?;
    tokio::io::copy_bidirectional(&mut client, &mut server)
        .await
        .map(drop)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::SocketAddrV4;

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
