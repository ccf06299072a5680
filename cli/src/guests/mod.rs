//! What people do with servers: create one to try, log in, read its console.

pub(crate) mod console;
pub(crate) mod demo;
#[cfg(test)]
mod fake;
pub(crate) mod key;
pub(crate) mod network;
pub(crate) mod ssh;
pub(crate) mod tally;

use std::path::{Path, PathBuf};

use clap::Args;
use openstack_client::{Cause, Compute, Server, Session};

use crate::cloud::access::Target;
use crate::cloud::{NAMESPACE, login};
use crate::commands::cluster::StateDir;
use crate::failure::Failure;

/// A cloud on the embedded cluster: only there the data network is this machine's.
#[derive(Args)]
pub(crate) struct Here {
    #[command(flatten)]
    pub place: StateDir,
    /// Namespace of the cloud.
    #[arg(long, short, default_value = NAMESPACE)]
    pub namespace: String,
}

impl Here {
    pub(crate) async fn login(&self) -> Result<login::Login, Failure> {
        let mut target = Target::embedded(&self.place);
        target.namespace.clone_from(&self.namespace);
        login::read(&target.client().await?, &self.namespace).await
    }

    pub(crate) async fn session(&self) -> Result<Session, Failure> {
        self.login().await?.session()
    }

    /// What other commands need to find it: empty, or with a blank before it.
    pub(crate) fn options(&self) -> String {
        let state = self.place.argument();
        if self.namespace == NAMESPACE {
            state
        } else {
            format!("{state} -n {}", self.namespace)
        }
    }
}

/// Where the key of the demo is kept.
pub(crate) fn key_file(state: &Path) -> PathBuf {
    state.join("demo/id_ed25519")
}

/// A service that the cloud does not have is no fault of anything.
pub(crate) fn failed(error: openstack_client::Error) -> Failure {
    match &error.cause {
        Cause::NoEndpoint { service, .. } if service == "compute" || service == "network" => {
            Failure::NotFound(format!(
                "this cloud has no {service} service: servers need Nova and Neutron, which `c5c3 up --profile small` deploys"
            ))
        }
        _ => error.into(),
    }
}

/// The server that a person means, by name or id.
pub(crate) async fn find(cloud: &(impl Compute + ?Sized), wanted: &str) -> Result<Server, Failure> {
    let mut named = cloud.servers(wanted).await.map_err(failed)?;
    if named.len() > 1 {
        let ids: Vec<&str> = named.iter().map(|server| server.id.as_str()).collect();
        return Err(Failure::Usage(format!(
            "several servers are named {wanted}: use the id of one of them: {}",
            ids.join(", ")
        )));
    }
    let found = match named.pop() {
        Some(server) => Some(server),
        None => cloud.server(wanted).await.map_err(failed)?,
    };
    found.ok_or_else(|| {
        Failure::NotFound(format!(
            "there is no server {wanted}: `c5c3 openstack server list` lists them; `c5c3 demo` creates one"
        ))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use fake::Fake;

    #[tokio::test]
    async fn a_server_is_meant_by_its_name_or_its_id() {
        let cloud = Fake::default();
        let first = cloud.add_server("one", "ACTIVE");
        assert_eq!(find(&cloud, "one").await.expect("found").id, first);
        assert_eq!(find(&cloud, &first).await.expect("found").name, "one");
        let missing = find(&cloud, "two").await.expect_err("none");
        assert!(
            missing.to_string().contains("there is no server two"),
            "{missing}"
        );
        let second = cloud.add_server("one", "ACTIVE");
        let several = find(&cloud, "one").await.expect_err("two");
        assert!(
            several.to_string().contains(&format!("{first}, {second}")),
            "{several}"
        );
    }

    #[test]
    fn a_cloud_without_servers_is_said_so() {
        let cause = Cause::NoEndpoint {
            service: "compute".into(),
            interface: "public".into(),
            region: "any region".into(),
        };
        let said = failed(openstack_client::Error::new("list servers", cause));
        assert!(matches!(said, Failure::NotFound(_)), "{said}");
        assert!(said.to_string().contains("--profile small"), "{said}");
    }
}
