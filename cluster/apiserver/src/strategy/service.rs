//! Service addresses and node ports.

use std::{collections::BTreeSet, net::Ipv4Addr};

use apimachinery::field::{ErrorType, FieldError};
use rand::RngExt;
use serde_json::{Value, json};
use tokio::sync::Mutex;

use super::Context;
use crate::{
    cluster::Cluster,
    status::{ApiError, Result},
};

const NODE_PORTS: std::ops::RangeInclusive<i64> = 30000..=32767;
/// The first addresses are for those that are asked for by name, such as DNS and the API itself.
const RESERVED: u32 = 16;

/// The range that a cluster's Services get their addresses from.
pub struct ServiceNetwork {
    base: u32,
    size: u32,
    writes: Mutex<()>,
}

impl ServiceNetwork {
    pub fn new(base: Ipv4Addr, prefix: u8) -> Self {
        let size = 1u32 << (32 - u32::from(prefix.clamp(8, 28)));
        Self {
            base: u32::from(base) & !(size - 1),
            size,
            writes: Mutex::new(()),
        }
    }

    /// Held while a Service is written: addresses are given out one at a time.
    pub fn writes(&self) -> &Mutex<()> {
        &self.writes
    }

    /// The address at which the API answers inside the cluster.
    pub fn first(&self) -> Ipv4Addr {
        Ipv4Addr::from(self.base + 1)
    }

    fn contains(&self, address: Ipv4Addr) -> bool {
        let offset = u32::from(address).wrapping_sub(self.base);
        offset > 0 && offset < self.size - 1
    }

    /// A free address: random first, then in order.
    fn free(&self, taken: &BTreeSet<Ipv4Addr>) -> Option<Ipv4Addr> {
        let reserved = RESERVED.min(self.size / 4);
        let mut random = rand::rng();
        let tried = (0..16)
            .map(|_| random.random_range(reserved..self.size - 1))
            .collect::<Vec<_>>();
        tried
            .into_iter()
            .chain(reserved..self.size - 1)
            .map(|offset| Ipv4Addr::from(self.base + offset))
            .find(|address| !taken.contains(address))
    }
}

struct Taken {
    addresses: BTreeSet<Ipv4Addr>,
    ports: BTreeSet<i64>,
}

fn taken(cluster: &Cluster, except: &Value) -> Taken {
    let mut taken = Taken {
        addresses: BTreeSet::new(),
        ports: BTreeSet::new(),
    };
    for service in cluster.list("", "services", None).objects {
        let service = service.value();
        if service["metadata"]["uid"] == *except {
            continue;
        }
        for address in service["spec"]["clusterIPs"].as_array().into_iter().flatten() {
            taken
                .addresses
                .extend(address.as_str().and_then(|text| text.parse::<Ipv4Addr>().ok()));
        }
        for port in service["spec"]["ports"].as_array().into_iter().flatten() {
            taken.ports.extend(port["nodePort"].as_i64());
        }
    }
    taken
}

