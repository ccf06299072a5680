//! Prysm beside a real RadosGW: every counter is what the load generator counted, through rotation,
//! truncation, restarts and a gateway that is killed.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::forward::Forward;
use end_to_end::process::{find_processes, free_port, kill};
use end_to_end::tools;
use serde_json::{Value, json};

use crate::s3::{Counted, load};
use crate::subscriber::Nats;
use crate::world::{NAMESPACE, Storage, until};

/// One producer on this machine; it ends with the test.
pub(crate) struct Prysm {
    child: Child,
    pub port: u16,
}

impl Prysm {
    pub(crate) fn start(arguments: &[&str]) -> anyhow::Result<Self> {
        let port = free_port()?;
        let child = Command::new(tools::c5c3()?)
            .arg("prysm")
            .args(arguments)
            .arg(format!("--listen=127.0.0.1:{port}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn()?;
        Ok(Prysm { child, port })
    }

    /// Ends it as Kubernetes does, and waits.
    fn stop(mut self) -> anyhow::Result<()> {
        ensure!(
            Command::new("kill")
                .arg(self.child.id().to_string())
                .status()?
                .success(),
            "it has ended already"
        );
        let ended = self.child.wait()?;
        ensure!(ended.success(), "{ended}");
        Ok(())
    }

    fn page(&self) -> anyhow::Result<Metrics> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port))?;
        stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n")?;
        let mut text = String::new();
        stream.read_to_string(&mut text)?;
        Ok(Metrics(text))
    }
}

impl Drop for Prysm {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

struct Metrics(String);

impl Metrics {
    /// The sum of a family over the series that have all these labels.
    fn sum(&self, name: &str, labels: &[(&str, &str)]) -> u64 {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let lines = self.0.lines().filter(|line| {
            let rest = line.strip_prefix(name).unwrap_or_default();
            rest.starts_with(['{', ' ']) && labels.iter().all(|label| line.contains(label.as_str()))
        });
        let value = |line: &str| {
            line.rsplit(' ')
                .next()
                .and_then(|value| value.parse::<f64>().ok())
        };
        lines.filter_map(value).sum::<f64>() as u64
    }

    fn counted(&self, expected: &Counted) -> anyhow::Result<()> {
        let mut seen = BTreeMap::new();
        for key in expected.requests.keys() {
            let (method, status) = key.split_once(' ').context("a method and a status")?;
            let labels = [("method", method), ("http_status", status)];
            let count = self.sum("radosgw_total_requests", &labels);
            let of_tenants = self.sum("radosgw_total_requests_per_tenant", &labels);
            ensure!(count == of_tenants, "{key}: {count} and {of_tenants} by tenant");
            seen.insert(key.clone(), count);
        }
        ensure!(
            seen == expected.requests,
            "seen {seen:?}, sent {:?}",
            expected.requests
        );
        let all = self.sum("radosgw_total_requests", &[]);
        ensure!(all == expected.all(), "{all} of {}", expected.all());
        for (name, bytes) in [
            ("radosgw_bytes_sent_per_bucket", &expected.sent),
            ("radosgw_bytes_received_per_bucket", &expected.received),
        ] {
            for (bucket, bytes) in bytes {
                let seen = self.sum(name, &[("bucket", bucket)]);
                ensure!(seen == *bytes, "{name} {bucket}: seen {seen}, counted {bytes}");
            }
        }
        Ok(())
    }
}

/// Buckets `one` for reads and `two` for writes, so that bytes of either are those of objects alone.
fn plan() -> Value {
    json!([
        {"method": "PUT", "path": "/one/small", "size": 1000, "times": 20, "want": 200},
        {"method": "PUT", "path": "/one/large", "size": 600_000, "times": 3, "want": 200},
        {"method": "GET", "path": "/one/small", "times": 30, "want": 200},
        {"method": "GET", "path": "/one/large", "times": 2, "want": 200},
        {"method": "HEAD", "path": "/one/small", "times": 7, "want": 200},
        {"method": "DELETE", "path": "/one/small", "times": 1, "want": 204},
    ])
}

/// Errors answer with a text of their own, so they go to a bucket whose bytes nobody compares.
fn mistakes() -> Value {
    json!([
        {"method": "GET", "path": "/two/nothing", "times": 5, "want": 404},
        {"method": "GET", "path": "/two/object", "times": 3, "wrong": true, "want": 403},
    ])
}

struct Watched<'a> {
    storage: &'a Storage,
    total: Counted,
}

