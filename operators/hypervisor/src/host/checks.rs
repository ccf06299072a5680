//! Pure: what agents and pods of a host say that keeps it from running servers. A host is not tested with a
//! server before all of them are content, and a complaint that lasts ends its onboarding with the reason.

use c5c3_api::conditions::hypervisor::LIBVIRT_CONNECTION;
use c5c3_api::conditions::ovs::{ALL_BRIDGES_HEALTHY, OVN_CONTROLLER_CONNECTED, OVSDB_CONNECTED};
use c5c3_api::ovs::OvsNode;
use jiff::{SignedDuration, Timestamp};
use k8s_openapi::api::core::v1::{ContainerStatus, Pod};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::Condition;
use kube::ResourceExt;

use crate::pulse::AgentView;

/// A complaint that is younger may pass: everything of a new host starts at the same time.
const LASTS: SignedDuration = SignedDuration::from_secs(60);
/// How many times a container has to fail.
const FAILURES: i32 = 2;
/// Where OVN plugs in guests.
const INTEGRATION: &str = "br-int";
/// The container of nova-compute's pod that opens the pool with the host's own key.
const CEPH: &str = "ceph";

/// Why the host cannot run servers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    pub why: String,
    /// `None`: it has been tried often enough.
    pub since: Option<Timestamp>,
}

impl Complaint {
    pub fn lasts(&self, now: Timestamp) -> bool {
        self.since.is_none_or(|since| now.duration_since(since) >= LASTS)
    }
}

/// All complaints, in the order in which the parts need each other. Nothing is said of a part without an agent.
pub(crate) fn complaints(
    own: &[Condition],
    agent: AgentView,
    switch: Option<&OvsNode>,
    pods: &[Pod],
) -> Vec<Complaint> {
    let mut all = Vec::new();
    match agent {
        // What it said last may be true no more.
        AgentView::Silent(since) => all.push(Complaint {
            why: "the node agent is silent: is its pod running?".to_owned(),
            since: Some(since),
        }),
        AgentView::Unknown | AgentView::Missing => {}
        AgentView::Heard => all.extend(untrue(own, LIBVIRT_CONNECTION, "libvirt does not answer")),
    }
    if let Some(status) = switch.and_then(|switch| switch.status.as_ref()) {
        let told = &status.conditions;
        let lost = untrue(told, OVSDB_CONNECTED, "Open vSwitch does not answer");
        if lost.is_none() && status.ovn_controller.is_some() {
            let there = status.bridges.iter().any(|bridge| bridge.name == INTEGRATION);
            let connected = told.iter().find(|one| one.type_ == OVSDB_CONNECTED);
            all.extend((!there).then(|| Complaint {
                why: format!("Open vSwitch has no bridge {INTEGRATION}: is ovn-controller running?"),
                since: connected.map(|one| one.last_transition_time.0),
            }));
            all.extend(untrue(
                told,
                OVN_CONTROLLER_CONNECTED,
                "ovn-controller cannot reach OVN",
            ));
            all.extend(untrue(told, ALL_BRIDGES_HEALTHY, "Open vSwitch"));
        }
        all.extend(lost);
    }
    all.extend(pods.iter().filter_map(failing));
    all
}

fn untrue(told: &[Condition], part: &str, what: &str) -> Option<Complaint> {
    let found = told
        .iter()
        .find(|one| one.type_ == part && one.status == "False")?;
    Some(Complaint {
        why: if found.message.is_empty() {
            what.to_owned()
        } else {
            format!("{what}: {}", found.message)
        },
        since: Some(found.last_transition_time.0),
    })
}

