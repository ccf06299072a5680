//! `c5c3 status`: one screen.

use std::time::Duration;

use clap::Args;
use kube::Client;
use openstack_client::Operating;
use serde::Serialize;
use serde_json::{Value, json};

use crate::cloud::access::Target;
use crate::cloud::health::{Health, counts, group, health, is_owned, kind, name, text};
use crate::cloud::login;
use crate::cloud::nodes;
use crate::cloud::snapshot::{self, Snapshot};
use crate::cloud::storage::{self, Arbiter, Storage};
use crate::commands::block_on;
use crate::failure::Failure;
use crate::guests::failed;
use crate::guests::tally::{self, Tally};
use crate::output::{Format, Table, print, print_table, print_values};

const EXAMPLES: &str = "\
Examples:
  c5c3 status
  c5c3 status -o json
  c5c3 status --context production --namespace cloud-a

Exit codes:
  0  healthy                  3  no such cloud or cluster
  4  not healthy";

/// Show a cloud on one screen: whether it is healthy, and if not, why.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
struct Row {
    name: String,
    kind: String,
    ready: bool,
    version: String,
    pods: String,
    endpoint: String,
    message: String,
}

#[derive(Debug, Default, Serialize, PartialEq, Eq)]
struct Screen {
    clouds: Vec<Row>,
    parts: Vec<Row>,
    /// Objects of the catalogue in Keystone: available, all.
    catalogue: (usize, usize),
    /// Pods that are not well, with the reason.
    pods: Vec<String>,
    nodes: Vec<nodes::Row>,
    /// Clusters of hypervisors that are not reached, and why.
    unseen: Vec<(String, String)>,
    /// What Nova tells, where there is one.
    #[serde(skip_serializing_if = "Option::is_none")]
    compute: Option<Compute>,
    /// Ceph clusters, of all namespaces.
    storage: Vec<Storage>,
    /// Monitors of Ceph in other clusters.
    arbiters: Vec<Arbiter>,
}

#[derive(Debug, Serialize, PartialEq, Eq)]
#[serde(rename_all = "camelCase")]
enum Compute {
    Answered(Tally),
    /// Why it does not tell.
    Silent(String),
}

/// How long `status` waits for Nova.
const PATIENCE: Duration = Duration::from_secs(10);

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    block_on(async {
        let target = &arguments.target;
        let sight = target.sight().await?;
        let seen = snapshot::read(&sight, &target.namespace).await?;
        let mut screen = screen(&seen);
        let hosts = snapshot::hosts(&sight).await?;
        screen.nodes = nodes::rows(&snapshot::nodes(&sight).await?, &seen, &hosts);
        if screen
            .parts
            .iter()
            .any(|part| part.kind == "Nova" && !part.version.is_empty())
        {
            screen.compute = Some(compute(&sight.home.client, &target.namespace).await);
        }
        for cluster in sight.clusters() {
            screen.storage.extend(storage::read(&cluster.client).await?);
            screen.arbiters.extend(storage::arbiters(&cluster.client).await?);
        }
        screen.unseen = sight.blind;
        if arguments.output != Format::Table {
            print_values(&[json!(screen)], arguments.output)?;
        } else if screen.exists() {
            show(&screen)?;
        }
        match (screen.exists(), screen.is_well()) {
            (false, _) => Err(Failure::NotFound(no_cloud(&target.namespace))),
            (true, false) => Err(Failure::Unwell),
            (true, true) => Ok(()),
        }
    })
}

/// A Nova that does not answer is no reason to hide the rest.
async fn compute(client: &Client, namespace: &str) -> Compute {
    let asked = async {
        let session = login::read(client, namespace).await?.session()?;
        let all = tokio::try_join!(session.hypervisors(), session.all_servers());
        let (hypervisors, servers) = all.map_err(failed)?;
        Ok::<_, Failure>(tally::tally(&hypervisors, &servers))
    };
    match tokio::time::timeout(PATIENCE, asked).await {
        Ok(Ok(tally)) => Compute::Answered(tally),
        Ok(Err(why)) => Compute::Silent(why.to_string()),
        Err(_) => Compute::Silent(format!("no answer in {} s", PATIENCE.as_secs())),
    }
}

