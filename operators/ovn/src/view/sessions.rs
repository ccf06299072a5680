//! Sessions with the databases of every OVNCluster.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use c5c3_kit::kinds::Key;
use dial::Dial;
use futures::Stream;
use ovsdb_client::{Certificates, Condition, Error, Follow, Mutator, Operation, Session, State, Way};
use tokio::sync::{broadcast, watch};
use tokio::task::AbortHandle;

use super::read;
use super::{Targets, View};
use crate::names::Side;

/// News of one moment bring one pass.
const TOGETHER: Duration = Duration::from_millis(300);
/// Tries without success after which a session ends; the next pass of its object begins another.
const TRIES: u32 = 40;
const UNREAD: usize = 1024;

#[derive(Clone, Debug)]
pub struct Sessions {
    inner: Arc<Mutex<HashMap<Key, Watched>>>,
    news: broadcast::Sender<Key>,
    dial: Arc<dyn Dial>,
}

struct Watched {
    targets: Targets,
    content: [Arc<Session>; 2],
    members: BTreeMap<(Side, String), Session>,
    forwarders: Vec<AbortHandle>,
}

impl std::fmt::Debug for Watched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} members", self.members.len())
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.forwarders.iter().for_each(AbortHandle::abort);
    }
}

impl Sessions {
    pub fn new(dial: Arc<dyn Dial>) -> Self {
        Sessions {
            inner: Arc::default(),
            news: broadcast::channel(UNREAD).0,
            dial,
        }
    }