impl Watched<'_> {
    fn load(&mut self, plan: Value) -> anyhow::Result<()> {
        self.total.add(load(self.storage, plan)?);
        Ok(())
    }

    fn seen_by(&self, prysm: &Prysm, when: &str) -> anyhow::Result<()> {
        until(30, when, || prysm.page()?.counted(&self.total))
    }
}

/// The gateway's process as this machine sees it: its files are below its root.
fn gateway(storage: &Storage) -> anyhow::Result<(u32, PathBuf)> {
    let pod = storage.pod("app=rook-ceph-rgw")?;
    let uid = storage.field(&format!("pod/{pod}"), ".metadata.uid")?;
    let found = find_processes("radosgw", &format!("pods/{uid}"))?;
    let pid = *found
        .first()
        .with_context(|| format!("no radosgw runs in {pod}"))?;
    Ok((pid, PathBuf::from(format!("/proc/{pid}/root"))))
}

pub(crate) fn watches_the_gateway(storage: &Storage) -> anyhow::Result<()> {
    let (_, root) = gateway(storage)?;
    let nats = Nats::start()?;
    let state = tempfile::tempdir()?;
    let (log, position) = (
        root.join("var/log/ceph/ops-log.log"),
        state.path().join("position"),
    );
    // A 403 for a wrong key has no user: anonymous requests count too, and probes open no more than a port.
    let arguments = |log: &Path| {
        vec![
            "ops-log".to_owned(),
            "--track=all".to_owned(),
            "--anonymous".to_owned(),
            "--interval=100".to_owned(),
            "--audit".to_owned(),
            format!("--file={}", log.display()),
            format!("--position={}", position.display()),
            format!("--nats={}", nats.url()),
            "--metrics-interval=1".to_owned(),
        ]
    };
    let start = |log: &Path| {
        let arguments = arguments(log);
        Prysm::start(&arguments.iter().map(String::as_str).collect::<Vec<_>>())
    };
    load(
        storage,
        json!([{"method": "PUT", "path": "/one", "want": 200}, {"method": "PUT", "path": "/two", "want": 200}]),
    )?;
    until(20, "the gateway writes its log", || Ok(std::fs::metadata(&log)?))?;
    let prysm = start(&log)?;
    until(20, "it has found the end of the log", || {
        Ok(std::fs::metadata(&position)?)
    })?;
    let mut watched = Watched {
        storage,
        total: Counted::default(),
    };
    watched.load(plan())?;
    watched.load(mistakes())?;
    watched.seen_by(&prysm, "every request is counted")?;

    // Rotated as logrotate does: moved away, then the gateway opens it again.
    std::fs::rename(&log, log.with_extension("1"))?;
    watched.load(plan())?;
    let (pid, _) = gateway(storage)?;
    Command::new("kill").args(["-HUP", &pid.to_string()]).status()?;
    // It does so with the next request.
    watched.load(plan())?;
    until(10, "the gateway opens its log anew", || {
        Ok(std::fs::metadata(&log)?)
    })?;
    watched.seen_by(&prysm, "a rotated log is read to its end")?;

    // Truncated: the gateway goes on at the start.
    std::fs::File::options().write(true).open(&log)?.set_len(0)?;
    until(10, "the truncation was seen", || {
        let text = std::fs::read_to_string(&position)?;
        ensure!(text.contains("\"offset\":0"), "{text}");
        Ok(())
    })?;
    // The sidecar looks once a second.
    std::thread::sleep(Duration::from_secs(2));
    watched.load(plan())?;
    watched.seen_by(&prysm, "a truncated log is read from its start")?;
    published(&nats, &watched.total)?;

    // Stopped, and started again after more was written.
    prysm.stop()?;
    let missed = load(storage, plan())?;
    let prysm = start(&log)?;
    until(30, "what was written meanwhile is counted", || {
        prysm.page()?.counted(&missed)
    })?;
    prysm.stop()?;

    let all = watched.total.all() + missed.all();
    // It leaves anonymous requests out, which are those with a wrong key, and has seen how the buckets were made.
    let most = all - 3 + 2;
    until(30, "the sidecar has counted the same", || {
        let seen = beside(storage)?.sum("radosgw_total_requests_per_tenant", &[]);
        // It looks once a second: what was truncated before it looked is lost, and nothing counts twice.
        let lost = missed.all();
        ensure!((most - lost..=most).contains(&seen), "{seen} of {most}");
        Ok(())
    })?;
    socket(storage)?;
    // `make soak` has time for more.
    if std::env::var_os("C5C3_DRILLS").is_some() {
        usage_and_quotas(storage, &nats)?;
    }
    Ok(())
}

