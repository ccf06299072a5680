//! The sign of life of the agent: a Lease that it renews, so that what it reported is not taken for true after its end.

use c5c3_api::hypervisor::{HEARTBEAT, HEARTBEAT_LIMIT, NODE_LABEL};
use c5c3_kit::fault::{plain, spread};
use jiff::Timestamp;
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use kube::{Client, Resource};
use serde_json::{Value, json};

const MANAGER: &str = "c5c3-node-agent";

/// Renews the Lease of this node's agent until it is dropped.
pub(crate) async fn beat(client: Client, namespace: String, node: String) {
    let api: Api<Lease> = Api::namespaced(client, &namespace);
    let name = crate::name(&node);
    let params = PatchParams::apply(MANAGER).force();
    loop {
        let now = Timestamp::now();
        let lease = lease(&name, &node, now);
        let told = api.patch(&name, &params, &Patch::Apply(&lease)).await;
        let wait = match told {
            Ok(_) => HEARTBEAT,
            Err(error) => {
                tracing::warn!("heartbeat: {}", plain(&error));
                HEARTBEAT / 3
            }
        };
        // Agents that were started together do not all write together.
        let chance = f64::from(now.subsec_nanosecond().unsigned_abs()) / 1e9;
        tokio::time::sleep(spread(wait, chance)).await;
    }
}

fn lease(name: &str, node: &str, now: Timestamp) -> Value {
    json!({
        "apiVersion": Lease::api_version(&()), "kind": Lease::kind(&()),
        "metadata": {"name": name, "labels": {NODE_LABEL: node}},
        "spec": {
            "holderIdentity": node,
            "leaseDurationSeconds": HEARTBEAT_LIMIT.as_secs(),
            "renewTime": now.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_lease_is_one_that_kubernetes_takes() {
        let now = Timestamp::new(1_800_000_000, 123_456_789).expect("a time");
        let lease: Lease = serde_json::from_value(lease("c5c3-node-agent-a", "a", now)).expect("a Lease");
        let spec = lease.spec.expect("told");
        let renewed = spec.renew_time.expect("told").0;
        assert_eq!(renewed.as_microsecond(), now.as_microsecond());
        assert_eq!(spec.lease_duration_seconds, Some(45));
        assert!(HEARTBEAT * 3 <= HEARTBEAT_LIMIT, "two may be lost");
    }
}
