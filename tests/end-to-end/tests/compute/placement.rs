//! Where servers go, rule by rule: real Nova asks a real Cortex, with two hosts to choose from.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::patience::until;
use openstack_client::{Compute, Flavour, Operating};
use serde_json::{Value, json};

use crate::world::World;
use crate::{PATIENCE, openstack};

/// Cortex reads Nova and Placement once a minute.
const READ: Duration = Duration::from_secs(150);
/// MiB that a server of the rows takes, and a larger one.
const SMALL: i64 = 128;
const LARGE: i64 = 384;
/// Nova leads flavours that name no hypervisor to this Pipeline.
const PIPELINE: &str = "kvm-general-purpose-load-balancing";
const FILTERS: [&str; 7] = [
    "status_conditions",
    "has_requested_traits",
    "instance_group_anti_affinity",
    "has_enough_capacity",
    "aggregate_metadata",
    "requested_destination",
    "exclude_hosts",
];

/// What Cortex is told before a server is made.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Given {
    /// The fuller host first.
    Packing,
    /// The emptier host first.
    Spreading,
    /// The emptier host first, which the Pipeline leaves out.
    Excluding,
    /// Packing; the emptier host has a trait of its own.
    Trait,
    /// Packing; the fuller host is for another project.
    Aggregate,
    /// Packing; so much room in MiB is left on the fuller host, and on the emptier one.
    Room(Option<i64>, Option<i64>),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Lands {
    OnFuller,
    OnEmptier,
    Nowhere,
}

use Given::{Aggregate, Excluding, Packing, Room, Spreading, Trait};
use Lands::{Nowhere, OnEmptier, OnFuller};

/// What is given, how servers are asked for one after the other, and where each lands.
type Row = (Given, &'static [(&'static str, Lands)]);

const ROWS: &[Row] = &[
    (Packing, &[("--flavor small", OnFuller)]),
    (Spreading, &[("--flavor small", OnEmptier)]),
    (Excluding, &[("--flavor small", OnFuller)]),
    (Trait, &[("--flavor with-trait", OnEmptier)]),
    (Aggregate, &[("--flavor small", OnEmptier)]),
    (Room(Some(0), None), &[("--flavor small", OnEmptier)]),
    (
        Room(Some(SMALL), Some(0)),
        &[("--flavor large", Nowhere), ("--flavor small", OnFuller)],
    ),
    (
        Packing,
        &[
            ("--flavor small --hint group=one", OnFuller),
            ("--flavor small --hint group=one", OnEmptier),
            ("--flavor small --hint group=one", Nowhere),
        ],
    ),
    (
        Packing,
        &[
            ("--flavor small --hint group=two", OnFuller),
            ("--flavor small --hint group=two", OnFuller),
            ("--flavor small --hint group=two", OnEmptier),
        ],
    ),
];

/// Of a cloud whose Nova asks Cortex.
pub(crate) fn servers_land_where_cortex_says(world: &World<'_>) -> anyhow::Result<()> {
    let bench = Bench::new(world)?;
    let outcome = ROWS.iter().try_for_each(|row| bench.run(row));
    bench.clean()?;
    outcome
}

