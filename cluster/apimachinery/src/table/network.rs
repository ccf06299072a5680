//! Cells of the network kinds.

use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::cells::{Fields, first_three, labels, or, selector};

pub(super) fn cell(kind: &str, column: &str, object: &Value) -> Option<Value> {
    Some(match (kind, column) {
        ("Service", "Type") => json!(object.text("/spec/type")),
        ("Service", "Cluster-IP") => {
            let single = object.text("/spec/clusterIP");
            json!(or(or(object.text("/spec/clusterIPs/0"), single), "<none>"))
        }
        ("Service", "External-IP") => json!(external_ip(object)),
        ("Service", "Port(s)") => json!(ports(object)),
        ("Service", "Selector") => json!(labels(object.at("/spec/selector"))),
        ("Endpoints", "Endpoints") => json!(endpoints(object)),
        ("EndpointSlice", "Ports") => json!(slice_ports(object)),
        ("EndpointSlice", "Endpoints") => {
            let addresses = object
                .items("/endpoints")
                .iter()
                .flat_map(|e| e.items("/addresses"));
            let addresses: Vec<_> = addresses.map(|a| a.text("").to_string()).collect();
            json!(first_three(&addresses, "<unset>"))
        }
        ("Ingress", "Class") => json!(object.at("/spec/ingressClassName").as_str().unwrap_or("<none>")),
        ("Ingress", "Hosts") => json!(hosts(object)),
        ("Ingress", "Address") => json!(load_balancer(object)),
        ("Ingress", "Ports") if object.items("/spec/tls").is_empty() => json!("80"),
        ("Ingress", "Ports") => json!("80, 443"),
        ("IngressClass", "Name") => {
            let default = "/metadata/annotations/ingressclass.kubernetes.io~1is-default-class";
            let mark = if object.text(default) == "true" {
                " (default)"
            } else {
                ""
            };
            json!(format!("{}{mark}", object.text("/metadata/name")))
        }
        ("IngressClass", "Parameters") => json!(parameters(object.at("/spec/parameters"))),
        ("NetworkPolicy", "Pod-Selector") => json!(selector(object.at("/spec/podSelector"))),
        ("IPAddress", "ParentRef") => json!(parent(object.at("/spec/parentRef"))),
        ("ServiceCIDR", "CIDRs") => json!(super::cells::joined(object.items("/spec/cidrs"), "")),
        _ => return None,
    })
}

fn external_ip(service: &Value) -> String {
    let external = super::cells::joined(service.items("/spec/externalIPs"), "");
    match service.text("/spec/type") {
        "ClusterIP" | "NodePort" => or(&external, "<none>").to_string(),
        "LoadBalancer" => match (load_balancer(service).as_str(), external.as_str()) {
            ("", "") => "<pending>".to_string(),
            (balancer, "") => balancer.to_string(),
            ("", external) => external.to_string(),
            (balancer, external) => format!("{balancer},{external}"),
        },
        "ExternalName" => service.text("/spec/externalName").to_string(),
        _ => "<unknown>".to_string(),
    }
}

fn load_balancer(object: &Value) -> String {
    let addresses: BTreeSet<&str> = object
        .items("/status/loadBalancer/ingress")
        .iter()
        .map(|ingress| or(ingress.text("/ip"), ingress.text("/hostname")))
        .filter(|address| !address.is_empty())
        .collect();
    addresses.into_iter().collect::<Vec<_>>().join(",")
}

fn ports(service: &Value) -> String {
    let port = |port: &Value| {
        let (number, protocol) = (port.number("/port"), or(port.text("/protocol"), "TCP"));
        match port.number("/nodePort") {
            0 => format!("{number}/{protocol}"),
            node => format!("{number}:{node}/{protocol}"),
        }
    };
    let ports: Vec<_> = service.items("/spec/ports").iter().map(port).collect();
    or(&ports.join(","), "<none>").to_string()
}

fn endpoints(object: &Value) -> String {
    let mut list = Vec::new();
    for subset in object.items("/subsets") {
        let addresses = subset.items("/addresses").iter().map(|a| a.text("/ip"));
        if subset.items("/ports").is_empty() {
            list.extend(addresses.map(str::to_string));
            continue;
        }
        for port in subset.items("/ports") {
            let port = port.number("/port");
            list.extend(addresses.clone().map(|ip| {
                if ip.contains(':') {
                    format!("[{ip}]:{port}")
                } else {
                    format!("{ip}:{port}")
                }
            }));
        }
    }
    let none = if object.items("/subsets").is_empty() {
        "<none>"
    } else {
        ""
    };
    first_three(&list, none)
}

fn slice_ports(slice: &Value) -> String {
    let port = |port: &Value| match port.at("/port").as_i64() {
        Some(number) => number.to_string(),
        None => port.at("/name").as_str().unwrap_or("*").to_string(),
    };
    let ports: Vec<_> = slice.items("/ports").iter().map(port).collect();
    first_three(&ports, "<unset>")
}

fn hosts(ingress: &Value) -> String {
    let hosts: Vec<_> = ingress
        .items("/spec/rules")
        .iter()
        .map(|rule| rule.text("/host").to_string())
        .filter(|host| !host.is_empty())
        .collect();
    first_three(&hosts, "*")
}

fn parameters(parameters: &Value) -> String {
    if parameters.is_null() {
        return "<none>".to_string();
    }
    let (kind, name) = (parameters.text("/kind"), parameters.text("/name"));
    match parameters.at("/apiGroup").as_str() {
        Some(group) => format!("{kind}.{group}/{name}"),
        None => format!("{kind}/{name}"),
    }
}

fn parent(reference: &Value) -> String {
    if reference.is_null() {
        return "<none>".to_string();
    }
    let resource = reference.text("/resource").to_lowercase();
    let mut text = match reference.text("/group") {
        "" => resource,
        group => format!("{resource}.{group}"),
    };
    for part in [reference.text("/namespace"), reference.text("/name")] {
        if !part.is_empty() {
            text = format!("{text}/{part}");
        }
    }
    text
}
