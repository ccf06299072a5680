//! The process behind an embedded cluster: API server, nodes and, unless told otherwise, the
//! kinds and operators of CobaltCore.

use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use c5c3_api::{Origin, registry};
use c5c3_kit::{Clusters, Metrics, Stop, telemetry};
use clap::Args;
use embedded_node::network::Inside;
use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::Api;
use kube::api::{Patch, PatchParams};
use machine::daemon::{Options, Running, say};
use openstack_client::{Beyond, Dial, Stream, Tcp};
use serde_json::Value;
use stand_ins::external_secrets::BANK;

use super::{NAMES, StateDir, own};
use crate::cloud::apply::apply;
use crate::cloud::profile::Bundle;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::roles::{self, Role};

/// Nodes come up within seconds; a busy machine may need longer.
const PATIENCE: Duration = Duration::from_secs(120);

/// The longest that a stop waits for passes under way.
const LAST_PASSES: Duration = Duration::from_secs(5);
/// Before an operator that failed begins again.
const AGAIN: Duration = Duration::from_secs(5);
/// Otherwise the name server would log every query.
const LOG: &str = "info,hickory_server=warn";

/// By these OVN knows that the second link of a hypervisor is its uplink, and what its tunnels use.
const DATA_LABELS: [(&str, &str); 2] = [
    ("ovn.c5c3.io/uplink", "eth1"),
    ("ovn.c5c3.io/tunnel-address", "10.193.0.{index}"),
];

#[derive(Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: StateDir,
    #[arg(long)]
    image_store: PathBuf,
    #[arg(long)]
    cluster_only: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    telemetry::start(LOG).map_err(|error| Failure::Usage(error.to_string()))?;
    block_on(serve(arguments))
}

async fn serve(arguments: &Arguments) -> Result<(), Failure> {
    let stop = Stop::on_signal().context("signals")?;
    let options = Options {
        names: NAMES,
        state: arguments.place.path().to_owned(),
        image_stores: vec![arguments.image_store.clone()],
        init: own(&["node-init"])?,
        data_labels: DATA_LABELS
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .into(),
    };
    let mut say = say;
    let mut running = Running::start(&options, &mut say).await?;
    let mut operators = None;
    if !arguments.cluster_only {
        say("installing the CRDs of CobaltCore");
        for (number, cluster) in running.clusters().iter().enumerate() {
            let client = running.client(Some(cluster))?;
            install(&client, number == 0).await?;
            if running.has_hypervisors(cluster) {
                agents(&client).await?;
            }
        }
        operators = Some(tokio::spawn(operate(Crew::of(&running)?, stop.clone())));
    }
    running.ready(PATIENCE, &mut say).await?;
    running.announce()?;
    stop.requested().await;
    // Passes under way are finished while there is an API server to tell.
    if let Some(operators) = operators {
        let _ = tokio::time::timeout(LAST_PASSES, operators).await;
    }
    running.stop().await;
    Ok(())
}

/// Applies every definition and the operators' accounts; what is there already is not written again.
/// `home`: the operators' own cluster.
async fn install(client: &kube::Client, home: bool) -> Result<(), Failure> {
    let api: Api<CustomResourceDefinition> = Api::all(client.clone());
    let params = PatchParams::apply("c5c3-up").force();
    for kind in registry().iter().filter(|kind| kind.origin != Origin::Composite) {
        let definition = kind.crd();
        let name = definition.metadata.name.clone().unwrap_or_default();
        api.patch(&name, &params, &Patch::Apply(definition))
            .await
            .with_context(|| format!("cannot install {name}"))?;
    }
    for object in accounts(home) {
        apply(client, &object).await?;
    }
    Ok(())
}

/// Who works in a cluster, and what each may do there.
fn accounts(home: bool) -> Vec<Value> {
    let crew = roles::all().into_iter().chain([roles::stand_ins()]);
    if home {
        return roles::objects(&crew.collect::<Vec<_>>(), roles::NAMESPACE);
    }
    // Hypervisors, Ceph with its arbiters and copies of Secrets are looked after in the cluster where they are.
    let settled = [roles::hypervisor(), roles::arbiter(), roles::stand_ins()];
    let crossing = crew.filter(|role| settled.iter().all(|one| one.name != role.name));
    let mut accounts = roles::objects_elsewhere(&crossing.collect::<Vec<_>>(), roles::NAMESPACE);
    accounts.extend(settled.iter().flat_map(|role| role.objects(roles::NAMESPACE)));
    accounts
}