pub(super) fn prepare(context: &Context<'_>, object: &mut Value, old: Option<&Value>) -> Result<()> {
    if context.subresource == "status" || !object["spec"].is_object() {
        return Ok(());
    }
    let kind = object["spec"]["type"].as_str().unwrap_or("ClusterIP").to_owned();
    let spec = &mut object["spec"];
    if let Some(old) = old {
        drop_of_old_type(spec, &old["spec"]);
    }
    if kind == "ExternalName" {
        for field in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ] {
            if let Some(map) = spec.as_object_mut() {
                map.remove(field);
            }
        }
        return Ok(());
    }
    // An update that leaves out what the server gave keeps it.
    if let Some(old) = old {
        for field in [
            "clusterIP",
            "clusterIPs",
            "ipFamilies",
            "ipFamilyPolicy",
            "internalTrafficPolicy",
        ] {
            if spec[field].is_null() && !old["spec"][field].is_null() {
                spec[field] = old["spec"][field].clone();
            }
        }
        if kind != "ClusterIP" {
            keep_node_ports(spec, &old["spec"]);
        }
    }
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if port.is_object() && port["targetPort"].is_null() {
            port["targetPort"] = port["port"].clone();
        }
    }
    let uid = object["metadata"]["uid"].clone();
    let taken = taken(context.cluster, &uid);
    address(context, object, &taken)?;
    let spec = &mut object["spec"];
    if spec["internalTrafficPolicy"].is_null() {
        spec["internalTrafficPolicy"] = "Cluster".into();
    }
    if spec["ipFamilies"].is_null() {
        spec["ipFamilies"] = json!(["IPv4"]);
    }
    if spec["ipFamilyPolicy"].is_null() {
        spec["ipFamilyPolicy"] = "SingleStack".into();
    }
    if spec["sessionAffinity"] == "ClientIP" && spec["sessionAffinityConfig"].is_null() {
        spec["sessionAffinityConfig"] = json!({"clientIP": {"timeoutSeconds": 10800}});
    }
    if kind == "NodePort" || kind == "LoadBalancer" {
        if spec["externalTrafficPolicy"].is_null() {
            spec["externalTrafficPolicy"] = "Cluster".into();
        }
        if kind == "LoadBalancer" && spec["allocateLoadBalancerNodePorts"].is_null() {
            spec["allocateLoadBalancerNodePorts"] = true.into();
        }
        node_ports(spec, &taken);
    }
    Ok(())
}

/// Another type has no use for what the old one was given; what the user changed stays, to be
/// refused.
fn drop_of_old_type(spec: &mut Value, old: &Value) {
    let outside = |spec: &Value| matches!(spec["type"].as_str(), Some("NodePort" | "LoadBalancer"));
    let ports = |spec: &Value| -> Vec<Value> {
        let list = spec["ports"].as_array().into_iter().flatten();
        list.map(|port| port["nodePort"].clone()).collect()
    };
    if outside(old) && !outside(spec) {
        if ports(old) == ports(spec) {
            for port in spec["ports"].as_array_mut().into_iter().flatten() {
                if let Some(map) = port.as_object_mut() {
                    map.remove("nodePort");
                }
            }
        }
        drop_same(spec, old, "externalTrafficPolicy");
    }
    if old["type"] == "LoadBalancer" && spec["type"] != "LoadBalancer" {
        drop_same(spec, old, "allocateLoadBalancerNodePorts");
        drop_same(spec, old, "loadBalancerClass");
    }
}

fn drop_same(spec: &mut Value, old: &Value, field: &str) {
    if spec[field] == old[field]
        && let Some(map) = spec.as_object_mut()
    {
        map.remove(field);
    }
}

fn keep_node_ports(spec: &mut Value, old: &Value) {
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        let same = |other: &&Value| other["port"] == port["port"] && other["protocol"] == port["protocol"];
        let before = old["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .find(same)
            .map(|other| other["nodePort"].clone());
        if port["nodePort"].is_null()
            && let Some(before) = before.filter(|before| !before.is_null())
        {
            port["nodePort"] = before;
        }
    }
}

fn address(context: &Context<'_>, object: &mut Value, taken: &Taken) -> Result<()> {
    let name = object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    let spec = &mut object["spec"];
    let asked = spec["clusterIP"]
        .as_str()
        .filter(|text| !text.is_empty())
        .map(str::to_owned);
    let refuse = |value: &str, detail: String| {
        ApiError::invalid(
            "",
            "Service",
            &name,
            vec![crate::status::Cause {
                reason: ErrorType::Invalid.into(),
                message: format!("Invalid value: {value:?}: {detail}"),
                field: "spec.clusterIPs".into(),
            }],
        )
    };
    let network = &context.cluster.services;
    let address = match asked.as_deref() {
        Some("None") => "None".to_owned(),
        Some(text) => match text.parse::<Ipv4Addr>() {
            Err(_) => return Err(refuse(text, "must be an IPv4 address or \"None\"".into())),
            Ok(address) if !network.contains(address) => {
                let detail = "failed to allocate IP: the provided IP is not in the valid range".to_owned();
                return Err(refuse(text, detail));
            }
            Ok(address) if taken.addresses.contains(&address) => {
                return Err(refuse(
                    text,
                    "failed to allocate IP: provided IP is already allocated".into(),
                ));
            }
            Ok(address) => address.to_string(),
        },
        None => match network.free(&taken.addresses) {
            Some(address) => address.to_string(),
            None => {
                return Err(ApiError::internal(
                    "failed to allocate a serviceIP: range is full",
                ));
            }
        },
    };
    spec["clusterIPs"] = json!([address]);
    spec["clusterIP"] = address.into();
    Ok(())
}

