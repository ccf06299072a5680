//! How a Galera cluster starts: a pure decision from what its members say.
//!
//! Joining is always safe: a member joins a primary component or gives up. Beginning a cluster is
//! safe only when no member runs and all have said how far their data goes; then the one that
//! knows most begins, and the others join it. Where that cannot be known, a person decides.

use std::cmp::Reverse;

/// Where a person names the pod to begin from, as with mariadb-operator.
pub(crate) const FORCE: &str = "spec.galera.recovery.forceClusterBootstrapInPod";
/// How long a starting server may make no progress before it is restarted.
pub(crate) const PATIENCE: u64 = 600;

/// How far the data of a member goes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Position {
    /// No data at all.
    None,
    /// Data that never was in a cluster.
    Unclustered,
    At {
        history: String,
        seqno: i64,
    },
    /// A state transfer did not get to the end: its data may be half of another's.
    Half,
    /// Data whose position could not be recovered.
    Failed,
}

impl Position {
    fn parse(text: &str) -> Option<Self> {
        match text {
            "none" => return Some(Self::None),
            "half" => return Some(Self::Half),
            "failed" => return Some(Self::Failed),
            _ => {}
        }
        let (history, seqno) = text.split_once(':')?;
        let seqno: i64 = seqno.parse().ok()?;
        let empty = history.chars().all(|c| c == '0' || c == '-');
        Some(match (empty, seqno < 0) {
            (true, _) => Self::Unclustered,
            (false, true) => Self::Failed,
            (false, false) => Self::At {
                history: history.to_owned(),
                seqno,
            },
        })
    }

    /// More for who knows more.
    fn rank(&self) -> (u8, i64) {
        match self {
            Self::Half | Self::Failed => (0, 0),
            Self::None => (1, 0),
            Self::Unclustered => (2, 0),
            Self::At { seqno, .. } => (3, *seqno),
        }
    }
}

/// What is known of one member.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Member {
    /// It says nothing: no pod, no container, or no answer.
    Silent,
    /// It waits for an order; how often it has joined since it last served.
    Waits {
        run: String,
        position: Position,
        tries: u32,
    },
    /// Its server runs but takes no writes yet; seconds since it last made progress.
    Starts { still: u64 },
    /// Its server runs without a majority.
    Alone,
    /// It takes writes.
    Serves,
}

impl Member {
    /// Parses the report of a member that is not ready.
    pub fn parse(report: &str) -> Self {
        let field = |name: &str| {
            report
                .lines()
                .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
        };
        let position = field("position").and_then(Position::parse);
        let tries = field("tries").and_then(|count| count.parse().ok()).unwrap_or(0);
        let still = field("still").and_then(|seconds| seconds.parse().ok());
        match (field("phase"), field("run"), position, field("component")) {
            (Some("waiting"), Some(run), Some(position), _) => Self::Waits {
                run: run.to_owned(),
                position,
                tries,
            },
            (Some("running"), _, _, Some("non-Primary")) => Self::Alone,
            (Some("running"), ..) => Self::Starts {
                still: still.unwrap_or(0),
            },
            _ => Self::Silent,
        }
    }

    fn hangs(&self) -> bool {
        matches!(self, Self::Starts { still } if *still >= PATIENCE)
    }

    fn tries(&self) -> u32 {
        match self {
            Self::Waits { tries, .. } => *tries,
            _ => 0,
        }
    }

    fn position(&self) -> Option<&Position> {
        match self {
            Self::Waits { position, .. } => Some(position),
            _ => None,
        }
    }
}

/// The instruction to one member, by ordinal.
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
    /// It does not serve and cannot recover by itself: its pod restarts.
    Restart {
        member: usize,
    },
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Plan {
    Orders(Vec<Order>),
    /// No order is safe now.
    Wait(String),
}

