//! The power of a machine, by Redfish: what its management controller says of it, and switching it.
//!
//! A switch is never believed: [`Redfish::turn`] asks for the state until it is the wanted one.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use bytes::Bytes;
use dial::Dial;
use http::{HeaderName, Method, header};
use openstack_client::web::{Call, Tls, Transport};
pub use openstack_client::{Cause, Error, Result};
use openstack_client::{Limits, Secret};
use serde_json::{Value, json};
use tokio::time::Instant;

const SYSTEMS: &str = "/redfish/v1/Systems";
/// Between looks at the state while it changes.
const LOOK: Duration = Duration::from_secs(1);
const LIMITS: Limits = Limits {
    connect: Duration::from_secs(5),
    answer: Duration::from_secs(15),
    bytes: 1 << 20,
    retries: 1,
    catalogue: Duration::ZERO,
};

/// What the controller says of the power.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Power {
    On,
    Off,
    /// On its way, or a word that the standard does not know: neither on nor off.
    Other(String),
}

impl Power {
    fn of(word: &str) -> Self {
        match word {
            "On" => Power::On,
            "Off" => Power::Off,
            other => Power::Other(other.to_owned()),
        }
    }
}

impl fmt::Display for Power {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Power::On => "On",
            Power::Off => "Off",
            Power::Other(word) => word,
        })
    }
}

/// Where a controller is, and how it is logged in to.
#[derive(Clone, Debug)]
pub struct ManagementController {
    /// `https://10.0.0.7`, without a path.
    pub endpoint: String,
    /// Path of the machine; without it the only one that the controller has.
    pub system: Option<String>,
    pub user: String,
    pub password: Secret,
    /// Certificates that are trusted; those of this machine without it.
    pub ca: Option<String>,
}

/// One machine behind its controller.
#[derive(Clone)]
pub struct Redfish {
    transport: Transport,
    endpoint: String,
    system: Option<String>,
    login: Secret,
}

impl fmt::Debug for Redfish {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let system = self.system.as_deref().unwrap_or("(the only one)");
        write!(f, "{}{system}", self.endpoint)
    }
}

impl Redfish {
    pub fn new(place: &ManagementController, dial: Arc<dyn Dial>) -> Result<Self> {
        let invalid = |why: String| Error::new("reach the management controller", Cause::Invalid(why));
        let tls = place.ca.as_deref().map(|ca| Tls::new(Some(ca))).transpose();
        let login = format!("{}:{}", place.user, place.password.reveal());
        Ok(Redfish {
            transport: Transport::new(dial, tls.map_err(invalid)?, LIMITS),
            endpoint: place.endpoint.trim_end_matches('/').to_owned(),
            system: place.system.clone(),
            login: Secret::new(format!("Basic {}", STANDARD.encode(login))),
        })
    }

    pub async fn power(&self) -> Result<Power> {
        let system = self.system().await?;
        self.power_of(&system).await
    }

    /// Switches it and reads the state until it is so. An error leaves it unknown what became of it.
    pub async fn turn(&self, wanted: &Power, patience: Duration) -> Result<()> {
        let system = self.system().await?;
        let kind = match wanted {
            Power::On => "On",
            _ => "ForceOff",
        };
        if self.power_of(&system).await? == *wanted {
            return Ok(());
        }
        let path = format!("{system}/Actions/ComputerSystem.Reset");
        let body = json!({"ResetType": kind});
        self.send(&format!("power {wanted}"), Method::POST, &path, Some(&body))
            .await?;
        let end = Instant::now() + patience;
        loop {
            let seen = self.power_of(&system).await?;
            if seen == *wanted {
                return Ok(());
            }
            if Instant::now() >= end {
                let why = format!(
                    "it was accepted, but after {} s the state is {seen}",
                    patience.as_secs()
                );
                return Err(Error::new(format!("power {wanted}"), Cause::Invalid(why)));
            }
            tokio::time::sleep(LOOK).await;
        }
    }

    /// The path of the machine.
    async fn system(&self) -> Result<String> {
        if let Some(system) = &self.system {
            return Ok(system.trim_end_matches('/').to_owned());
        }
        let doing = "find the machine";
        let all = self.send(doing, Method::GET, SYSTEMS, None).await?;
        let members = all["Members"].as_array().cloned().unwrap_or_default();
        let paths: Vec<&str> = members
            .iter()
            .filter_map(|member| member["@odata.id"].as_str())
            .collect();
        match paths.as_slice() {
            [one] => Ok((*one).to_owned()),
            several => {
                let why = format!(
                    "the controller has {} machines ({}): name one",
                    several.len(),
                    several.join(", ")
                );
                Err(Error::new(doing, Cause::Invalid(why)))
            }
        }
    }

    async fn power_of(&self, system: &str) -> Result<Power> {
        let doing = "read the power state";
        let seen = self.send(doing, Method::GET, system, None).await?;
        let word = seen["PowerState"].as_str();
        let word =
            word.ok_or_else(|| Error::new(doing, Cause::Garbled("it has no PowerState".to_owned())))?;
        Ok(Power::of(word))
    }

    async fn send(&self, doing: &str, method: Method, path: &str, body: Option<&Value>) -> Result<Value> {
        let mut headers: Vec<(HeaderName, &str)> = vec![(header::AUTHORIZATION, self.login.reveal())];
        if body.is_some() {
            headers.push((header::CONTENT_TYPE, "application/json"));
        }
        let reply = self
            .transport
            .send(&Call {
                doing,
                method,
                url: &format!("{}{path}", self.endpoint),
                headers: &headers,
                body: body.map(|body| Bytes::from(body.to_string())),
            })
            .await?;
        if !reply.status.is_success() {
            return Err(Error::answer(doing, reply.status, &reply.body));
        }
        // A switch is answered with nothing.
        if reply.body.is_empty() {
            return Ok(Value::Null);
        }
        serde_json::from_slice(&reply.body)
            .map_err(|error| Error::new(doing, Cause::Garbled(error.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_off_is_off() {
        assert_eq!(Power::of("Off"), Power::Off);
        for word in ["PoweringOff", "off", "Paused", ""] {
            assert_eq!(Power::of(word), Power::Other(word.to_owned()));
        }
    }

    #[test]
    fn a_login_is_not_shown() {
        let place = ManagementController {
            endpoint: "https://bmc/".into(),
            system: Some("/redfish/v1/Systems/1".into()),
            user: "admin".into(),
            password: Secret::new("hush".to_owned()),
            ca: None,
        };
        let machine = Redfish::new(&place, Arc::new(dial::Tcp)).expect("made");
        let shown = format!("{machine:?} {place:?}");
        assert!(
            shown.starts_with("https://bmc/redfish/v1/Systems/1") && !shown.contains("hush"),
            "{shown}"
        );
    }
}
