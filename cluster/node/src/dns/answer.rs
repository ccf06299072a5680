//! What a name means: a pure function of Services and endpoints.

use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Service;
use kube::ResourceExt;

use crate::addresses::Addresses;
use crate::network::frontends::{Snapshot, slices_of};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question {
    Address,
    Service,
    Pointer,
    Alias,
    Any,
    Other,
}

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Value {
    Address(Ipv4Addr),
    Alias(String),
    Pointer(String),
    Service { port: u16, target: String },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Answer {
    /// The name exists; there may be nothing of the asked kind.
    Known(Vec<Value>),
    /// No such name in the cluster.
    Unknown,
    /// A name of another domain.
    Foreign,
}

/// The longest chain of aliases that is followed; a longer one is a mistake.
const DEPTH: usize = 8;

/// The records for a name, each with the name that it belongs to; none when nobody has the
/// name. An alias of a name in the cluster comes with what that name means: a resolver does not
/// ask again.
pub fn records(
    snapshot: &Snapshot,
    addresses: &Addresses,
    domain: &str,
    name: &str,
    question: Question,
) -> Option<Vec<(String, Value)>> {
    let mut all: Vec<(String, Value)> = Vec::new();
    let mut name = name.to_owned();
    for step in 0..DEPTH {
        match answer(snapshot, addresses, domain, &name, question) {
            Answer::Known(values) => all.extend(values.into_iter().map(|value| (name.clone(), value))),
            _ if step == 0 => return None,
            // The alias itself is all that is known.
            _ => break,
        }
        name = match all.last() {
            Some((_, Value::Alias(to))) if question != Question::Alias => to.clone(),
            _ => break,
        };
        if all.iter().any(|(seen, _)| seen.eq_ignore_ascii_case(&name)) {
            break;
        }
    }
    Some(all)
}

/// Answers for a full name, with or without the last dot, in any case.
pub fn answer(
    snapshot: &Snapshot,
    addresses: &Addresses,
    domain: &str,
    name: &str,
    question: Question,
) -> Answer {
    let name = name.trim_end_matches('.').to_ascii_lowercase();
    if let Some(reversed) = name.strip_suffix(".in-addr.arpa") {
        return reverse(snapshot, addresses, domain, reversed);
    }
    let inner = match name.strip_suffix(domain).map(|n| n.trim_end_matches('.')) {
        Some(inner) if inner.is_empty() || name.ends_with(&format!(".{domain}")) => inner,
        _ => return Answer::Foreign,
    };
    let parts: Vec<&str> = inner.split('.').filter(|p| !p.is_empty()).collect();
    let values = match parts.as_slice() {
        [] | ["svc" | "pod"] => Some(Vec::new()),
        [namespace, "svc" | "pod"] => known_namespace(snapshot, namespace).then(Vec::new),
        [service, namespace, "svc"] => {
            find(snapshot, namespace, service).map(|s| addresses_of(snapshot, s, None))
        }
        [port, protocol, service, namespace, "svc"] if port.starts_with('_') => {
            find(snapshot, namespace, service)
                .and_then(|s| ports_of(snapshot, s, domain, &port[1..], protocol.trim_start_matches('_')))
        }
        [member, service, namespace, "svc"] => find(snapshot, namespace, service)
            .map(|s| addresses_of(snapshot, s, Some(member)))
            .filter(|found| !found.is_empty()),
        [address, _, "pod"] => address
            .replace('-', ".")
            .parse()
            .ok()
            .map(|ip| vec![Value::Address(ip)]),
        ["dns-version"] => Some(Vec::new()),
        _ => None,
    };
    match values {
        None => Answer::Unknown,
        Some(values) => Answer::Known(values.into_iter().filter(|v| asked(v, question)).collect()),
    }
}

fn asked(value: &Value, question: Question) -> bool {
    match value {
        Value::Address(_) => matches!(question, Question::Address | Question::Any),
        // An alias answers every question.
        Value::Alias(_) => true,
        Value::Pointer(_) => matches!(question, Question::Pointer | Question::Any),
        Value::Service { .. } => matches!(question, Question::Service | Question::Any),
    }
}

fn find<'a>(snapshot: &'a Snapshot, namespace: &str, name: &str) -> Option<&'a Service> {
    snapshot
        .services
        .iter()
        .map(AsRef::as_ref)
        .find(|s| s.namespace().as_deref() == Some(namespace) && s.name_any() == name)
}

