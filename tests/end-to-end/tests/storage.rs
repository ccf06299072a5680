//! Ceph as the stand-in for Rook runs it: real daemons, killed and stopped, and what they store compared by checksum.
//!
//! Needs root. The image is built first; that takes minutes once, then nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;
use serde_json::Value;

const NAMESPACE: &str = "rook-ceph";

/// What a person applies: the cluster, its pools and users, and the way of their keys to OpenStack.
const QUICKSTART: &str = include_str!("../../../deploy/quickstart/storage.yaml");

const GREEDY: &str = r#"
apiVersion: ceph.rook.io/v1
kind: CephClient
metadata: {name: greedy, namespace: rook-ceph}
spec: {caps: {mon: ""}}
"#;

const OBJECTS: &str = r#"
apiVersion: ceph.rook.io/v1
kind: CephObjectStore
metadata: {name: objects, namespace: rook-ceph}
spec:
  metadataPool: {replicated: {size: 2}}
  dataPool: {replicated: {size: 2}}
  gateway: {port: 80, instances: 1}
---
apiVersion: ceph.rook.io/v1
kind: CephObjectStoreUser
metadata: {name: glance, namespace: rook-ceph}
spec: {store: objects, displayName: Images, quotas: {maxBuckets: 5}}
"#;

/// A guest of the cluster: it has the files of Cinder, as Cinder has them.
const GUEST: &str = r#"
apiVersion: v1
kind: Pod
metadata: {name: guest, namespace: openstack}
spec:
  securityContext: {runAsUser: 42464, runAsGroup: 42464, fsGroup: 42464}
  volumes:
    - name: ceph
      secret: {secretName: ceph-cinder, defaultMode: 0440, items: [{key: ceph.conf, path: ceph.conf}, {key: keyring, path: ceph.client.cinder.keyring}]}
    - {name: tmp, emptyDir: {}}
  containers:
    - name: guest
      image: ghcr.io/c5c3/ceph:18.2
      command: [sleep, "86400"]
      env: [{name: CEPH_ARGS, value: "--id=cinder --rados-osd-op-timeout=60 --rados-mon-op-timeout=60"}]
      volumeMounts: [{name: ceph, mountPath: /etc/ceph}, {name: tmp, mountPath: /tmp}]
"#;

fn until<T>(seconds: u64, what: &str, attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    until_ok(what, Duration::from_secs(seconds), attempt)
}

/// In the network of pods; the cloud that `c5c3 up` makes has it in that of nodes.
fn quickstart() -> anyhow::Result<String> {
    let host = "  network: { provider: host }\n";
    ensure!(QUICKSTART.contains(host), "{host} is gone");
    Ok(QUICKSTART.replace(host, ""))
}

struct Storage(Cloud);

