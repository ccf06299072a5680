use super::*;
use proptest::prelude::*;

fn waits(run: &str, position: &str) -> Member {
    Member::parse(&format!("run {run}\nphase waiting\nposition {position}\n"))
}

const A: &str = "8bbd0ec0-1d1f-11ee-0000-000000000000";
const B: &str = "9bbd0ec0-1d1f-11ee-0000-000000000000";

#[test]
fn reports_are_read() {
    assert_eq!(Member::parse(""), Member::Silent);
    assert_eq!(
        waits("r", "none"),
        Member::Waits {
            run: "r".into(),
            position: Position::None
        }
    );
    for unknown in [
        "unknown",
        "00000000-0000-0000-0000-000000000000:-1",
        &format!("{A}:-1"),
    ] {
        assert_eq!(
            waits("r", unknown),
            Member::Waits {
                run: "r".into(),
                position: Position::Unknown
            }
        );
    }
    assert_eq!(waits("r", "rubbish"), Member::Silent);
    let running = "run r\nphase running\nposition none\n";
    assert_eq!(Member::parse(running), Member::Starts);
    assert_eq!(
        Member::parse(&format!("{running}component Disconnected\n")),
        Member::Starts
    );
    assert_eq!(
        Member::parse(&format!("{running}component non-Primary\n")),
        Member::Alone
    );
}

#[test]
fn the_first_start_begins_at_zero() {
    let fresh = [waits("a", "none"), waits("b", "none"), waits("c", "none")];
    let begin = |member, run: &str| {
        Plan::Orders(vec![Order::Begin {
            member,
            run: run.into(),
        }])
    };
    assert_eq!(plan(&fresh), begin(0, "a"));
    // A single server became a cluster: its data counts more than none.
    assert_eq!(plan(&[waits("a", "none"), waits("b", "unknown")]), begin(1, "b"));
}

#[test]
fn who_knows_most_begins_and_nobody_else() {
    let at = |run: &str, seqno: i64| waits(run, &format!("{A}:{seqno}"));
    let plan_of = |members: &[Member]| plan(members);
    assert_eq!(
        plan_of(&[at("a", 7), at("b", 9), at("c", 9)]),
        Plan::Orders(vec![Order::Begin {
            member: 1,
            run: "b".into()
        }])
    );
    // One has said nothing yet: it may know more.
    assert!(matches!(
        plan_of(&[at("a", 7), Member::Silent, at("c", 9)]),
        Plan::Wait(_)
    ));
    assert!(matches!(
        plan_of(&[at("a", 7), Member::Starts, at("c", 9)]),
        Plan::Wait(_)
    ));
    assert!(matches!(
        plan_of(&[at("a", 7), waits("b", &format!("{B}:9"))]),
        Plan::Wait(_)
    ));
}

#[test]
fn others_join_who_serves() {
    assert_eq!(
        plan(&[Member::Serves, waits("b", "none"), waits("c", "none")]),
        Plan::Orders(vec![Order::Join {
            member: 1,
            run: "b".into()
        }])
    );
    assert!(matches!(
        plan(&[Member::Serves, Member::Starts, waits("c", "none")]),
        Plan::Wait(_)
    ));
    assert_eq!(
        plan(&[Member::Serves, Member::Serves, Member::Alone]),
        Plan::Orders(vec![])
    );
}

#[test]
fn who_lost_the_majority_starts_anew() {
    assert_eq!(
        plan(&[Member::Alone, waits("b", "none"), waits("c", "none")]),
        Plan::Orders(vec![Order::Restart { member: 0 }])
    );
    assert!(matches!(plan(&[Member::Alone, Member::Alone]), Plan::Wait(_)));
}

#[test]
fn the_primary_stays_while_it_serves() {
    let members = [Member::Serves, Member::Silent, Member::Serves];
    assert_eq!(primary(&members, Some(2)), Some(2));
    assert_eq!(primary(&members, Some(1)), Some(0));
    assert_eq!(primary(&members, Some(9)), Some(0));
    assert_eq!(primary(&[Member::Starts], Some(0)), None);
}

fn any_member() -> impl Strategy<Value = Member> {
    prop_oneof![
        Just(Member::Silent),
        Just(Member::Starts),
        Just(Member::Alone),
        Just(Member::Serves),
        (-1i64..50).prop_map(|seqno| waits("r", &format!("{A}:{seqno}"))),
        Just(waits("r", "none")),
    ]
}

proptest! {
    /// A cluster begins at most once, and only where no other could know more.
    #[test]
    fn beginning_is_safe(members in prop::collection::vec(any_member(), 1..6)) {
        let Plan::Orders(orders) = plan(&members) else { return Ok(()) };
        let begins: Vec<usize> = orders.iter().filter_map(|order| match order {
            Order::Begin { member, .. } => Some(*member),
            _ => None,
        }).collect();
        prop_assert!(begins.len() <= 1);
        if let Some(chosen) = begins.first() {
            prop_assert_eq!(orders.len(), 1);
            let all: Vec<_> = waiting(&members).collect();
            prop_assert_eq!(all.len(), members.len());
            let own = all.iter().find(|(n, ..)| n == chosen).map(|(_, _, p)| p.rank());
            prop_assert!(all.iter().all(|(_, _, p)| Some(p.rank()) <= own));
        }
    }
}
