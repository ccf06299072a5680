//! A cluster that lacks one thing gives one finding.

use std::collections::BTreeSet;

use super::findings::{ENFORCE, HYPERVISOR, Verdict, findings};
use super::{Class, Facts, Labels, Node};
use crate::roles;

/// A cluster with nothing to say against it.
fn well() -> Facts {
    let kinds = c5c3_api::registry().iter();
    let mut kinds: BTreeSet<String> = kinds
        .map(|kind| format!("{}.{}", kind.kind, kind.group))
        .collect();
    kinds.insert("ServiceMonitor.monitoring.coreos.com".to_owned());
    Facts {
        version: "v1.37.1".to_owned(),
        kinds,
        classes: Some(vec![Class {
            name: "fast".to_owned(),
            is_default: true,
        }]),
        namespaces: Some([("openstack".to_owned(), Labels::new())].into()),
        cloud: "openstack".to_owned(),
        home: "c5c3-system".to_owned(),
        nodes: Some(vec![Node {
            name: "n1".to_owned(),
            labels: [(HYPERVISOR.to_owned(), String::new())].into(),
            ready: true,
            ahead: Some(-4),
        }]),
        operators: Some(
            roles::all()
                .iter()
                .map(|role| (role.name.to_owned(), true))
                .collect(),
        ),
        pulls: Vec::new(),
        skew: Some(0),
        registry: Some(("ghcr.io".to_owned(), Ok(()))),
    }
}

fn worst(facts: &Facts) -> Vec<(&'static str, Verdict, String)> {
    let all = findings(facts).into_iter();
    all.filter(|finding| finding.verdict != Verdict::Fine)
        .map(|finding| {
            assert!(!finding.way_out.is_empty(), "{finding:?}");
            (finding.check, finding.verdict, finding.found)
        })
        .collect()
}

#[test]
fn a_cluster_that_lacks_nothing() {
    assert_eq!(worst(&well()), []);
}

fn lose(facts: &mut Facts, kind: &str) {
    assert!(facts.kinds.remove(kind), "{kind}");
}

/// Each row breaks one thing and expects one finding.
#[test]
fn each_lack_is_named_once_with_its_way_out() {
    type Break = fn(&mut Facts);
    let table: &[(Break, &str, Verdict, &str)] = &[
        (
            |f| f.version = "v1.30.9-gke.1".into(),
            "version",
            Verdict::Fault,
            "v1.30.9",
        ),
        (
            |f| f.version = "newest".into(),
            "version",
            Verdict::Warning,
            "newest",
        ),
        (
            |f| lose(f, "ControlPlane.c5c3.io"),
            "kinds",
            Verdict::Fault,
            "ControlPlane.c5c3.io is missing",
        ),
        (
            |f| lose(f, "Vhost.rabbitmq.com"),
            "other operators",
            Verdict::Fault,
            "accounts on message buses",
        ),
        (
            |f| lose(f, "ServiceMonitor.monitoring.coreos.com"),
            "other operators",
            Verdict::Warning,
            "ServiceMonitor",
        ),
        (
            |f| f.classes = Some(vec![]),
            "storage",
            Verdict::Fault,
            "no StorageClass",
        ),
        (
            |f| {
                f.classes = Some(vec![Class {
                    name: "slow".into(),
                    is_default: false,
                }]);
            },
            "storage",
            Verdict::Fault,
            "none of slow",
        ),
        (
            |f| {
                let second = Class {
                    name: "slow".into(),
                    is_default: true,
                };
                f.classes.get_or_insert_default().push(second);
            },
            "storage",
            Verdict::Warning,
            "fast, slow",
        ),
        (
            |f| f.classes = None,
            "storage",
            Verdict::Warning,
            "no permission to list",
        ),
        (
            |f| f.nodes.as_mut().unwrap()[0].labels.clear(),
            "nodes",
            Verdict::Warning,
            "none of them a hypervisor",
        ),
        (
            |f| f.nodes.as_mut().unwrap()[0].ready = false,
            "nodes",
            Verdict::Fault,
            "none of 1",
        ),
        (
            |f| f.nodes.as_mut().unwrap()[0].ahead = Some(60),
            "clocks",
            Verdict::Warning,
            "n1 is 60 s ahead",
        ),
        (|f| f.skew = Some(-40), "clocks", Verdict::Warning, "-40 s"),
        (
            |f| {
                let labels = [(ENFORCE.to_owned(), "restricted".to_owned())].into();
                f.namespaces
                    .get_or_insert_default()
                    .insert("openstack".into(), labels);
            },
            "pod security",
            Verdict::Fault,
            "enforces restricted",
        ),
        (
            |f| f.operators = Some([].into()),
            "operators",
            Verdict::Warning,
            "not installed",
        ),
        (
            |f| {
                f.operators
                    .get_or_insert_default()
                    .insert("c5c3-ovn".into(), false);
            },
            "operators",
            Verdict::Fault,
            "no replica is running of: c5c3-ovn",
        ),
        (
            |f| f.registry = Some(("r.example".into(), Err("refused".into()))),
            "images",
            Verdict::Warning,
            "r.example cannot be reached",
        ),
        (
            |f| f.pulls = vec!["keystone-0".into()],
            "images",
            Verdict::Fault,
            "keystone-0",
        ),
    ];
    for (change, check, verdict, words) in table {
        let mut facts = well();
        change(&mut facts);
        let found = worst(&facts);
        let [(named, how, text)] = found.as_slice() else {
            panic!("{check}: {found:?}");
        };
        assert_eq!((named, how), (check, verdict), "{text}");
        assert!(text.contains(words), "{text}");
    }
}