impl Storage {
    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(&[&["-n", NAMESPACE], arguments].concat(), "")
    }

    fn apply(&self, objects: &str) -> anyhow::Result<()> {
        self.0.kubectl(&["apply", "-f", "-"], objects).map(drop)
    }

    fn field(&self, object: &str, path: &str) -> anyhow::Result<String> {
        self.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    fn wait(&self, object: &str, seconds: u64) -> anyhow::Result<()> {
        let limit = format!("--timeout={seconds}s");
        let waited = self.kubectl(&["wait", "--for=jsonpath={.status.phase}=Ready", object, &limit]);
        waited.map(drop).or_else(|error| {
            let state = self.kubectl(&["get", object, "-o", "yaml"])?;
            let pods = self.kubectl(&["get", "pods", "-o", "wide"])?;
            Err(error.context(format!("{state}\n{pods}")))
        })
    }

    /// The only pod of a daemon.
    fn pod(&self, selector: &str) -> anyhow::Result<String> {
        let path = "jsonpath={.items[*].metadata.name}";
        let names = self.kubectl(&["get", "pods", "-l", selector, "-o", path])?;
        let mut names = names.split_whitespace();
        let name = names.next().with_context(|| format!("no pod {selector}"))?;
        ensure!(names.next().is_none(), "several pods {selector}");
        Ok(name.to_owned())
    }

    /// Runs a script where the client's key is.
    fn guest(&self, script: &str) -> anyhow::Result<String> {
        let exec = [
            "-n",
            "openstack",
            "exec",
            "guest",
            "--",
            "timeout",
            "90",
            "bash",
            "-ec",
            script,
        ];
        Ok(self.0.kubectl(&exec, "")?.trim().to_owned())
    }

    /// What the same script says when it fails.
    fn refused(&self, script: &str) -> anyhow::Result<String> {
        match self.guest(script) {
            Ok(said) => anyhow::bail!("it worked: {script}: {said}"),
            Err(error) => Ok(format!("{error:#}")),
        }
    }

    /// Ceph's own tool, as administrator beside the monitor.
    fn ceph(&self, words: &str) -> anyhow::Result<Value> {
        let pod = self.pod("app=rook-ceph-mon")?;
        let script = format!(
            "ceph --mon-host \"$ROOK_CEPH_MON_HOST\" --keyring /etc/ceph-keyring/keyring --connect-timeout 10 {words} -f json"
        );
        let said = self.kubectl(&["exec", &pod, "--", "sh", "-c", &script])?;
        Ok(serde_json::from_str(&said)?)
    }

    /// Reads it all and compares.
    fn same(&self, written: &str) -> anyhow::Result<()> {
        let read = self.guest(READ)?;
        ensure!(read == written, "written:\n{written}\nread:\n{read}");
        Ok(())
    }

    fn all_up(&self) -> anyhow::Result<()> {
        let status = self.ceph("status")?;
        ensure!(status["osdmap"]["num_up_osds"] == 2, "{}", status["osdmap"]);
        let states = &status["pgmap"]["pgs_by_state"];
        let clean = states
            .as_array()
            .is_some_and(|all| all.len() == 1 && all[0]["state_name"] == "active+clean");
        ensure!(clean, "{states}");
        Ok(())
    }
}

const WRITE: &str = "head -c 20000000 /dev/urandom > /tmp/data; rados -p volumes put data /tmp/data; \
    rbd create volumes/disk --size 64M; rbd bench --io-type write --io-total 8M --io-size 64K volumes/disk >/dev/null";
/// Sums of an object and of a disk.
const READ: &str =
    "rados -p volumes get data - | sha256sum; rbd export --no-progress volumes/disk - | sha256sum";

#[test]
fn ceph_with_its_pools_users_and_objects() -> anyhow::Result<()> {
    let storage = Storage(Cloud::up(&["ceph"])?);
    let start = Instant::now();
    storage.apply(&quickstart()?)?;
    storage.apply(GREEDY)?;
    storage.wait("cephcluster/storage", 120)?;
    println!("CephCluster Ready after {:.1} s", start.elapsed().as_secs_f32());
    as_rook_tells_it(&storage)?;

    for object in [
        "cephblockpool/volumes",
        "cephblockpool/images",
        "cephclient/cinder",
    ] {
        storage.wait(object, 60)?;
    }
    println!("pools and users after {:.1} s", start.elapsed().as_secs_f32());
    storage.apply(OBJECTS)?;
    wrong_users(&storage)?;

    storage.apply(GUEST)?;
    let wait = [
        "-n",
        "openstack",
        "wait",
        "--for=condition=Ready",
        "pod/guest",
        "--timeout=120s",
    ];
    storage.0.kubectl(&wait, "")?;
    println!(
        "keys in the other namespace after {:.1} s",
        start.elapsed().as_secs_f32()
    );
    storage.guest(WRITE)?;
    let written = storage.guest(READ)?;
    let sent = storage.guest("sha256sum < /tmp/data")?;
    ensure!(written.starts_with(&sent), "{sent}\n{written}");
    rights(&storage)?;
    until(90, "all placement groups are clean", || storage.all_up())?;
    kills(&storage, &written)?;
    down_and_up(&storage, &written)?;
    objects(&storage)?;
    println!("all of it after {:.1} s", start.elapsed().as_secs_f32());
    nothing_more_is_written(&storage)?;
    gone(&storage)
}

