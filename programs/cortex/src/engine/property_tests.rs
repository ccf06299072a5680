//! What holds for every world, pipeline and question.

use std::collections::BTreeSet;

use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::testing::*;
use super::{FILTERS, PipelineDraft, StepDraft, WEIGHERS};
use crate::fleet::{Aggregate, Amount, Contention, Draft, Host, Reservation, ReservationKind};
use crate::request::{Destination, Group, Intent, Request, Spec};

const NAMES: [&str; 6] = ["h0", "h1", "h2", "h3", "h4", "h5"];

fn some(names: &'static [&'static str]) -> impl Strategy<Value = BTreeSet<String>> {
    subsequence(names, 0..=names.len()).prop_map(|names| names.into_iter().map(str::to_owned).collect())
}

fn a_host() -> impl Strategy<Value = Host> {
    let sets = (some(&["T1", "T2"]), some(&["p", "q"]), some(&["f", "g"]));
    let plain = (
        proptest::option::weighted(0.2, Just("is down".to_owned())),
        proptest::option::of(select(vec!["z1".to_owned(), "z2".to_owned()])),
        proptest::option::weighted(0.9, (1..32_i64, 1..65536_i64)),
        proptest::option::of(select(vec!["p".to_owned(), "q".to_owned()])),
    );
    (sets, plain).prop_map(
        |((traits, allowed_projects, features), (unfit, zone, size, tenant))| Host {
            unfit,
            zone,
            traits,
            allowed_projects,
            features,
            capacity: size.map(|(cpu, memory)| Amount::new(cpu, memory)),
            aggregates: vec![Aggregate {
                uuid: "1".into(),
                metadata: tenant
                    .into_iter()
                    .map(|id| ("filter_tenant_id".to_owned(), id))
                    .collect(),
                ..Aggregate::default()
            }],
            ..host()
        },
    )
}

fn a_world() -> impl Strategy<Value = Draft> {
    let hosts = proptest::collection::btree_map(select(&NAMES[..5]).prop_map(str::to_owned), a_host(), 0..5);
    let servers = proptest::collection::btree_map(
        "[a-d]",
        (select(&NAMES[..]), select(&["p", "q"][..]), 1..4_i64, 1..4096_i64),
        0..4,
    );
    let reservations =
        proptest::collection::btree_map("[r-t]", (select(&NAMES[..]), any::<bool>(), any::<bool>()), 0..3);
    let long_term = proptest::option::of((0.0..100.0, 0.0..100.0));
    (hosts, servers, reservations, long_term).prop_map(|(hosts, servers, reservations, contention)| {
        let mut draft = Draft {
            hosts,
            ..Draft::default()
        };
        for (id, (on, project, cpu, memory)) in servers {
            draft.servers.insert(id, server(on, project, cpu, memory));
        }
        for (name, (on, failover, active)) in reservations {
            let kind = if failover {
                ReservationKind::Failover
            } else {
                ReservationKind::CommittedResource
            };
            let reservation = Reservation {
                kind,
                active,
                size: Amount::new(2, 1024),
                hosts: [on.to_owned()].into(),
                project: Some("p".into()),
                group: Some("v2".into()),
                zone: None,
                servers: ["a".to_owned()].into(),
            };
            draft.reservations.insert(name, reservation);
        }
        draft.features.long_term =
            contention.map(|(avg, max)| [("h0".to_owned(), Contention { avg, max })].into());
        draft
    })
}

fn a_spec() -> impl Strategy<Value = Spec> {
    let intents = vec![
        Intent::Create,
        Intent::Evacuate,
        Intent::LiveMigrate,
        Intent::ReserveForFailover,
    ];
    let group = (
        select(&["affinity", "anti-affinity", "soft-affinity"][..]),
        1..3_u32,
    );
    let flavor = (0..8_i64, 0..8192_i64, 1..3_i64, some(&["trait:T1", "trait:T2"]));
    let other = (
        proptest::option::of(select(vec!["z1".to_owned(), "z9".to_owned()])),
        proptest::option::of(group),
        proptest::option::weighted(0.2, select(&["", "h1"][..])),
        some(&["h1", "h2"]),
        any::<bool>(),
    );
    (select(intents), flavor, other).prop_map(
        |(intent, (vcpus, memory, num_instances, traits), (zone, group, wanted, ignored, grouped))| {
            let mut made = Spec {
                intent,
                zone,
                num_instances,
                instance: "a".into(),
                source_host: Some("h0".into()),
                ignore_hosts: ignored.into_iter().collect(),
                resource_group: grouped.then(|| "v2".to_owned()),
                ..spec()
            };
            (made.flavor.vcpus, made.flavor.memory_mb) = (vcpus, memory);
            made.flavor.extra_specs = traits
                .into_iter()
                .map(|name| (name, "required".to_owned()))
                .collect();
            made.group = group.map(|(policy, max_per_host)| Group {
                policy: policy.into(),
                members: ["a", "b", "c"].map(str::to_owned).into(),
                hosts: vec!["h1".into()],
                max_per_host,
            });
            made.destination = wanted.map(|host| Destination {
                host: host.into(),
                aggregates: vec!["1".into()],
                ..Destination::default()
            });
            made
        },
    )
}

