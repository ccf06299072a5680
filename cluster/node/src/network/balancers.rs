//! What people learn about Services outside of their cluster: the addresses of a
//! LoadBalancer in its status, trouble as an event.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::net::Ipv4Addr;

use k8s_openapi::api::core::v1::Service;
use kube::api::{Patch, PatchParams};
use kube::runtime::events::{Event, EventType, Recorder, Reporter};
use kube::{Api, Client, Resource, ResourceExt};
use serde_json::json;

use super::frontends::{Exposure, Snapshot, full_name};
use super::pool::shown;

const LOOPBACK: &str = "127.0.0.1";

pub(super) struct Balancers {
    client: Client,
    recorder: Recorder,
    /// Trouble that was told already.
    told: BTreeSet<String>,
}

/// Where a balancer is to be found.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Shown {
    /// By pods and nodes of every cluster of the fabric.
    pub fabric: Option<Ipv4Addr>,
    /// On loopback of the machine.
    pub listens: bool,
}

/// The addresses that a Service should show, when it should show others than now. The one of the
/// fabric is the first: programs take that.
fn change(service: &Service, wanted: Shown) -> Option<Vec<String>> {
    let loopback = wanted.listens.then(|| LOOPBACK.to_owned());
    let fabric = wanted.fabric.map(|address| address.to_string());
    let wanted: Vec<String> = fabric.into_iter().chain(loopback).collect();
    (!shown(service).eq(wanted.iter().map(String::as_str))).then_some(wanted)
}

impl Balancers {
    pub(super) fn new(client: &Client) -> Self {
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
    pub(super) async fn report(
        &mut self,
        snapshot: &Snapshot,
        shown: &BTreeMap<String, Shown>,
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
            let name = full_name(service);
            let wanted = shown.get(&name).copied().unwrap_or_default();
            if let Some(addresses) = change(service, wanted) {
                good &= self.show(service, &addresses).await;
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

    async fn show(&self, service: &Service, addresses: &[String]) -> bool {
        let api: Api<Service> = Api::namespaced(
            self.client.clone(),
            service.namespace().as_deref().unwrap_or("default"),
        );
        let mode = |ip: &str| if ip == LOOPBACK { "Proxy" } else { "VIP" };
        let ingress = addresses.iter().map(|ip| json!({ "ip": ip, "ipMode": mode(ip) }));
        let ingress: Option<Vec<_>> = (!addresses.is_empty()).then(|| ingress.collect());
        let patch = json!({
            "metadata": { "uid": service.uid() },
            "status": { "loadBalancer": { "ingress": ingress } },
        });
        let name = service.name_any();
        let written = api
            .patch_status(&name, &PatchParams::default(), &Patch::Merge(&patch))
            .await;
        match written {
            // Deleted meanwhile, perhaps recreated: the watch tells.
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
        let of = |shown: &[&str]| -> Service {
            let ingress: Vec<_> = shown.iter().map(|ip| json!({ "ip": ip })).collect();
            serde_json::from_value(json!({ "status": { "loadBalancer": { "ingress": ingress } } })).unwrap()
        };
        let fabric = Some(Ipv4Addr::new(10, 195, 0, 1));
        let both = ["10.195.0.1", LOOPBACK];
        for (shown, fabric, listens, wanted) in [
            (&[][..], fabric, true, Some(&both[..])),
            (&both[..], fabric, true, None),
            (&both[..], fabric, false, Some(&both[..1])),
            (&[LOOPBACK], fabric, true, Some(&both[..])),
            (&both[..1], fabric, false, None),
            (&both[..], None, false, Some(&[])),
            (&[], None, false, None),
        ] {
            let changed = change(&of(shown), Shown { fabric, listens });
            let wanted = wanted.map(|list| list.iter().map(|ip| (*ip).to_owned()).collect());
            assert_eq!(changed, wanted, "{shown:?} {fabric:?} {listens}");
        }
    }
}
