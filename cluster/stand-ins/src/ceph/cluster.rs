//! CephCluster: monitors, managers and OSDs.

#[path = "cluster_states.rs"]
mod states;
#[cfg(test)]
#[path = "cluster_tests.rs"]
mod tests;

use std::collections::BTreeMap;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use c5c3_api::foreign::rook::CephCluster;
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, Touch, Wanted,
};
use jiff::Timestamp;
use k8s_openapi::api::apps::v1::Deployment;
use k8s_openapi::api::core::v1::{ConfigMap, Node, PersistentVolumeClaim, Pod, Secret, Service};
use kube::{Client, ResourceExt};

use super::check::{self, mgr_ids};
use super::commands::{self, Command, Orders};
use super::keyring::{Mint, key_in};
use super::members::{self, Told};
use super::mons::{self, Identity};
use super::names::{ENDPOINTS, MON, OVERRIDE};
use super::osds::{self, Disk};
use super::seats::{self, Seats};
use super::status::{self, Seen};
use super::view::View;
use super::{names, orders};
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::image::server_image;
use crate::objects::secret_value;

const QUORUM: &str = "MonitorsInQuorum";
const MANAGED: &str = "ManagerAvailable";
const STORED: &str = "StorageUp";
const UNDERSTOOD: &str = "FieldsRun";

/// No watch shows what daemons do. They are asked this often while something is missing, and when all is healthy.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(60);
/// When a monitor elsewhere is not in the quorum: it is told of, and the cluster is Ready nevertheless.
const MISSED: Duration = Duration::from_secs(10);

/// The controller.
pub struct CephClusters {
    client: Client,
    /// Since when monitors are out of the quorum, by the uid of their cluster. Not kept: the time begins again when
    /// this program does, as with Rook.
    missed: Mutex<BTreeMap<String, BTreeMap<String, Timestamp>>>,
}

impl CephClusters {
    pub fn new(client: Client) -> Self {
        Self {
            client,
            missed: Mutex::default(),
        }
    }
}

#[derive(Debug)]
pub struct Facts {
    /// Monitors of this cluster, those that take the place of others included.
    members: Vec<String>,
    /// What was told of monitors before.
    told: Told,
    /// A monitor that should be replaced, and no node is free.
    stuck: Option<String>,
    identity: Option<Identity>,
    mint: Mint,
    /// Keys of managers that have one.
    managers: BTreeMap<String, String>,
    /// Addresses of monitors that have one.
    addresses: BTreeMap<String, String>,
    /// Nodes of monitors, where they are in the network of these.
    seats: Seats,
    /// How the monitors that are there have theirs.
    exported: Option<bool>,
    claims: Vec<PersistentVolumeClaim>,
    disk_keys: BTreeMap<String, String>,
    /// Who answered, and what; an error when nobody could.
    view: Result<Option<(ExecTarget, View)>, String>,
    /// A person wrote the settings of all daemons.
    overridden: bool,
}

impl Facts {
    /// Of all monitors.
    fn has_addresses(&self) -> bool {
        self.members.iter().all(|id| self.addresses.contains_key(id))
    }

    fn seen(&self) -> Option<&View> {
        let found = self.view.as_ref().ok()?.as_ref();
        found.map(|(_, view)| view)
    }

    /// Monitors that are not in the quorum. Who cannot be asked is as last seen.
    fn out_of_quorum(&self, elsewhere: &BTreeMap<String, String>) -> Vec<String> {
        let Some(view) = self.seen() else {
            return self.told.out.clone();
        };
        let quorum = &view.status.quorum_names;
        let all = self.members.iter().chain(elsewhere.keys());
        all.filter(|id| !quorum.contains(id)).cloned().collect()
    }
}

/// All that follows from the facts.
#[derive(Debug)]
pub struct Plan {
    refused: Option<Error>,
    image: String,
    identity: Identity,
    managers: BTreeMap<String, String>,
    disks: Vec<Disk>,
    disk_keys: BTreeMap<String, String>,
}

impl Controller for CephClusters {
    type Kind = CephCluster;
    type Facts = Facts;
    type Plan = Plan;
    type Action = Orders;
    type Error = Error;

