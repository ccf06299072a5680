//! A pod's sandbox as the runtime takes it.

use std::collections::HashMap;
use std::path::Path;

use k8s_cri::v1::{
    DnsConfig, LinuxPodSandboxConfig, PodSandboxConfig, PodSandboxMetadata, PortMapping, Protocol,
};
use k8s_openapi::api::core::v1::{Pod, PodSpec};

use crate::pods::observe::view;
use crate::pods::start::names;
use crate::pods::start::security;

/// How names are resolved in the cluster.
#[derive(Clone, Debug)]
pub struct Dns {
    pub server: String,
    pub domain: String,
}

/// Directory of a pod's logs, named as other kubelets name it.
pub fn log_directory(root: &Path, pod: &Pod) -> String {
    root.join(format!(
        "{}_{}_{}",
        view::namespace(pod),
        view::name(pod),
        view::uid(pod)
    ))
    .to_string_lossy()
    .into_owned()
}

pub fn cgroup(pod: &Pod) -> String {
    format!("/pods/{}", view::uid(pod))
}

pub fn hostname(pod: &Pod, spec: &PodSpec) -> String {
    if spec.host_network == Some(true) {
        // The runtime refuses a name where the node's own is shared.
        return String::new();
    }
    let name = spec.hostname.as_deref().unwrap_or_else(|| view::name(pod));
    let cut: String = name.chars().take(63).collect();
    cut.trim_end_matches(['-', '.']).to_owned()
}

pub fn config(pod: &Pod, spec: &PodSpec, attempt: u32, logs: &Path, dns: &Dns) -> PodSandboxConfig {
    PodSandboxConfig {
        metadata: Some(PodSandboxMetadata {
            name: view::name(pod).into(),
            uid: view::uid(pod).into(),
            namespace: view::namespace(pod).into(),
            attempt,
        }),
        hostname: hostname(pod, spec),
        log_directory: log_directory(logs, pod),
        dns_config: Some(resolver(pod, spec, dns)),
        port_mappings: ports(spec),
        labels: labels(pod),
        annotations: HashMap::from([(
            names::GRACE.to_owned(),
            spec.termination_grace_period_seconds.unwrap_or(30).to_string(),
        )]),
        linux: Some(LinuxPodSandboxConfig {
            cgroup_parent: cgroup(pod),
            security_context: Some(security::sandbox(spec)),
            sysctls: spec
                .security_context
                .iter()
                .flat_map(|c| c.sysctls.iter().flatten())
                .map(|s| (s.name.clone(), s.value.clone()))
                .collect(),
            ..LinuxPodSandboxConfig::default()
        }),
        ..PodSandboxConfig::default()
    }
}

pub fn labels(pod: &Pod) -> HashMap<String, String> {
    let own = pod.metadata.labels.iter().flatten();
    own.map(|(k, v)| (k.clone(), v.clone()))
        .chain([
            (names::POD_NAME.into(), view::name(pod).into()),
            (names::POD_NAMESPACE.into(), view::namespace(pod).into()),
            (names::POD_UID.into(), view::uid(pod).into()),
        ])
        .collect()
}

/// Host ports; in the host's network they are the container's own.
fn ports(spec: &PodSpec) -> Vec<PortMapping> {
    if spec.host_network == Some(true) {
        return Vec::new();
    }
    view::all_containers(spec)
        .flat_map(|c| c.ports.iter().flatten())
        .filter_map(|p| {
            Some(PortMapping {
                protocol: match p.protocol.as_deref() {
                    Some("UDP") => Protocol::Udp.into(),
                    Some("SCTP") => Protocol::Sctp.into(),
                    _ => Protocol::Tcp.into(),
                },
                container_port: p.container_port,
                host_port: p.host_port.filter(|p| *p > 0)?,
                host_ip: p.host_ip.clone().unwrap_or_default(),
            })
        })
        .collect()
}

/// `dnsPolicy` and `dnsConfig`. A node has no resolver of its own, so "Default" is empty.
pub fn resolver(pod: &Pod, spec: &PodSpec, dns: &Dns) -> DnsConfig {
    let Dns { server, domain } = dns;
    let cluster = match spec.dns_policy.as_deref() {
        None | Some("ClusterFirst") => spec.host_network != Some(true),
        Some("ClusterFirstWithHostNet") => true,
        _ => false,
    };
    let mut made = if cluster {
        DnsConfig {
            servers: vec![server.clone()],
            searches: vec![
                format!("{}.svc.{domain}", view::namespace(pod)),
                format!("svc.{domain}"),
                domain.clone(),
            ],
            options: vec!["ndots:5".into()],
        }
    } else {
        DnsConfig::default()
    };
    if let Some(own) = &spec.dns_config {
        for (to, from) in [
            (&mut made.servers, &own.nameservers),
            (&mut made.searches, &own.searches),
        ] {
            for value in from.iter().flatten() {
                if !to.contains(value) {
                    to.push(value.clone());
                }
            }
        }
        for option in own.options.iter().flatten() {
            let name = option.name.clone().unwrap_or_default();
            made.options
                .retain(|o| o.split(':').next() != Some(name.as_str()));
            made.options.push(match &option.value {
                Some(value) => format!("{name}:{value}"),
                None => name,
            });
        }
    }
    made
}

