//! The result of checking another cluster: the first problem that was found.

use c5c3_api::conditions::ceph::{CLUSTER_REACHABLE, CONFIG_VALID, HAS_ENOUGH_PERMISSIONS, SECRET_AVAILABLE};
use c5c3_api::conditions::reason;
use c5c3_kit::States;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    NoSecret(String),
    BadConfig(String),
    Unreachable(String),
    /// `create secrets` …
    Lacking(Vec<String>),
    Fit,
}

impl Finding {
    /// Why the cluster cannot be worked with.
    pub(crate) fn trouble(&self) -> Option<String> {
        match self {
            Finding::NoSecret(why) | Finding::BadConfig(why) => Some(why.clone()),
            Finding::Unreachable(why) => Some(format!("the cluster does not answer: {why}")),
            Finding::Lacking(what) => Some(format!(
                "the account of the kubeconfig is not allowed to {} there: bind a role to it that allows this",
                what.join(", ")
            )),
            Finding::Fit => None,
        }
    }

    /// The conditions of a RemoteCluster: what comes after the trouble is not known.
    pub(crate) fn states(&self) -> States {
        let steps = [
            (SECRET_AVAILABLE, "the Secret has a kubeconfig"),
            (CONFIG_VALID, "the kubeconfig can be used"),
            (CLUSTER_REACHABLE, "the cluster answers"),
            (
                HAS_ENOUGH_PERMISSIONS,
                "the account has every permission that a monitor needs",
            ),
        ];
        let (at, reason) = match self {
            Finding::NoSecret(_) => (0, reason::SECRET_MISSING),
            Finding::BadConfig(_) => (1, reason::INVALID),
            Finding::Unreachable(_) => (2, reason::UNREACHABLE),
            Finding::Lacking(_) => (3, "Forbidden"),
            Finding::Fit => (steps.len(), reason::READY),
        };
        let mut states = States::default();
        for (position, (part, well)) in steps.into_iter().enumerate() {
            states = match position.cmp(&at) {
                std::cmp::Ordering::Less => states.met(part, reason::READY, well),
                std::cmp::Ordering::Equal => states.unmet(part, reason, self.trouble().unwrap_or_default()),
                std::cmp::Ordering::Greater => states.unknown(part, reason::WAITING, "not checked yet"),
            };
        }
        states
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_trouble_is_told_and_nothing_after_it_is_known() {
        let of = |finding: Finding| {
            let states = finding.states();
            [
                SECRET_AVAILABLE,
                CONFIG_VALID,
                CLUSTER_REACHABLE,
                HAS_ENOUGH_PERMISSIONS,
            ]
            .map(|part| states.get(part).map_or("", |state| state.truth.as_str()))
        };
        let why = || "why".to_owned();
        assert_eq!(
            of(Finding::NoSecret(why())),
            ["False", "Unknown", "Unknown", "Unknown"]
        );
        assert_eq!(
            of(Finding::BadConfig(why())),
            ["True", "False", "Unknown", "Unknown"]
        );
        assert_eq!(
            of(Finding::Unreachable(why())),
            ["True", "True", "False", "Unknown"]
        );
        assert_eq!(
            of(Finding::Lacking(vec![why()])),
            ["True", "True", "True", "False"]
        );
        assert_eq!(of(Finding::Fit), ["True"; 4]);
    }
}