/// `forced` is the member that a person named. It counts where the members' own words do not
/// suffice, and never before all have spoken: a name that was left there must not cost data.
pub(crate) fn plan(members: &[Member], forced: Option<usize>) -> Plan {
    let hung = restarts(members, Member::hangs);
    if !hung.is_empty() {
        return Plan::Orders(hung);
    }
    // One at a time: members that join together first find each other, which takes longer.
    let starting = ordinals(members, |m| matches!(m, Member::Starts { .. }));
    if !starting.is_empty() {
        return Plan::Wait(format!(
            "member {} is starting; it restarts after {} minutes without progress",
            listed(&starting),
            PATIENCE / 60
        ));
    }
    if members.contains(&Member::Serves) {
        // Who failed to join before comes last: it must not keep the others out.
        let next = waiting(members).min_by_key(|(member, ..)| (members[*member].tries(), *member));
        let orders = next.map(|(member, run, _)| join(member, run));
        return Plan::Orders(orders.into_iter().collect());
    }
    let silent = ordinals(members, |m| *m == Member::Silent);
    if !silent.is_empty() {
        return Plan::Wait(format!(
            "waiting for member {} to report before any member may bootstrap",
            listed(&silent)
        ));
    }
    let alone = restarts(members, |m| *m == Member::Alone);
    // Members that lost sight of each other but all run find together by themselves.
    if alone.len() == members.len() {
        return Plan::Wait("the members do not see each other".to_owned());
    }
    if !alone.is_empty() {
        return Plan::Orders(alone);
    }
    let chosen = match (doubt(members), forced) {
        (Some(why), None) => return Plan::Wait(why),
        (Some(_), Some(forced)) => waiting(members).find(|(member, ..)| *member == forced),
        (None, _) => waiting(members).max_by_key(|(member, _, position)| (position.rank(), Reverse(*member))),
    };
    let order = chosen.map(|(member, run, _)| Order::Begin {
        member,
        run: run.to_owned(),
    });
    Plan::Orders(order.into_iter().collect())
}

/// Why it cannot be decided which of these waiting members has the newest data, and the way out.
fn doubt(members: &[Member]) -> Option<String> {
    let with = |keep: fn(&Position) -> bool| ordinals(members, |m| m.position().is_some_and(keep));
    let force = format!("or name the pod to bootstrap from in {FORCE}");
    let failed = with(|p| *p == Position::Failed);
    if !failed.is_empty() {
        return Some(format!(
            "member {} cannot recover its data, its log says why: repair it and delete its pod, remove its volume, {force}",
            listed(&failed)
        ));
    }
    let unclustered = with(|p| *p == Position::Unclustered);
    if unclustered.len() > 1 {
        return Some(format!(
            "members {} each have data that never was in a cluster: remove the volumes that are wrong, {force}",
            listed(&unclustered)
        ));
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
        return Some(format!(
            "the members' data comes from different clusters: remove the volumes that are wrong, {force}"
        ));
    }
    let half = with(|p| *p == Position::Half);
    let whole = with(|p| matches!(p, Position::At { .. } | Position::Unclustered));
    (!half.is_empty() && whole.is_empty()).then(|| {
        format!(
            "member {} was still joining when it stopped and no other has data: bring the others' volumes back, {force}",
            listed(&half)
        )
    })
}

/// What a person should know of members that do not serve.
pub(crate) fn remarks(members: &[Member]) -> String {
    let mut text = String::new();
    for (n, member) in members.iter().enumerate() {
        match member {
            Member::Starts { still } if *still >= 60 => text.push_str(&format!(
                "; member {n} is starting, without progress for {} minutes; it restarts after {}",
                still / 60,
                PATIENCE / 60
            )),
            Member::Waits { tries, .. } if *tries > 1 => text.push_str(&format!(
                "; member {n} did not finish joining {tries} times, its log says why"
            )),
            _ => {}
        }
    }
    text
}

fn ordinals(members: &[Member], keep: impl Fn(&Member) -> bool) -> Vec<usize> {
    (0..members.len()).filter(|n| keep(&members[*n])).collect()
}

fn restarts(members: &[Member], which: impl Fn(&Member) -> bool) -> Vec<Order> {
    let ordinals = ordinals(members, which).into_iter();
    ordinals.map(|member| Order::Restart { member }).collect()
}

fn listed(ordinals: &[usize]) -> String {
    let names: Vec<String> = ordinals.iter().map(usize::to_string).collect();
    names.join(", ")
}

fn waiting(members: &[Member]) -> impl Iterator<Item = (usize, &str, &Position)> {
    members.iter().enumerate().filter_map(|(n, member)| match member {
        Member::Waits { run, position, .. } => Some((n, run.as_str(), position)),
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
pub(crate) fn primary(members: &[Member], current: Option<usize>) -> Option<usize> {
    let serves = |n: &usize| members.get(*n) == Some(&Member::Serves);
    current.filter(serves).or_else(|| (0..members.len()).find(serves))
}

#[cfg(test)]
#[path = "galera_tests.rs"]
mod tests;
