use super::*;
use serde_json::json;

fn parse(body: &serde_json::Value) -> Result<(Vec<String>, Spec, String), BadRequest> {
    let text = body.to_string();
    let request = Request::parse(SchedulingDomain::Nova, text.as_bytes())?;
    let hosts = request
        .hosts
        .iter()
        .map(|(host, weight)| format!("{host}={weight}"));
    Ok((
        hosts.collect(),
        request.spec.clone(),
        request.pipeline().unwrap_or_default(),
    ))
}

fn body(hosts: &[&str], weights: &serde_json::Value, data: &serde_json::Value) -> serde_json::Value {
    let hosts: Vec<_> = hosts
        .iter()
        .map(|host| json!({"host": host, "hypervisor_hostname": format!("{host}.example")}))
        .collect();
    json!({
        "spec": {"nova_object.name": "RequestSpec", "nova_object.version": "1.14", "nova_object.data": data},
        "context": {"user": "u"}, "hosts": hosts, "weights": weights, "unknown": [1],
    })
}

#[test]
fn hosts_and_weights_are_joined_in_whatever_order_they_come() {
    let (hosts, ..) = parse(&body(&["b", "a"], &json!({"a": 1.5, "b": 2}), &json!({}))).expect("parses");
    assert_eq!(hosts, ["b=2", "a=1.5"]);
    // A compute with several nodes is one host.
    let (hosts, ..) = parse(&body(&["a", "a"], &json!({"a": 1}), &json!({}))).expect("parses");
    assert_eq!(hosts, ["a=1"]);
    let escaped = br#"{"spec":{"nova_object.data":{}},"hosts":[{"host":"\u0061"}],"weights":{"a":1}}"#;
    let request = Request::parse(SchedulingDomain::Nova, escaped).expect("parses");
    assert_eq!(request.hosts, [(Cow::Borrowed("a"), 1.0)]);
}

#[test]
fn hosts_and_weights_must_match_both_ways() {
    let told = |hosts: &[&str], weights| parse(&body(hosts, &weights, &json!({}))).expect_err("refused");
    assert_eq!(
        told(&["a", "b"], json!({"a": 1})),
        BadRequest::NoWeight("b".into())
    );
    assert_eq!(
        told(&["a"], json!({"a": 1, "c": 1})),
        BadRequest::NoHost("c".into())
    );
    assert!(matches!(told(&["a"], json!([1])), BadRequest::Json(_)));
}

#[test]
fn the_spec_is_read_through_its_wrappers() {
    let data = json!({
        "project_id": "p", "instance_uuid": "i", "availability_zone": "z", "num_instances": 2,
        "scheduler_hints": {"_nova_check_type": ["live_migrate"], "source_host": ["h1"], "domain_name": "iaas-x"},
        "ignore_hosts": ["x"], "force_hosts": null,
        "image": {"nova_object.data": {"properties": {"nova_object.data": {"img_hv_type": "VMware"}}}},
        "flavor": {"nova_object.data": {"memory_mb": 512, "vcpus": 1,
            "extra_specs": {"quota:hw_version": "v2", "capabilities:hypervisor_type": "QEMU"}}},
        "instance_group": {"nova_object.data": {"policy": "anti-affinity", "members": ["m"], "hosts": [],
            "_rules": {"max_server_per_host": "3"}}},
        "requested_destination": {"nova_object.data": {"host": "h2", "aggregates": ["a,b"]}},
    });
    let (_, spec, pipeline) = parse(&body(&[], &json!({}), &data)).expect("parses");
    assert_eq!(
        (spec.intent, spec.source_host.as_deref()),
        (Intent::LiveMigrate, Some("h1"))
    );
    assert_eq!(
        (spec.image, spec.zone.as_deref()),
        (ImageType::Foreign, Some("z"))
    );
    assert_eq!((spec.flavor.memory_mb, spec.num_instances), (512, 2));
    assert_eq!(spec.group.expect("a group").max_per_host, 3);
    assert_eq!(spec.destination.expect("a destination").aggregates, ["a,b"]);
    assert_eq!(
        (spec.resource_group.as_deref(), pipeline.as_str()),
        (Some("v2"), "kvm-general-purpose-load-balancing")
    );
}

#[test]
fn pipelines_follow_from_the_flavour() {
    for (hypervisor, hana, expected) in [
        (Some("QEMU"), None, Some("kvm-general-purpose-load-balancing")),
        (Some("ch"), Some("required"), Some("kvm-hana-bin-packing")),
        (
            Some("qemu"),
            Some("forbidden"),
            Some("kvm-general-purpose-load-balancing"),
        ),
        (
            Some("VMware vCenter Server"),
            Some("required"),
            Some("vmware-hana-bin-packing"),
        ),
        (Some("qemu"), Some("maybe"), None),
        (Some("hyper-v"), None, None),
        (None, None, None),
    ] {
        let mut specs = BTreeMap::new();
        if let Some(value) = hypervisor {
            specs.insert("capabilities:hypervisor_type".to_owned(), value.to_owned());
        }
        if let Some(value) = hana {
            specs.insert("trait:CUSTOM_HANA_EXCLUSIVE_HOST".to_owned(), value.to_owned());
        }
        assert_eq!(inferred(&specs).ok().as_deref(), expected, "{specs:?}");
    }
}

#[test]
fn a_user_cannot_pass_for_cortex_by_a_hint() {
    for hint in [
        "capacity_probe",
        "reserve_for_failover",
        "reserve_for_committed_resource",
    ] {
        let data = json!({"scheduler_hints": {"_nova_check_type": hint}});
        let (_, spec, _) = parse(&body(&[], &json!({}), &data)).expect("parses");
        assert_eq!(spec.intent, Intent::Create);
    }
}

#[test]
fn specs_of_cinder_have_no_shape() {
    let text =
        json!({"spec": {"volume_id": "v", "x": [1]}, "hosts": [{"host": "h@b#p"}], "weights": {"h@b#p": 1}});
    let text = text.to_string();
    let request = Request::parse(SchedulingDomain::Cinder, text.as_bytes()).expect("parses");
    assert_eq!(
        (
            request.spec.instance.as_str(),
            request.pipeline().expect("one").as_str()
        ),
        ("v", "cinder")
    );
}

/// As Nova 32.2.1 writes it: taken from its own scheduler with our filter.
#[test]
fn a_question_of_a_real_nova_is_understood() {
    let body = include_bytes!("nova_32.json");
    let request = Request::parse(SchedulingDomain::Nova, body).expect("parses");
    assert_eq!(request.hosts.len(), 3);
    let spec = &request.spec;
    assert_eq!(
        (spec.flavor.vcpus, spec.flavor.memory_mb, spec.project.as_str()),
        (1, 64, "p")
    );
    let group = spec.group.as_ref().expect("a group");
    assert_eq!(
        (group.policy.as_str(), group.max_per_host, group.members.len()),
        ("anti-affinity", 2, 1)
    );
    assert_eq!(
        (request.pipeline().expect("named").as_str(), spec.zone.as_ref()),
        ("kvm-general-purpose-load-balancing", None)
    );
}
