use super::super::view::{Mon, Osd};
use super::*;
use serde_json::{Value, json};

const UID: &str = "9f1c";

fn facts(addresses: &[&str], view: Option<View>) -> Facts {
    let place = ExecTarget {
        namespace: "rook-ceph".to_owned(),
        pod: "mon".to_owned(),
        container: "mon",
    };
    let address = |id: &&str| ((*id).to_owned(), format!("10.0.0.{}", id.len()));
    Facts {
        members: Vec::new(),
        told: Told::default(),
        stuck: None,
        identity: Some(Identity {
            fsid: "f".to_owned(),
            mon_key: "KEY-mon".to_owned(),
            admin_key: "KEY-admin".to_owned(),
        }),
        mint: Mint {
            seed: [3; 32],
            seconds: 1,
        },
        managers: names::map(&[("a", "KEY-mgr")]),
        addresses: addresses.iter().map(address).collect(),
        seats: Seats::new(),
        exported: Some(false),
        claims: Vec::new(),
        disk_keys: names::map(&[("disks-data-0", "KEY-osd")]),
        view: Ok(view.map(|view| (place, view))),
        overridden: false,
    }
}

fn observed(mons: i32, mut facts: Facts) -> Observed<CephClusters> {
    let spec = json!({"mon": {"count": mons}, "mgr": {"count": 1}, "cephVersion": {"image": "ceph:18.2"},
        "storage": {"storageClassDeviceSets": [{"name": "disks", "count": 1,
            "volumeClaimTemplates": [{"spec": {"resources": {"requests": {"storage": "2Gi"}}}}]}]}});
    let mut object = CephCluster::new("storage", serde_json::from_value(spec).expect("a spec"));
    object.metadata.namespace = Some("rook-ceph".to_owned());
    facts.members = members::of(&object.spec, &facts.told);
    Observed {
        object,
        facts,
        now: jiff::Timestamp::UNIX_EPOCH,
    }
}

fn named(decision: &Decision<Orders>, kind: &str) -> Vec<String> {
    let of_kind = decision
        .wanted()
        .iter()
        .map(Wanted::object)
        .filter(|object| object["kind"] == kind);
    of_kind
        .filter_map(|object| Some(object["metadata"]["name"].as_str()?.to_owned()))
        .collect()
}

/// Whether what is not named goes.
fn prunes(decision: &Decision<Orders>) -> bool {
    format!("{decision:?}").contains("prune: true")
}

fn with_disk(mut facts: Facts) -> Facts {
    let mut claim = osds::disks(&observed(1, self::facts(&[], None)).object, &[])[0]
        .wanted
        .clone();
    claim.metadata.uid = Some(UID.to_owned());
    facts.claims.push(claim);
    facts
}

fn view(mons: &[&str]) -> View {
    let mut view = View::default();
    view.osds.osds.push(Osd {
        osd: 7,
        uuid: super::super::keyring::uuid(UID),
        up: 1,
    });
    view.mgrs.available = true;
    view.status.quorum_names = mons.iter().map(|id| (*id).to_owned()).collect();
    let mon = |id: &&str| Mon {
        name: (*id).to_owned(),
        ..Mon::default()
    };
    view.mons.mons = mons.iter().map(mon).collect();
    view
}

#[test]
fn daemons_follow_the_addresses_of_all_monitors() {
    let first = observed(3, facts(&["a"], None)).decide().expect("a decision");
    assert_eq!(named(&first, "Deployment"), Vec::<String>::new());
    assert_eq!(named(&first, "Service").len(), 4);
    // A cluster that grows: those that run are not named, and stay.
    let grows = observed(3, with_disk(facts(&["a"], Some(view(&["a"])))))
        .decide()
        .expect("a decision");
    assert!(!prunes(&first) && !prunes(&grows));
    let all = observed(3, with_disk(facts(&["a", "b", "c"], Some(view(&["a"])))))
        .decide()
        .expect("a decision");
    let names = [
        "rook-ceph-mon-a",
        "rook-ceph-mon-b",
        "rook-ceph-mon-c",
        "rook-ceph-mgr-a",
        "rook-ceph-osd-7",
    ];
    assert_eq!(named(&all, "Deployment"), names);
    assert!(prunes(&all));
}

#[test]
fn nothing_goes_while_nobody_answers() {
    let silent = observed(1, with_disk(facts(&["a"], None)))
        .decide()
        .expect("a decision");
    assert!(!prunes(&silent));
    assert_eq!(silent.actions().len(), 0);
}