struct Bench<'a> {
    world: &'a World<'a>,
    fuller: String,
    emptier: String,
    /// A server that makes one host the fuller one, whatever the rows do.
    ballast: String,
    /// Ids of the groups with at most one and at most two servers on a host.
    groups: [(&'static str, String); 2],
}

impl<'a> Bench<'a> {
    fn new(world: &'a World<'a>) -> anyhow::Result<Self> {
        let hosts = world.hosts()?;
        let [fuller, emptier] = <[String; 2]>::try_from(hosts).map_err(|all| anyhow::anyhow!("{all:?}"))?;
        for (name, ram) in [
            ("small", SMALL),
            ("large", LARGE),
            ("with-trait", SMALL),
            ("ballast", 2048),
        ] {
            let flavour = Flavour {
                name: name.to_owned(),
                vcpus: 1,
                ram: u32::try_from(ram)?,
                disk: 1,
                ..Flavour::default()
            };
            world.run(world.session.create_flavour(&flavour))?;
        }
        let required = "flavor set --property trait:CUSTOM_C5C3_FAST=required with-trait";
        tell(world, required)?;
        let flavours = world.run(world.session.flavours())?;
        let heavy = flavours.into_iter().find(|one| one.name == "ballast");
        let mut draft = world.draft("ballast");
        draft.flavour = heavy.context("ballast")?.id;
        let ballast = world.run(world.session.create_server_on(&draft, &fuller))?;
        world.settled(&ballast, "ACTIVE")?;
        let group = |name: &'static str, most: u8| {
            let words = format!(
                "--os-compute-api-version 2.64 server group create --policy anti-affinity --rule max_server_per_host={most} {name}"
            );
            let made = openstack(world.cloud, &words)?;
            let id = made["id"].as_str().context("a group")?.to_owned();
            anyhow::Ok((name, id))
        };
        let groups = [group("one", 1)?, group("two", 2)?];
        Ok(Bench {
            world,
            fuller,
            emptier,
            ballast,
            groups,
        })
    }

    fn run(&self, row: &Row) -> anyhow::Result<()> {
        let (given, servers) = row;
        self.give(*given).with_context(|| format!("{given:?}"))?;
        let mut made = Vec::new();
        for (number, (words, expected)) in servers.iter().enumerate() {
            let what = format!("{given:?}, server {number} with {words}");
            let id = self.create(words).context(what.clone())?;
            made.push(id.clone());
            let landed = self.landed(&id).context(what.clone())?;
            ensure!(
                landed == *expected,
                "{what}: {landed:?}, not {expected:?}\n{}",
                self.why(&id)
            );
            println!("{what}: {landed:?}");
        }
        for id in &made {
            self.world.run(self.world.session.delete_server(id))?;
        }
        for id in &made {
            self.world.gone(id, PATIENCE)?;
        }
        self.take_back(*given)
    }

    fn create(&self, words: &str) -> anyhow::Result<String> {
        let mut words = words.to_owned();
        for (name, id) in &self.groups {
            words = words.replace(&format!("group={name}"), &format!("group={id}"));
        }
        let words = format!("server create --image guest --network demo {words} row");
        let made = openstack(self.world.cloud, &words)?;
        Ok(made["id"].as_str().context("a server")?.to_owned())
    }

    fn landed(&self, id: &str) -> anyhow::Result<Lands> {
        until("it lands", PATIENCE, || {
            let seen = self.world.server(id)?;
            let host = seen.host.as_deref();
            Ok(match seen.server.status.as_str() {
                "ACTIVE" if host == Some(self.fuller.as_str()) => Ok(OnFuller),
                "ACTIVE" if host == Some(self.emptier.as_str()) => Ok(OnEmptier),
                "ERROR" if format!("{seen:?}").contains("No valid host") => Ok(Nowhere),
                _ => Err(format!("{seen:?}")),
            })
        })
    }

    fn why(&self, id: &str) -> String {
        let decision = ["get", "decision", &format!("nova-{id}"), "-o", "json"];
        let said = self.world.cloud.kubectl(&decision, "");
        said.unwrap_or_else(|error| error.to_string())
    }

    fn give(&self, given: Given) -> anyhow::Result<()> {
        let world = self.world;
        let (multiplier, excluded) = match given {
            Excluding => (-1.0, vec![&self.emptier]),
            Spreading => (-1.0, Vec::new()),
            _ => (1.0, Vec::new()),
        };
        let filters = FILTERS.map(|name| match name {
            "exclude_hosts" => json!({"name": name, "params": {"excludedHosts": excluded}}),
            name => json!({"name": name}),
        });
        let pipeline = json!({
            "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Pipeline", "metadata": {"name": PIPELINE},
            "spec": {
                "schedulingDomain": "nova", "type": "filter-weigher", "createDecisions": true,
                "filters": filters, "weighers": [{"name": "kvm_binpack", "multiplier": multiplier}],
            },
        });
        self.apply(&pipeline)?;
        match given {
            Trait => self.traits(&["CUSTOM_C5C3_FAST"])?,
            Aggregate => {
                tell(world, "aggregate create others")?;
                tell(
                    world,
                    "aggregate set --property filter_tenant_id=0123456789abcdef others",
                )?;
                tell(world, &format!("aggregate add host others {}", self.fuller))?;
            }
            _ => {}
        }
        self.known(given)?;
        if let Room(on_fuller, on_emptier) = given {
            let state = self.state()?;
            for (host, left) in [(&self.fuller, on_fuller), (&self.emptier, on_emptier)] {
                let Some(left) = left else { continue };
                let memory = |what: &str| state["hosts"][host][what]["memory"].as_i64().unwrap_or_default();
                let kept = memory("capacity") - memory("used") - left;
                self.apply(&json!({
                    "apiVersion": "cortex.c5c3.io/v1alpha1", "kind": "Reservation", "metadata": {"name": host},
                    "spec": {"type": "CommittedResource", "resources": {"memory": format!("{kept}Mi")}, "targetHost": host},
                }))?;
                self.until_known("the room is kept", &|state| {
                    state["reservations"][host]["active"] == true
                })?;
            }
        }
        Ok(())
    }

    fn take_back(&self, given: Given) -> anyhow::Result<()> {
        match given {
            Trait => self.traits(&[]),
            Aggregate => {
                tell(
                    self.world,
                    &format!("aggregate remove host others {}", self.fuller),
                )?;
                tell(self.world, "aggregate delete others")
            }
            Room(..) => {
                let gone = [
                    "delete",
                    "reservation",
                    &self.fuller,
                    &self.emptier,
                    "--ignore-not-found",
                ];
                self.world.cloud.kubectl(&gone, "").map(drop)
            }
            _ => Ok(()),
        }
    }

    fn traits(&self, all: &[&str]) -> anyhow::Result<()> {
        let patch = json!({"spec": {"customTraits": all}}).to_string();
        let patch = ["patch", "hypervisor", &self.emptier, "--type=merge", "-p", &patch];
        let there = [&["--context", "hypervisor"][..], &patch].concat();
        self.world.cloud.kubectl(&there, "").map(drop)
    }

    fn apply(&self, object: &Value) -> anyhow::Result<()> {
        let apply = ["apply", "--server-side", "-f", "-"];
        self.world.cloud.kubectl(&apply, &object.to_string()).map(drop)
    }

    /// Waits until Cortex has read what was changed, and nothing is left of the row before.
    fn known(&self, given: Given) -> anyhow::Result<()> {
        self.until_known("Cortex has read Nova", &|state| {
            let (fuller, emptier) = (&state["hosts"][&self.fuller], &state["hosts"][&self.emptier]);
            let has = |host: &Value, what: &str| host.to_string().contains(what);
            let servers = state["servers"].as_object();
            let rows = servers
                .into_iter()
                .flatten()
                .filter(|(_, server)| server["name"] == "row");
            let memory = |host: &Value| host["used"]["memory"].as_i64();
            rows.count() == 0
                && memory(fuller) > memory(emptier)
                && has(emptier, "CUSTOM_C5C3_FAST") == (given == Trait)
                && has(fuller, "filter_tenant_id") == (given == Aggregate)
        })
    }

    fn until_known(&self, what: &str, wanted: &dyn Fn(&Value) -> bool) -> anyhow::Result<()> {
        until(what, READ, || {
            let state = self.state()?;
            Ok(if wanted(&state) {
                Ok(())
            } else {
                Err(state.to_string())
            })
        })
    }

    fn state(&self) -> anyhow::Result<Value> {
        let pods = self.world.pods("cortex-api")?;
        let pod = pods.first().context("a pod of Cortex")?;
        let said = self.world.exec(pod, &["c5c3", "cortex", "state"])?;
        serde_json::from_str(&said).with_context(|| said.clone())
    }

    fn clean(&self) -> anyhow::Result<()> {
        self.world.run(self.world.session.delete_server(&self.ballast))?;
        let pipeline = ["delete", "pipeline", PIPELINE];
        self.world.cloud.kubectl(&pipeline, "")?;
        for (_, id) in &self.groups {
            tell(self.world, &format!("server group delete {id}"))?;
        }
        tell(self.world, "flavor delete small large with-trait ballast")
    }
}

/// To the command line client.
fn tell(world: &World<'_>, words: &str) -> anyhow::Result<()> {
    let words: Vec<&str> = words.split(' ').collect();
    world.cloud.c5c3_here("openstack", &words).map(drop)
}