    const NAME: &'static str = "stand-in-ceph-cluster";
    const PARTS: &'static [Part] = &[
        Part::required(QUORUM),
        Part::required(MANAGED),
        Part::required(STORED),
        Part::informative(UNDERSTOOD),
    ];

    fn owns() -> Vec<Kind> {
        vec![
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<Service>(),
            Kind::of::<PersistentVolumeClaim>(),
            Kind::of::<Deployment>(),
        ]
    }

    fn touches() -> Vec<Touch> {
        vec![
            exec::touched(),
            Touch::of::<Pod>(&["list"]),
            Touch::of::<Node>(&["list"]),
        ]
    }

    async fn observe(&self, object: &CephCluster, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let identity: Option<Secret> = reader.get(&namespace, MON).await?;
        let mut managers = BTreeMap::new();
        for id in mgr_ids(&object.spec) {
            let found: Option<Secret> = reader.get(&namespace, &mons::mgr_keyring(&id)).await?;
            let keyring = secret_value(found, "keyring");
            let key = keyring.and_then(|text| key_in(&text, &format!("mgr.{id}")));
            managers.extend(key.map(|key| (id, key)));
        }
        let view = self.view(object, reader).await?;
        let endpoints: Option<ConfigMap> = reader.get(&namespace, ENDPOINTS).await?;
        let told = members::told(endpoints.as_ref());
        let mut members = members::of(&object.spec, &told);
        let answered = view.as_ref().ok().and_then(|found| Some(&found.as_ref()?.1));
        let change = self.change(object, &told, &members, answered);
        let (mut addresses, mut seats, mut exported) = (BTreeMap::new(), Seats::new(), None);
        let mut stuck = None;
        if seats::is_host(&object.spec) {
            let nodes: Vec<Node> = reader.list_all("").await?;
            let known = seats::read(endpoints.as_ref());
            (members, seats, stuck) =
                seats::seated(members, change, &known, &nodes, check::site_label(&object.spec));
            addresses.extend(seats.iter().map(|(id, seat)| (id.clone(), seat.address.clone())));
        } else {
            members = change.map_or_else(|| members.clone(), |change| members::with(&members, &change));
            for id in &members {
                let name = mons::daemon(&namespace, "", id).name();
                let found: Option<Service> = reader.get(&namespace, &name).await?;
                exported = found.as_ref().map(mons::is_exported).or(exported);
                let address = found.as_ref().and_then(mons::address);
                addresses.extend(address.map(|address| (id.clone(), address)));
            }
        }
        let config: Option<ConfigMap> = reader.get(&namespace, OVERRIDE).await?;
        let own = |map: &ConfigMap| {
            map.owner_references()
                .iter()
                .any(|owner| Some(&owner.uid) == object.metadata.uid.as_ref())
        };
        Ok(Facts {
            members,
            told,
            stuck,
            identity: identity.as_ref().and_then(Identity::read),
            mint: Mint::new(rand::random()),
            managers,
            addresses,
            seats,
            exported,
            claims: reader.list(&namespace, osds::CLAIMS).await?,
            disk_keys: osds::keys(&reader.list(&namespace, "app=rook-ceph-osd").await?),
            view,
            overridden: config.is_some_and(|map| !own(&map)),
        })
    }

    fn plan(observed: &Observed<Self>) -> Plan {
        let (cluster, facts) = (&observed.object, &observed.facts);
        let spec = &cluster.spec;
        let wished = spec
            .ceph_version
            .as_ref()
            .and_then(|version| version.image.as_deref());
        let image = server_image("ceph", wished);
        let key = |name: String, known: &BTreeMap<String, String>, id: &str| {
            known.get(id).cloned().unwrap_or_else(|| facts.mint.key(&name))
        };
        let managers = mgr_ids(spec)
            .into_iter()
            .map(|id| (id.clone(), key(format!("mgr.{id}"), &facts.managers, &id)));
        let disks = osds::disks(cluster, &facts.claims);
        let disk_keys = disks.iter().map(|disk| {
            (
                disk.claim.clone(),
                key(format!("osd {}", disk.claim), &facts.disk_keys, &disk.claim),
            )
        });
        Plan {
            identity: facts
                .identity
                .clone()
                .unwrap_or_else(|| Identity::fresh(&facts.mint)),
            managers: managers.collect(),
            disk_keys: disk_keys.collect(),
            refused: check::cluster(cluster)
                .and_then(|()| check::known(cluster, facts.exported, facts.identity.is_some()))
                .and_then(|()| {
                    image
                        .as_ref()
                        .map(drop)
                        .map_err(|error| Error::Catalogue(error.to_string()))
                })
                .err(),
            image: image.unwrap_or_default(),
            disks,
        }
    }

    fn refusal(plan: &Plan) -> Option<&Error> {
        plan.refused.as_ref()
    }

    fn decide(observed: &Observed<Self>, plan: &Plan) -> Result<Decision<Orders>, Error> {
        if plan.refused.is_some() {
            return Ok(Decision::hold());
        }
        let (cluster, facts) = (&observed.object, &observed.facts);
        let wanted = objects(cluster, facts, plan);
        if !facts.has_addresses() {
            // A new monitor has no address yet: nobody else stops for that.
            return Ok(Decision::only(wanted));
        }
        let Ok(Some((place, view))) = &facts.view else {
            // Nobody can be asked which daemons there are: those that run go on.
            return Ok(Decision::only(wanted));
        };
        let decision = leaving(cluster, &facts.members, view)
            .into_iter()
            .fold(Decision::want(wanted), Decision::keep);
        let commands = orders::of(
            &cluster.spec,
            &facts.members,
            view,
            &plan.managers,
            &plan.disks,
            &plan.disk_keys,
        );
        let hidden = plan
            .managers
            .values()
            .chain(plan.disk_keys.values())
            .cloned()
            .collect();
        Ok(decision.act((!commands.is_empty()).then(|| Orders {
            place: place.clone(),
            commands,
            hidden,
        })))
    }

    async fn act(&self, orders: &Orders) -> Result<(), Error> {
        commands::execute(&self.client, orders).await.map(drop)
    }

    fn report(observed: &Observed<Self>, plan: &Plan, applied: &Applied<Self>) -> Report {
        let (cluster, facts) = (&observed.object, &observed.facts);
        let view = facts.seen();
        let states = states::states(cluster, facts, plan, view);
        let blocker = [QUORUM, MANAGED, STORED]
            .iter()
            .filter_map(|name| states.get(name))
            .find(|state| state.truth.as_str() != "True")
            .map(|state| state.message.clone());
        let told = !applied.outcomes().is_empty();
        let status = status::status(
            cluster.status.as_ref(),
            &Seen {
                view,
                image: &plan.image,
                blocker: blocker.as_deref(),
                refused: plan.refused.as_ref().map(ToString::to_string),
                now: observed.now,
            },
        );
        let report = Report::new(states).status(&status);
        match (&plan.refused, blocker.is_some() || told) {
            (Some(_), _) => report,
            (None, true) => report.again_in(SOON),
            (None, false) if !facts.out_of_quorum(&elsewhere(cluster, facts)).is_empty() => {
                report.again_in(MISSED)
            }
            (None, false) => report.again_in(LATER),
        }
    }
}

