//! Requests and limits as the runtime takes them.

use std::collections::BTreeMap;

use apimachinery::quantity::Quantity;
use k8s_cri::v1::LinuxContainerResources;
use k8s_openapi::api::core::v1::{Container, PodSpec};
use k8s_openapi::apimachinery::pkg::api::resource::Quantity as Text;

use crate::pods::observe::view;

type List = BTreeMap<String, Text>;

const PERIOD: i64 = 100_000;
const LEAST_SHARES: i64 = 2;
const MOST_SHARES: i64 = 262_144;

/// A quantity; one that cannot be read counts as not given (the API refuses such).
pub fn quantity(text: &Text) -> Option<Quantity> {
    Quantity::parse(&text.0).ok()
}

fn get(list: Option<&List>, name: &str) -> Option<Quantity> {
    list?.get(name).and_then(quantity)
}

pub fn limit(container: &Container, name: &str) -> Option<Quantity> {
    get(container.resources.as_ref()?.limits.as_ref(), name)
}

pub fn request(container: &Container, name: &str) -> Option<Quantity> {
    get(container.resources.as_ref()?.requests.as_ref(), name).or_else(|| limit(container, name))
}

/// Limits of one container.
pub fn linux(container: &Container) -> LinuxContainerResources {
    let shares = request(container, "cpu").map_or(LEAST_SHARES, |q| {
        (q.milli_value().saturating_mul(1024) / 1000).clamp(LEAST_SHARES, MOST_SHARES)
    });
    let mut wire = LinuxContainerResources {
        cpu_shares: shares,
        ..LinuxContainerResources::default()
    };
    if let Some(cpu) = limit(container, "cpu").filter(|q| q.sign() > 0) {
        wire.cpu_period = PERIOD;
        // The kernel takes no quota below one millisecond.
        wire.cpu_quota = (cpu.milli_value().saturating_mul(PERIOD) / 1000).max(1000);
    }
    if let Some(memory) = limit(container, "memory") {
        wire.memory_limit_in_bytes = memory.value();
    }
    wire
}

/// Quality of service, as the API server computes it.
pub fn qos(spec: &PodSpec) -> &'static str {
    let mut any = false;
    let mut guaranteed = true;
    for container in view::all_containers(spec) {
        for name in ["cpu", "memory"] {
            let (limit, request) = (limit(container, name), request(container, name));
            let positive = |q: &Option<Quantity>| q.as_ref().is_some_and(|q| q.sign() > 0);
            any |= positive(&limit) || positive(&request);
            let same = match (&limit, &request) {
                (Some(l), Some(r)) => l.milli_value() == r.milli_value(),
                _ => false,
            };
            guaranteed &= same && positive(&limit);
        }
    }
    match (any, guaranteed) {
        (false, _) => "BestEffort",
        (true, true) => "Guaranteed",
        (true, false) => "Burstable",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn spec(resources: serde_json::Value) -> PodSpec {
        serde_json::from_value(json!({
            "containers": [{ "name": "a", "resources": resources }]
        }))
        .unwrap()
    }

    #[test]
    fn limits() {
        let wire = |r| linux(&spec(r).containers[0]);
        let full = wire(json!({ "limits": { "cpu": "1500m", "memory": "1Gi" } }));
        assert_eq!(
            (full.cpu_shares, full.cpu_quota, full.memory_limit_in_bytes),
            (1536, 150_000, 1 << 30)
        );
        assert_eq!(wire(json!({})).cpu_shares, 2);
        assert_eq!(wire(json!({ "limits": { "cpu": "1m" } })).cpu_quota, 1000);
    }

    #[test]
    fn classes() {
        let both = json!({ "cpu": "1", "memory": "1Gi" });
        for (resources, class) in [
            (json!({}), "BestEffort"),
            (json!({ "limits": both }), "Guaranteed"),
            (
                json!({ "limits": both, "requests": { "cpu": "500m" } }),
                "Burstable",
            ),
            (json!({ "requests": { "cpu": "1" } }), "Burstable"),
        ] {
            assert_eq!(qos(&spec(resources.clone())), class, "{resources}");
        }
    }
}
