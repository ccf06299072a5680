//! No field of OVN's kinds is accepted and ignored.

use c5c3_api::fields::{fields, ignored, spec_of};

use super::*;

/// All that is decided and reported about a cluster, or why it is refused.
fn digest(spec: &Value, away: bool) -> String {
    let mut cluster = cluster(1);
    cluster.spec = object(spec.clone());
    let references: Vec<String> = OvnClusters::references(&cluster)
        .iter()
        .map(ToString::to_string)
        .collect();
    let mut facts = running(&cluster, 1);
    let pem = |key: &str| (key.to_owned(), ByteString(key.as_bytes().to_vec()));
    facts.certificates = Some(["tls.crt", "tls.key", "ca.crt"].map(pem).into());
    facts.hypervisors.clone_from(&facts.certificates);
    if away {
        facts.nodes.clear();
    }
    let decided = match decide(&cluster, &facts) {
        Ok(decision) => json!(
            decision
                .wanted()
                .iter()
                .map(|one| json!([one.cluster().to_string(), one.object()]))
                .collect::<Vec<_>>()
        ),
        Err(refused) => json!(refused.to_string()),
    };
    let report = report::report(&cluster, &facts, now());
    format!(
        "{references:?} {decided} {:?} {}",
        report.states(),
        report.status_fields()
    )
}

#[test]
fn every_field_acts_or_is_refused() {
    let mut secured = json!(cluster(1).spec);
    secured["tls"] = json!({"enabled": true, "certSecretRef": {"name": "certs"}});
    let worlds = vec![json!(cluster(1).spec), secured.clone()];
    let mut apart = secured.clone();
    apart["tls"]["hypervisorSecretRef"] = json!({"name": "others"});
    let worlds = [worlds, vec![apart]].concat();
    let ignored = ignored("OVNCluster", &worlds, |spec| {
        digest(spec, false) + &digest(spec, true)
    });
    assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
}

/// An OVNChassis is written by us: what it says is what its node is told.
#[test]
fn every_field_of_a_chassis_reaches_its_node() {
    let cluster = cluster(1);
    let decision = decide(&cluster, &running(&cluster, 1)).expect("decides");
    let chassis = decision
        .wanted()
        .iter()
        .map(Wanted::object)
        .find(|one| one["kind"] == "OVNChassis")
        .expect("a chassis");
    for field in fields(&spec_of("OVNChassis").expect("a schema")) {
        let path = field
            .path
            .iter()
            .map(|name| if name == "[]" { "0" } else { name });
        let path: String = path.map(|name| format!("/{name}")).collect();
        let value = chassis["spec"].pointer(&path);
        assert!(value.is_some_and(|value| !value.is_null()), "{}", field.name());
    }
}

#[test]
fn servers_are_placed_and_all_images_are_pulled_as_the_cluster_says() {
    let mut one = cluster(1);
    one.spec.pods = object(json!({
        "imagePullSecrets": [{"name": "mirror"}], "nodeSelector": {"pool": "net"},
        "tolerations": [{"key": "net", "operator": "Exists"}], "priorityClassName": "high",
        "topologyKey": "topology.kubernetes.io/zone",
    }));
    let decision = decide(&one, &running(&one, 1)).expect("decides");
    let pod = |kind: &str, name: &str| {
        let found = decision.wanted().iter().map(Wanted::object);
        let mut found = found.filter(|one| one["kind"] == kind && one["metadata"]["name"] == name);
        found.next().expect(name)["spec"]["template"]["spec"].clone()
    };
    for (kind, name) in [
        ("StatefulSet", "ovn-nb"),
        ("StatefulSet", "ovn-sb"),
        ("Deployment", "ovn-northd"),
    ] {
        let pod = pod(kind, name);
        assert_eq!(pod["imagePullSecrets"], json!([{"name": "mirror"}]), "{name}");
        assert_eq!(pod["nodeSelector"], json!({"pool": "net"}), "{name}");
        assert_eq!(pod["tolerations"][0]["key"], "net", "{name}");
        assert_eq!(pod["priorityClassName"], "high", "{name}");
        let spread = &pod["topologySpreadConstraints"][0];
        assert_eq!(spread["topologyKey"], "topology.kubernetes.io/zone", "{name}");
    }
    // Agents stay on the hypervisors, whatever is said of servers.
    let agent = pod("DaemonSet", "ovn-controller");
    assert_eq!(agent["imagePullSecrets"], json!([{"name": "mirror"}]));
    assert_eq!(agent["nodeSelector"], json!({"role": "hypervisor"}));
    assert_eq!(agent.get("priorityClassName"), None);
}

#[test]
fn databases_listen_on_both_families() {
    let decision = decide(&cluster(3), &running(&cluster(3), 3)).expect("decides");
    let all: Vec<&Value> = decision.wanted().iter().map(Wanted::object).collect();
    let text = json!(all).to_string();
    assert!(text.contains("p$PROTOCOL:$PORT:[::]"), "{text}");
    for alone in ["0.0.0.0", "ahostsv4", "$(POD_IP):"] {
        assert!(!text.contains(alone), "{alone}");
    }
}
