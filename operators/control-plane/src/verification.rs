//! Verifies that a cloud serves after an update: logs in and lists objects of each service, through its
//! public and its internal endpoint.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use dial::{Dial, Tcp};
use futures::FutureExt;
use futures::future::{BoxFuture, join_all};
use openstack_client::{Assignment, Cloud, Fields, Identity, Interface, Kind, Limits, Session};

use crate::plan::Fix;

/// All of it has to fit into a pass.
const PATIENCE: Duration = Duration::from_secs(20);

/// How to log in. It holds a password, so it is never shown.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// clouds.yaml, and the cloud of it that is meant.
    pub text: String,
    pub cloud: String,
    /// Who vouches for the endpoints.
    pub ca: Option<String>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Login")
            .field("cloud", &self.cloud)
            .finish_non_exhaustive()
    }
}

/// Somebody who is logged in to Keystone.
pub trait Completion: Send + Sync {
    fn set<'a>(&'a self, fix: &'a Fix) -> BoxFuture<'a, Result<(), String>>;
}

/// Talks to the cloud. Behaviour tests use an implementation of their own.
pub trait Verify: fmt::Debug + Send + Sync {
    /// `services`: their types in the catalogue. The error names the service and the endpoint.
    fn verify<'a>(
        &'a self,
        login: &'a Login,
        services: &'a [&'static str],
    ) -> BoxFuture<'a, Result<(), String>>;

    /// For what K-ORC does not tell Keystone.
    fn complete<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Box<dyn Completion>, String>>;
}

/// Asks the real services.
#[derive(Clone, Debug)]
pub struct Real {
    pub dial: Arc<dyn Dial>,
}

impl Default for Real {
    fn default() -> Self {
        Self { dial: Arc::new(Tcp) }
    }
}

impl Verify for Real {
    fn verify<'a>(
        &'a self,
        login: &'a Login,
        services: &'a [&'static str],
    ) -> BoxFuture<'a, Result<(), String>> {
        let asked = self.ask(login, services);
        let whole = tokio::time::timeout(PATIENCE, asked);
        whole
            .map(|done| {
                done.unwrap_or_else(|_| {
                    Err(format!(
                        "not all services answered within {} s",
                        PATIENCE.as_secs()
                    ))
                })
            })
            .boxed()
    }

    fn complete<'a>(&'a self, login: &'a Login) -> BoxFuture<'a, Result<Box<dyn Completion>, String>> {
        let session = self.session(login);
        std::future::ready(session.map(|session| Box::new(session) as Box<dyn Completion>)).boxed()
    }
}

impl Completion for Session {
    fn set<'a>(&'a self, fix: &'a Fix) -> BoxFuture<'a, Result<(), String>> {
        let done = async move {
            match fix {
                Fix::Region { endpoint, region } => {
                    let fields = Fields::new().with("region_id", region.as_str());
                    Identity::update(self, &Kind::Endpoint, endpoint, &fields)
                        .await
                        .map(drop)
                }
                Fix::Roles { user, project, roles } => {
                    for role in roles {
                        let assignment = Assignment {
                            user: user.clone(),
                            project: project.clone(),
                            role: role.clone(),
                        };
                        self.assign(&assignment).await?;
                    }
                    Ok(())
                }
            }
        };
        done.map(|done| done.map_err(|e| e.to_string())).boxed()
    }
}

impl Real {
    fn session(&self, login: &Login) -> Result<Session, String> {
        let cloud = Cloud::parse(&login.text, &login.cloud, login.ca.clone()).map_err(|e| e.to_string())?;
        let limits = Limits {
            answer: Duration::from_secs(10),
            ..Limits::default()
        };
        Session::with(cloud, self.dial.clone(), limits).map_err(|e| e.to_string())
    }

    async fn ask(&self, login: &Login, services: &[&'static str]) -> Result<(), String> {
        let session = self.session(login)?;
        // The token first: without one every listing would tell the same.
        session.identify().await.map_err(|e| e.to_string())?;
        let all = services.iter().flat_map(|service| {
            [Interface::Public, Interface::Internal].map(|interface| (*service, interface))
        });
        let asked = all.map(|(service, interface)| session.listing(service, interface));
        let failed: Vec<String> = join_all(asked)
            .await
            .into_iter()
            .filter_map(|done| Some(done.err()?.to_string()))
            .collect();
        match failed.as_slice() {
            [] => Ok(()),
            failed => Err(failed.join("; ")),
        }
    }
}
