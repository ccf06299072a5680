//! The login to Nova and Placement: which Secret holds it, and the session that all passes share.

use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use c5c3_api::c5c3::ControlPlane;
use c5c3_kit::Reader;
use dial::Dial;
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use openstack_client::{Cause, Class, Cloud, Fleet, Limits, Session};

use crate::Error;
use crate::nova::Nova;

/// Namespace and name of a Secret with a login for this operator alone, as cloud [`CLOUD`].
const OWN: (&str, &str) = ("c5c3-system", "hypervisor-clouds-yaml");
const CLOUD: &str = "openstack";
/// The cluster with the ControlPlane, where hypervisors have a cluster of their own.
pub const CONTROL_PLANE: &str = "control-plane";
/// What the operator of a ControlPlane makes for K-ORC, as cloud `admin`.
const OF_KORC: (&str, &str) = ("k-orc-clouds-yaml", "admin");
const KEY: &str = "clouds.yaml";
/// A Secret that changed is heeded after this long, or as soon as a login fails.
const LASTS: Duration = Duration::from_secs(60);

/// That there is no login counts for all hosts this long: they ask one after the other.
const MISSING: Duration = Duration::from_secs(2);

/// Opens a cloud: the real one, or that of a test.
pub trait Connect: fmt::Debug + Send + Sync {
    fn connect(&self, cloud: Cloud) -> openstack_client::Result<Arc<dyn Fleet>>;
}

/// Real clouds, reached by `dial`.
#[derive(Clone, Debug)]
pub struct Real {
    pub dial: Arc<dyn Dial>,
}

impl Connect for Real {
    fn connect(&self, cloud: Cloud) -> openstack_client::Result<Arc<dyn Fleet>> {
        let session = Session::with(cloud, self.dial.clone(), Limits::default())?;
        Ok(Arc::new(session))
    }
}

struct Open {
    cloud: Cloud,
    nova: Arc<Nova>,
    /// `None`: the Secret is read before the next use.
    read: Option<Instant>,
}

/// The one cloud whose hosts these are.
#[derive(Clone)]
pub struct Clouds {
    connect: Arc<dyn Connect>,
    open: Arc<Mutex<Option<Open>>>,
    /// When a login was looked for in vain.
    missing: Arc<Mutex<Option<Instant>>>,
}

impl fmt::Debug for Clouds {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Clouds").field("connect", &self.connect).finish()
    }
}

