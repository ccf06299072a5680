//! What people learn about Services on loopback of the machine: the address of a
//! LoadBalancer in its status, trouble as an event.

use std::collections::BTreeSet;
use std::io;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::frontends::{Exposure, Snapshot};

const LOOPBACK: &str = "127.0.0.1";

pub(super) struct Balancers {
    client: Client,
    recorder: Recorder,
    /// Trouble that was told already.
    told: BTreeSet<String>,
}

/// The address that a Service should show, when it should show another than now.
fn change(service: &Service, failed: bool) -> Option<Option<&'static str>> {
    let balancer = service.spec.as_ref().and_then(|s| s.type_.as_deref()) == Some("LoadBalancer");
    let shown = service
        .status
        .as_ref()
        .and_then(|s| s.load_balancer.as_ref()?.ingress.as_ref()?.first()?.ip.as_deref());
    let wanted = (balancer && !failed).then_some(LOOPBACK);
    (shown != wanted).then_some(wanted)
}

impl Balancers {
    pub fn new(client: &Client) -> Self {
        let reporter = Reporter {
            controller: "service-expose".into(),
            instance: None,
        };
        Self {
            client: client.clone(),
            recorder: Recorder::new(client.clone(), reporter),
            told: BTreeSet::new(),
        }
    }

    /// False when something could not be written and should be tried again.
    pub async fn report(
        &mut self,
        snapshot: &Snapshot,
        failed: &[(Exposure, io::Error)],
        wrong: &[(String, String)],
    ) -> bool {
        let mut good = true;
        let mut trouble: Vec<(&str, String)> = failed
            .iter()
            .map(|(e, why)| {
                let text = format!("cannot listen on {LOOPBACK}:{}: {why}", e.listen);
                (e.service.as_str(), text)
            })
            .collect();
        trouble.extend(wrong.iter().map(|(name, text)| (name.as_str(), text.clone())));
        for service in &snapshot.services {
            let name = format!(
                "{}/{}",
                service.namespace().unwrap_or_default(),
                service.name_any()
            );
            let unheard = failed.iter().any(|(e, _)| e.service == name);
            if let Some(address) = change(service, unheard) {
                good &= self.show(service, address).await;
            }
            for (_, text) in trouble.iter().filter(|(of, _)| *of == name) {
                if self.told.insert(format!("{name}: {text}")) {
                    tracing::warn!("{name}: {text}");
                    self.tell(service, text).await;
                }
            }
        }
        let now: BTreeSet<String> = trouble.iter().map(|(n, t)| format!("{n}: {t}")).collect();
        self.told.retain(|text| now.contains(text));
        good
    }

    async fn show(&self, service: &Service, address: Option<&str>) -> bool {
        let api: Api<Service> = Api::namespaced(
            self.client.clone(),
            service.namespace().as_deref().unwrap_or("default"),
        );
        let ingress = address.map(|ip| json!([{ "ip": ip, "ipMode": "VIP" }]));
        let patch = json!({
            "metadata": { "uid": service.uid() },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        let name = service.name_any();
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match written {
            // Deleted meanwhile, perhaps made anew: the watch tells.
            Err(kube::Error::Api(status)) if matches!(status.code, 404 | 409) => true,
            Err(e) => {
                tracing::warn!("status of Service {name}: {e}");
                false
            }
            Ok(_) => true,
        }
    }

    async fn tell(&self, service: &Service, text: &str) {
        let event = Event {
            type_: EventType::Warning,
            reason: "NotExposed".into(),
            note: Some(text.to_owned()),
            action: "Expose".into(),
            secondary: None,
        };
        if let Err(e) = self.recorder.publish(&event, &service.object_ref(&())).await {
            tracing::debug!("event: {e}");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_shown_and_taken_back() {
        let of = |kind: &str, shown: Option<&str>| -> Service {
            let ingress: Vec<_> = shown.iter().map(|ip| json!({ "ip": ip })).collect();
            serde_json::from_value(json!({ "spec": { "type": kind },
                "status": { "loadBalancer": { "ingress": ingress } } }))
            .unwrap()
        };
        for (kind, shown, failed, wanted) in [
            ("LoadBalancer", None, false, Some(Some(LOOPBACK))),
            ("LoadBalancer", Some(LOOPBACK), false, None),
            ("LoadBalancer", Some(LOOPBACK), true, Some(None)),
            ("LoadBalancer", None, true, None),
            ("ClusterIP", Some(LOOPBACK), false, Some(None)),
            ("ClusterIP", None, false, None),
        ] {
            assert_eq!(
                change(&of(kind, shown), failed),
                wanted,
                "{kind} {shown:?} {failed}"
            );
        }
    }
}