fn a_pipeline() -> impl Strategy<Value = PipelineDraft> {
    let weighers = proptest::collection::vec((select(&WEIGHERS[..]), -2.0..2.0), 0..5);
    let filters = subsequence(&FILTERS[..], 0..=FILTERS.len());
    (filters, weighers).prop_map(|(filters, weighers)| {
        let of = |name: &str| match name {
            "external_customer" => step(name, serde_json::json!({"domainNamePrefixes": ["x"]})),
            "exclude_hosts" => step(name, serde_json::json!({"excludedHosts": ["h3"]})),
            _ => StepDraft::named(name),
        };
        PipelineDraft {
            filters: filters.into_iter().map(of).collect(),
            weighers: weighers
                .into_iter()
                .map(|(name, multiplier)| StepDraft {
                    multiplier: Some(multiplier),
                    ..StepDraft::named(name)
                })
                .collect(),
            ..PipelineDraft::default()
        }
    })
}

/// Names with their weights.
type Weights = Vec<(&'static str, f64)>;

/// Hosts with weights, and the same in another order.
fn a_question() -> impl Strategy<Value = (Weights, Weights)> {
    let hosts = subsequence(&NAMES[..], 0..=NAMES.len());
    let weighed = hosts.prop_flat_map(|hosts| {
        let count = hosts.len();
        (Just(hosts), proptest::collection::vec(-3.0..3.0, count))
    });
    weighed
        .prop_map(|(hosts, weights)| hosts.into_iter().zip(weights).collect::<Vec<_>>())
        .prop_flat_map(|hosts| (Just(hosts.clone()), Just(hosts).prop_shuffle()))
}

fn asked(hosts: &[(&'static str, f64)], spec: &Spec) -> Request<'static> {
    Request {
        hosts: hosts
            .iter()
            .map(|(name, weight)| ((*name).into(), *weight))
            .collect(),
        spec: spec.clone(),
        ..Request::default()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(512))]

    #[test]
    fn only_hosts_that_were_asked_about_each_once_and_the_same_for_every_order(
        draft in a_world(), spec in a_spec(), pipeline in a_pipeline(), (hosts, shuffled) in a_question(),
    ) {
        let (order, explanation) = decide(&pipeline, draft.clone(), &asked(&hosts, &spec));
        let unique: BTreeSet<&str> = order.iter().map(String::as_str).collect();
        prop_assert_eq!(unique.len(), order.len());
        prop_assert!(unique.iter().all(|name| hosts.iter().any(|(host, _)| host == name)));
        let (again, _) = decide(&pipeline, draft.clone(), &asked(&hosts, &spec));
        prop_assert_eq!(&order, &again);
        let (other, told) = decide(&pipeline, draft, &asked(&shuffled, &spec));
        prop_assert_eq!(&order, &other);
        prop_assert_eq!(explanation.steps, told.steps);
    }

    #[test]
    fn taking_a_weigher_away_changes_the_order_alone(
        draft in a_world(), spec in a_spec(), pipeline in a_pipeline(), (hosts, _) in a_question(),
    ) {
        let request = asked(&hosts, &spec);
        let sorted = |mut order: Vec<String>| { order.sort(); order };
        let all = sorted(decide(&pipeline, draft.clone(), &request).0);
        for number in 0..pipeline.weighers.len() {
            let mut fewer = pipeline.clone();
            fewer.weighers.remove(number);
            prop_assert_eq!(&all, &sorted(decide(&fewer, draft.clone(), &request).0));
        }
    }

    #[test]
    fn one_more_filter_never_adds_a_host(
        draft in a_world(), spec in a_spec(), pipeline in a_pipeline(), (hosts, _) in a_question(),
    ) {
        let request = asked(&hosts, &spec);
        let mut fewer = pipeline.clone();
        if fewer.filters.pop().is_some() {
            let before: BTreeSet<String> = decide(&fewer, draft.clone(), &request).0.into_iter().collect();
            let after: BTreeSet<String> = decide(&pipeline, draft, &request).0.into_iter().collect();
            prop_assert!(after.is_subset(&before));
        }
    }
}