/// What the chart `hypervisor` brings to nodes that run guests.
const AGENTS: &str = include_str!("../../../../deploy/quickstart/agents.yaml");

/// Applies the agents; those of an earlier program are brought up to date.
async fn agents(client: &kube::Client) -> Result<(), Failure> {
    for object in Bundle::parse(AGENTS).map_err(Failure::Usage)?.objects {
        apply(client, &object).await?;
    }
    Ok(())
}

/// Names and addresses of the cluster are reached inside it, those of other machines from this one. This
/// process is root on the machine: what objects name must not make it ask there.
#[derive(Debug)]
struct Inwards {
    inside: Inside,
    beyond: Beyond,
}

#[async_trait::async_trait]
impl Dial for Inwards {
    async fn dial(&self, host: &str, port: u16) -> io::Result<Box<dyn Stream>> {
        if let Some(stream) = self.inside.connect(host, port).await? {
            return Ok(Box::new(stream));
        }
        let places = self.beyond.resolve(host, port).await?;
        let mut last = io::Error::from(io::ErrorKind::NotFound);
        for place in places {
            // A name of the world may lead into the cluster.
            match self.inside.connect(&place.ip().to_string(), port).await {
                Ok(Some(stream)) => return Ok(Box::new(stream)),
                Ok(None) => match Tcp.dial(&place.ip().to_string(), port).await {
                    Ok(stream) => return Ok(stream),
                    Err(error) => last = error,
                },
                Err(error) => last = error,
            }
        }
        Err(last)
    }
}

/// The operators under their own accounts, and the stand-ins for those of other projects.
struct Crew {
    control_plane: Clusters,
    services: Clusters,
    ovn: Clusters,
    /// One for each cluster: hypervisors are looked after where they are.
    hypervisors: Vec<Clusters>,
    /// One for each cluster: an arbiter is asked for where its Ceph is.
    arbiters: Vec<Clusters>,
    stand_ins: Clusters,
    /// Those of other clusters, each at home in its own.
    elsewhere: Vec<Clusters>,
    dial: Arc<dyn Dial>,
    /// For verifying clouds: public endpoints of an embedded cloud are on the machine's loopback.
    verification: Arc<dyn Dial>,
    metrics: Metrics,
}

impl Crew {
    /// The first cluster is the operators' home; they know the others by their names.
    fn of(running: &Running) -> Result<Self, Failure> {
        let account = |role: &Role| {
            let (user, groups) = (role.user(), ["system:serviceaccounts"]);
            let mut clusters = Clusters::of(running.client_as(None, &user, &groups)?);
            // By a second name the home would be another cluster, and its objects strangers.
            for name in running.clusters().iter().skip(1) {
                clusters = clusters.with(name, running.client_as(Some(name), &user, &groups)?);
            }
            Ok::<_, Failure>(clusters)
        };
        let stand_ins = account(&roles::stand_ins())?;
        let elsewhere = running.clusters().iter().skip(1).map(|name| {
            let own = stand_ins.get(name).map_err(anyhow::Error::from)?.clone();
            Ok::<_, Failure>(Clusters::of(own).with(BANK, stand_ins.home().clone()))
        });
        let elsewhere = elsewhere.collect::<Result<_, _>>()?;
        let metrics = Metrics::default();
        let shown = metrics.clone();
        let dial = |beyond: Beyond| {
            let inside = running.inside(None)?;
            Ok::<_, Failure>(Arc::new(Inwards { inside, beyond }))
        };
        running.join_metrics(move || shown.render());
        Ok(Crew {
            control_plane: account(&roles::control_plane())?,
            services: account(&roles::services())?,
            ovn: account(&roles::ovn())?,
            hypervisors: hypervisors(running)?,
            arbiters: arbiters(running)?,
            stand_ins,
            elsewhere,
            dial: dial(Beyond::default())?,
            verification: dial(Beyond::default().and_loopback())?,
            metrics,
        })
    }
}

/// The operator of hypervisors at home in each cluster; the cloud's login is in the first.
fn hypervisors(running: &Running) -> Result<Vec<Clusters>, Failure> {
    let (user, groups) = (roles::hypervisor().user(), ["system:serviceaccounts"]);
    let mut all = Vec::new();
    for (number, name) in running.clusters().iter().enumerate() {
        let clusters = Clusters::of(running.client_as(Some(name), &user, &groups)?);
        all.push(match number {
            0 => clusters,
            _ => clusters.with(
                c5c3_hypervisor::CONTROL_PLANE,
                running.client_as(None, &user, &groups)?,
            ),
        });
    }
    Ok(all)
}