fn node_ports(spec: &mut Value, taken: &Taken) {
    if spec["allocateLoadBalancerNodePorts"] == false {
        return;
    }
    let mut used = taken.ports.clone();
    used.extend(
        spec["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|port| port["nodePort"].as_i64()),
    );
    let mut random = rand::rng();
    for port in spec["ports"].as_array_mut().into_iter().flatten() {
        if !port.is_object() || port["nodePort"].as_i64().is_some_and(|number| number > 0) {
            continue;
        }
        let start = random.random_range(NODE_PORTS);
        let free = (start..=*NODE_PORTS.end())
            .chain(*NODE_PORTS.start()..start)
            .find(|port| !used.contains(port));
        if let Some(free) = free {
            used.insert(free);
            port["nodePort"] = free.into();
        }
    }
}

pub(super) fn validate(context: &Context<'_>, object: &Value, old: Option<&Value>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let spec = &object["spec"];
    let kind = spec["type"].as_str().unwrap_or_default();
    let ports = spec["ports"].as_array().map(Vec::as_slice).unwrap_or_default();
    if ports.is_empty() && kind != "ExternalName" && spec["clusterIP"] != "None" {
        errors.push(FieldError::required("spec.ports", ""));
    }
    let taken = taken(context.cluster, &object["metadata"]["uid"]);
    errors.extend(port_errors(kind, ports, &taken.ports));
    if kind == "ExternalName" && spec["externalName"].as_str().is_none_or(str::is_empty) {
        errors.push(FieldError::required("spec.externalName", ""));
    }
    if let Some(old) = old {
        let before = old["spec"]["clusterIP"].as_str().unwrap_or_default();
        let stays = kind != "ExternalName" && old["spec"]["type"] != "ExternalName";
        if stays && !before.is_empty() && spec["clusterIP"] != before {
            let value = json!([spec["clusterIP"]]);
            errors.push(FieldError::invalid(
                "spec.clusterIPs[0]",
                value,
                "may not change once set",
            ));
        }
    }
    errors
}

/// Numbers, names, and what must be there once: the nodes' rules have one place for each.
fn port_errors(kind: &str, ports: &[Value], taken: &BTreeSet<i64>) -> Vec<FieldError> {
    let mut errors = Vec::new();
    let mut names: Vec<&str> = Vec::new();
    let (mut fronts, mut outside) = (BTreeSet::new(), BTreeSet::new());
    for (i, port) in ports.iter().enumerate() {
        let number = port["port"].as_i64().unwrap_or(0);
        if !(1..=65535).contains(&number) {
            let detail = "must be between 1 and 65535, inclusive";
            errors.push(FieldError::invalid(
                format!("spec.ports[{i}].port"),
                number,
                detail,
            ));
        }
        let path = format!("spec.ports[{i}].name");
        let name = port["name"].as_str().unwrap_or_default();
        if name.is_empty() {
            if ports.len() > 1 {
                errors.push(FieldError::required(path, ""));
            }
        } else {
            let faults = apimachinery::names::dns1123_label(name);
            errors.extend(
                faults
                    .into_iter()
                    .map(|fault| FieldError::invalid(&path, name, fault)),
            );
            if names.contains(&name) {
                errors.push(FieldError::duplicate(path, name));
            }
        }
        names.push(name);
        let protocol = port["protocol"].as_str().unwrap_or("TCP");
        if !fronts.insert((protocol, number)) {
            // The server shows its own type here.
            let shown = format!(
                "{{\"Name\":\"\",\"Protocol\":{},\"AppProtocol\":null,\"Port\":{number},\"TargetPort\":0,\"NodePort\":0}}",
                json!(protocol)
            );
            let key = json!({"port": number, "protocol": protocol});
            errors.push(FieldError::duplicate(format!("spec.ports[{i}]"), key).showing(shown));
        }
        let Some(node_port) = port["nodePort"].as_i64().filter(|&port| port != 0) else {
            continue;
        };
        let path = format!("spec.ports[{i}].nodePort");
        if kind == "ClusterIP" {
            errors.push(FieldError::forbidden(
                path,
                "may not be used when `type` is 'ClusterIP'",
            ));
        } else if !outside.insert((protocol, node_port)) {
            errors.push(FieldError::duplicate(path, node_port));
        } else if !NODE_PORTS.contains(&node_port) {
            let detail = "provided port is not in the valid range. The range of valid ports is 30000-32767";
            errors.push(FieldError::invalid(path, node_port, detail));
        } else if taken.contains(&node_port) {
            errors.push(FieldError::invalid(
                path,
                node_port,
                "provided port is already allocated",
            ));
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_type_drops_what_the_old_one_was_given() {
        let old = json!({ "type": "LoadBalancer", "allocateLoadBalancerNodePorts": true,
            "externalTrafficPolicy": "Cluster", "ports": [{ "port": 80, "nodePort": 30080 }] });
        let change = |kind: &str, port: i64| {
            let mut spec = old.clone();
            spec["type"] = kind.into();
            spec["ports"][0]["nodePort"] = port.into();
            drop_of_old_type(&mut spec, &old);
            spec
        };
        assert_eq!(
            change("ClusterIP", 30080),
            json!({ "type": "ClusterIP", "ports": [{ "port": 80 }] })
        );
        // The user asked for it: validation says no.
        assert_eq!(change("ClusterIP", 30081)["ports"][0]["nodePort"], 30081);
        let node_port = change("NodePort", 30080);
        assert_eq!(node_port["ports"][0]["nodePort"], 30080);
        assert_eq!(node_port["externalTrafficPolicy"], "Cluster");
        assert!(node_port["allocateLoadBalancerNodePorts"].is_null());
    }

    #[test]
    fn ports_that_would_meet_are_refused() {
        let said = |ports: Value| -> Vec<String> {
            let ports = ports.as_array().unwrap().clone();
            let errors = port_errors("NodePort", &ports, &BTreeSet::from([30001]));
            errors.iter().map(ToString::to_string).collect()
        };
        assert!(
            said(
                json!([{"name": "a", "port": 53, "nodePort": 30053, "protocol": "TCP"},
                {"name": "b", "port": 53, "nodePort": 30053, "protocol": "UDP"}])
            )
            .is_empty()
        );
        assert_eq!(
            said(
                json!([{"name": "a", "port": 80, "nodePort": 30080}, {"name": "b", "port": 80, "protocol": "TCP"},
                {"name": "c", "port": 81, "nodePort": 30080}, {"name": "a", "port": 82, "nodePort": 30001}])
            ),
            [
                r#"spec.ports[1]: Duplicate value: {"Name":"","Protocol":"TCP","AppProtocol":null,"Port":80,"TargetPort":0,"NodePort":0}"#,
                "spec.ports[2].nodePort: Duplicate value: 30080",
                r#"spec.ports[3].name: Duplicate value: "a""#,
                "spec.ports[3].nodePort: Invalid value: 30001: provided port is already allocated",
            ]
        );
        let bad = said(json!([{"name": "a\"b", "port": 80}]));
        assert!(
            bad[0].starts_with(r#"spec.ports[0].name: Invalid value: "a\"b": a lowercase RFC 1123 label"#),
            "{bad:?}"
        );
    }
}
