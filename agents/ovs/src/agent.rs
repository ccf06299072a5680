//! The controller of one OVSNode's status: that of the switch beside which it runs.

use std::convert::Infallible;
use std::sync::Arc;

use c5c3_api::common::Time;
use c5c3_api::conditions::ovs::{
    ALL_BONDS_HEALTHY, ALL_BRIDGES_HEALTHY, OVN_CONTROLLER_CONNECTED, OVSDB_CONNECTED,
};
use c5c3_api::conditions::reason;
use c5c3_api::ovs::{LinkState, OvsIssue, OvsNode, OvsNodeStatus};
use c5c3_kit::{Applied, Controller, Decision, Observed, Part, Reader, Report, States};
use jiff::Timestamp;
use tokio::sync::watch;

use crate::view::{About, View};

/// As many as the kind takes.
const MOST: usize = 64;

pub struct OvsAgent {
    pub view: watch::Receiver<Arc<View>>,
}

pub struct Facts {
    view: Arc<View>,
    now: Timestamp,
}

impl Controller for OvsAgent {
    type Kind = OvsNode;
    type Facts = Facts;
    type Plan = ();
    type Action = Infallible;
    /// Trouble with the switch is a fact to report, not an error of the agent.
    type Error = Infallible;

    const NAME: &'static str = "c5c3-ovs-agent";
    const PARTS: &'static [Part] = &[
        Part::required(OVSDB_CONNECTED),
        Part::required(OVN_CONTROLLER_CONNECTED),
        Part::required(ALL_BRIDGES_HEALTHY),
        Part::required(ALL_BONDS_HEALTHY),
    ];

    async fn observe(&self, _: &OvsNode, _: &Reader) -> Result<Facts, Infallible> {
        Ok(Facts {
            view: self.view.borrow().clone(),
            now: Timestamp::now(),
        })
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Infallible> {
        Ok(Decision::hold())
    }

    async fn act(&self, action: &Infallible) -> Result<(), Infallible> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        let live = observed.object.status.clone().unwrap_or_default();
        let Facts { view, now } = &observed.facts;
        Report::new(states(view, &live)).status(&desired(view, &live, *now))
    }
}

/// The agent's fields. Before the switch has answered once they stay as they are; what looks wrong keeps the
/// time at which it was first seen.
pub fn desired(view: &View, live: &OvsNodeStatus, now: Timestamp) -> OvsNodeStatus {
    if !view.seen {
        return OvsNodeStatus {
            conditions: Vec::new(),
            observed_generation: None,
            ..live.clone()
        };
    }
    let since = |message: &str| {
        let known = live.issues.iter().find(|issue| issue.message == message);
        known.map_or(Time(now), |issue| issue.detected_at.clone())
    };
    let mut issues: Vec<OvsIssue> = view
        .issues
        .iter()
        .map(|issue| OvsIssue {
            severity: issue.severity,
            message: issue.message.clone(),
            detected_at: since(&issue.message),
        })
        .collect();
    issues.sort_by(|a, b| {
        let newest = b.detected_at.0.cmp(&a.detected_at.0);
        newest.then_with(|| a.message.cmp(&b.message))
    });
    issues.truncate(MOST);
    OvsNodeStatus {
        issues,
        ..view.status.clone()
    }
}

fn states(view: &View, live: &OvsNodeStatus) -> States {
    let states = match (&view.trouble, view.seen) {
        (Some(why), _) => States::default().unmet(OVSDB_CONNECTED, "Disconnected", why),
        (None, true) => States::default().met(OVSDB_CONNECTED, "Connected", ""),
        (None, false) => States::default().unknown(OVSDB_CONNECTED, "Connecting", "no answer yet"),
    };
    let status = if view.seen { &view.status } else { live };
    let states = match &status.ovn_controller {
        None => states.not_required(OVN_CONTROLLER_CONNECTED, "the switch is not an OVN chassis"),
        Some(ovn) if ovn.connected => states.met(OVN_CONTROLLER_CONNECTED, "Connected", ""),
        Some(_) => {
            let mut issues = view.issues.iter();
            let issue = issues.find(|issue| issue.about == About::OvnController);
            let said = issue.map_or("it was not connected", |issue| &issue.message);
            states.unmet(OVN_CONTROLLER_CONNECTED, "Disconnected", said)
        }
    };
    let bridges = status.bridges.iter();
    let bridges = bridges.map(|bridge| (bridge.name.as_str(), bridge.status));
    let states = healthy(states, ALL_BRIDGES_HEALTHY, "bridges", bridges);
    let bonds = status.interfaces.iter().flat_map(|all| &all.bonds);
    let bonds = bonds.map(|bond| (bond.name.as_str(), bond.status));
    healthy(states, ALL_BONDS_HEALTHY, "bonds", bonds)
}

fn healthy<'a>(
    states: States,
    part: &'static str,
    what: &str,
    all: impl Iterator<Item = (&'a str, LinkState)>,
) -> States {
    let ill: Vec<&str> = all
        .filter(|(_, state)| *state != LinkState::Active)
        .map(|(name, _)| name)
        .collect();
    if ill.is_empty() {
        states.met(part, reason::SUCCEEDED, "")
    } else {
        let said = format!("degraded {what}: {}; see status.issues", ill.join(", "));
        states.unmet(part, "Degraded", said)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::view::Issue;
    use c5c3_api::ovs::Severity;

    fn view(issues: &[&str]) -> View {
        View {
            seen: true,
            issues: issues
                .iter()
                .map(|message| Issue {
                    about: About::Bridge,
                    severity: Severity::Warning,
                    message: (*message).to_owned(),
                })
                .collect(),
            ..View::default()
        }
    }

    #[test]
    fn an_issue_keeps_the_time_at_which_it_was_first_seen() {
        let at = |seconds: i64| Timestamp::from_second(seconds).expect("a time");
        let first = desired(&view(&["a"]), &OvsNodeStatus::default(), at(10));
        let later = desired(&view(&["a", "b"]), &first, at(20));
        let told: Vec<(&str, i64)> = later
            .issues
            .iter()
            .map(|issue| (issue.message.as_str(), issue.detected_at.0.as_second()))
            .collect();
        assert_eq!(told, [("b", 20), ("a", 10)]);
        assert_eq!(
            desired(&view(&["a", "b"]), &later, at(30)),
            later,
            "nothing to write"
        );
    }

    #[test]
    fn an_agent_that_has_seen_nothing_yet_forgets_nothing() {
        let live = desired(&view(&["a"]), &OvsNodeStatus::default(), Timestamp::UNIX_EPOCH);
        assert_eq!(desired(&View::default(), &live, Timestamp::now()), live);
    }
}