impl Clouds {
    pub fn new(connect: Arc<dyn Connect>) -> Self {
        Clouds {
            connect,
            open: Arc::default(),
            missing: Arc::default(),
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Open>> {
        // Only whole values are stored.
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn missing(&self) -> std::sync::MutexGuard<'_, Option<Instant>> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub async fn of(&self, reader: &Reader) -> Result<Arc<Nova>, Error> {
        if let Some(open) = self.lock().as_ref()
            && open.read.is_some_and(|at| at.elapsed() < LASTS)
        {
            return Ok(open.nova.clone());
        }
        if self.missing().is_some_and(|at: Instant| at.elapsed() < MISSING) {
            return Err(no_login());
        }
        let found = read(reader).await;
        *self.missing() = matches!(found, Err(Error::NoLogin(_))).then(Instant::now);
        let cloud = found?;
        let mut open = self.lock();
        match open.as_mut() {
            Some(open) if open.cloud == cloud => {
                open.read = Some(Instant::now());
                Ok(open.nova.clone())
            }
            _ => {
                let nova = Arc::new(Nova::new(self.connect.connect(cloud.clone())?));
                *open = Some(Open {
                    cloud,
                    nova: nova.clone(),
                    read: Some(Instant::now()),
                });
                Ok(nova)
            }
        }
    }

    /// The cloud that this pass has observed.
    pub fn current(&self) -> Result<Arc<Nova>, Error> {
        let open = self.lock();
        let found = open.as_ref().map(|open| open.nova.clone());
        found.ok_or_else(no_login)
    }

    /// After an error: credentials that were refused are read again, and so are those of a cloud
    /// without Nova.
    pub fn failed(&self, error: &(dyn std::error::Error + 'static)) {
        let cause =
            error
                .downcast_ref::<openstack_client::Error>()
                .or_else(|| match error.downcast_ref::<Error>() {
                    Some(
                        Error::OpenStack(cause)
                        | Error::Onboarding(cause)
                        | Error::Traits(cause)
                        | Error::Aggregates(cause)
                        | Error::Offboarding(cause),
                    ) => Some(cause),
                    _ => None,
                });
        match cause {
            // The catalogue comes with the login: a service that was added since is in the next one.
            Some(cause) if matches!(cause.cause, Cause::NoEndpoint { .. }) => *self.lock() = None,
            Some(cause) if cause.class() == Class::Unauthorized => {
                if let Some(open) = self.lock().as_mut() {
                    open.read = None;
                }
            }
            _ => {}
        }
    }
}

/// The own Secret; else the login of the first ControlPlane here, else of the first in the cluster
/// [`CONTROL_PLANE`], where the operator knows one.
async fn read(reader: &Reader) -> Result<Cloud, Error> {
    let (namespace, name) = OWN;
    if let Some(secret) = reader.get::<Secret>(namespace, name).await? {
        return parsed(&secret, &format!("{namespace}/{name}"), CLOUD);
    }
    let mut found = of_plane(reader).await?;
    if found.is_none()
        && let Ok(there) = reader.in_cluster(CONTROL_PLANE)
    {
        found = of_plane(&there).await?;
    }
    found.ok_or_else(no_login)
}

fn no_login() -> Error {
    Error::NoLogin(format!("{}/{}", OWN.0, OWN.1))
}

async fn of_plane(reader: &Reader) -> Result<Option<Cloud>, Error> {
    let planes: Vec<ControlPlane> = reader.list_all("").await?;
    let first = planes
        .into_iter()
        .min_by_key(|plane| (plane.namespace(), plane.name_any()));
    let Some(plane) = first else {
        return Ok(None);
    };
    let home = plane.namespace().unwrap_or_default();
    let (secret, cloud) = match &plane.spec.korc.cloud_credentials_ref {
        Some(theirs) => (theirs.secret_name.as_str(), theirs.cloud_name.as_str()),
        None => OF_KORC,
    };
    let found: Option<Secret> = reader.get(&home, secret).await?;
    let named = format!("{home}/{secret}");
    found.map(|secret| parsed(&secret, &named, cloud)).transpose()
}

fn parsed(secret: &Secret, named: &str, cloud: &str) -> Result<Cloud, Error> {
    let bad = |problem: String| Error::BadLogin {
        secret: named.to_owned(),
        problem,
    };
    let text = |key: &str| {
        let bytes = secret.data.as_ref()?.get(key)?;
        String::from_utf8(bytes.0.clone()).ok()
    };
    let clouds = text(KEY).ok_or_else(|| bad(format!("it has no {KEY}: add it")))?;
    Cloud::parse(&clouds, cloud, text("cacert")).map_err(|error| match error {
        // The parser's words may quote the text.
        openstack_client::CloudsError::NotYaml { line, .. } => {
            bad(format!("{KEY}, line {line}: is not YAML"))
        }
        other => bad(other.to_string()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use k8s_openapi::ByteString;

    fn secret(text: &str) -> Secret {
        Secret {
            data: Some([(KEY.to_owned(), ByteString(text.into()))].into()),
            ..Secret::default()
        }
    }

    #[test]
    fn what_is_wrong_with_a_login_is_said_without_its_words() {
        let error = parsed(&secret("clouds: [hush"), "a/b", "openstack")
            .expect_err("bad")
            .to_string();
        assert!(
            error.starts_with("Secret a/b: ") && !error.contains("hush"),
            "{error}"
        );
        let error = parsed(&Secret::default(), "a/b", "openstack")
            .expect_err("bad")
            .to_string();
        assert!(error.contains("has no clouds.yaml"), "{error}");
    }
}