/// What the sidecar serves in its pod.
fn beside(storage: &Storage) -> anyhow::Result<Metrics> {
    let pod = storage.pod("app=rook-ceph-rgw")?;
    let script = "import urllib.request; print(urllib.request.urlopen('http://127.0.0.1:9090/metrics', timeout=10).read().decode())";
    let exec = ["exec", &pod, "-c", "rgw", "--", "python3", "-c", script];
    until(60, "the sidecar answers", || storage.kubectl(&exec)).map(Metrics)
}

/// Entries, audit events and counters came by NATS.
fn published(nats: &Nats, total: &Counted) -> anyhow::Result<()> {
    let all = total.all() as usize;
    until(30, "everything was published", || {
        let (entries, events) = (nats.heard("rgw.s3.ops").len(), nats.heard("rgw.s3.audit").len());
        ensure!(
            entries == all && events == all,
            "{entries} entries and {events} events of {all}"
        );
        let sums = nats.heard("rgw.s3.ops.aggregated.metrics");
        let last = sums
            .iter()
            .rev()
            .find(|message| message["total_requests"].is_u64());
        ensure!(
            last.is_some_and(|sums| sums["total_requests"] == total.all()),
            "{last:?}"
        );
        Ok(())
    })?;
    let refused = nats
        .heard("rgw.s3.audit")
        .into_iter()
        .filter(|event| event["outcome"] == "failure");
    ensure!(refused.count() == 8, "five missing objects and three wrong keys");
    let events = nats.heard("rgw.s3.audit");
    let named = events.iter().any(|event| event["target"]["id"] == "one/large");
    ensure!(named, "no event names its object: {:?}", events.first());
    Ok(())
}

/// The gateway keeps what nobody reads from its socket, and starts over when it is killed.
fn socket(storage: &Storage) -> anyhow::Result<()> {
    let (pid, root) = gateway(storage)?;
    let place = root.join("run/ceph/ops.sock");
    let start = |place: &Path| {
        let socket = format!("--socket={}", place.display());
        Prysm::start(&["ops-log", "--track=all", "--anonymous", &socket])
    };
    // Everything so far waits in the socket: it is taken out first.
    let prysm = start(&place)?;
    let before = settled(&prysm)?;
    let first = load(storage, plan())?;
    until(30, "requests come by the socket", || {
        let seen = prysm.page()?.sum("radosgw_total_requests", &[]) - before;
        ensure!(seen == first.all(), "{seen} of {}", first.all());
        Ok(())
    })?;
    prysm.stop()?;
    let missed = load(storage, plan())?;
    let prysm = start(&place)?;
    until(30, "the gateway kept what nobody read", || {
        prysm.page()?.counted(&missed)
    })?;
    kill(&[pid])?;
    until(90, "the gateway is back", || {
        let (now, _) = gateway(storage)?;
        ensure!(now != pid, "the same process");
        storage.wait("cephobjectstore/objects", 5)
    })?;
    drop(prysm);
    until(60, "the gateway serves", || {
        load(
            storage,
            json!([{"method": "HEAD", "path": "/one/large", "want": 200}]),
        )
    })?;
    let (_, root) = gateway(storage)?;
    let prysm = start(&root.join("run/ceph/ops.sock"))?;
    let before = settled(&prysm)?;
    let last = load(storage, plan())?;
    until(30, "the new gateway's requests are counted", || {
        let seen = prysm.page()?.sum("radosgw_total_requests", &[]) - before;
        ensure!(seen == last.all(), "{seen} of {}", last.all());
        Ok(())
    })
}