    /// OVNClusters about which there is news.
    pub fn news(&self) -> impl Stream<Item = Key> + Send + use<> {
        let news = self.news.subscribe();
        futures::stream::unfold(news, |mut news| async {
            loop {
                match news.recv().await {
                    Ok(key) => return Some((key, news)),
                    Err(broadcast::error::RecvError::Lagged(_)) => {}
                    Err(broadcast::error::RecvError::Closed) => return None,
                }
            }
        })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Key, Watched>> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What is known of this OVNCluster. Sessions with servers that are new begin now.
    pub fn view(&self, key: &Key, targets: &Targets) -> View {
        let mut all = self.lock();
        if all.get(key).is_none_or(|watched| watched.targets != *targets) {
            match self.begin(key, targets) {
                Ok(watched) => {
                    all.insert(key.clone(), watched);
                }
                Err(error) => {
                    all.remove(key);
                    let why = error.to_string();
                    let unusable = matches!(error, Error::Tls(_));
                    let sides = Side::BOTH.into_iter().filter(|_| unusable);
                    return View {
                        untrusted: sides.map(|side| (side, why.clone())).collect(),
                        trouble: Some(why),
                        ..View::default()
                    };
                }
            }
        }
        all.get(key).map(Watched::view).unwrap_or_default()
    }

    /// The same without beginning anything.
    pub fn seen(&self, key: &Key) -> Option<View> {
        self.lock().get(key).map(Watched::view)
    }

    fn begin(&self, key: &Key, targets: &Targets) -> Result<Watched, Error> {
        let pem = |name: &str| {
            let all = targets.certificates.as_ref();
            all.and_then(|all| all.get(name))
                .map(|value| value.0.as_slice())
                .unwrap_or_default()
        };
        let certificates = match targets.certificates {
            Some(_) => Some(Certificates::new(pem("tls.crt"), pem("tls.key"), pem("ca.crt"))?),
            None => None,
        };
        let way = Way {
            dial: self.dial.clone(),
            certificates,
            ..Way::default()
        };
        let remotes = |side: Side| {
            let of = targets.members.iter().filter(move |(one, _, _)| *one == side);
            of.map(|(_, _, remote)| remote.parse())
                .collect::<Result<Vec<_>, _>>()
        };
        let content = |side: Side, tables: &[(&str, &[&str])]| -> Result<Arc<Session>, Error> {
            let names = |all: &[&str]| all.iter().map(|name| (*name).to_owned()).collect();
            let follow = Follow {
                remotes: remotes(side)?,
                database: side.schema().to_owned(),
                tables: tables
                    .iter()
                    .map(|(table, columns)| ((*table).to_owned(), names(columns)))
                    .collect(),
                leader: true,
            };
            Ok(Arc::new(Session::start(follow, way.clone())))
        };
        let content = [
            content(Side::Northbound, &[("NB_Global", &["nb_cfg_timestamp"])])?,
            content(
                Side::Southbound,
                &[
                    ("Chassis", &["name"]),
                    ("Chassis_Private", &["name", "nb_cfg_timestamp"]),
                ],
            )?,
        ];
        let mut members = BTreeMap::new();
        for (side, pod, remote) in &targets.members {
            let columns = ["name", "connected", "leader"].map(str::to_owned);
            let follow = Follow {
                remotes: vec![remote.parse()?],
                database: "_Server".to_owned(),
                tables: vec![("Database".to_owned(), columns.into())],
                leader: false,
            };
            members.insert((*side, pod.clone()), Session::start(follow, way.clone()));
        }
        let watches = content.iter().map(|session| session.watch());
        let watches = watches.chain(members.values().map(Session::watch));
        let forwarders = watches.map(|watch| {
            let task = forward(watch, key.clone(), self.news.clone(), self.inner.clone());
            tokio::spawn(task).abort_handle()
        });
        let forwarders = forwarders.collect();
        Ok(Watched {
            targets: targets.clone(),
            content,
            members,
            forwarders,
        })
    }

    fn session(&self, key: &Key, side: Side) -> Result<Arc<Session>, Error> {
        let all = self.lock();
        let watched = all.get(key).ok_or(Error::Disconnected(None))?;
        Ok(watched.content[usize::from(side == Side::Southbound)].clone())
    }

    /// Takes a chassis out of the southbound database.
    pub async fn remove_chassis(&self, key: &Key, name: &str) -> Result<(), Error> {
        let named = |table: &str| Operation::delete(table).only(Condition::equal("name", name));
        let session = self.session(key, Side::Southbound)?;
        session
            .transact(vec![named("Chassis_Private"), named("Chassis")])
            .await
            .map(drop)
    }

    /// Has every chassis say that it lives.
    pub async fn ask_all(&self, key: &Key) -> Result<(), Error> {
        let more = Operation::mutate("NB_Global").change("nb_cfg", Mutator::Add, 1);
        let session = self.session(key, Side::Northbound)?;
        session.transact(vec![more]).await.map(drop)
    }
}

/// Tells of changes until the session has failed too often.
async fn forward(
    mut watch: watch::Receiver<State>,
    key: Key,
    news: broadcast::Sender<Key>,
    all: Arc<Mutex<HashMap<Key, Watched>>>,
) {
    while watch.changed().await.is_ok() {
        tokio::time::sleep(TOGETHER).await;
        let (failures, untrusted) = {
            let state = watch.borrow_and_update();
            (state.failures, state.untrusted)
        };
        // Only the first of several failures is news.
        if failures < 2 {
            let _ = news.send(key.clone());
        }
        // Other certificates begin another session; until then it stays known what is wrong with these.
        if failures >= TRIES && !untrusted {
            let ended = all.lock().unwrap_or_else(PoisonError::into_inner).remove(&key);
            let _ = news.send(key.clone());
            drop(ended);
            return;
        }
    }
}

impl Watched {
    fn view(&self) -> View {
        let [northbound, southbound] = [0, 1].map(|n: usize| self.content[n].state());
        let sides = Side::BOTH.into_iter().zip([&northbound, &southbound]);
        let untrusted = sides.filter(|(_, state)| state.untrusted);
        let untrusted = untrusted.filter_map(|(side, state)| Some((side, state.trouble.clone()?)));
        let untrusted = untrusted.collect();
        let roles = self.members.iter().map(|((side, pod), session)| {
            let state = session.state();
            let role = match state.remote {
                Some(_) => read::role(&state.tables, *side),
                None => Default::default(),
            };
            (pod.clone(), role)
        });
        View {
            roles: roles.collect(),
            chassis: southbound
                .remote
                .as_ref()
                .map(|_| read::chassis(&southbound.tables)),
            untrusted,
            trouble: southbound.trouble,
            asked: northbound
                .remote
                .as_ref()
                .map(|_| read::asked(&northbound.tables)),
        }
    }
}