fn objects(cluster: &CephCluster, facts: &Facts, plan: &Plan) -> Vec<Wanted> {
    let (namespace, name) = (cluster.namespace().unwrap_or_default(), cluster.name_any());
    let Plan { identity, image, .. } = plan;
    let (spec, fsid) = (&cluster.spec, &identity.fsid);
    let mut wanted: Vec<Wanted> = mons::secrets(&namespace, identity, &plan.managers)
        .iter()
        .map(Wanted::of)
        .collect();
    if !facts.overridden {
        wanted.push(Wanted::of(&names::config_map(
            &namespace,
            OVERRIDE,
            &[("config", "")],
        )));
    }
    wanted.push(Wanted::of(&mons::metrics(&namespace, &name)));
    for id in &facts.members {
        if !seats::is_host(spec) {
            wanted.push(Wanted::of(&mons::service(
                &namespace,
                &name,
                id,
                check::exported(spec),
            )));
        }
        wanted.push(Wanted::of(&mons::claim(&namespace, &name, id)));
    }
    for disk in &plan.disks {
        wanted.push(Wanted::of(&disk.wanted));
        let key = plan.disk_keys.get(&disk.claim).map_or("", String::as_str);
        wanted.push(Wanted::of(&osds::secret(&namespace, &disk.claim, key)));
    }
    // A monitor begins with the addresses of all.
    if !facts.has_addresses() {
        return wanted;
    }
    let outside = elsewhere(cluster, facts);
    wanted.push(Wanted::of(&mons::endpoints(
        &namespace,
        &facts.addresses,
        &facts.seats,
        &outside,
        (
            &facts.out_of_quorum(&outside),
            members::last(&facts.told, &facts.members),
        ),
    )));
    wanted.push(Wanted::of(&mons::config(&namespace, &facts.addresses)));
    for (id, address) in &facts.addresses {
        let place = (address.as_str(), facts.seats.get(id));
        wanted.push(Wanted::of(&mons::deployment(cluster, image, fsid, id, place)));
    }
    for id in mgr_ids(spec) {
        wanted.push(Wanted::of(&mons::mgr_deployment(cluster, image, fsid, &id)));
    }
    wanted.extend(osd_deployments(cluster, plan, fsid, facts.seen()));
    wanted
}