fn known_namespace(snapshot: &Snapshot, namespace: &str) -> bool {
    snapshot
        .services
        .iter()
        .any(|s| s.namespace().as_deref() == Some(namespace))
}

fn cluster_ip(service: &Service) -> Option<Ipv4Addr> {
    service.spec.as_ref()?.cluster_ip.as_ref()?.parse().ok()
}

/// Addresses of a Service, or of one of its members by host name.
fn addresses_of(snapshot: &Snapshot, service: &Service, member: Option<&str>) -> Vec<Value> {
    let spec = service.spec.clone().unwrap_or_default();
    if spec.type_.as_deref() == Some("ExternalName") {
        let to = spec.external_name.unwrap_or_default();
        return vec![Value::Alias(format!("{}.", to.trim_end_matches('.')))];
    }
    if member.is_none()
        && let Some(ip) = cluster_ip(service)
    {
        return vec![Value::Address(ip)];
    }
    let mut all: Vec<Value> = members(snapshot, service)
        .filter(|(name, ip)| member.is_none_or(|m| m == name || m == dashed(*ip)))
        .map(|(_, ip)| Value::Address(ip))
        .collect();
    all.sort();
    all.dedup();
    all
}

/// Host name and address of the endpoints that are ready.
fn members<'a>(
    snapshot: &'a Snapshot,
    service: &'a Service,
) -> impl Iterator<Item = (String, Ipv4Addr)> + 'a {
    slices_of(snapshot, service)
        .flat_map(|s| s.endpoints.iter().flatten())
        .filter(|e| e.conditions.as_ref().and_then(|c| c.ready) != Some(false))
        .flat_map(|e| {
            let ips = e.addresses.iter().filter_map(|a| a.parse().ok());
            ips.map(|ip: Ipv4Addr| (e.hostname.clone().unwrap_or_else(|| dashed(ip)), ip))
        })
}

fn dashed(ip: Ipv4Addr) -> String {
    ip.to_string().replace('.', "-")
}

/// SRV records of a named port; `None` when the Service has no such port.
fn ports_of(
    snapshot: &Snapshot,
    service: &Service,
    domain: &str,
    port: &str,
    protocol: &str,
) -> Option<Vec<Value>> {
    let spec = service.spec.as_ref()?;
    let wanted = spec.ports.iter().flatten().find(|p| {
        p.name.as_deref() == Some(port)
            && p.protocol
                .as_deref()
                .unwrap_or("TCP")
                .eq_ignore_ascii_case(protocol)
    })?;
    let base = format!(
        "{}.{}.svc.{domain}.",
        service.name_any(),
        service.namespace().unwrap_or_default()
    );
    if cluster_ip(service).is_some() {
        let port = u16::try_from(wanted.port).ok()?;
        return Some(vec![Value::Service { port, target: base }]);
    }
    let number = slices_of(snapshot, service)
        .flat_map(|s| s.ports.iter().flatten())
        .find(|p| p.name.as_deref() == Some(port))
        .and_then(|p| u16::try_from(p.port?).ok())
        .or_else(|| u16::try_from(wanted.port).ok())?;
    Some(
        members(snapshot, service)
            .map(|(name, _)| Value::Service {
                port: number,
                target: format!("{name}.{base}"),
            })
            .collect(),
    )
}

