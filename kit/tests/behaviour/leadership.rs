//! Of several candidates one leads.

use std::time::Duration;

use c5c3_kit::lease::{Candidate, Lost, Terms};
use c5c3_kit::{Metrics, Stop};
use k8s_openapi::api::coordination::v1::Lease;
use kube::api::{Api, Patch, PatchParams};
use serde_json::json;
use test_harness::TestCluster;

async fn holder(leases: &Api<Lease>) -> Option<String> {
    leases
        .get("operator")
        .await
        .expect("there")
        .spec
        .and_then(|spec| spec.holder_identity)
}

#[tokio::test(flavor = "multi_thread")]
async fn one_leads_and_the_next_takes_over_when_it_stops() {
    let cluster = TestCluster::start().await;
    let namespace = cluster.namespace("lease").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), &namespace);
    let terms = Terms {
        duration: Duration::from_secs(6),
        ..Terms::new(&namespace, "operator")
    };
    let mut first = Candidate::new(&cluster.client(), terms.clone(), Metrics::default());
    let mut second = Candidate::new(&cluster.client(), terms, Metrics::default());

    let (stop_first, first_stops) = Stop::channel();
    let (_never, second_stops) = Stop::channel();
    assert!(first.lead(&first_stops).await);
    assert_eq!(holder(&leases).await.as_deref(), Some(first.identity()));

    let (id_first, id_second) = (first.identity().to_owned(), second.identity().to_owned());
    let holding = tokio::spawn(async move { first.hold(&first_stops).await });
    let waiting = tokio::spawn(async move { second.lead(&second_stops).await });
    // Longer than the lease lasts: renewals keep the second one waiting.
    tokio::time::sleep(Duration::from_secs(8)).await;
    assert!(!waiting.is_finished());
    assert_eq!(holder(&leases).await, Some(id_first));

    stop_first.stop();
    assert_eq!(holding.await.expect("ends"), Ok(()), "given up, not lost");
    assert!(
        tokio::time::timeout(Duration::from_secs(60), waiting)
            .await
            .expect("in time")
            .expect("ends")
    );
    assert_eq!(holder(&leases).await, Some(id_second));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_silent_leader_is_replaced_and_learns_of_it() {
    let cluster = TestCluster::start().await;
    let namespace = cluster.namespace("lease").await;
    let terms = Terms {
        duration: Duration::from_secs(2),
        ..Terms::new(&namespace, "operator")
    };
    let mut first = Candidate::new(&cluster.client(), terms.clone(), Metrics::default());
    let mut second = Candidate::new(&cluster.client(), terms, Metrics::default());
    let (_never, stop) = Stop::channel();
    assert!(first.lead(&stop).await);
    // It does not renew.
    let silent = std::time::Instant::now();
    assert!(
        tokio::time::timeout(Duration::from_secs(60), second.lead(&stop))
            .await
            .expect("in time")
    );
    let took = silent.elapsed();
    assert!(
        took >= Duration::from_secs(2),
        "not before it has run out: {took:?}"
    );
    let lost = first.hold(&stop).await;
    assert!(matches!(lost, Err(Lost::NotRenewed(_))), "{lost:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_leader_whose_lease_was_taken_is_none() {
    let cluster = TestCluster::start().await;
    let namespace = cluster.namespace("lease").await;
    let leases: Api<Lease> = Api::namespaced(cluster.client(), &namespace);
    let terms = Terms {
        duration: Duration::from_secs(60),
        ..Terms::new(&namespace, "operator")
    };
    let mut first = Candidate::new(&cluster.client(), terms, Metrics::default());
    let (_never, stop) = Stop::channel();
    assert!(first.lead(&stop).await);
    let taken = json!({"spec": {"holderIdentity": "another"}});
    let params = PatchParams::default();
    let taken = leases.patch("operator", &params, &Patch::Merge(taken)).await;
    taken.expect("taken");
    assert_eq!(first.hold(&stop).await, Err(Lost::Taken));
}

#[tokio::test(flavor = "multi_thread")]
async fn the_first_reign_counts_from_the_question() {
    let cluster = TestCluster::start().await;
    let namespace = cluster.namespace("lease").await;
    let terms = Terms {
        duration: Duration::from_secs(3),
        ..Terms::new(&namespace, "operator")
    };
    let mut first = Candidate::new(&cluster.client(), terms, Metrics::default());
    let (_never, stop) = Stop::channel();
    assert!(first.lead(&stop).await);
    // As long as if the answer had taken that long.
    tokio::time::sleep(Duration::from_secs(2)).await;
    let held = tokio::time::timeout(Duration::from_secs(30), first.hold(&stop)).await;
    let lost = held.expect("no more than it was given");
    assert!(matches!(lost, Err(Lost::NotRenewed(_))), "{lost:?}");
}
