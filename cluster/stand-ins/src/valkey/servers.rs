//! Valkey servers. Sentinels choose the primary; the Service follows their choice.

use std::convert::Infallible;
use std::time::Duration;

use c5c3_api::foreign::valkey::Valkey;
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Pod, Secret, Service};
use kube::{Client, ResourceExt};
use serde_json::json;

use super::manifests::{self, binding, has_sentinel, last, pod_name, replicas};
use super::{SENTINEL, SERVER};
use crate::error::Error;
use crate::exec::{self, ExecTarget};
use crate::objects::{is_pod_ready, labels_selector, secret_value};
use crate::random::password;

const UP: &str = "Available";
/// While a server is missing, and for changes that no watch reports.
const SOON: Duration = Duration::from_secs(1);
const LATER: Duration = Duration::from_secs(30);

/// The controller.
pub struct Valkeys {
    client: Client,
}

impl Valkeys {
    pub fn new(client: Client) -> Self {
        Self { client }
    }
}

#[derive(Debug, Default)]
pub struct Facts {
    password: Option<String>,
    random: [u8; 32],
    ready: usize,
    /// The pod that is primary now, or was when it was last known.
    primary: Option<String>,
}

impl Controller for Valkeys {
    type Kind = Valkey;
    type Facts = Facts;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "stand-in-valkey";
    const PARTS: &'static [Part] = &[Part::required(UP)];

    fn owns() -> Vec<Kind> {
        vec![
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<Service>(),
            Kind::of::<StatefulSet>(),
        ]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Pod>()]
    }

    fn touches() -> Vec<Touch> {
        vec![exec::touched()]
    }

    fn references(object: &Valkey) -> Vec<Reference> {
        let namespace = object.namespace();
        let pods = 0..replicas(object);
        pods.map(|n| Kind::of::<Pod>().named(namespace.as_deref(), &pod_name(object, n)))
            .collect()
    }

    async fn observe(&self, object: &Valkey, reader: &Reader) -> Result<Facts, Error> {
        let (namespace, name) = (object.namespace().unwrap_or_default(), object.name_any());
        let secret: Option<Secret> = reader.get(&namespace, &binding(object)).await?;
        let pods: Vec<Pod> = reader.list(&namespace, &labels_selector(SERVER, &name)).await?;
        let known: Option<ConfigMap> = reader.get(&namespace, &last(object)).await?;
        let known = known.and_then(|map| map.data?.remove("primary"));
        let chosen = if has_sentinel(object) {
            self.chosen(&namespace, &pods).await
        } else {
            None
        };
        Ok(Facts {
            password: secret_value(secret, "password"),
            random: rand::random(),
            ready: pods.iter().filter(|pod| is_pod_ready(pod)).count(),
            primary: chosen.or(known),
        })
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        let (object, facts) = (&observed.object, &observed.facts);
        check(object)?;
        let password = facts.password.clone().unwrap_or_else(|| password(&facts.random));
        let first = pod_name(object, 0);
        let primary = facts.primary.as_deref().unwrap_or(&first);
        Ok(Decision::want(manifests::all(object, &password, primary)?))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _applied: &Applied<Self>) -> Report {
        let (object, facts) = (&observed.object, &observed.facts);
        let (ready, wanted) = (facts.ready, replicas(object));
        let text = format!("{ready} of {wanted} servers are up");
        let up = ready >= wanted;
        let states = if up {
            States::default().met(UP, "Available", text)
        } else {
            States::default().unmet(UP, "Progressing", text)
        };
        let state = if up { "Ready" } else { "Processing" };
        let report = Report::new(states).status(&json!({"state": state}));
        match (has_sentinel(object), up) {
            (false, _) => report,
            (true, true) => report.again_in(LATER),
            (true, false) => report.again_in(SOON),
        }
    }
}

impl Valkeys {
    /// The pod that the sentinels chose; `None` when no sentinel answers or the pod is gone.
    async fn chosen(&self, namespace: &str, pods: &[Pod]) -> Option<String> {
        let script = ["sh", "/etc/c5c3/config/ask.sh"];
        for pod in pods.iter().filter(|pod| is_pod_ready(pod)) {
            let place = ExecTarget {
                namespace: namespace.to_owned(),
                pod: pod.name_any(),
                container: SENTINEL,
            };
            let Ok(said) = exec::run(&self.client, &place, &script, "").await else {
                continue;
            };
            return pod_of(said.trim(), pods);
        }
        None
    }
}

fn pod_of(address: &str, pods: &[Pod]) -> Option<String> {
    let has = |pod: &&Pod| {
        let status = pod.status.as_ref();
        !address.is_empty() && status.and_then(|status| status.pod_ip.as_deref()) == Some(address)
    };
    pods.iter().find(has).map(ResourceExt::name_any)
}

fn check(object: &Valkey) -> Result<(), Error> {
    let wrong = |field, reason: &str| {
        Err(Error::Invalid {
            field,
            reason: reason.to_owned(),
        })
    };
    let on = |toggle: &Option<c5c3_api::foreign::valkey::Toggle>| toggle.as_ref().is_some_and(|t| t.enabled);
    match replicas(object) {
        0 => wrong("spec.replicas", "at least one server is needed: set 1 or 3"),
        1 | 2 if has_sentinel(object) => wrong(
            "spec.replicas",
            "sentinels need a majority: set 3, or set spec.sentinel.enabled to false",
        ),
        _ if on(&object.spec.tls) => wrong(
            "spec.tls.enabled",
            "TLS is not supported on the embedded cluster: set it to false",
        ),
        _ => Ok(()),
    }
}
