//! The power of hosts: read where a host is silent, cut where that is needed.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use c5c3_api::hypervisor::RedfishFence;
use c5c3_kit::Reader;
use dial::Dial;
use k8s_openapi::api::core::v1::Secret;
use redfish_client::{ManagementController, Power, Redfish};

use crate::Error;

/// Namespace of the Secrets with logins.
pub(crate) const NAMESPACE: &str = "c5c3-system";
/// A controller has this long to cut the power; the next pass asks again.
const PATIENCE: Duration = Duration::from_secs(20);

/// What is known of the power of a silent host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PowerView {
    /// Its management controller says so.
    Off,
    /// It is not off, in the controller's word.
    NotOff(String),
    /// The controller cannot be asked.
    Unknown(String),
}

/// Machines whose management controllers were read in this pass, by the name of the host.
#[derive(Clone)]
pub struct Plugs {
    dial: Arc<dyn Dial>,
    known: Arc<Mutex<BTreeMap<String, Redfish>>>,
}

impl fmt::Debug for Plugs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Plugs").finish_non_exhaustive()
    }
}

impl Plugs {
    pub fn new(dial: Arc<dyn Dial>) -> Self {
        Plugs {
            dial,
            known: Arc::default(),
        }
    }

    /// Asks the controller. Whatever is wrong with it is a fact about the host, no error of the pass.
    pub async fn look(&self, host: &str, fence: &RedfishFence, reader: &Reader) -> PowerView {
        let machine = match self.open(fence, reader).await {
            Ok(machine) => machine,
            Err(why) => return PowerView::Unknown(why),
        };
        let seen = match machine.power().await {
            Ok(Power::Off) => PowerView::Off,
            Ok(other) => PowerView::NotOff(other.to_string()),
            Err(error) => PowerView::Unknown(error.to_string()),
        };
        self.known().insert(host.to_owned(), machine);
        seen
    }

    fn known(&self) -> MutexGuard<'_, BTreeMap<String, Redfish>> {
        // Only whole values are stored.
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn open(&self, fence: &RedfishFence, reader: &Reader) -> Result<Redfish, String> {
        let name = &fence.secret_ref.name;
        let secret: Option<Secret> = reader
            .get(NAMESPACE, name)
            .await
            .map_err(|error| error.to_string())?;
        let secret = secret.ok_or_else(|| format!("there is no Secret {NAMESPACE}/{name}"))?;
        let text = |key: &str| {
            let bytes = secret.data.as_ref()?.get(key)?;
            String::from_utf8(bytes.0.clone()).ok()
        };
        let needed =
            |key: &str| text(key).ok_or_else(|| format!("Secret {NAMESPACE}/{name} has no {key}: add it"));
        let place = ManagementController {
            endpoint: fence.endpoint.clone(),
            system: fence.system.clone(),
            user: needed("username")?,
            password: openstack_client::Secret::new(needed("password")?),
            ca: text("ca.crt"),
        };
        Redfish::new(&place, self.dial.clone()).map_err(|error| error.to_string())
    }

    /// Cuts the power and reads back that it is off.
    pub async fn cut(&self, host: &str) -> Result<(), Error> {
        let machine = self.known().get(host).cloned();
        // Nobody asks for it without having looked.
        let Some(machine) = machine else {
            return Ok(());
        };
        let done = machine.turn(&Power::Off, PATIENCE).await;
        done.map_err(Error::Power)
    }
}
