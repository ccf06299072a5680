//! The agent between a real libvirtd and an API server. `make test` runs these: they need libvirtd.

#[path = "../../../clients/libvirt/tests/daemon/mod.rs"]
mod daemon;

use std::time::{Duration, Instant};

use c5c3_api::hypervisor::{Hypervisor, HypervisorSpec, HypervisorStatus, Migration, NODE_LABEL};
use c5c3_kit::serve::Endpoint;
use c5c3_kit::{Clusters, Metrics, Stop};
use c5c3_node_agent::{Settings, rights};
use daemon::Libvirtd;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams, PostParams};
use kube::{Client, CustomResourceExt, ResourceExt};
use libvirt_client::{Connection, Domain};
use serde_json::json;
use test_harness::{TestCluster, eventually, settles};

const NODE: &str = "node-1";
const GUESTS: usize = 200;

struct World {
    cluster: TestCluster,
    daemon: Libvirtd,
    metrics: Metrics,
    _stopper: c5c3_kit::stop::Stopper,
}

impl World {
    async fn start() -> Self {
        let cluster = TestCluster::start().await;
        for crd in [Hypervisor::crd(), c5c3_api::hypervisor::Migration::crd()] {
            cluster.install(&crd).await;
        }
        for name in [NODE, "node-10"] {
            let object = Hypervisor::new(name, HypervisorSpec::default());
            let made = cluster_hypervisors(cluster.client())
                .create(&PostParams::default(), &object)
                .await;
            made.expect("a Hypervisor");
        }
        let daemon = Libvirtd::start();
        let (_stopper, stop) = Stop::channel();
        let metrics = Metrics::default();
        // With its own rights and no others.
        let role = rights(NODE, "default").role.rules.expect("rules");
        let more = rights(NODE, "default")
            .roles
            .into_iter()
            .flat_map(|role| role.rules.unwrap_or_default());
        let client = cluster
            .client_with("agent", role.into_iter().chain(more).collect())
            .await;
        let settings = Settings {
            node: NODE.to_owned(),
            namespace: "default".to_owned(),
            libvirt: daemon.test_driver().parse().expect("a URI"),
            way: libvirt_client::Settings::default(),
            root: "/".into(),
        };
        tokio::spawn(c5c3_node_agent::run(
            Clusters::of(client),
            metrics.clone(),
            settings,
            stop,
        ));
        World {
            cluster,
            daemon,
            metrics,
            _stopper,
        }
    }

    async fn status(&self, name: &str) -> HypervisorStatus {
        let object = cluster_hypervisors(self.cluster.client())
            .get(name)
            .await
            .expect("it is there");
        object.status.unwrap_or_default()
    }

    async fn until(&self, what: &str, holds: impl Fn(&HypervisorStatus) -> bool) -> HypervisorStatus {
        eventually(what, async || {
            Some(self.status(NODE).await).filter(|status| holds(status))
        })
        .await
    }

    async fn libvirt(&self) -> Connection {
        let uri = self.daemon.test_driver().parse().expect("a URI");
        let opened = Connection::open(&uri, &libvirt_client::Settings::default()).await;
        opened.expect("libvirtd answers").0
    }
}

fn cluster_hypervisors(client: Client) -> Api<Hypervisor> {
    Api::all(client)
}

fn link(status: &HypervisorStatus) -> &str {
    let found = status
        .conditions
        .iter()
        .find(|condition| condition.type_ == "LibVirtConnection");
    found.map_or("", |condition| condition.status.as_str())
}