/// A pod whose program does not start.
fn failing(pod: &Pod) -> Option<Complaint> {
    let status = pod
        .status
        .as_ref()
        .filter(|_| pod.metadata.deletion_timestamp.is_none())?;
    let all = status
        .init_container_statuses
        .iter()
        .chain(&status.container_statuses)
        .flatten();
    let stuck = |one: &&ContainerStatus| {
        let waits = one.state.as_ref().and_then(|state| state.waiting.as_ref());
        let held = waits.and_then(|waits| waits.reason.as_deref()) == Some("CrashLoopBackOff");
        !one.ready && held && one.restart_count >= FAILURES
    };
    let found = all.into_iter().find(stuck)?;
    let last = found
        .last_state
        .as_ref()
        .and_then(|state| state.terminated.as_ref());
    let words = last
        .and_then(|last| last.message.as_deref())
        .unwrap_or_default()
        .trim();
    let why = match found.name.as_str() {
        // What it says is made for people. Other programs may say anything, secrets too.
        CEPH if !words.is_empty() => format!(
            "Ceph cannot be used: {}",
            words.lines().last().unwrap_or_default()
        ),
        CEPH => "Ceph cannot be used".to_owned(),
        name => {
            let code = last
                .map(|last| format!(" with code {}", last.exit_code))
                .unwrap_or_default();
            format!(
                "{name} exits{code} right after it starts: see the log of pod {}",
                pod.name_any()
            )
        }
    };
    Some(Complaint { why, since: None })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(second).expect("a time")
    }

    fn condition(kind: &str, status: &str, message: &str) -> Value {
        json!({"type": kind, "status": status, "reason": "R", "message": message,
            "lastTransitionTime": at(1000).to_string()})
    }

    fn switch(conditions: Vec<Value>, bridges: &[&str], ovn: bool) -> OvsNode {
        let bridges: Vec<Value> = bridges
            .iter()
            .map(|name| json!({"name": name, "status": "Active"}))
            .collect();
        let mut status = json!({"conditions": conditions, "bridges": bridges});
        if ovn {
            status["ovnController"] = json!({"connected": true});
        }
        let node = json!({"apiVersion": "ovs.c5c3.io/v1alpha1", "kind": "OVSNode", "metadata": {"name": "node1"},
            "spec": {"nodeRef": {"name": "node1"}}, "status": status});
        serde_json::from_value(node).expect("an OVSNode")
    }

    fn pod(container: &str, restarts: i32, message: &str) -> Pod {
        let one = json!({"name": container, "ready": false, "restartCount": restarts, "image": "i", "imageID": "i",
            "state": {"waiting": {"reason": "CrashLoopBackOff"}},
            "lastState": {"terminated": {"exitCode": 1, "message": message}}});
        let pod = json!({"metadata": {"name": "nova-compute-x"}, "status": {"initContainerStatuses": [one]}});
        serde_json::from_value(pod).expect("a Pod")
    }

    fn said(own: Vec<Value>, switch: Option<OvsNode>, pods: &[Pod]) -> Vec<String> {
        let own: Vec<Condition> = own
            .into_iter()
            .map(|one| serde_json::from_value(one).expect("one"))
            .collect();
        complaints(&own, AgentView::Heard, switch.as_ref(), pods)
            .into_iter()
            .map(|one| one.why)
            .collect()
    }

    #[test]
    fn each_part_has_its_complaint() {
        let up = || vec![condition(OVSDB_CONNECTED, "True", "")];
        let lost = || vec![condition(OVSDB_CONNECTED, "False", "no socket")];
        let none: [String; 0] = [];
        assert_eq!(said(vec![], None, &[]), none, "no agent, no word");
        assert_eq!(
            said(vec![condition(LIBVIRT_CONNECTION, "True", "")], None, &[]),
            none
        );
        assert_eq!(
            said(vec![condition(LIBVIRT_CONNECTION, "False", "refused")], None, &[]),
            ["libvirt does not answer: refused"]
        );
        assert_eq!(
            said(vec![], Some(switch(up(), &["br-int", "br-ex"], true)), &[]),
            none
        );
        assert_eq!(
            said(vec![], Some(switch(up(), &["br-ex"], true)), &[]),
            ["Open vSwitch has no bridge br-int: is ovn-controller running?"]
        );
        assert_eq!(
            said(vec![], Some(switch(up(), &[], false)), &[]),
            none,
            "no chassis of OVN"
        );
        assert_eq!(
            said(vec![], Some(switch(lost(), &[], true)), &[]),
            ["Open vSwitch does not answer: no socket"],
            "of bridges nothing is known"
        );
    }

    #[test]
    fn pods_complain_once_they_have_tried_often_enough() {
        let refused = "Traceback\nclient.nova may not open pool vms: check caps";
        assert_eq!(
            said(vec![], None, &[pod("ceph", 2, refused)]),
            ["Ceph cannot be used: client.nova may not open pool vms: check caps"]
        );
        let none: [String; 0] = [];
        assert_eq!(said(vec![], None, &[pod("ceph", 1, refused)]), none);
        let other = said(vec![], None, &[pod("compute", 5, "password=hunter2")]);
        assert_eq!(
            other,
            ["compute exits with code 1 right after it starts: see the log of pod nova-compute-x"]
        );
    }

    #[test]
    fn what_is_young_may_pass() {
        let one = |since| Complaint {
            why: String::new(),
            since,
        };
        assert!(!one(Some(at(1000))).lasts(at(1059)) && one(Some(at(1000))).lasts(at(1060)));
        assert!(one(None).lasts(at(0)));
    }
}