/// What belongs to monitors that nobody wants any more: it stays until the others have let them go.
fn leaving(cluster: &CephCluster, wanted: &[String], view: &View) -> Vec<Reference> {
    let namespace = cluster.namespace().unwrap_or_default();
    let kinds = [
        Kind::of::<Deployment>(),
        Kind::of::<Service>(),
        Kind::of::<PersistentVolumeClaim>(),
    ];
    let more = view.mons.mons.iter().filter(|mon| !wanted.contains(&mon.name));
    more.flat_map(|mon| {
        let name = mons::daemon(&namespace, "", &mon.name).name();
        kinds.each_ref().map(|kind| kind.named(Some(&namespace), &name))
    })
    .collect()
}

/// OSDs whose number is known.
fn osd_deployments(cluster: &CephCluster, plan: &Plan, fsid: &str, view: Option<&View>) -> Vec<Wanted> {
    let deployment = |disk: &Disk| {
        let id = view?.osd(disk.uuid.as_deref()?)?.osd;
        Some(Wanted::of(&osds::deployment(
            cluster,
            &plan.image,
            fsid,
            id,
            disk,
        )))
    };
    plan.disks.iter().filter_map(deployment).collect()
}

/// Monitors outside of this cluster that have joined, with their addresses. One that nobody wants any
/// more is reported for as long as Ceph's map has it: it still votes. While nobody answers they are as last seen.
fn elsewhere(cluster: &CephCluster, facts: &Facts) -> BTreeMap<String, String> {
    let Some(view) = facts.seen() else {
        return facts.told.elsewhere.clone();
    };
    let outside = cluster
        .spec
        .mon
        .as_ref()
        .map(|mon| mon.external_mon_ids.clone())
        .unwrap_or_default();
    // Those of this cluster are letters, whether they are to stay or not.
    let mons = view.mons.mons.iter();
    let theirs = mons.filter(|mon| outside.contains(&mon.name) || !members::is_own(&mon.name));
    theirs
        .filter_map(|mon| {
            let all = &mon.public_addrs.addrvec;
            let address = all.iter().find(|address| address.kind == "v1").or(all.first())?;
            Some((mon.name.clone(), address.addr.clone()))
        })
        .collect()
}

impl CephClusters {
    /// Notes who is out of the quorum, and tells which monitor is waited for no longer and what takes its place.
    fn change(
        &self,
        object: &CephCluster,
        told: &Told,
        members: &[String],
        view: Option<&View>,
    ) -> Option<(String, String)> {
        let now = Timestamp::now();
        let mut all = self.missed.lock().unwrap_or_else(PoisonError::into_inner);
        let missed = all.entry(object.uid().unwrap_or_default()).or_default();
        *missed = members::missed(missed, members, view, now);
        members::replaced(&object.spec, told, members, missed, (view, now))
    }

    async fn view(
        &self,
        object: &CephCluster,
        reader: &Reader,
    ) -> Result<Result<Option<(ExecTarget, View)>, String>, Error> {
        let places = commands::places(reader, &object.namespace().unwrap_or_default()).await?;
        let accounts = orders::managers(&mgr_ids(&object.spec));
        let asked: Vec<Command> = View::questions(&accounts);
        Ok(match commands::ask(&self.client, &places, asked).await {
            Ok(None) => Ok(None),
            Ok(Some((place, answers))) => Ok(Some((place, View::read(&accounts, &answers)?))),
            Err(error) => Err(error.to_string()),
        })
    }
}
