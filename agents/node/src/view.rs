//! What is known of the host's libvirt, kept up to date by its events.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use jiff::Timestamp;
use libvirt_client::{Connection, Domain, Error, Event, News};
use tokio::sync::{mpsc, watch};

use crate::guest::{self, Guest};
use crate::host::{self, Host};

#[derive(Clone, Debug, Default, PartialEq)]
pub enum Link {
    /// Nothing is known yet.
    #[default]
    Starting,
    Up,
    Down(String),
}

/// The last that libvirt said. It stays while the connection is down.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct View {
    pub link: Link,
    pub host: Option<Host>,
    /// By UUID.
    pub guests: BTreeMap<String, Guest>,
}

/// For those who need more of libvirt than the view.
#[derive(Clone, Debug)]
pub enum Heard {
    Connected(Connection),
    Event(Event),
    Lost,
}

/// Between tries to read what could not be read.
const AGAIN: Duration = Duration::from_secs(2);

/// Follows the news until they end.
pub async fn follow(
    mut news: mpsc::Receiver<News>,
    view: watch::Sender<Arc<View>>,
    others: mpsc::Sender<Heard>,
) {
    let mut current = View::default();
    let mut connection: Option<Connection> = None;
    let mut stale = Stale::default();
    loop {
        let waits = connection.is_some() && stale.any();
        let first = tokio::select! {
            first = news.recv() => match first {
                Some(first) => Some(first),
                None => return,
            },
            () = tokio::time::sleep(AGAIN), if waits => None,
        };
        // A burst of events is one look.
        let mut next = first;
        while let Some(one) = next {
            match one {
                News::Connected(new) => {
                    tell(&others, Heard::Connected(new.clone()));
                    connection = Some(new);
                    stale.all = true;
                }
                News::Event(event) => {
                    stale.domains.insert(event.domain().uuid.to_string());
                    tell(&others, Heard::Event(event));
                }
                News::Lost(why) => {
                    tell(&others, Heard::Lost);
                    connection = None;
                    current.link = Link::Down(why);
                }
            }
            next = news.try_recv().ok();
        }
        if let Some(connection) = &connection {
            match read(connection, &mut current, &stale).await {
                Ok(()) => {
                    current.link = Link::Up;
                    stale = Stale::default();
                }
                // That it is lost is the next news.
                Err(Trouble::Libvirt(Error::Closed)) => {}
                Err(trouble) => {
                    tracing::warn!("libvirt: {trouble}");
                    current.link = Link::Down(trouble.to_string());
                }
            }
        }
        view.send_if_modified(|seen| {
            let news = **seen != current;
            if news {
                *seen = Arc::new(current.clone());
            }
            news
        });
    }
}

fn tell(others: &mpsc::Sender<Heard>, heard: Heard) {
    // Progress of a migration is read again; one event less does no harm, a view that waits would.
    if others.try_send(heard).is_err() {
        tracing::debug!("migrations: too much at once");
    }
}

/// What has to be read again.
#[derive(Default)]
struct Stale {
    all: bool,
    domains: BTreeSet<String>,
}

impl Stale {
    fn any(&self) -> bool {
        self.all || !self.domains.is_empty()
    }
}

#[derive(Debug, thiserror::Error)]
enum Trouble {
    #[error(transparent)]
    Libvirt(#[from] Error),
    #[error(transparent)]
    Xml(#[from] crate::xml::BadXml),
}

async fn read(connection: &Connection, view: &mut View, stale: &Stale) -> Result<(), Trouble> {
    if stale.all || view.host.is_none() {
        view.host = Some(read_host(connection).await?);
    }
    if !stale.any() {
        return Ok(());
    }
    let mut guests = BTreeMap::new();
    for domain in connection.domains().await? {
        let id = domain.uuid.to_string();
        let known = view
            .guests
            .get(&id)
            .filter(|_| !stale.all && !stale.domains.contains(&id));
        let (
            guest::Described {
                all,
                cells,
                ceph_users,
            },
            trouble,
        ) = match known {
            Some(known) => (known.described(), known.trouble),
            None => match read_guest(connection, &domain).await? {
                Some(guest) => guest,
                // It went between the list and the look.
                None => continue,
            },
        };
        let before = view.guests.get(&id).and_then(|guest| guest.trouble);
        let guest = Guest {
            name: domain.name.clone(),
            active: domain.is_active(),
            all,
            cells,
            ceph_users,
            trouble: match (before, trouble) {
                // It is the same trouble still.
                (Some(before), Some(now)) if before.0 == now.0 => Some(before),
                (_, now) => now,
            },
        };
        guests.insert(id, guest);
    }
    view.guests = guests;
    Ok(())
}

type Seen = (
    guest::Described,
    Option<(c5c3_api::hypervisor::Trouble, Timestamp)>,
);

async fn read_guest(connection: &Connection, domain: &Domain) -> Result<Option<Seen>, Trouble> {
    let text = connection.domain_get_xml_desc(domain, 0);
    let state = connection.domain_get_state(domain, 0);
    match tokio::try_join!(text, state) {
        Ok((text, state)) => {
            let described = guest::describe(&text).unwrap_or_else(|error| {
                // One odd guest must not hide all others.
                tracing::warn!(domain = domain.name, "{error}");
                guest::Described::default()
            });
            let trouble = guest::trouble(state.state, state.reason);
            Ok(Some((described, trouble.map(|kind| (kind, Timestamp::now())))))
        }
        Err(error) if error.is_no_domain() => Ok(None),
        Err(error) => Err(error.into()),
    }
}

async fn read_host(connection: &Connection) -> Result<Host, Trouble> {
    let info = connection.node_get_info().await?;
    let text = connection.connect_get_capabilities().await?;
    let cpus = u64::try_from(info.cpus).unwrap_or(0);
    let (arch, cells) = host::capabilities(&text, info.memory, cpus)?;
    let guests = match connection
        .connect_get_domain_capabilities(None, None, None, None, 0)
        .await
    {
        Ok(text) => Some(host::domain_capabilities(&text)?),
        // The test driver has none, and a host without an emulator cannot tell.
        Err(error) if error.code().is_some() => {
            tracing::debug!("no domain capabilities: {error}");
            None
        }
        Err(error) => return Err(error.into()),
    };
    Ok(Host {
        libvirt: host::version(connection.connect_get_lib_version().await?),
        hypervisor: host::version(connection.connect_get_version().await?),
        arch,
        cells,
        guests,
    })
}