impl Screen {
    fn exists(&self) -> bool {
        !self.clouds.is_empty() || !self.parts.is_empty() || !self.storage.is_empty()
    }

    fn is_well(&self) -> bool {
        let parts = self.clouds.iter().chain(&self.parts).all(|row| row.ready);
        let ceph = self.storage.iter().all(|storage| storage.well);
        parts && self.unseen.is_empty() && ceph && self.arbiters.iter().all(|arbiter| arbiter.ready)
    }
}

/// Whether there is anything to show.
pub(crate) fn has_cloud(seen: &Snapshot) -> bool {
    screen(seen).exists()
}

pub(crate) fn no_cloud(namespace: &str) -> String {
    format!(
        "there is no cloud in namespace {namespace}: `c5c3 up` creates one; --namespace selects another namespace"
    )
}

fn show(screen: &Screen) -> Result<(), Failure> {
    for cloud in &screen.clouds {
        let state = if cloud.ready { "ready" } else { "not ready" };
        print(&format!("{} (release {}): {state}\n", cloud.name, cloud.version))?;
        if !cloud.ready {
            print(&format!("  {}\n  `c5c3 explain` says more.\n", cloud.message))?;
        }
    }
    print("\n")?;
    let mut table = Table::new(&["PART", "READY", "VERSION", "PODS", "ENDPOINT", "MESSAGE"]);
    for row in &screen.parts {
        let ready = if row.ready { "yes" } else { "no" };
        let message = if row.ready {
            String::new()
        } else {
            row.message.clone()
        };
        let cells = [&row.name, ready, &row.version, &row.pods, &row.endpoint, &message];
        table.row(cells.map(|cell| {
            if cell.is_empty() {
                "-".to_owned()
            } else {
                cell.to_owned()
            }
        }));
    }
    if !screen.parts.is_empty() {
        print_table(&table)?;
    }
    show_storage(&screen.storage, &screen.arbiters)?;
    let (available, all) = screen.catalogue;
    if all > 0 {
        print(&format!(
            "\n{available} of {all} objects of the service catalogue are in Keystone.\n"
        ))?;
    }
    if !screen.nodes.is_empty() {
        print("\n")?;
        print_table(&nodes::table(&screen.nodes))?;
    }
    for node in screen.nodes.iter().filter(|node| !node.issues.is_empty()) {
        print(&format!("\nProblems of {}:\n", node.name))?;
        for issue in &node.issues {
            print(&format!("  {issue}\n"))?;
        }
    }
    for (cluster, why) in &screen.unseen {
        print(&format!("\nCluster {cluster} cannot be reached: {why}\n"))?;
    }
    match &screen.compute {
        Some(Compute::Answered(tally)) => print(&format!("\n{}\n", tally::lines(tally).join("\n")))?,
        Some(Compute::Silent(why)) => print(&format!("\nNova's servers cannot be listed: {why}\n"))?,
        None => {}
    }
    if !screen.pods.is_empty() {
        print("\nUnhealthy pods:\n")?;
        for pod in &screen.pods {
            print(&format!("  {pod}\n"))?;
        }
    }
    Ok(())
}

fn show_storage(all: &[Storage], arbiters: &[Arbiter]) -> Result<(), Failure> {
    if all.is_empty() && arbiters.is_empty() {
        return Ok(());
    }
    print("\n")?;
    let mut table = Table::new(&["STORAGE", "READY", "VERSION", "HEALTH", "MONS", "USED", "MESSAGE"]);
    for row in storage_rows(all, arbiters) {
        table.row(row.map(|cell| if cell.is_empty() { "-".to_owned() } else { cell }));
    }
    print_table(&table)
}

