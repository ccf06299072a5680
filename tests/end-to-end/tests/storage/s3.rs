//! A scripted load of S3 that counts what it does.

use std::collections::BTreeMap;

use anyhow::Context;
use serde::Deserialize;

use crate::world::{NAMESPACE, Storage};

/// The gateway writes its operations to a file and to a socket; the label asks for Prysm beside it.
pub(crate) const OBJECTS: &str = r#"
apiVersion: ceph.rook.io/v1
kind: CephObjectStore
metadata: {name: objects, namespace: rook-ceph}
spec:
  metadataPool: {replicated: {size: 2}}
  dataPool: {replicated: {size: 2}}
  gateway:
    port: 80
    instances: 1
    labels: {prysm-sidecar: "yes"}
    rgwConfig:
      rgw_enable_ops_log: "true"
      rgw_ops_log_rados: "false"
      rgw_ops_log_file_path: /var/log/ceph/ops-log.log
      rgw_ops_log_socket_path: /run/ceph/ops.sock
---
apiVersion: ceph.rook.io/v1
kind: CephObjectStoreUser
metadata: {name: glance, namespace: rook-ceph}
spec: {store: objects, displayName: Images, quotas: {maxBuckets: 5, maxSize: 4M}}
---
apiVersion: ceph.rook.io/v1
kind: CephObjectStoreUser
metadata: {name: prysm, namespace: rook-ceph}
spec: {store: objects, displayName: Prysm, capabilities: {user: read, bucket: read, metadata: read, usage: read}}
"#;

/// With nothing but Python; the signature is AWS' fourth. `plan` is a list of steps of (method, path,
/// bytes, parameters, wrong key), and what comes out is counted.
const LOAD: &str = r#"
import base64, datetime, hashlib, hmac, json, os, sys, urllib.request, urllib.error
given = json.load(sys.stdin)
read = lambda name: base64.b64decode(given['secret']['data'][name]).decode()
host = read('Endpoint').removeprefix('http://').removesuffix(':80')
def call(method, path, body=b'', query='', wrong=False, kind=None):
    now = datetime.datetime.now(datetime.timezone.utc)
    stamp, day = now.strftime('%Y%m%dT%H%M%SZ'), now.strftime('%Y%m%d')
    digest = hashlib.sha256(body).hexdigest()
    names = 'host;x-amz-content-sha256;x-amz-date'
    canonical = f'{method}\n{path}\n{query}\nhost:{host}\nx-amz-content-sha256:{digest}\nx-amz-date:{stamp}\n\n{names}\n{digest}'
    scope = f'{day}/us-east-1/s3/aws4_request'
    text = f'AWS4-HMAC-SHA256\n{stamp}\n{scope}\n{hashlib.sha256(canonical.encode()).hexdigest()}'
    sign = lambda k, m: hmac.new(k, m.encode(), hashlib.sha256).digest()
    k = ('AWS4' + ('wrong' if wrong else read('SecretKey'))).encode()
    for part in (day, 'us-east-1', 's3', 'aws4_request'): k = sign(k, part)
    auth = f"AWS4-HMAC-SHA256 Credential={read('AccessKey')}/{scope}, SignedHeaders={names}, Signature={sign(k, text).hex()}"
    headers = {'x-amz-content-sha256': digest, 'x-amz-date': stamp, 'Authorization': auth}
    if kind: headers['Content-Type'] = kind
    data = body if method in ('PUT', 'POST') else None
    request = urllib.request.Request(f'http://{host}{path}' + (f'?{query}' if query else ''), data=data, headers=headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as answer: return answer.status, answer.read()
    except urllib.error.HTTPError as error: return error.code, error.read()
requests, sent, received = {}, {}, {}
for step in given['plan']:
    method, path, size = step['method'], step['path'], step.get('size', 0)
    body = step['body'].encode() if 'body' in step else os.urandom(size)
    for _ in range(step.get('times', 1)):
        status, answer = call(method, path, body, step.get('query', ''), step.get('wrong', False), step.get('kind'))
        if 'want' in step: assert status == step['want'], (step, status, answer)
        key = f'{method} {status}'
        requests[key] = requests.get(key, 0) + 1
        bucket = path.split('/')[1]
        if not step.get('wrong'):
            if method == 'GET' and status == 200: sent[bucket] = sent.get(bucket, 0) + len(answer)
            if method == 'PUT': received[bucket] = received.get(bucket, 0) + len(body)
print(json.dumps({'requests': requests, 'sent': sent, 'received': received}))
"#;

/// What the load generator counted.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct Counted {
    /// By method and status, `GET 200`.
    pub requests: BTreeMap<String, u64>,
    /// Bytes of successful reads, and of writes, by bucket.
    pub sent: BTreeMap<String, u64>,
    pub received: BTreeMap<String, u64>,
}

impl Counted {
    pub(crate) fn add(&mut self, other: Counted) {
        for (mine, theirs) in [
            (&mut self.requests, other.requests),
            (&mut self.sent, other.sent),
            (&mut self.received, other.received),
        ] {
            for (key, count) in theirs {
                *mine.entry(key).or_default() += count;
            }
        }
    }

    pub(crate) fn all(&self) -> u64 {
        self.requests.values().sum()
    }
}

pub(crate) fn ready(storage: &Storage) -> anyhow::Result<()> {
    storage.wait("cephobjectstore/objects", 180)?;
    for user in ["glance", "prysm"] {
        storage.wait(&format!("cephobjectstoreuser/{user}"), 60)?;
    }
    Ok(())
}

/// Runs a plan beside the gateway: its pod has Python. Keys come by standard input.
pub(crate) fn load(storage: &Storage, plan: serde_json::Value) -> anyhow::Result<Counted> {
    let name = "rook-ceph-object-user-objects-glance";
    let secret = storage.kubectl(&["get", "secret", name, "-o", "json"])?;
    let secret: serde_json::Value = serde_json::from_str(&secret)?;
    let given = serde_json::json!({"secret": secret, "plan": plan}).to_string();
    let pod = storage.pod("app=rook-ceph-rgw")?;
    let exec = [
        "-n", NAMESPACE, "exec", "-i", &pod, "-c", "rgw", "--", "timeout", "300", "python3", "-c", LOAD,
    ];
    let said = storage.0.kubectl(&exec, &given)?;
    serde_json::from_str(&said).with_context(|| said.clone())
}
