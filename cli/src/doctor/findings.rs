//! What is wrong with a cluster, and the way out. Pure.

use c5c3_api::Origin;
use c5c3_api::foreign::brought_by;
use serde::Serialize;

use super::Facts;
use crate::roles;

/// The kinds' rules use a function that came with it.
const LEAST: (u32, u32) = (1, 31);
pub(crate) const HYPERVISOR: &str = "node-role.kubernetes.io/hypervisor";
pub(super) const ENFORCE: &str = "pod-security.kubernetes.io/enforce";
pub(crate) const KINDS: &str = "kinds";
pub(crate) const OPERATORS: &str = "operators";
/// Seconds: tokens and certificates of the first minute of their life are refused beyond it.
const SKEW: i64 = 5;
/// A node gives a sign of life every ten seconds.
const SILENT: i64 = 120;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Verdict {
    Fine,
    /// A cloud comes up, but something will be missing.
    Warning,
    /// No cloud comes up.
    Fault,
}

impl Verdict {
    pub(crate) fn word(self) -> &'static str {
        match self {
            Verdict::Fine => "fine",
            Verdict::Warning => "warning",
            Verdict::Fault => "FAULT",
        }
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Finding {
    pub check: &'static str,
    pub verdict: Verdict,
    pub found: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub way_out: String,
}

fn fine(check: &'static str, found: impl Into<String>) -> Finding {
    found_that(check, Verdict::Fine, found, "")
}

fn found_that(
    check: &'static str,
    verdict: Verdict,
    found: impl Into<String>,
    way_out: impl Into<String>,
) -> Finding {
    Finding {
        check,
        verdict,
        found: found.into(),
        way_out: way_out.into(),
    }
}

/// All checks, in the order in which a person would fix them.
pub(crate) fn findings(facts: &Facts) -> Vec<Finding> {
    let mut all = vec![version(facts), own_kinds(facts)];
    all.extend(others(facts));
    all.extend([classes(facts), nodes(facts), clocks(facts), security(facts)]);
    all.push(operators(facts));
    all.extend(images(facts));
    all
}

fn version(facts: &Facts) -> Finding {
    let check = "version";
    let text = &facts.version;
    let (major, minor) = LEAST;
    let wanted = format!("use Kubernetes {major}.{minor} or newer");
    match numbers(text) {
        Some(version) if version >= LEAST => fine(check, text),
        Some(_) => found_that(
            check,
            Verdict::Fault,
            format!("{text} is too old for the validation rules of CobaltCore's CRDs"),
            wanted,
        ),
        None => found_that(
            check,
            Verdict::Warning,
            format!("cannot parse the version {text:?}"),
            wanted,
        ),
    }
}

/// `v1.37.1-eks` is 1.37.
fn numbers(version: &str) -> Option<(u32, u32)> {
    let mut parts = version.trim_start_matches('v').split(['.', '+', '-']);
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

fn own_kinds(facts: &Facts) -> Finding {
    let kinds = c5c3_api::registry()
        .iter()
        .filter(|kind| kind.origin == Origin::Ours);
    let names: Vec<String> = kinds
        .map(|kind| format!("{}.{}", kind.kind, kind.group))
        .collect();
    let missing: Vec<&String> = names.iter().filter(|name| !facts.kinds.contains(*name)).collect();
    let way_out = "helm upgrade --install c5c3-crds deploy/charts/crds -n c5c3-system --create-namespace";
    match missing.as_slice() {
        [] => fine(KINDS, format!("all {} are installed", names.len())),
        [one] => found_that(KINDS, Verdict::Fault, format!("{one} is missing"), way_out),
        [first, ..] => {
            let found = format!(
                "{} of {} are missing, starting with {first}",
                missing.len(),
                names.len()
            );
            found_that(KINDS, Verdict::Fault, found, way_out)
        }
    }
}

/// What a cloud rests on: a kind of each operator, and what goes without it.
const OTHERS: [(&str, &str, &str); 5] = [
    (
        "MariaDB.k8s.mariadb.com",
        "databases",
        "infrastructure.database.host",
    ),
    (
        "Memcached.memcached.c5c3.io",
        "caches",
        "infrastructure.cache.servers",
    ),
    (
        "RabbitmqCluster.rabbitmq.com",
        "message buses",
        "infrastructure.messaging.hosts",
    ),
    (
        "Vhost.rabbitmq.com",
        "accounts on message buses",
        "infrastructure.messaging.hosts",
    ),
    (
        "User.openstack.k-orc.cloud",
        "users, endpoints and roles",
        "korc.enabled: false",
    ),
];

fn others(facts: &Facts) -> Vec<Finding> {
    let check = "other operators";
    let mut all = Vec::new();
    for (kind, of, instead) in OTHERS {
        let group = kind.split_once('.').map_or("", |(_, group)| group);
        let by = match kind {
            "Vhost.rabbitmq.com" => "RabbitMQ's messaging topology operator",
            _ => brought_by(group).unwrap_or(group),
        };
        if facts.kinds.contains(kind) {
            all.push(fine(check, format!("{by} is installed")));
            continue;
        }
        let found = format!("{kind} is missing; it is needed for {of}");
        let way_out = format!("install {by}, or use external servers ({instead})");
        all.push(found_that(check, Verdict::Fault, found, way_out));
    }
    let has = |kind: &str| facts.kinds.contains(kind);
    if has("Memcached.memcached.c5c3.io") && !has("ServiceMonitor.monitoring.coreos.com") {
        let found = "memcached-operator 0.4.0 does not start without the CRD ServiceMonitor";
        let way_out = "install this CRD of prometheus-operator; nothing else of it is needed";
        all.push(found_that(check, Verdict::Warning, found, way_out));
    }
    all
}

fn classes(facts: &Facts) -> Finding {
    let check = "storage";
    let Some(classes) = &facts.classes else {
        return unseen(check, "storageclasses");
    };
    let default: Vec<&str> = classes
        .iter()
        .filter(|class| class.is_default)
        .map(|class| class.name.as_str())
        .collect();
    match default.as_slice() {
        [one] => fine(check, format!("{one} is the default class")),
        [] if classes.is_empty() => found_that(
            check,
            Verdict::Fault,
            "there is no StorageClass",
            "install a volume provisioner, and mark its StorageClass as the default",
        ),
        [] => {
            let names: Vec<&str> = classes.iter().map(|class| class.name.as_str()).collect();
            let found = format!("none of {} is the default class", names.join(", "));
            let way_out = "mark one as the default (annotation storageclass.kubernetes.io/is-default-class: \"true\"), or set storageClass in the ControlPlane";
            found_that(check, Verdict::Fault, found, way_out)
        }
        several => {
            let found = format!("{} are all marked as the default class", several.join(", "));
            found_that(
                check,
                Verdict::Warning,
                found,
                "mark only one; until then Kubernetes uses the newest",
            )
        }
    }
}

fn nodes(facts: &Facts) -> Finding {
    let check = "nodes";
    let Some(nodes) = &facts.nodes else {
        return unseen(check, "nodes");
    };
    let ready = nodes.iter().filter(|node| node.ready).count();
    let away: Vec<&str> = nodes
        .iter()
        .filter(|node| !node.ready)
        .map(|node| node.name.as_str())
        .collect();
    if ready == 0 {
        let found = format!("none of {} nodes is Ready", nodes.len());
        return found_that(check, Verdict::Fault, found, "`kubectl describe nodes` says why");
    }
    if !away.is_empty() {
        let found = format!("{ready} Ready; not Ready: {}", away.join(", "));
        return found_that(check, Verdict::Warning, found, "`kubectl describe node` says why");
    }
    let hosts = nodes
        .iter()
        .filter(|node| node.labels.contains_key(HYPERVISOR))
        .count();
    match hosts {
        0 => found_that(
            check,
            Verdict::Warning,
            format!("{ready} Ready, none of them a hypervisor"),
            format!("kubectl label node NODE {HYPERVISOR}=, unless hypervisors are in another cluster"),
        ),
        hosts => fine(check, format!("{ready} Ready, {hosts} of them hypervisors")),
    }
}

fn clocks(facts: &Facts) -> Finding {
    let check = "clocks";
    let mut off = Vec::new();
    if let Some(skew) = facts.skew.filter(|skew| skew.abs() > SKEW) {
        off.push(format!(
            "the API server's clock is {skew} s ahead of this machine's"
        ));
    }
    for node in facts.nodes.iter().flatten().filter(|node| node.ready) {
        match node.ahead {
            Some(ahead) if ahead > SKEW => off.push(format!("the clock of {} is {ahead} s ahead", node.name)),
            Some(ahead) if ahead < -SILENT => off.push(format!("the clock of {} is behind", node.name)),
            _ => {}
        }
    }
    if !off.is_empty() {
        return found_that(
            check,
            Verdict::Warning,
            off.join("; "),
            "synchronize the clocks of all machines (NTP): tokens and certificates depend on them",
        );
    }
    if facts.skew.is_none() {
        return found_that(
            check,
            Verdict::Warning,
            "the API server does not report its time",
            "check that the clocks of all machines are synchronized (NTP)",
        );
    }
    fine(check, "they agree")
}

/// Services run as anybody may; switches and hypervisors need more.
fn security(facts: &Facts) -> Finding {
    let check = "pod security";
    let Some(namespaces) = &facts.namespaces else {
        return unseen(check, "namespaces");
    };
    let Some(labels) = namespaces.get(&facts.cloud) else {
        let found = format!("namespace {} does not exist yet", facts.cloud);
        return fine(check, found);
    };
    let level = labels.get(ENFORCE).map_or("privileged", String::as_str);
    let hosts = facts.nodes.iter().flatten();
    let hosts = hosts.filter(|node| node.labels.contains_key(HYPERVISOR)).count();
    let found = format!("{} enforces {level}", facts.cloud);
    if level == "privileged" || hosts == 0 {
        return fine(check, found);
    }
    found_that(
        check,
        Verdict::Fault,
        format!("{found}, but the pods on {hosts} hypervisor nodes need privileged"),
        format!(
            "kubectl label namespace {} {ENFORCE}=privileged --overwrite",
            facts.cloud
        ),
    )
}

fn operators(facts: &Facts) -> Finding {
    let check = OPERATORS;
    let Some(seen) = &facts.operators else {
        return unseen(check, "deployments");
    };
    let roles = roles::all();
    let whose = |state: Option<bool>| -> Vec<&str> {
        let names = roles.iter().map(|role| role.name);
        names.filter(|name| seen.get(*name).copied() == state).collect()
    };
    let (down, absent) = (whose(Some(false)), whose(None));
    let home = &facts.home;
    if !down.is_empty() {
        return found_that(
            check,
            Verdict::Fault,
            format!("no replica is running of: {}", down.join(", ")),
            format!("see `kubectl -n {home} get pods`; `c5c3 explain` says why a pod does not start"),
        );
    }
    // A cluster need not have every role.
    if !absent.is_empty() {
        return found_that(
            check,
            Verdict::Warning,
            format!("not installed: {}", absent.join(", ")),
            format!("helm install c5c3 deploy/charts/control-plane -n {home}, and deploy/charts/hypervisor"),
        );
    }
    fine(check, format!("all {} are running", roles.len()))
}

fn images(facts: &Facts) -> Vec<Finding> {
    let check = "images";
    let mut all = Vec::new();
    match &facts.registry {
        None => {}
        Some((name, Ok(()))) => all.push(fine(check, format!("{name} can be reached from this machine"))),
        Some((name, Err(why))) => {
            let found = format!("{name} cannot be reached from this machine: {why}");
            let way_out = "use a registry that nodes can reach: --set registry=…, spec.global.imageRegistry";
            all.push(found_that(check, Verdict::Warning, found, way_out));
        }
    }
    if !facts.pulls.is_empty() {
        let found = format!("nodes cannot pull: {}", facts.pulls.join(", "));
        let way_out = "c5c3 image push --to REGISTRY/PATH, then set registry of the charts and, if needed, imagePullSecrets";
        all.push(found_that(check, Verdict::Fault, found, way_out));
    }
    all
}

fn unseen(check: &'static str, what: &str) -> Finding {
    let found = format!("no permission to list {what}");
    found_that(
        check,
        Verdict::Warning,
        found,
        "use an account that may list them",
    )
}
