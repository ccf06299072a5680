//! Results of tests as metrics, read from the objects whenever they are scraped.

use c5c3_api::common::parse_duration;
use c5c3_api::openstack::Tempest;
use c5c3_kit::Metrics;
use futures::FutureExt;
use kube::api::ListParams;
use kube::{Api, Client, ResourceExt};
use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Of {
    namespace: String,
    name: String,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash, EncodeLabelSet)]
struct Tests {
    namespace: String,
    name: String,
    result: &'static str,
}

#[derive(Clone, Default)]
struct Figures {
    tests: Family<Tests, Gauge>,
    left_over: Family<Of, Gauge>,
    seconds: Family<Of, Gauge>,
    began: Family<Of, Gauge>,
}

/// Publishes what the Tempests of a namespace, or of all, report about their last run.
pub(crate) fn publish(metrics: &Metrics, client: Client, namespace: Option<&str>) {
    let figures = Figures::default();
    metrics.extend(|registry| {
        let registry = registry.sub_registry_with_prefix("tempest");
        registry.register("tests", "Tests of the last run by result", figures.tests.clone());
        let left_over = "Resources that the last run left behind; they were deleted";
        registry.register("left_over", left_over, figures.left_over.clone());
        registry.register("run_seconds", "Time of the last run", figures.seconds.clone());
        registry.register(
            "run_timestamp_seconds",
            "When the last run began",
            figures.began.clone(),
        );
    });
    let api: Api<Tempest> = match namespace {
        Some(namespace) => Api::namespaced(client, namespace),
        None => Api::all(client),
    };
    metrics.refresh_with(Box::new(move || {
        let (api, figures) = (api.clone(), figures.clone());
        async move {
            // Without an answer the figures stay as they were.
            if let Ok(all) = api.list(&ListParams::default()).await {
                figures.take(&all.items);
            }
        }
        .boxed()
    }));
}

impl Figures {
    fn take(&self, all: &[Tempest]) {
        self.tests.clear();
        self.left_over.clear();
        self.seconds.clear();
        self.began.clear();
        for tempest in all {
            let (namespace, name) = (tempest.namespace().unwrap_or_default(), tempest.name_any());
            let Some(status) = &tempest.status else { continue };
            let of = || Of {
                namespace: namespace.clone(),
                name: name.clone(),
            };
            if let Some(results) = &status.results {
                for (result, number) in [
                    ("passed", results.passed),
                    ("failed", results.failed),
                    ("skipped", results.skipped),
                ] {
                    let tests = Tests {
                        namespace: namespace.clone(),
                        name: name.clone(),
                        result,
                    };
                    self.tests.get_or_create(&tests).set(number.into());
                }
                self.left_over.get_or_create(&of()).set(results.left_over.into());
            }
            let took = status
                .last_duration
                .as_deref()
                .and_then(|text| parse_duration(text).ok());
            if let Some(seconds) = took.and_then(|took| i64::try_from(took.as_secs()).ok()) {
                self.seconds.get_or_create(&of()).set(seconds);
            }
            if let Some(began) = &status.last_run {
                self.began.get_or_create(&of()).set(began.0.as_second());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn figures_are_those_of_the_last_run_and_go_with_their_object() {
        let tempest: Tempest = serde_json::from_value(json!({
            "apiVersion": "tempest.openstack.c5c3.io/v1alpha1", "kind": "Tempest",
            "metadata": {"namespace": "openstack", "name": "tempest"},
            "spec": {
                "image": {"repository": "tempest", "tag": "1"},
                "keystone": {"authUrl": "http://keystone", "appCredentialRef": {"secretName": "s"}},
            },
            "status": {
                "lastRun": "2026-01-01T00:00:00Z", "lastDuration": "600s",
                "results": {"passed": 7, "failed": 2, "skipped": 1, "total": 10, "leftOver": 3},
            },
        }))
        .expect("a Tempest");
        let figures = Figures::default();
        let metrics = Metrics::default();
        metrics.extend(|registry| {
            registry.register("tests", "x", figures.tests.clone());
            registry.register("left_over", "x", figures.left_over.clone());
            registry.register("run_seconds", "x", figures.seconds.clone());
        });
        figures.take(&[tempest]);
        let text = metrics.render();
        for line in [
            r#"c5c3_tests{namespace="openstack",name="tempest",result="failed"} 2"#,
            r#"c5c3_left_over{namespace="openstack",name="tempest"} 3"#,
            r#"c5c3_run_seconds{namespace="openstack",name="tempest"} 600"#,
        ] {
            assert!(text.contains(line), "{text}");
        }
        figures.take(&[]);
        assert!(!metrics.render().contains("openstack"));
    }
}
