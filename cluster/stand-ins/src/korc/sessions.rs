//! Logins that the objects share, one session for each, and the wait for a Keystone that does not answer.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use c5c3_kit::Key;
use futures::channel::mpsc::UnboundedSender;
use openstack_client::{Cloud, Connect, Error, Identity};

/// Sessions that are kept; a rotated password leaves an old one behind.
const MOST: usize = 64;
/// One probe for all objects of a login: soon at first, then each second; a refused login is tried less often.
const FIRST_LOOK: Duration = Duration::from_millis(100);
const LAST_LOOK: Duration = Duration::from_secs(1);
const LAST_LOGIN: Duration = Duration::from_secs(3);
/// After this the objects' own looks bring the next probe.
const PATIENCE: Duration = Duration::from_secs(120);
/// How long a password that worked is believed, its Secret being the same.
const BELIEVED: Duration = Duration::from_secs(30 * 60);

/// By controller and object: objects of two kinds may have one name.
type Waiters = HashMap<(&'static str, Key), UnboundedSender<Key>>;

/// What the nine controllers share.
#[derive(Clone)]
pub(crate) struct Sessions {
    connect: Arc<dyn Connect>,
    open: Arc<Mutex<HashMap<Cloud, Arc<dyn Identity>>>>,
    /// By login, those who wait for it to work. An entry means that a probe runs.
    waiting: Arc<Mutex<HashMap<Cloud, Waiters>>>,
    /// By user: the version of the Secret whose password worked, and when.
    proven: Arc<Mutex<HashMap<String, (String, Instant)>>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Sessions {
    pub(crate) fn new(connect: Arc<dyn Connect>) -> Self {
        Self {
            connect,
            open: Arc::default(),
            waiting: Arc::default(),
            proven: Arc::default(),
        }
    }

    /// The session of this login; another password is another session.
    pub(crate) fn open(&self, cloud: Cloud) -> Result<Arc<dyn Identity>, Error> {
        let mut open = lock(&self.open);
        if let Some(session) = open.get(&cloud) {
            return Ok(session.clone());
        }
        let session = self.connect.connect(cloud.clone())?;
        if open.len() >= MOST {
            open.clear();
        }
        open.insert(cloud, session.clone());
        Ok(session)
    }

    /// One of its own, for a login that is made once.
    pub(crate) fn once(&self, cloud: Cloud) -> Result<Arc<dyn Identity>, Error> {
        self.connect.connect(cloud)
    }

    /// Names the object to `tell` as soon as the cloud answers and lets us in: a Keystone that just
    /// started may not know its admin yet.
    pub(crate) fn wake(
        &self,
        session: Arc<dyn Identity>,
        controller: &'static str,
        key: Key,
        tell: UnboundedSender<Key>,
    ) {
        let login = session.cloud().clone();
        let mut waiting = lock(&self.waiting);
        let probed = waiting.contains_key(&login);
        waiting
            .entry(login.clone())
            .or_default()
            .insert((controller, key), tell);
        drop(waiting);
        if probed {
            return;
        }
        let all = self.waiting.clone();
        tokio::spawn(async move {
            let up = answers(&*session).await;
            let waiters = lock(&all).remove(&login).unwrap_or_default();
            if up {
                for ((_, key), tell) in waiters {
                    // The receiver is gone when its controller has stopped.
                    let _ = tell.unbounded_send(key);
                }
            }
        });
    }

    pub(crate) fn is_proven(&self, user: &str, version: &str) -> bool {
        lock(&self.proven)
            .get(user)
            .is_some_and(|(proven, at)| proven == version && at.elapsed() < BELIEVED)
    }

    pub(crate) fn prove(&self, user: &str, version: &str) {
        lock(&self.proven).insert(user.to_owned(), (version.to_owned(), Instant::now()));
    }
}

async fn answers(session: &dyn Identity) -> bool {
    let start = Instant::now();
    let mut pause = FIRST_LOOK;
    while start.elapsed() < PATIENCE {
        tokio::time::sleep(pause).await;
        let longest = match session.ping().await {
            Err(_) => LAST_LOOK,
            Ok(()) if session.identify().await.is_ok() => return true,
            Ok(()) => LAST_LOGIN,
        };
        pause = (pause * 2).min(longest);
    }
    false
}