/// An arbiter is a row of its own, with its name in Ceph among the monitors.
fn storage_rows(all: &[Storage], arbiters: &[Arbiter]) -> Vec<[String; 7]> {
    let yes = |well: bool| if well { "yes" } else { "no" }.to_owned();
    let clusters = all.iter().map(|one| {
        let mons = one
            .monitors
            .map(|mons| format!("{}/{}", mons.in_quorum, mons.all));
        [
            format!("{}/{}", one.namespace, one.name),
            yes(one.well),
            one.version.clone(),
            one.health.clone(),
            mons.unwrap_or_default(),
            storage::used(one),
            one.message.clone(),
        ]
    });
    let elsewhere = arbiters.iter().map(|one| {
        [
            format!("{}/{} (arbiter)", one.namespace, one.name),
            yes(one.ready),
            String::new(),
            String::new(),
            one.monitor.clone(),
            String::new(),
            one.message.clone(),
        ]
    });
    clusters.chain(elsewhere).collect()
}

fn screen(seen: &Snapshot) -> Screen {
    let parts = seen.objects.iter().filter(|object| is_part(object));
    let catalogue: Vec<bool> = seen
        .objects
        .iter()
        .filter(|object| group(object) == "openstack.k-orc.cloud")
        .map(|object| health(object).is_some_and(|health| health.is_ready()))
        .collect();
    let pods = seen.of_kind("", "Pod").filter_map(|pod| {
        let health = health(pod)?;
        let trouble = health.trouble()?;
        Some(format!("{}: {}: {}", name(pod), trouble.reason, trouble.message))
    });
    Screen {
        clouds: seen
            .of_kind("c5c3.io", "ControlPlane")
            .map(|plane| row(seen, plane))
            .collect(),
        parts: parts.map(|object| row(seen, object)).collect(),
        catalogue: (catalogue.iter().filter(|well| **well).count(), catalogue.len()),
        pods: pods.collect(),
        ..Screen::default()
    }
}

/// Services, and what they stand on.
fn is_part(object: &Value) -> bool {
    group(object).ends_with(".openstack.c5c3.io")
        || [
            "MariaDB",
            "RabbitmqCluster",
            "Memcached",
            "Valkey",
            "OVNCluster",
            "Cortex",
        ]
        .contains(&kind(object))
}

fn row(seen: &Snapshot, object: &Value) -> Row {
    let health = health(object);
    let version = [
        "/status/installedRelease",
        "/spec/openStackRelease",
        "/spec/image/tag",
    ]
    .iter()
    .map(|path| text(object, path))
    .find(|text| !text.is_empty())
    .unwrap_or_default();
    // Some kinds do not know where people reach them; the ControlPlane does.
    let plane = seen.objects.iter().find(|other| kind(other) == "ControlPlane");
    let planned = format!("/spec/services/{}/publicEndpoint", kind(object).to_lowercase());
    let endpoint = [
        text(object, "/spec/publicEndpoint"),
        plane.map(|plane| text(plane, &planned)).unwrap_or_default(),
        text(object, "/status/endpoint"),
    ];
    let endpoint = endpoint
        .into_iter()
        .find(|url| !url.is_empty())
        .unwrap_or_default();
    Row {
        name: name(object).to_owned(),
        kind: kind(object).to_owned(),
        ready: health.as_ref().is_some_and(Health::is_ready),
        version: version.to_owned(),
        pods: pods(seen, object),
        endpoint: endpoint.to_owned(),
        message: health
            .and_then(|health| Some(health.trouble()?.message.clone()))
            .unwrap_or_default(),
    }
}