/// How many requests it has counted when no more come.
fn settled(prysm: &Prysm) -> anyhow::Result<u64> {
    until(30, "the backlog is read", || {
        let seen = prysm.page()?.sum("radosgw_total_requests", &[]);
        std::thread::sleep(Duration::from_secs(1));
        let more = prysm.page()?.sum("radosgw_total_requests", &[]);
        ensure!(seen > 0 && seen == more, "{seen}, then {more}");
        Ok(seen)
    })
}

/// The Admin API, quotas, and who consumes them.
fn usage_and_quotas(storage: &Storage, nats: &Nats) -> anyhow::Result<()> {
    let pod = storage.pod("app=rook-ceph-rgw")?;
    let kubeconfig = storage.0.state().join("api/kubeconfig");
    let forward = Forward::start(&kubeconfig, NAMESPACE, &pod, 8080)?;
    let keys = tempfile::tempdir()?;
    for name in ["AccessKey", "SecretKey"] {
        let secret = "secret/rook-ceph-object-user-objects-prysm";
        let template = format!("go-template={{{{index .data \"{name}\" | base64decode}}}}");
        let text = storage.kubectl(&["get", secret, "-o", &template])?;
        std::fs::write(keys.path().join(name), text)?;
    }
    let url = format!("--admin-url=http://127.0.0.1:{}", forward.port);
    let directory = format!("--keys={}", keys.path().display());
    // 3.6 of 4 MB: nine tenths of the quota.
    load(
        storage,
        json!([{"method": "PUT", "path": "/two/filling", "size": 3_000_000, "want": 200}]),
    )?;
    let prysm = Prysm::start(&[
        "radosgw-usage",
        &url,
        &directory,
        "--interval=1",
        "--rgw-cluster-id=objects",
    ])?;
    until(60, "the Admin API tells what is stored", || {
        let page = prysm.page()?;
        ensure!(page.sum("prysm_target_up", &[]) == 1, "{}", page.0);
        let two = [("bucket", "two"), ("owner", "glance")];
        ensure!(page.sum("radosgw_usage_bucket_objects", &two) == 1, "{}", page.0);
        ensure!(page.sum("radosgw_usage_bucket_shards", &two) > 0, "{}", page.0);
        ensure!(
            page.sum("radosgw_user_buckets_total", &[("user", "glance")]) == 2,
            "{}",
            page.0
        );
        ensure!(
            page.sum("radosgw_user_objects_total", &[("user", "glance")]) == 2,
            "{}",
            page.0
        );
        ensure!(
            page.sum("radosgw_user_data_size_bytes", &[("user", "glance")]) == 3_600_000,
            "{}",
            page.0
        );
        // RadosGW keeps a quota in whole blocks of 4 KiB.
        ensure!(
            page.sum("radosgw_usage_user_quota_size", &[("user", "glance")]) == 4_000_768,
            "{}",
            page.0
        );
        Ok(())
    })?;
    let server = format!("--nats={}", nats.url());
    let monitor = Prysm::start(&["quota-usage-monitor", &url, &directory, "--interval=1", &server])?;
    let consumer = Prysm::start(&["quota-usage", &server])?;
    until(30, "the consumer shows who is near the end", || {
        let page = consumer.page()?;
        let used = page.sum("quota_usage", &[("user_id", "glance")]);
        ensure!((89..=90).contains(&used), "{}", page.0);
        ensure!(!page.0.contains("user_id=\"prysm\""), "{}", page.0);
        Ok(())
    })?;
    monitor.stop()?;
    // A wrong key: no figures that look as if all were well.
    std::fs::write(keys.path().join("SecretKey"), "wrong")?;
    until(30, "a refused key is told", || {
        let page = prysm.page()?;
        ensure!(page.0.contains("prysm_target_up 0"), "{}", page.0);
        ensure!(
            page.sum("exporter_scrape_errors_total", &[]) > 0 && !page.0.contains("radosgw_usage"),
            "{}",
            page.0
        );
        Ok(())
    })?;
    let steps = ["one/large", "two/filling", "one", "two"];
    let steps = steps.map(|path| json!({"method": "DELETE", "path": format!("/{path}"), "want": 204}));
    load(storage, Value::Array(steps.to_vec())).map(drop)
}