async fn make(connection: &Connection, name: &str) -> Domain {
    let xml = format!(
        "<domain type='test'><name>{name}</name><memory unit='MiB'>64</memory><vcpu>1</vcpu><os><type>hvm</type></os></domain>"
    );
    connection.domain_create_xml(&xml, 0).await.expect("a guest")
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs libvirtd; make test runs it"]
async fn the_status_follows_libvirt() {
    let mut world = World::start().await;
    let status = world
        .until("it is connected", |status| link(status) == "True")
        .await;
    assert_eq!(status.num_instances, Some(1));
    assert_eq!(status.hypervisor_version.as_deref(), Some("0.0.2"));
    let numbers: Vec<i64> = status.cells.iter().map(|cell| cell.cell_id).collect();
    assert_eq!(numbers, [0, 1]);
    assert!(
        status
            .operating_system
            .and_then(|system| system.kernel_release)
            .is_some()
    );
    assert!(status.observed_generation.is_none(), "that is the operator's");
    assert!(
        status
            .conditions
            .iter()
            .all(|condition| condition.type_ != "Ready"),
        "and so is Ready"
    );

    let guest = make(&world.libvirt().await, "one").await;
    let id = guest.uuid.to_string();
    world
        .until("the guest is there", |status| {
            status.instances.iter().any(|one| one.id == id && one.active)
        })
        .await;

    // The other writer's fields stay, and its own are not touched.
    let params = PatchParams::apply("operator").force();
    let body = json!({"apiVersion": "hypervisor.c5c3.io/v1", "kind": "Hypervisor", "metadata": {"name": NODE},
        "status": {"serviceId": "7", "observedGeneration": 1}});
    let api = cluster_hypervisors(world.cluster.client());
    api.patch_status(NODE, &params, &Patch::Apply(body))
        .await
        .expect("the operator writes");

    // Guests of the test driver die with the daemon; what was known stays until it is back.
    world.daemon.kill();
    let lost = world.until("it is lost", |status| link(status) == "False").await;
    assert_eq!(
        (lost.num_instances, lost.service_id.as_deref()),
        (Some(2), Some("7"))
    );
    world.daemon.up();
    let back = world
        .until("it is back", |status| {
            link(status) == "True" && status.num_instances == Some(1)
        })
        .await;
    assert_eq!(back.service_id.as_deref(), Some("7"));

    let other = world.status("node-10").await;
    assert!(
        other.conditions.is_empty() && other.instances.is_empty(),
        "not its own"
    );
    settles("writes while idle", Duration::from_secs(3), async || {
        let mut writes = world.cluster.writes().await;
        // It says that it lives.
        writes.retain(|resource, _| !resource.contains("leases"));
        writes
    })
    .await;
}

/// Without libvirtd: the agent lives, whatever the host does.
#[tokio::test(flavor = "multi_thread")]
async fn its_heart_beats_in_a_lease_of_its_own_and_in_no_other() {
    let cluster = TestCluster::start().await;
    for crd in [Hypervisor::crd(), c5c3_api::hypervisor::Migration::crd()] {
        cluster.install(&crd).await;
    }
    let object = Hypervisor::new(NODE, HypervisorSpec::default());
    let hosts = cluster_hypervisors(cluster.client());
    hosts
        .create(&PostParams::default(), &object)
        .await
        .expect("a Hypervisor");
    let migrations: Api<Migration> = Api::namespaced(cluster.client(), "default");
    let made = async |id: &str, node: &str, ended: &str| {
        let object = json!({"apiVersion": "hypervisor.c5c3.io/v1alpha1", "kind": "Migration", "spec": {},
            "metadata": {"name": id, "labels": {NODE_LABEL: node}}});
        let object = serde_json::from_value(object).expect("a Migration");
        migrations
            .create(&PostParams::default(), &object)
            .await
            .expect("created");
        let status = json!({"status": {"origin": node, "ended": ended}});
        migrations
            .patch_status(id, &PatchParams::default(), &Patch::Merge(status))
            .await
            .expect("told");
    };
    let id = |number: u8| format!("00000000-0000-0000-0000-00000000000{number}");
    let now = jiff::Timestamp::now().strftime("%Y-%m-%dT%H:%M:%SZ").to_string();
    made(&id(1), NODE, "2026-01-01T00:00:00Z").await;
    made(&id(2), NODE, &now).await;
    made(&id(3), "node-10", "2026-01-01T00:00:00Z").await;

    let rights = rights(NODE, "default");
    let roles = rights
        .roles
        .into_iter()
        .flat_map(|role| role.rules.unwrap_or_default());
    let rules: Vec<_> = rights.role.rules.into_iter().flatten().chain(roles).collect();
    let client = cluster.client_with("agent", rules).await;
    let (_stopper, stop) = Stop::channel();
    let settings = Settings {
        node: NODE.to_owned(),
        namespace: "default".to_owned(),
        libvirt: "test+unix:///default?socket=/nonexistent".parse().expect("a URI"),
        way: libvirt_client::Settings::default(),
        root: "/".into(),
    };
    tokio::spawn(c5c3_node_agent::run(
        Clusters::of(client.clone()),
        Metrics::default(),
        settings,
        stop,
    ));
    let leases: Api<Lease> = Api::namespaced(cluster.client(), "default");
    let first = eventually("the first beat", async || {
        let lease = leases.get_opt("c5c3-node-agent-node-1").await.ok()??;
        assert_eq!(lease.labels().get(NODE_LABEL).map(String::as_str), Some(NODE));
        lease.spec?.renew_time
    })
    .await;
    eventually("what is over is deleted", async || {
        migrations.get_opt(&id(1)).await.ok()?.is_none().then_some(())
    })
    .await;
    for kept in [id(2), id(3)] {
        migrations.get(&kept).await.expect("it stays");
    }
    eventually("the next beat", async || {
        let lease = leases.get("c5c3-node-agent-node-1").await.ok()?;
        (lease.spec?.renew_time? > first).then_some(())
    })
    .await;
    let others: Api<Lease> = Api::namespaced(client, "default");
    let lease = json!({"apiVersion": "coordination.k8s.io/v1", "kind": "Lease", "metadata": {"name": "c5c3-node-agent-node-10"}});
    let params = PatchParams::apply("agent").force();
    let refused = others
        .patch("c5c3-node-agent-node-10", &params, &Patch::Apply(lease))
        .await
        .expect_err("not its own");
    assert!(
        matches!(&refused, kube::Error::Api(status) if status.code == 403),
        "{refused:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs libvirtd; make test runs it"]
async fn it_may_write_nothing_of_another_node() {
    let world = World::start().await;
    world
        .until("it is connected", |status| link(status) == "True")
        .await;
    let rules = rights(NODE, "default").role.rules.expect("rules");
    let client = world.cluster.client_with("agent-alone", rules).await;
    let api = cluster_hypervisors(client);
    api.get(NODE).await.expect("its own");
    for refused in [
        api.get("node-10").await.expect_err("not its own"),
        api.list(&kube::api::ListParams::default())
            .await
            .expect_err("not all"),
        api.patch_status(
            "node-10",
            &PatchParams::default(),
            &Patch::Merge(json!({"status": {"evicted": true}})),
        )
        .await
        .expect_err("not its own"),
        api.patch(
            NODE,
            &PatchParams::default(),
            &Patch::Merge(json!({"spec": {"reboot": true}})),
        )
        .await
        .expect_err("not the spec"),
    ] {
        assert!(
            matches!(&refused, kube::Error::Api(status) if status.code == 403),
            "{refused:?}"
        );
    }
}

/// Prints what `make bench` is asked for: event to status, with two hundred guests.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "needs libvirtd; make test runs it"]
async fn two_hundred_guests_are_told_at_once() {
    let world = World::start().await;
    world
        .until("it is connected", |status| link(status) == "True")
        .await;
    let connection = world.libvirt().await;
    for number in 0..GUESTS {
        make(&connection, &format!("guest-{number}")).await;
    }
    let all = i32::try_from(GUESTS).expect("small") + 1;
    world
        .until("all are told", |status| status.num_instances == Some(all))
        .await;

    let mut times = Vec::new();
    for round in 0..10 {
        let start = Instant::now();
        let domain = make(&connection, &format!("late-{round}")).await;
        let id = domain.uuid.to_string();
        world
            .until("it is told", |status| {
                status.instances.iter().any(|one| one.id == id)
            })
            .await;
        times.push(start.elapsed());
        connection.domain_destroy_flags(&domain, 0).await.expect("off");
        world
            .until("it is gone", |status| status.num_instances == Some(all))
            .await;
    }
    times.sort();
    println!(
        "event to status with {GUESTS} guests: median {:?}, worst {:?}",
        times[5], times[9]
    );
    assert!(times[5] < Duration::from_secs(2), "{times:?}");

    let address = std::net::SocketAddr::from(([127, 0, 0, 1], 0));
    let endpoint = Endpoint::bind(address, world.metrics.clone())
        .await
        .expect("binds");
    let address = endpoint.address().expect("an address");
    let (_stopper, stop) = Stop::channel();
    tokio::spawn(endpoint.serve(stop));
    let scraped = scrape(address).await;
    let told = scraped
        .lines()
        .filter(|line| line.starts_with("c5c3_domain_state{"))
        .count();
    assert_eq!(told, GUESTS + 1, "{scraped}");
}

async fn scrape(address: std::net::SocketAddr) -> String {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let mut stream = tokio::net::TcpStream::connect(address).await.expect("connects");
    let request = b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    stream.write_all(request).await.expect("writes");
    let mut text = String::new();
    stream.read_to_string(&mut text).await.expect("reads");
    text
}

const KUBECONFIG: &str = "C5C3_TEST_AGENT_KUBECONFIG";
const LIBVIRT: &str = "C5C3_TEST_AGENT_LIBVIRT";

/// In a process of its own: memory is counted by process. Prints what `make bench` is asked for.
#[test]
#[ignore = "needs libvirtd; make test runs it"]
fn the_agent_is_small() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.expect("a runtime");
    match std::env::var(KUBECONFIG) {
        Ok(kubeconfig) => runtime.block_on(be_the_agent(&kubeconfig)),
        Err(_) => runtime.block_on(weigh()),
    }
}

async fn be_the_agent(kubeconfig: &str) {
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let clusters = Clusters::connect(Some(kubeconfig.as_ref()), None, &[])
        .await
        .expect("a cluster");
    let settings = Settings {
        node: NODE.to_owned(),
        namespace: "default".to_owned(),
        libvirt: std::env::var(LIBVIRT).expect("a URI").parse().expect("a URI"),
        way: libvirt_client::Settings::default(),
        root: "/".into(),
    };
    let stop = Stop::on_signal().expect("signals");
    c5c3_node_agent::run(clusters, Metrics::default(), settings, stop)
        .await
        .expect("it runs");
}

async fn weigh() {
    let cluster = TestCluster::start_listening().await;
    cluster.install(&Hypervisor::crd()).await;
    let api = cluster_hypervisors(cluster.client());
    let object = Hypervisor::new(NODE, HypervisorSpec::default());
    api.create(&PostParams::default(), &object)
        .await
        .expect("a Hypervisor");
    let daemon = Libvirtd::start();
    let uri = daemon.test_driver().parse().expect("a URI");
    let opened = Connection::open(&uri, &libvirt_client::Settings::default()).await;
    let connection = opened.expect("libvirtd answers").0;
    for number in 0..GUESTS {
        make(&connection, &format!("guest-{number}")).await;
    }
    let own = std::env::current_exe().expect("the own program");
    let mut child = std::process::Command::new(own)
        .args(["--exact", "the_agent_is_small", "--ignored"])
        .env(KUBECONFIG, cluster.kubeconfig())
        .env(LIBVIRT, daemon.test_driver())
        .stdout(std::process::Stdio::null())
        .spawn()
        .expect("it starts");
    let all = i32::try_from(GUESTS).expect("small") + 1;
    let told = async || {
        let status = api.get(NODE).await.ok()?.status?;
        (status.num_instances == Some(all)).then_some(())
    };
    eventually("all are told", told).await;
    // Once more, so that what an event takes is in it.
    make(&connection, "late").await;
    let more = async || {
        let status = api.get(NODE).await.ok()?.status?;
        (status.num_instances == Some(all + 1)).then_some(())
    };
    eventually("the late one is told", more).await;
    let status = std::fs::read_to_string(format!("/proc/{}/status", child.id())).expect("it runs");
    let _ = child.kill();
    let _ = child.wait();
    let anonymous = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let text = anonymous.expect("its memory").trim().trim_end_matches(" kB");
    let kib: u64 = text.parse().expect("a number");
    println!(
        "own memory of the agent with {GUESTS} guests: {:.1} MiB",
        kib as f64 / 1024.0
    );
    assert!(kib <= 15 << 10, "{kib} KiB");
}