#[test]
fn monitors_that_shall_go_are_kept_until_they_are_out() {
    let seen = observed(1, with_disk(facts(&["a"], Some(view(&["a", "b"])))));
    let decision = seen.decide().expect("a decision");
    let kept: Vec<String> = decision.kept().iter().map(|kept| kept.key.name.clone()).collect();
    assert_eq!(kept, ["rook-ceph-mon-b", "rook-ceph-mon-b", "rook-ceph-mon-b"]);
}

#[test]
fn keys_are_in_secrets_alone() {
    let mut seen = with_disk(facts(&["a"], Some(view(&["a"]))));
    seen.view
        .as_mut()
        .expect("a view")
        .as_mut()
        .expect("a view")
        .1
        .osds
        .osds
        .clear();
    let decision = observed(1, seen).decide().expect("a decision");
    let (secrets, others): (Vec<&Value>, Vec<&Value>) = decision
        .wanted()
        .iter()
        .map(Wanted::object)
        .partition(|object| object["kind"] == "Secret");
    assert_eq!(secrets.len(), 6);
    let forms = ["KEY".to_owned(), crate::objects::encode("KEY-")[..4].to_owned()];
    for object in others {
        let text = object.to_string();
        assert!(!forms.iter().any(|form| text.contains(form)), "{text}");
    }
    assert_eq!(decision.actions().len(), 1);
    assert!(!format!("{decision:?}").contains("KEY"));
}

#[test]
fn a_refused_cluster_says_so_and_is_left_alone() {
    let seen = observed(10, facts(&[], None));
    let decision = seen.decide().expect("a decision");
    assert!(!prunes(&decision) && decision.wanted().is_empty());
    let report = seen.report(&Applied::rehearse(decision));
    assert_eq!(report.status_fields()["phase"], "Failure");
    assert!(
        report.status_fields()["message"]
            .as_str()
            .is_some_and(|text| text.contains("spec.mon.count"))
    );
}

#[test]
fn a_cluster_whose_keys_are_lost_is_not_begun_anew() {
    let mut seen = observed(1, facts(&["a"], None));
    seen.facts.identity = None;
    assert!(!seen.decide().expect("a decision").wanted().is_empty());
    seen.object.status = serde_json::from_value(json!({"ceph": {"fsid": "f"}})).expect("a status");
    let decision = seen.decide().expect("a decision");
    assert!(decision.wanted().is_empty());
    let report = seen.report(&Applied::rehearse(decision));
    assert!(
        report.status_fields()["message"]
            .as_str()
            .is_some_and(|text| text.contains("rook-ceph-mon"))
    );
}

#[test]
fn the_one_that_blocks_is_named() {
    for (mut found, blocker) in [
        (view(&[]), "mon a is not in the quorum"),
        (view(&["a"]), "osd.7 on disks-data-0 is down"),
    ] {
        found.osds.osds[0].up = 0;
        let seen = observed(1, with_disk(facts(&["a"], Some(found))));
        let report = seen.report(&Applied::rehearse(Decision::hold()));
        assert_eq!(report.status_fields()["message"], blocker);
    }
}

#[test]
fn monitors_for_other_clusters_have_balancers_from_the_first_day() {
    let mut observed = observed(1, facts(&[], None));
    let network = json!({"multiClusterService": {"enabled": true, "clusterID": "storage"}});
    observed.object.spec.network = Some(serde_json::from_value(network).expect("a network"));
    let refused = CephClusters::plan(&observed)
        .refused
        .expect("refused")
        .to_string();
    assert!(
        refused.contains("multiClusterService") && refused.contains("set it back to false"),
        "{refused}"
    );
    observed.facts.exported = None;
    let decision = observed.decide().expect("decided");
    let service = |one: &&Wanted| {
        one.object()["metadata"]["name"] == "rook-ceph-mon-a" && one.object()["kind"] == "Service"
    };
    let mut service = decision
        .wanted()
        .iter()
        .find(service)
        .expect("a Service")
        .object()
        .clone();
    assert_eq!(service["spec"]["type"], "LoadBalancer");
    service["status"] = json!({"loadBalancer": {"ingress": [{"ip": "10.195.0.4"}]}});
    let live = serde_json::from_value(service).expect("a Service");
    assert_eq!(mons::address(&live).as_deref(), Some("10.195.0.4"));
}