/// The operator of arbiters at home in each cluster; other clusters it knows by kubeconfigs alone.
fn arbiters(running: &Running) -> Result<Vec<Clusters>, Failure> {
    let (user, groups) = (roles::arbiter().user(), ["system:serviceaccounts"]);
    let mut all = Vec::new();
    for name in running.clusters() {
        all.push(Clusters::of(running.client_as(Some(name), &user, &groups)?));
    }
    Ok(all)
}

/// An operator that ended with an error begins again, as it would in a Deployment.
async fn kept<F, E>(stop: &Stop, start: impl Fn() -> F)
where
    F: Future<Output = Result<(), E>>,
    E: std::fmt::Display,
{
    while let Err(error) = start().await {
        tracing::error!(%error, "an operator ended; restarting it");
        tokio::select! {
            () = stop.requested() => return,
            () = tokio::time::sleep(AGAIN) => {}
        }
    }
}

async fn operate(crew: Crew, stop: Stop) {
    let control_plane = kept(&stop, || {
        let settings = c5c3_control_plane::Settings {
            namespace: None,
            unserved: roles::unserved(),
            verify: Arc::new(c5c3_control_plane::verification::Real {
                dial: crew.verification.clone(),
            }),
        };
        c5c3_control_plane::run(
            crew.control_plane.clone(),
            crew.metrics.clone(),
            settings,
            stop.clone(),
        )
    });
    let services = kept(&stop, || {
        c5c3_services::run(crew.services.clone(), crew.metrics.clone(), None, stop.clone())
    });
    let ovn = kept(&stop, || {
        c5c3_ovn::run(
            crew.ovn.clone(),
            crew.metrics.clone(),
            crew.dial.clone(),
            None,
            stop.clone(),
        )
    });
    let hypervisors = crew.hypervisors.iter().map(|clusters| {
        kept(&stop, || {
            let connect = c5c3_hypervisor::Real {
                dial: crew.dial.clone(),
            };
            let metrics = crew.metrics.clone();
            c5c3_hypervisor::run(clusters.clone(), metrics, Arc::new(connect), stop.clone())
        })
    });
    let arbiters = crew.arbiters.iter().map(|clusters| {
        kept(&stop, || {
            c5c3_arbiter::run(clusters.clone(), crew.metrics.clone(), None, stop.clone())
        })
    });
    let stand_ins = kept(&stop, || {
        stand_ins::run(
            crew.stand_ins.clone(),
            crew.metrics.clone(),
            crew.dial.clone(),
            stop.clone(),
        )
    });
    let elsewhere = crew.elsewhere.iter().map(|clusters| {
        kept(&stop, || {
            stand_ins::run_elsewhere(clusters.clone(), crew.metrics.clone(), stop.clone())
        })
    });
    let elsewhere = futures::future::join_all(elsewhere);
    let hypervisors = futures::future::join_all(hypervisors);
    let arbiters = futures::future::join_all(arbiters);
    tokio::join!(
        control_plane,
        services,
        ovn,
        hypervisors,
        arbiters,
        stand_ins,
        elsewhere
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Resources that an account may write, by its ClusterRole.
    fn writable(accounts: &[Value], name: &str) -> Vec<String> {
        let roles = accounts
            .iter()
            .filter(|one| one["kind"] == "ClusterRole" && one["metadata"]["name"] == name);
        let rules = roles.flat_map(|role| role["rules"].as_array().into_iter().flatten());
        let written = rules.filter(|rule| rule["verbs"].to_string().contains("\"patch\""));
        let resources = written.flat_map(|rule| rule["resources"].as_array().into_iter().flatten());
        resources
            .filter_map(|one| one.as_str().map(str::to_owned))
            .collect()
    }

    #[test]
    fn ceph_has_its_arbiters_wherever_it_is() {
        for home in [true, false] {
            let may = writable(&accounts(home), roles::arbiter().name);
            for needed in ["remotearbiters/status", "remoteclusters/status", "cephclusters"] {
                assert!(
                    may.iter().any(|one| one == needed),
                    "home {home}, {needed}: {may:?}"
                );
            }
        }
    }

    #[test]
    fn nobody_has_two_accounts_in_a_cluster() {
        for home in [true, false] {
            let mut names: Vec<String> = accounts(home)
                .iter()
                .map(|one| format!("{} {}", one["kind"], one["metadata"]))
                .collect();
            let all = names.len();
            names.sort();
            names.dedup();
            assert_eq!(names.len(), all, "home {home}");
        }
    }
}