/// `2.0.191.10`: the name of the Service or member with this address.
fn reverse(snapshot: &Snapshot, addresses: &Addresses, domain: &str, reversed: &str) -> Answer {
    let parts: Vec<&str> = reversed.split('.').rev().collect();
    let Ok(ip) = parts.join(".").parse::<Ipv4Addr>() else {
        return Answer::Foreign;
    };
    let ours = [addresses.services, addresses.pods, addresses.nodes]
        .iter()
        .any(|net| ip.octets()[..2] == net[..]);
    if !ours {
        return Answer::Foreign;
    }
    for service in &snapshot.services {
        let base = format!(
            "{}.{}.svc.{domain}.",
            service.name_any(),
            service.namespace().unwrap_or_default()
        );
        if cluster_ip(service) == Some(ip) {
            return Answer::Known(vec![Value::Pointer(base)]);
        }
        let member = members(snapshot, service).find(|(_, at)| *at == ip);
        if let (Some((name, _)), None) = (member, cluster_ip(service)) {
            return Answer::Known(vec![Value::Pointer(format!("{name}.{base}"))]);
        }
    }
    Answer::Unknown
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::network::frontends::tests::snapshot;
    use proptest::prelude::*;

    fn ask(name: &str, question: Question) -> Answer {
        answer(
            &snapshot(),
            &Addresses::default(),
            "cluster.local",
            name,
            question,
        )
    }

    fn ips(list: &[&str]) -> Answer {
        Answer::Known(
            list.iter()
                .map(|ip| Value::Address(ip.parse().unwrap()))
                .collect(),
        )
    }

    #[test]
    fn names() {
        use Question::{Address, Other, Pointer, Service};
        for (name, question, expected) in [
            ("web.n.svc.cluster.local.", Address, ips(&["10.192.0.20"])),
            ("WEB.n.svc.Cluster.Local", Address, ips(&["10.192.0.20"])),
            ("web.n.svc.cluster.local", Other, Answer::Known(vec![])),
            ("no.n.svc.cluster.local", Address, Answer::Unknown),
            ("web.m.svc.cluster.local", Address, Answer::Unknown),
            ("db.n.svc.cluster.local", Address, ips(&["10.191.1.9"])),
            ("db-0.db.n.svc.cluster.local", Address, ips(&["10.191.1.9"])),
            ("db-1.db.n.svc.cluster.local", Address, Answer::Unknown),
            ("10-191-1-9.n.pod.cluster.local", Address, ips(&["10.191.1.9"])),
            ("nonsense.n.pod.cluster.local", Address, Answer::Unknown),
            ("n.svc.cluster.local", Address, Answer::Known(vec![])),
            ("example.com", Address, Answer::Foreign),
            ("notcluster.local", Address, Answer::Foreign),
            (
                "other.n.svc.cluster.local",
                Other,
                Answer::Known(vec![Value::Alias("x.example.".into())]),
            ),
            (
                "_http._tcp.web.n.svc.cluster.local",
                Service,
                Answer::Known(vec![Value::Service {
                    port: 80,
                    target: "web.n.svc.cluster.local.".into(),
                }]),
            ),
            (
                "9.1.191.10.in-addr.arpa",
                Pointer,
                Answer::Known(vec![Value::Pointer("db-0.db.n.svc.cluster.local.".into())]),
            ),
            ("1.1.1.1.in-addr.arpa", Pointer, Answer::Foreign),
        ] {
            assert_eq!(ask(name, question), expected, "{name}");
        }
    }

    #[test]
    fn aliases_inside_the_cluster_are_followed() {
        let mut all = snapshot();
        for (name, to) in [
            ("near", "web.n.svc.cluster.local"),
            ("chain", "near.n.svc.cluster.local."),
            ("round", "about.n.svc.cluster.local"),
            ("about", "round.n.svc.cluster.local"),
            ("lost", "no.n.svc.cluster.local"),
        ] {
            let service = serde_json::json!({ "metadata": { "name": name, "namespace": "n" },
                "spec": { "type": "ExternalName", "externalName": to } });
            let service = serde_json::from_value(service).unwrap();
            all.services.push(std::sync::Arc::new(service));
        }
        let texts = |name: &str, question| {
            let name = format!("{name}.n.svc.cluster.local.");
            let found = records(&all, &Addresses::default(), "cluster.local", &name, question);
            let short = |text: &str| text.replace(".n.svc.cluster.local.", "");
            found.map(|list| {
                let one = |(name, value): &(String, Value)| match value {
                    Value::Alias(to) => format!("{} is {}", short(name), short(to)),
                    Value::Address(ip) => format!("{} at {ip}", short(name)),
                    other => format!("{other:?}"),
                };
                list.iter().map(one).collect::<Vec<_>>().join(", ")
            })
        };
        let address = |name: &str| texts(name, Question::Address).unwrap_or_default();
        assert_eq!(address("web"), "web at 10.192.0.20");
        assert_eq!(address("near"), "near is web, web at 10.192.0.20");
        assert_eq!(address("chain"), "chain is near, near is web, web at 10.192.0.20");
        assert_eq!(address("round"), "round is about, about is round");
        assert_eq!(address("lost"), "lost is no");
        assert_eq!(address("other"), "other is x.example.");
        assert_eq!(texts("chain", Question::Alias).as_deref(), Some("chain is near"));
        assert_eq!(
            texts("chain", Question::Other).as_deref(),
            Some("chain is near, near is web")
        );
        assert_eq!(texts("no", Question::Address), None);
    }

    proptest! {
        #[test]
        fn no_name_is_too_strange(name in ".*") {
            let _ = ask(&name, Question::Any);
            let _ = ask(&format!("{name}.cluster.local"), Question::Any);
        }
    }
}
