//! How a Galera cluster starts: a pure decision from what its members say.
//!
//! Joining is always safe: a member joins a primary component or gives up. Beginning a cluster is
//! safe only when no member runs and all have said how far their data goes; then the one that
//! knows most begins, and the others join it.

use std::cmp::Reverse;

/// How far the data of a member goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// No data at all.
    None,
    /// Data, but no place in the history of a cluster.
    Unknown,
    At {
        history: String,
        seqno: i64,
    },
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        if text == "none" {
            return Some(Self::None);
        }
        if text == "unknown" {
            return Some(Self::Unknown);
        }
        let (history, seqno) = text.split_once(':')?;
        let seqno: i64 = seqno.parse().ok()?;
        let empty = history.chars().all(|c| c == '0' || c == '-');
        Some(if empty || seqno < 0 {
            Self::Unknown
        } else {
            Self::At {
                history: history.to_owned(),
                seqno,
            }
        })
    }

    fn rank(&self) -> (u8, i64) {
        match self {
            Self::None => (0, 0),
            Self::Unknown => (1, 0),
            Self::At { seqno, .. } => (2, *seqno),
        }
    }
}

/// What is known of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// It says nothing: no pod, no container, or no answer.
    Silent,
    /// It waits for an order.
    Waits { run: String, position: Position },
    /// Its server runs but takes no writes yet.
    Starts,
    /// Its server runs without a majority.
    Alone,
    /// It takes writes.
    Serves,
}

impl Member {
    /// What the report of a member that is not ready means.
    pub fn parse(report: &str) -> Self {
        let field = |name: &str| {
            report
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        let position = field("position").and_then(Position::parse);
        match (field("phase"), field("run"), position, field("component")) {
            (Some("waiting"), Some(run), Some(position), _) => Self::Waits {
                run: run.to_owned(),
                position,
            },
            (Some("running"), _, _, Some("non-Primary")) => Self::Alone,
            (Some("running"), ..) => Self::Starts,
            _ => Self::Silent,
        }
    }
}

/// What one member is told, by ordinal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Order {
    Begin {
        member: usize,
        run: String,
    },
    Join {
        member: usize,
        run: String,
    },
    /// It serves nobody and cannot come back by itself: its pod starts anew.
    Restart {
        member: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Plan {
    Orders(Vec<Order>),
    /// No order is safe now.
    Wait(String),
}

pub fn plan(members: &[Member]) -> Plan {
    // One at a time: members that join together first find each other, which takes longer.
    if members.contains(&Member::Starts) {
        return Plan::Wait("a server is starting".to_owned());
    }
    if members.contains(&Member::Serves) {
        let next = waiting(members).next();
        return Plan::Orders(
            next.map(|(member, run, _)| join(member, run))
                .into_iter()
                .collect(),
        );
    }
    let silent: Vec<String> = (0..members.len())
        .filter(|n| members[*n] == Member::Silent)
        .map(|n| n.to_string())
        .collect();
    if !silent.is_empty() {
        return Plan::Wait(format!(
            "waits for word of member {} before one may begin",
            silent.join(", ")
        ));
    }
    let alone: Vec<Order> = (0..members.len())
        .filter(|n| members[*n] == Member::Alone)
        .map(|member| Order::Restart { member })
        .collect();
    // Members that lost sight of each other but all run find together by themselves.
    if alone.len() == members.len() {
        return Plan::Wait("the members do not see each other".to_owned());
    }
    if !alone.is_empty() {
        return Plan::Orders(alone);
    }
    let mut histories: Vec<&str> = waiting(members)
        .filter_map(|(_, _, position)| match position {
            Position::At { history, .. } => Some(history.as_str()),
            _ => None,
        })
        .collect();
    histories.sort_unstable();
    histories.dedup();
    if histories.len() > 1 {
        let text = "the members' data comes from different clusters: remove the volumes that are wrong";
        return Plan::Wait(text.to_owned());
    }
    let best = waiting(members).max_by_key(|(member, _, position)| (position.rank(), Reverse(*member)));
    Plan::Orders(
        best.map(|(member, run, _)| Order::Begin {
            member,
            run: run.to_owned(),
        })
        .into_iter()
        .collect(),
    )
}

fn waiting(members: &[Member]) -> impl Iterator<Item = (usize, &str, &Position)> {
    members.iter().enumerate().filter_map(|(n, member)| match member {
        Member::Waits { run, position } => Some((n, run.as_str(), position)),
        _ => None,
    })
}

fn join(member: usize, run: &str) -> Order {
    Order::Join {
        member,
        run: run.to_owned(),
    }
}

/// The member that takes the writes: it stays the same while it serves.
pub fn primary(members: &[Member], current: Option<usize>) -> Option<usize> {
    let serves = |n: &usize| members.get(*n) == Some(&Member::Serves);
    current.filter(serves).or_else(|| (0..members.len()).find(serves))
}

#[cfg(test)]
#[path = "galera_tests.rs"]
mod tests;