#[test]
fn a_monitor_elsewhere_is_told_of_until_it_has_left_the_map() {
    let mut view = view(&["a", "b"]);
    let address =
        json!({"name": "ext-a", "public_addrs": {"addrvec": [{"type": "v1", "addr": "10.9.0.1:6789"}]}});
    view.mons
        .mons
        .push(serde_json::from_value(address).expect("a monitor"));
    // Nobody names it any more, nor `b`, which is of this cluster.
    let mut seen = observed(1, facts(&["a"], Some(view.clone())));
    let there = elsewhere(&seen.object, &seen.facts);
    assert_eq!(there, names::map(&[("ext-a", "10.9.0.1:6789")]));
    assert_eq!(seen.facts.out_of_quorum(&there), ["ext-a"]);
    // While nobody answers, all is as it was told last.
    seen.facts.told.elsewhere = there.clone();
    seen.facts.told.out = vec!["ext-a".to_owned()];
    seen.facts.view = Ok(None);
    assert_eq!(elsewhere(&seen.object, &seen.facts), there);
    assert_eq!(seen.facts.out_of_quorum(&there), ["ext-a"]);
    view.mons.mons.retain(|mon| mon.name != "ext-a");
    let seen = observed(1, facts(&["a"], Some(view)));
    assert!(elsewhere(&seen.object, &seen.facts).is_empty());
}

#[test]
fn a_lost_monitor_gives_way_to_one_on_another_node() {
    let known: Seats = [("a", "n1"), ("b", "n2"), ("c", "n3")].map(seat).into();
    let members: Vec<String> = known.keys().cloned().collect();
    let change = Some(("b".to_owned(), "d".to_owned()));
    let nodes = [node("n1"), node("n2"), node("n3"), node("n4")];
    let (next, seats, stuck) = seats::seated(members.clone(), change.clone(), &known, &nodes, None);
    assert_eq!((next.concat().as_str(), stuck), ("acd", None));
    assert_eq!((seats.len(), seats["d"].name.as_str()), (3, "n4"));
    // Without another node it is waited for.
    let (same, seats, stuck) = seats::seated(members.clone(), change, &known, &nodes[..3], None);
    assert_eq!((&same, stuck.as_deref()), (&members, Some("b")));
    assert_eq!(seats, known);

    let mut seen = observed(3, facts(&["a", "c", "d"], Some(view(&["a", "b", "c"]))));
    seen.facts.members = next;
    let decision = seen.decide().expect("a decision");
    let names = named(&decision, "Deployment");
    assert!(names.contains(&"rook-ceph-mon-d".to_owned()) && !names.contains(&"rook-ceph-mon-b".to_owned()));
    let kept: Vec<&str> = decision
        .kept()
        .iter()
        .map(|kept| kept.key.name.as_str())
        .collect();
    assert_eq!(kept, ["rook-ceph-mon-b"; 3], "it stays until it has left the map");
    let endpoints = decision.wanted().iter().map(Wanted::object);
    let endpoints = endpoints
        .filter(|object| object["metadata"]["name"] == ENDPOINTS)
        .map(|object| object["data"].clone())
        .next()
        .expect("endpoints");
    assert_eq!(
        (&endpoints["outOfQuorum"], &endpoints["maxMonId"]),
        (&json!("d"), &json!("3"))
    );

    seen.facts.members = members;
    seen.facts.view = Ok(Some((seen_place(), view(&["a", "c"]))));
    seen.facts.stuck = Some("b".to_owned());
    let report = seen.report(&Applied::rehearse(Decision::hold()));
    let said = report.status_fields()["message"].to_string();
    assert!(
        said.contains("mon b is not in the quorum") && said.contains("add a node"),
        "{said}"
    );
}

fn seen_place() -> ExecTarget {
    ExecTarget {
        namespace: "rook-ceph".to_owned(),
        pod: "mon".to_owned(),
        container: "mon",
    }
}

fn seat((id, node): (&str, &str)) -> (String, seats::Seat) {
    let seat = seats::Seat {
        name: node.to_owned(),
        hostname: node.to_owned(),
        address: format!("10.0.0.{}", &node[1..]),
    };
    (id.to_owned(), seat)
}

fn node(name: &str) -> Node {
    let status = json!({"addresses": [{"type": "InternalIP", "address": format!("10.0.0.{}", &name[1..])}],
        "conditions": [{"type": "Ready", "status": "True"}]});
    serde_json::from_value(json!({"metadata": {"name": name}, "status": status})).expect("a node")
}

#[test]
fn fields_without_effect_are_named_and_block_nothing() {
    let mut seen = observed(1, with_disk(facts(&["a"], Some(view(&["a"])))));
    let labels = json!({"all": {"team": "storage"}});
    seen.object.spec.more.insert("labels".to_owned(), labels);
    let report = seen.report(&Applied::rehearse(Decision::hold()));
    assert_eq!(report.status_fields()["phase"], "Ready");
    let plan = CephClusters::plan(&seen);
    let states = states::states(&seen.object, &seen.facts, &plan, seen.facts.seen());
    let told = &states.get(UNDERSTOOD).expect("it is told").message;
    assert!(told.ends_with(": labels"), "{told}");
}
