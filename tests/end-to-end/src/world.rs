//! A cloud with two hypervisors and the demo's network, as its administrator sees it.

use std::future::Future;
use std::time::Duration;

use anyhow::{Context, ensure};
use openstack_client::{
    Auth, Cloud as Place, Compute, DomainName, Images, Interface, NetworkKind, Networking, Operating,
    PlacedServer, Scope, Secret, ServerDraft, Session, UserName,
};
use serde_json::Value;
use tokio::runtime::Runtime;

use crate::cloud::Cloud;
use crate::patience::until;
use crate::process::free_offset;

pub const NAMESPACE: &str = "openstack";
/// A guest has no processor of its own here: it is emulated, beside everything else.
pub const PATIENCE: Duration = Duration::from_secs(180);
/// Of the machine, before they are moved to free ones.
pub const PORTS: [u16; 7] = [5000, 6080, 8774, 8776, 8778, 9292, 9696];

/// Brings a cloud up, with these words for `up`, and lets the demo make its server: the number by which its ports
/// were moved, and what the demo said.
pub fn made(cloud: &Cloud, up: &[&str]) -> anyhow::Result<(u16, String)> {
    let offset = if cloud.is_kept() {
        moved_by(cloud)?
    } else {
        free_offset(&PORTS)?
    };
    if !cloud.is_kept() {
        let ports = offset.to_string();
        let moved = ["--port-offset", &ports, "--wait", "1200"];
        println!("{}", cloud.c5c3_here("up", &[up, &moved].concat())?);
    }
    Ok((offset, cloud.c5c3_here("demo", &["--wait", "600"])?))
}

/// The number by which the ports of a cloud that is there were moved.
fn moved_by(cloud: &Cloud) -> anyhow::Result<u16> {
    let path = "jsonpath={.spec.services.keystone.publicEndpoint}";
    let url = cloud.kubectl(&["-n", NAMESPACE, "get", "controlplane", "cloud", "-o", path], "")?;
    let port = url.rsplit(':').next().and_then(|rest| rest.split('/').next());
    let port: u16 = port.context("a port")?.parse().context(url.clone())?;
    port.checked_sub(PORTS[0])
        .with_context(|| format!("{url} is none of ours"))
}

/// What a guest says when it can be used, and from time to time later.
const READY: [&str; 2] = ["c5c3-guest: ready", "c5c3-guest: alive"];

pub struct World<'a> {
    pub cloud: &'a Cloud,
    pub session: Session,
    /// What every server here is made of; only the name differs.
    pub draft: ServerDraft,
    runtime: Runtime,
}

impl<'a> World<'a> {
    /// Of a cloud in which the demo has run.
    pub fn of(cloud: &'a Cloud, offset: u16) -> anyhow::Result<Self> {
        let secret = ["get", "secret", "keystone-admin-credentials", "-o", "json"];
        let secret = cloud.kubectl(&[&["-n", NAMESPACE], &secret[..]].concat(), "")?;
        let secret: Value = serde_json::from_str(&secret)?;
        let password = secret["data"]["password"].as_str().context("a password")?;
        let domain = || DomainName::Name("Default".to_owned());
        let session = Session::new(Place {
            auth_url: format!("http://127.0.0.1:{}/v3", 5000 + offset),
            auth: Auth::Password {
                user: UserName::Name {
                    name: "admin".to_owned(),
                    domain: domain(),
                },
                password: Secret::new(decoded(password)?),
                scope: Scope::Project {
                    name: "admin".to_owned(),
                    domain: domain(),
                },
            },
            region: None,
            interface: Interface::Public,
            ca: None,
        })?;
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()?;
        let draft = runtime.block_on(draft(&session))?;
        Ok(World {
            cloud,
            session,
            draft,
            runtime,
        })
    }

    pub fn run<T>(&self, call: impl Future<Output = openstack_client::Result<T>>) -> anyhow::Result<T> {
        Ok(self.runtime.block_on(call)?)
    }

    pub fn draft(&self, name: &str) -> ServerDraft {
        ServerDraft {
            name: name.to_owned(),
            ..self.draft.clone()
        }
    }

    /// The server of that name.
    pub fn named(&self, name: &str) -> anyhow::Result<PlacedServer> {
        let mut all = self.run(self.session.servers(name))?;
        ensure!(all.len() == 1, "{name}: {all:?}");
        self.server(&all.remove(0).id)
    }

    pub fn server(&self, id: &str) -> anyhow::Result<PlacedServer> {
        let found = self.run(self.session.placed_server(id))?;
        found.with_context(|| format!("server {id} is gone"))
    }