/// The file at /etc/hosts of every container of the pod.
pub fn hosts(pod: &Pod, spec: &PodSpec, address: &str, node: &str, dns: &Dns) -> String {
    // The words by which programs and people know the file as ours.
    let header = match spec.host_network {
        Some(true) => "# Kubernetes-managed hosts file (host network).\n",
        _ => "# Kubernetes-managed hosts file.\n",
    };
    let mut text = String::from(header);
    text.push_str("127.0.0.1\tlocalhost\n::1\tlocalhost ip6-localhost ip6-loopback\n");
    if spec.host_network == Some(true) {
        text.push_str(&format!("{address}\t{node}\n"));
    } else {
        let host = hostname(pod, spec);
        match &spec.subdomain {
            Some(sub) => text.push_str(&format!(
                "{address}\t{host}.{sub}.{}.svc.{}\t{host}\n",
                view::namespace(pod),
                dns.domain
            )),
            None => text.push_str(&format!("{address}\t{host}\n")),
        }
    }
    for alias in spec.host_aliases.iter().flatten() {
        let names = alias.hostnames.clone().unwrap_or_default();
        text.push_str(&format!("{}\t{}\n", alias.ip, names.join("\t")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn dns() -> Dns {
        Dns {
            server: "10.192.0.10".into(),
            domain: "cluster.local".into(),
        }
    }

    fn pod(spec: serde_json::Value) -> Pod {
        serde_json::from_value(json!({
            "metadata": { "name": "p", "namespace": "n", "uid": "u" }, "spec": spec }))
        .unwrap()
    }

    #[test]
    fn dns_policies() {
        let of = |spec| {
            let pod = pod(spec);
            resolver(&pod, pod.spec.as_ref().unwrap(), &dns())
        };
        let plain = of(json!({ "containers": [] }));
        assert_eq!(plain.servers, ["10.192.0.10"]);
        assert_eq!(plain.searches[0], "n.svc.cluster.local");
        assert!(
            of(json!({ "containers": [], "hostNetwork": true }))
                .servers
                .is_empty()
        );
        let host = of(json!({ "containers": [], "hostNetwork": true,
            "dnsPolicy": "ClusterFirstWithHostNet" }));
        assert_eq!(host.servers, ["10.192.0.10"]);
        let own = of(json!({ "containers": [], "dnsPolicy": "None", "dnsConfig": {
            "nameservers": ["1.2.3.4"], "options": [{ "name": "ndots", "value": "1" }] } }));
        assert_eq!(
            (own.servers, own.options),
            (vec!["1.2.3.4".into()], vec!["ndots:1".into()])
        );
    }

    #[test]
    fn names_of_a_stateful_pod() {
        let pod = pod(json!({ "containers": [], "hostname": "db-0", "subdomain": "db",
            "hostAliases": [{ "ip": "1.2.3.4", "hostnames": ["x", "y"] }] }));
        let text = hosts(&pod, pod.spec.as_ref().unwrap(), "10.1.1.1", "a", &dns());
        assert!(
            text.contains("10.1.1.1\tdb-0.db.n.svc.cluster.local\tdb-0\n"),
            "{text}"
        );
        assert!(text.ends_with("1.2.3.4\tx\ty\n"));
        assert!(text.starts_with("# Kubernetes-managed hosts file.\n127.0.0.1\tlocalhost\n"));
    }

    #[test]
    fn host_network_has_no_name_and_no_port_mappings() {
        let pod = pod(json!({ "hostNetwork": true, "containers": [
            { "name": "c", "ports": [{ "containerPort": 80, "hostPort": 80 }] }] }));
        let made = config(&pod, pod.spec.as_ref().unwrap(), 0, Path::new("/l"), &dns());
        assert_eq!((made.hostname.as_str(), made.port_mappings.len()), ("", 0));
        assert_eq!(made.log_directory, "/l/n_p_u");
    }
}