fn as_rook_tells_it(storage: &Storage) -> anyhow::Result<()> {
    let cluster: Value =
        serde_json::from_str(&storage.kubectl(&["get", "cephcluster", "storage", "-o", "json"])?)?;
    let status = &cluster["status"];
    ensure!(status["state"] == "Created", "{status:#}");
    ensure!(
        status["ceph"]["health"]
            .as_str()
            .is_some_and(|health| health.starts_with("HEALTH_")),
        "{status:#}"
    );
    ensure!(
        status["storage"]["osd"]["storeType"]["bluestore"] == 2,
        "{status:#}"
    );
    let fsid = storage.ceph("fsid")?;
    ensure!(status["ceph"]["fsid"] == fsid["fsid"], "{fsid}");
    let endpoints = storage.field("configmap/rook-ceph-mon-endpoints", ".data.data")?;
    let address = storage.field("service/rook-ceph-mon-a", ".spec.clusterIP")?;
    ensure!(endpoints == format!("a={address}:6789"), "{endpoints}");
    for selector in [
        "app=rook-ceph-mon,mon=a",
        "app=rook-ceph-mgr,mgr=a",
        "app=rook-ceph-osd,ceph-osd-id=1",
    ] {
        storage.pod(selector)?;
    }
    let modules = storage.ceph("mgr module ls")?;
    let enabled = modules["enabled_modules"].to_string();
    ensure!(enabled.contains("prometheus"), "{enabled}");
    Ok(())
}

/// A user without rights to name stays out, and says why.
fn wrong_users(storage: &Storage) -> anyhow::Result<()> {
    ensure!(storage.field("cephclient/greedy", ".status.phase")? == "Failure");
    let said = storage.field("cephclient/greedy", ".status.conditions[*].message")?;
    ensure!(said.contains("spec.caps"), "{said}");
    Ok(())
}

/// What the key opens, and what it does not.
fn rights(storage: &Storage) -> anyhow::Result<()> {
    let said = storage.refused("rados -p images put stolen /tmp/data")?;
    ensure!(said.contains("not permitted"), "{said}");
    let said = storage.refused("ceph-authtool --gen-print-key > /tmp/wrong; rados --keyring /dev/null --keyfile /tmp/wrong -p volumes ls")?;
    ensure!(said.contains("auth_bad_method"), "{said}");
    Ok(())
}

/// Every daemon is killed in turn, then a pod is taken away: what was stored is there each time.
fn kills(storage: &Storage, written: &str) -> anyhow::Result<()> {
    for (selector, program) in [
        ("app=rook-ceph-mon", "ceph-mon"),
        ("app=rook-ceph-mgr", "ceph-mgr"),
        ("app=rook-ceph-osd,ceph-osd-id=0", "ceph-osd"),
        ("app=rook-ceph-osd,ceph-osd-id=1", "ceph-osd"),
    ] {
        let start = Instant::now();
        let pod = storage.pod(selector)?;
        storage.0.kill_containers(NAMESPACE, &[&pod], program)?;
        until(60, "data is there again", || storage.same(written))?;
        println!(
            "{program} killed: data read after {:.1} s",
            start.elapsed().as_secs_f32()
        );
        until(90, "all is up again", || storage.all_up())?;
    }
    let pod = storage.pod("app=rook-ceph-osd,ceph-osd-id=0")?;
    storage.kubectl(&["delete", "pod", &pod, "--wait=true"])?;
    storage.guest("echo more > /tmp/more; rados -p volumes put more /tmp/more")?;
    until(90, "the OSD is up again", || storage.all_up())?;
    storage.same(written)?;
    // Both at once: nobody is left to serve, and nothing is lost.
    let pods = [
        storage.pod("app=rook-ceph-osd,ceph-osd-id=0")?,
        storage.pod("app=rook-ceph-osd,ceph-osd-id=1")?,
    ];
    storage
        .0
        .kill_containers(NAMESPACE, &[&pods[0], &pods[1]], "ceph-osd")?;
    until(90, "both OSDs are up again", || storage.all_up())?;
    storage.same(written)?;
    storage.wait("cephcluster/storage", 60)
}

/// All daemons stop and start together: the first ones meet nobody.
fn down_and_up(storage: &Storage, written: &str) -> anyhow::Result<()> {
    storage.0.c5c3_here("down", &[])?;
    let start = Instant::now();
    storage.0.start()?;
    until(120, "data is there again", || storage.same(written))?;
    println!(
        "data read {:.1} s after a new start",
        start.elapsed().as_secs_f32()
    );
    until(90, "all is up again", || storage.all_up())
}