    /// Names of the hosts that run guests.
    pub fn hosts(&self) -> anyhow::Result<Vec<String>> {
        let all = self.run(self.session.hypervisors())?;
        Ok(all.into_iter().map(|host| host.name).collect())
    }

    /// Waits until it runs and nothing is being done to it.
    pub fn settled(&self, id: &str, status: &str) -> anyhow::Result<PlacedServer> {
        until(&format!("server {id} is {status}"), PATIENCE, || {
            let seen = self.server(id)?;
            ensure!(
                seen.server.status != "ERROR" || status == "ERROR",
                "it failed: {seen:?}"
            );
            Ok(if seen.server.status == status && seen.task.is_none() {
                Ok(seen)
            } else {
                Err(format!("{} {:?}", seen.server.status, seen.task))
            })
        })
    }

    /// Waits until the guest has booted and can be reached.
    pub fn booted(&self, id: &str) -> anyhow::Result<()> {
        until(&format!("the guest of {id} is ready"), PATIENCE, || {
            let said = self.run(self.session.console(id)).unwrap_or_default();
            Ok(if READY.iter().any(|word| said.contains(word)) {
                Ok(())
            } else {
                Err(said)
            })
        })
    }

    pub fn gone(&self, id: &str, patience: Duration) -> anyhow::Result<()> {
        until(&format!("server {id} is gone"), patience, || {
            Ok(match self.run(self.session.placed_server(id))? {
                None => Ok(()),
                Some(there) => Err(format!("{there:?}")),
            })
        })
    }

    /// Pods of a set, in whichever cluster it is.
    pub fn pods(&self, set: &str) -> anyhow::Result<Vec<Pod>> {
        let prefix = format!("{set}-");
        self.pods_where(|pod| {
            let name = pod["metadata"]["name"].as_str();
            name.is_some_and(|name| name.starts_with(&prefix))
        })
    }

    /// Pods of one part of a service: of `nova` the `api`.
    pub fn pods_of(&self, service: &str, component: &str) -> anyhow::Result<Vec<Pod>> {
        self.pods_where(|pod| {
            let labels = &pod["metadata"]["labels"];
            labels["app.kubernetes.io/name"] == service && labels["app.kubernetes.io/component"] == component
        })
    }

    fn pods_where(&self, wanted: impl Fn(&Value) -> bool) -> anyhow::Result<Vec<Pod>> {
        let mut found = Vec::new();
        for context in CONTEXTS {
            let list = ["--context", context, "-n", NAMESPACE, "get", "pods", "-o", "json"];
            let list: Value = serde_json::from_str(&self.cloud.kubectl(&list, "")?)?;
            found.extend(list["items"].as_array().into_iter().flatten().filter_map(|pod| {
                let stays = pod["metadata"]["deletionTimestamp"].is_null();
                (stays && wanted(pod)).then_some(())?;
                Some(Pod {
                    context,
                    name: pod["metadata"]["name"].as_str()?.to_owned(),
                    node: pod["spec"]["nodeName"].as_str()?.to_owned(),
                })
            }));
        }
        Ok(found)
    }

    /// What a command in a pod prints.
    pub fn exec(&self, pod: &Pod, command: &[&str]) -> anyhow::Result<String> {
        let words = [&pod.place()[..], &["exec", &pod.name, "--"], command].concat();
        self.cloud.kubectl(&words, "")
    }
}

/// The clusters of the small profile.
const CONTEXTS: [&str; 2] = ["control-plane", "hypervisor"];

pub struct Pod {
    context: &'static str,
    pub name: String,
    pub node: String,
}

impl Pod {
    /// kubectl's words for its cluster and namespace.
    pub fn place(&self) -> [&'static str; 4] {
        ["--context", self.context, "-n", NAMESPACE]
    }
}

pub fn decoded(text: &str) -> anyhow::Result<String> {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(text.into())?;
    Ok(String::from_utf8(bytes.0)?)
}

/// What the demo made.
async fn draft(session: &Session) -> anyhow::Result<ServerDraft> {
    let flavours = session.flavours().await?;
    let flavour = flavours.into_iter().find(|flavour| flavour.name == "tiny");
    let image = session.images(Some("guest")).await?.into_iter().next();
    let of = async |kind| {
        let found = session.found(kind, &[("name", "demo")]).await?.into_iter().next();
        found.with_context(|| format!("{kind:?} demo"))
    };
    Ok(ServerDraft {
        name: String::new(),
        flavour: flavour.context("flavour tiny")?.id,
        image: image.context("image guest")?.id,
        network: of(NetworkKind::Network).await?.id,
        key: "c5c3-demo".to_owned(),
        security_group: of(NetworkKind::SecurityGroup).await?.id,
    })
}
