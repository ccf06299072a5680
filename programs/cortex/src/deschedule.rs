//! Which servers should leave their hosts. Pure: what was measured in, instructions out.

use std::collections::BTreeSet;

use openstack_client::Move;

use crate::engine::StepDraft;
use crate::fleet::Features;

/// A server that should move.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Detection {
    pub server: String,
    pub host: String,
    pub reason: String,
}

/// A step that finds such servers.
#[derive(Clone, Debug, PartialEq)]
pub enum Detector {
    HighSteal { most: f64 },
}

const HIGH_STEAL: &str = "avoid_high_steal_pct";
const MOST: &str = "maxStealPctOverObservedTimeSpan";
const USUAL: f64 = 20.0;

impl Detector {
    /// `None`: nobody knows such a detector.
    pub fn make(step: &StepDraft) -> Option<Result<Self, String>> {
        if step.name != HIGH_STEAL {
            return None;
        }
        let most = match step.params.get(MOST) {
            None => Some(USUAL),
            Some(value) => value.as_f64(),
        };
        let most = most.filter(|most| *most > 0.0);
        Some(
            most.map(|most| Detector::HighSteal { most })
                .ok_or_else(|| format!("{MOST}: use a percentage above 0")),
        )
    }

    /// `Err`: what it needs is not known yet.
    pub fn detect(&self, features: &Features) -> Result<Vec<Detection>, String> {
        let Detector::HighSteal { most } = self;
        let known = features.steal.as_ref().ok_or("no knowledge of stolen time")?;
        let high = known.iter().filter(|one| one.max_pct > *most);
        Ok(high
            .map(|one| Detection {
                server: one.server.clone(),
                host: one.host.clone(),
                reason: format!(
                    "waited {:.1} % of its time for a processor, above {most} %",
                    one.max_pct
                ),
            })
            .collect())
    }
}

/// Whether moves have brought a server back to a host that it had left: another one would only go on
/// with that.
pub fn is_cyclic(moves: &[Move]) -> bool {
    let mut done: Vec<&Move> = moves
        .iter()
        .filter(|one| {
            matches!(
                one.status.as_str(),
                "completed" | "confirmed" | "done" | "finished"
            )
        })
        .collect();
    done.sort_by_key(|one| one.id);
    let mut visited = BTreeSet::new();
    for (number, one) in done.iter().enumerate() {
        if number == 0 {
            visited.insert(&one.source);
        }
        if !visited.insert(&one.destination) {
            return true;
        }
    }
    false
}

/// One instruction for each server, for those that have none yet.
pub fn select(detections: Vec<Detection>, instructed: &BTreeSet<String>) -> Vec<Detection> {
    let mut seen = BTreeSet::new();
    let mut chosen: Vec<Detection> = detections
        .into_iter()
        .filter(|one| !instructed.contains(&one.server) && seen.insert(one.server.clone()))
        .collect();
    chosen.sort_by(|one, other| one.server.cmp(&other.server));
    chosen
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Steal;
    use serde_json::json;

    fn moved(pairs: &[(&str, &str)]) -> Vec<Move> {
        let of = |(id, (from, to)): (i64, &(&str, &str))| Move {
            id,
            status: "completed".into(),
            source: Some((*from).into()),
            destination: Some((*to).into()),
            ..Move::default()
        };
        // Nova tells the newest first.
        let mut moves: Vec<Move> = (0..).zip(pairs).map(of).collect();
        moves.reverse();
        moves
    }

    #[test]
    fn servers_that_came_back_are_left_alone() {
        assert!(!is_cyclic(&[]));
        assert!(!is_cyclic(&moved(&[("a", "b"), ("b", "c")])));
        assert!(is_cyclic(&moved(&[("a", "b"), ("b", "a")])));
        assert!(is_cyclic(&moved(&[("a", "b"), ("b", "c"), ("c", "b")])));
        let mut failed = moved(&[("a", "b"), ("b", "a")]);
        failed[0].status = "error".into();
        assert!(!is_cyclic(&failed));
    }

    #[test]
    fn stolen_time_above_the_limit_is_found_once_for_each_server() {
        let steal = |server: &str, max_pct| Steal {
            server: server.into(),
            host: "h".into(),
            max_pct,
        };
        let features = Features {
            steal: Some(vec![
                steal("s1", 20.0),
                steal("s2", 20.1),
                steal("s2", 30.0),
                steal("s3", 99.0),
            ]),
            ..Features::default()
        };
        let detector = Detector::make(&StepDraft::named(HIGH_STEAL))
            .expect("known")
            .expect("made");
        let found = detector.detect(&features).expect("known");
        let chosen = select(found, &["s3".to_owned()].into());
        assert_eq!(chosen.len(), 1);
        assert_eq!(
            chosen[0].reason,
            "waited 20.1 % of its time for a processor, above 20 %"
        );
        assert!(detector.detect(&Features::default()).is_err());
        let wrong = StepDraft {
            params: [(MOST.to_owned(), json!(-1))].into(),
            ..StepDraft::named(HIGH_STEAL)
        };
        assert!(Detector::make(&wrong).expect("known").is_err());
        assert!(Detector::make(&StepDraft::named("of_mars")).is_none());
    }
}