/// Ready and wanted pods of what the object owns.
fn pods(seen: &Snapshot, object: &Value) -> String {
    let uid = text(object, "/metadata/uid");
    let owned = seen
        .objects
        .iter()
        .filter(|other| group(other) == "apps" && kind(other) != "ReplicaSet" && is_owned(other, uid));
    let (ready, wanted) = owned.fold((0, 0), |(ready, wanted), workload| {
        let (up, all) = counts(workload);
        (ready + up, wanted + all)
    });
    if wanted == 0 {
        String::new()
    } else {
        format!("{ready}/{wanted}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_screen_counts_pods_and_names_what_is_not_well() {
        let ready = json!([{"type": "Ready", "status": "True"}]);
        let seen = Snapshot {
            objects: vec![
                json!({"apiVersion": "keystone.openstack.c5c3.io/v1alpha1", "kind": "Keystone",
                    "metadata": {"name": "keystone", "uid": "k"}, "spec": {"publicEndpoint": "http://127.0.0.1:5000/v3"},
                    "status": {"conditions": ready, "installedRelease": "28.1.0"}}),
                json!({"apiVersion": "neutron.openstack.c5c3.io/v1alpha1", "kind": "Neutron", "metadata": {"name": "neutron"},
                    "status": {"conditions": ready, "endpoint": "http://neutron.openstack.svc:9696"}}),
                json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "cloud"},
                    "spec": {"services": {"neutron": {"publicEndpoint": "http://127.0.0.1:9696"}}},
                    "status": {"conditions": ready}}),
                json!({"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"ownerReferences": [{"uid": "k"}]},
                    "spec": {"replicas": 3}, "status": {"readyReplicas": 2}}),
                json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Pending"}}),
                json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": "User", "status": {
                    "conditions": [{"type": "Available", "status": "True"}]}}),
            ],
        };
        let screen = screen(&seen);
        let row = &screen.parts[0];
        assert_eq!(
            (row.ready, row.pods.as_str(), row.version.as_str()),
            (true, "2/3", "28.1.0")
        );
        assert_eq!(row.endpoint, "http://127.0.0.1:5000/v3");
        assert_eq!(
            screen.parts[1].endpoint, "http://127.0.0.1:9696",
            "where people reach it"
        );
        assert_eq!(screen.catalogue, (1, 1));
        assert!(screen.exists() && screen.is_well());
        assert_eq!(screen.pods, ["p: Starting: it is starting"]);
    }

    #[test]
    fn a_cloud_that_is_not_ready_is_not_well_and_none_is_none() {
        let plane = |ready: &str| Snapshot {
            objects: vec![
                json!({"apiVersion": "c5c3.io/v1alpha1", "kind": "ControlPlane", "metadata": {"name": "cloud"},
                "status": {"conditions": [{"type": "Ready", "status": ready}]}}),
            ],
        };
        assert!(screen(&plane("True")).is_well());
        assert!(!screen(&plane("False")).is_well());
        assert!(has_cloud(&plane("False")) && !has_cloud(&Snapshot::default()));
    }
    #[test]
    fn monitors_in_the_quorum_are_counted_and_arbiters_have_rows() {
        let arbiter = Arbiter {
            name: "third".to_owned(),
            namespace: "rook-ceph".to_owned(),
            ceph_cluster: "storage".to_owned(),
            ready: false,
            monitor: "ext-a".to_owned(),
            reason: "OutOfQuorum".to_owned(),
            message: "it is not in the quorum".to_owned(),
        };
        let storage = Storage {
            name: "storage".to_owned(),
            namespace: "rook-ceph".to_owned(),
            well: true,
            health: "HEALTH_WARN".to_owned(),
            version: "18.2.7-0".to_owned(),
            monitors: Some(storage::Monitors { in_quorum: 3, all: 4 }),
            used: 1 << 30,
            total: 4 << 30,
            message: "1/4 mons down".to_owned(),
            checks: vec!["MON_DOWN".to_owned()],
        };
        let rows = storage_rows(&[storage], std::slice::from_ref(&arbiter));
        assert_eq!(
            rows[0].join(" | "),
            "rook-ceph/storage | yes | 18.2.7-0 | HEALTH_WARN | 3/4 | 1.0 of 4.0 GiB | 1/4 mons down"
        );
        assert_eq!(
            rows[1].join(" | "),
            "rook-ceph/third (arbiter) | no |  |  | ext-a |  | it is not in the quorum"
        );
        let screen = Screen {
            arbiters: vec![arbiter],
            ..Screen::default()
        };
        assert!(!screen.is_well());
    }
}
