//! Names that others can see: marks on objects, reasons in Nova, test instances.

/// On a Node: it runs guests.
pub const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";
/// On a Node, comma-separated: host aggregates of its Hypervisor.
pub const AGGREGATES: &str = "hypervisor.c5c3.io/aggregates";
/// On a Node, comma-separated: traits of its Hypervisor.
pub const CUSTOM_TRAITS: &str = "hypervisor.c5c3.io/custom-traits";
/// On a Hypervisor: any new value restarts an aborted onboarding.
pub const RETRY: &str = "hypervisor.c5c3.io/retry";

/// Taints of a Node that has no power: by Kubernetes a person or a tool that fenced it sets the first,
/// the provider of its machine the second.
pub const OUT_OF_SERVICE: &str = "node.kubernetes.io/out-of-service";
pub const SHUTDOWN: &str = "node.cloudprovider.kubernetes.io/shutdown";

/// Image, flavour and network of test instances; the aggregate of hosts under test, where there is one.
pub const TEST: &str = "c5c3-test";

/// The reason with which a service was disabled says who may enable it again.
const OF_MAINTENANCE: &str = "c5c3: maintenance";
const OF_ONBOARDING: &str = "c5c3: onboarding";
const OF_EVICTION: &str = "c5c3: eviction";
const OF_PRESSURE: &str = "c5c3: node pressure";
/// What Nova writes where `enable_new_services` is false.
const OF_NEW_SERVICES: &str = "New compute service disabled";

pub fn maintenance(kind: &str, reason: Option<&str>) -> String {
    match reason.filter(|text| !text.is_empty()) {
        Some(text) => shortened(&format!("{OF_MAINTENANCE} ({kind}): {text}")),
        None => format!("{OF_MAINTENANCE} ({kind})"),
    }
}

pub fn aborted(why: &str) -> String {
    shortened(&format!("{OF_ONBOARDING} aborted: {why}"))
}

pub fn eviction(name: &str) -> String {
    shortened(&format!("{OF_EVICTION} {name}"))
}

pub fn pressure(kinds: &[String]) -> String {
    shortened(&format!("{OF_PRESSURE}: {}", kinds.join(", ")))
}

/// Was it disabled because the Node is short of something?
pub fn is_of_pressure(reason: Option<&str>) -> bool {
    reason.is_some_and(|text| text.starts_with(OF_PRESSURE))
}

/// Nova takes 255 characters.
fn shortened(text: &str) -> String {
    text.chars().take(255).collect()
}

/// Did the operator disable the service for the sake of the Hypervisor?
pub fn is_ours(reason: Option<&str>) -> bool {
    reason.is_some_and(|text| text.starts_with(OF_MAINTENANCE) || text.starts_with(OF_ONBOARDING))
}

/// Did an Eviction of its own disable it?
pub fn is_of_eviction(reason: Option<&str>) -> bool {
    reason.is_some_and(|text| text.starts_with(OF_EVICTION))
}

/// May onboarding enable a service that was disabled so?
pub fn is_new(reason: Option<&str>) -> bool {
    is_ours(reason) || reason.is_none_or(|text| text.is_empty() || text.starts_with(OF_NEW_SERVICES))
}

/// The name is the same for every attempt on one host and used by no other host: so a server that Nova
/// created late, for a request that was given up, is still found.
pub fn test_server(uid: &str) -> String {
    let start: String = uid.chars().filter(char::is_ascii_alphanumeric).take(12).collect();
    format!("{TEST}-{start}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reason_says_who_may_enable_again() {
        let manual = maintenance("manual", Some("disk"));
        assert!(is_ours(Some(&manual)) && !is_of_eviction(Some(&manual)));
        assert!(is_of_eviction(Some(&eviction("a"))) && !is_ours(Some(&eviction("a"))));
        assert!(is_new(None) && is_new(Some("New compute service disabled due to config option.")));
        assert!(!is_new(Some("rack 7 smells")) && !is_ours(Some("AUTO: connection to libvirt lost")));
        assert_eq!(maintenance("manual", Some(&"ä".repeat(900))).chars().count(), 255);
    }
}