/// Puts and gets an object with nothing but Python: the signature is AWS' fourth.
const S3: &str = r#"
import base64, datetime, hashlib, hmac, json, os, sys, urllib.request, urllib.error
secret = json.load(sys.stdin)['data']
read = lambda name: base64.b64decode(secret[name]).decode()
host = read('Endpoint').removeprefix('http://').removesuffix(':80')
def call(method, path, body=b'', key=None):
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime('%Y%m%dT%H%M%SZ'), now.strftime('%Y%m%d')
    digest = hashlib.sha256(body).hexdigest()
    names = 'host;x-amz-content-sha256;x-amz-date'
    canonical = f'{method}\n{path}\n\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n\n{names}\n{digest}'
    scope = f'{day}/us-east-1/s3/aws4_request'
    text = f'AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}'
    sign = lambda k, m: hmac.new(k, m.encode(), hashlib.sha256).digest()
    k = ('AWS4' + (key or read('SecretKey'))).encode()
    for part in (day, 'us-east-1', 's3', 'aws4_request'): k = sign(k, part)
    auth = f"AWS4-HMAC-SHA256 Credential={read('AccessKey')}/{scope}, SignedHeaders={names}, Signature={sign(k, text).hex()}"
    headers = {'x-amz-content-sha256': digest, 'x-amz-date': stamp, 'Authorization': auth}
    request = urllib.request.Request(f'http://{host}{path}', data=body or None, headers=headers, method=method)
    return urllib.request.urlopen(request, timeout=30).read()
body = os.urandom(3_000_000)
call('PUT', '/bucket'); call('PUT', '/bucket/object', body)
assert call('GET', '/bucket/object') == body
try: call('GET', '/bucket/object', key='wrong'); raise SystemExit('a wrong key was taken')
except urllib.error.HTTPError as error: assert error.code == 403, error
call('DELETE', '/bucket/object'); call('DELETE', '/bucket')
print('as it was')
"#;

fn objects(storage: &Storage) -> anyhow::Result<()> {
    storage.wait("cephobjectstore/objects", 120)?;
    storage.wait("cephobjectstoreuser/glance", 60)?;
    // The gateway's own pod has Python; the keys of the Secret come by standard input.
    let secret = storage.kubectl(&[
        "get",
        "secret",
        "rook-ceph-object-user-objects-glance",
        "-o",
        "json",
    ])?;
    let pod = storage.pod("app=rook-ceph-rgw")?;
    let exec = [
        "-n", NAMESPACE, "exec", "-i", &pod, "--", "timeout", "60", "python3", "-c", S3,
    ];
    let said = storage.0.kubectl(&exec, &secret)?;
    let said = said.trim();
    ensure!(said == "as it was", "{said}");
    Ok(())
}

fn nothing_more_is_written(storage: &Storage) -> anyhow::Result<()> {
    let of = ["ceph", "secrets", "deployments", "configmaps"];
    until(60, "nothing is written for five seconds", || {
        let before = storage.0.writes(&of)?;
        std::thread::sleep(Duration::from_secs(5));
        storage.0.nothing_written_since(&before, &of)
    })
}

/// A pool with a disk in it stays; without one it goes, and so does a user.
fn gone(storage: &Storage) -> anyhow::Result<()> {
    storage.kubectl(&[
        "delete",
        "cephclient/greedy",
        "cephblockpool/images",
        "--timeout=60s",
    ])?;
    storage.kubectl(&["delete", "cephblockpool/volumes", "--wait=false"])?;
    until(30, "what is left is named", || {
        let said = storage.field("cephblockpool/volumes", ".status.conditions[*].message")?;
        ensure!(said.contains("disk disk"), "{said}");
        Ok(())
    })?;
    storage.guest("rbd rm --no-progress volumes/disk")?;
    storage.kubectl(&["wait", "--for=delete", "cephblockpool/volumes", "--timeout=60s"])?;
    storage.kubectl(&["delete", "cephclient/cinder", "--timeout=60s"])?;
    let users = storage.ceph("auth ls")?.to_string();
    ensure!(!users.contains("client.cinder"), "{users}");
    Ok(())
}
