//! Two cells with a hypervisor each: what happens to one does not happen to the other.

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::{until, until_ok};
use openstack_client::{Compute, Operating};
use serde_json::Value;

use crate::world::World;
use crate::{NAMESPACE, PATIENCE, inside, made};

/// The second hypervisor belongs to the second cell.
const TWO_CELLS: &str = r#"
apiVersion: embedded.c5c3.io/v1alpha1
kind: Machine
spec:
  clusters:
  - name: control-plane
    nodes: [{ count: 1 }]
  - name: hypervisor
    nodes:
    - { count: 1, traits: { hypervisor: true } }
    - { count: 1, traits: { hypervisor: true, labels: { nova.openstack.c5c3.io/cell: cell2 } } }
---
apiVersion: c5c3.io/v1alpha1
kind: ControlPlane
metadata: { namespace: openstack, name: cloud }
spec:
  openStackRelease: "2025.2"
  infrastructure:
    database: { replicas: 1, storageSize: 2Gi }
    cache: { replicas: 1, memory: 64Mi }
    messaging: { replicas: 1, storageSize: 1Gi }
    ovn: { replicas: 1, storageSize: 1Gi }
  services:
    keystone: { replicas: 1, publicEndpoint: "http://127.0.0.1:5000/v3" }
    glance: { replicas: 1, publicEndpoint: "http://127.0.0.1:9292" }
    placement: { replicas: 1, publicEndpoint: "http://127.0.0.1:8778" }
    nova:
      replicas: { api: 1, scheduler: 1, conductor: 1 }
      publicEndpoint: "http://127.0.0.1:8774/v2.1"
      cells: [cell1, cell2]
      compute: { virtType: qemu, clusterRef: { name: hypervisor } }
    neutron: { replicas: 1, publicEndpoint: "http://127.0.0.1:9696" }
    cinder: { enabled: false }
"#;

/// A cell, its hypervisor and its database.
#[derive(Clone, Copy)]
struct Cell {
    host: &'static str,
    database: &'static str,
}

const CELLS: [Cell; 2] = [
    Cell {
        host: "hypervisor-1",
        database: "nova",
    },
    Cell {
        host: "hypervisor-2",
        database: "nova_cell2",
    },
];

#[test]
#[ignore = "another cloud, with two cells: make soak"]
fn a_cell_whose_database_is_gone_leaves_the_other_alone() -> anyhow::Result<()> {
    let cloud = Cloud::new()?;
    let file = cloud.state().with_extension("yaml");
    std::fs::write(&file, TWO_CELLS)?;
    let (offset, _) = made(&cloud, &["-f", &file.to_string_lossy()])?;
    let world = World::of(&cloud, offset)?;
    each_cell_has_a_hypervisor(&cloud)?;
    // The one that stays is where the demo is: it is the way to the others.
    let home = world.named("demo")?.host.context("its host")?;
    let (stays, goes) = match CELLS {
        [one, two] if one.host == home => (one, two),
        [one, two] => (two, one),
    };
    let there = made_on(&world, "there", goes.host)?;
    let ping = ["ping", "-c", "3", "-w", "30", &there.1].join(" ");
    until_ok("servers of two cells reach each other", PATIENCE, || {
        inside(&cloud, &ping)
    })?;

    let account = shut(&world, goes)?;
    until_ok("the other cell makes servers", PATIENCE, || {
        made_on(&world, "here", stays.host)
    })?;
    let listed = world.run(world.session.servers("here"))?;
    ensure!(listed.len() == 1, "{listed:?}");
    ensure!(inside(&cloud, "hostname")? == "demo");
    // A guest needs no database.
    let answered = inside(&cloud, &ping)?;
    ensure!(answered.contains(" 0% packet loss"), "{answered}");

    open(&world, &account)?;
    until_ok("the server of the lost cell is known again", PATIENCE, || {
        let seen = world.server(&there.0)?;
        ensure!(seen.server.status == "ACTIVE", "{seen:?}");
        Ok(())
    })?;
    until_ok("the lost cell makes servers again", PATIENCE, || {
        made_on(&world, "again", goes.host)
    })?;
    for name in ["there", "here", "again"] {
        let id = world.named(name)?.server.id;
        world.run(world.session.delete_server(&id))?;
        world.gone(&id, PATIENCE)?;
    }
    Ok(())
}

fn each_cell_has_a_hypervisor(cloud: &Cloud) -> anyhow::Result<()> {
    let words = ["get", "nova", "nova", "-o", "jsonpath={.status.cells}"];
    until("both cells are ready", PATIENCE, || {
        let told = cloud.kubectl(&[&["-n", NAMESPACE], &words[..]].concat(), "")?;
        let cells: Value = serde_json::from_str(&told)?;
        let cells = cells.as_array().context("cells")?;
        let well = |cell: &Value| cell["status"] == "Ready" && cell["computeNodes"] == 1;
        Ok(if cells.len() == 2 && cells.iter().all(well) {
            Ok(())
        } else {
            Err(told)
        })
    })
}

/// A server on that host, when its guest has booted: id and address. One that failed goes.
fn made_on(world: &World<'_>, name: &str, host: &str) -> anyhow::Result<(String, String)> {
    for old in world.run(world.session.servers(name))? {
        world.run(world.session.delete_server(&old.id))?;
    }
    let id = world.run(world.session.create_server_on(&world.draft(name), host))?;
    let seen = world.settled(&id, "ACTIVE")?;
    ensure!(seen.host.as_deref() == Some(host), "{seen:?}");
    world.booted(&id)?;
    let address = seen.server.addresses.values().flatten().next();
    Ok((id, address.context("an address")?.addr.to_string()))
}

fn sql(world: &World<'_>, statement: &str) -> anyhow::Result<String> {
    let pods = world.pods("mariadb")?;
    let pod = pods.first().context("a pod of MariaDB")?;
    let client = "mariadb --no-defaults -u mysql -S /run/mysqld/mysqld.sock -N -e";
    let words: Vec<&str> = client.split(' ').chain([statement]).collect();
    world.exec(pod, &words)
}

/// Nobody gets at the cell's database any more, and who was connected is cut off: the account's name.
fn shut(world: &World<'_>, cell: Cell) -> anyhow::Result<String> {
    let database = cell.database;
    let find = format!("select distinct user from mysql.db where replace(db, '\\\\', '') = '{database}'");
    let account = sql(world, &find)?.trim().to_owned();
    ensure!(
        !account.is_empty() && !account.contains('\n'),
        "accounts of {database}: {account:?}"
    );
    sql(
        world,
        &format!("alter user '{account}'@'%' account lock; kill user '{account}'"),
    )?;
    Ok(account)
}

fn open(world: &World<'_>, account: &str) -> anyhow::Result<()> {
    sql(world, &format!("alter user '{account}'@'%' account unlock")).map(drop)
}
