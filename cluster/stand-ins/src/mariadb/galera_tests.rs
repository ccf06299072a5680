use super::*;
use proptest::prelude::*;

fn waits(run: &str, position: &str) -> Member {
    tried(run, position, 0)
}

fn tried(run: &str, position: &str, tries: u32) -> Member {
    Member::parse(&format!(
        "run {run}\nphase waiting\nposition {position}\ntries {tries}\n"
    ))
}

const STARTS: Member = Member::Starts { still: 0 };
const A: &str = "8bbd0ec0-1d1f-11ee-0000-000000000000";
const ZEROS: &str = "00000000-0000-0000-0000-000000000000:-1";
const B: &str = "9bbd0ec0-1d1f-11ee-0000-000000000000";

#[test]
fn reports_are_read() {
    assert_eq!(Member::parse(""), Member::Silent);
    assert_eq!(
        waits("r", "none"),
        Member::Waits {
            run: "r".into(),
            position: Position::None,
            tries: 0,
        }
    );
    let position = |text: &str| match waits("r", text) {
        Member::Waits { position, .. } => Some(position),
        _ => None,
    };
    assert_eq!(position(ZEROS), Some(Position::Unclustered));
    assert_eq!(position(&format!("{A}:-1")), Some(Position::Failed));
    assert_eq!(position("failed"), Some(Position::Failed));
    assert_eq!(position("half"), Some(Position::Half));
    assert_eq!(waits("r", "rubbish"), Member::Silent);
    let running = "run r\nphase running\nposition none\n";
    assert_eq!(Member::parse(running), Member::Starts { still: 0 });
    assert_eq!(
        Member::parse(&format!("{running}component Disconnected\nstill 70\n")),
        Member::Starts { still: 70 }
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
    assert_eq!(plan(&fresh, None), begin(0, "a"));
    // A single server became a cluster: its data counts more than none.
    assert_eq!(
        plan(&[waits("a", "none"), waits("b", ZEROS)], None),
        begin(1, "b")
    );
}

#[test]
fn who_knows_most_begins_and_nobody_else() {
    let at = |run: &str, seqno: i64| waits(run, &format!("{A}:{seqno}"));
    let plan_of = |members: &[Member]| plan(members, None);
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
        plan_of(&[at("a", 7), STARTS, at("c", 9)]),
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
        plan(&[Member::Serves, waits("b", "none"), waits("c", "none")], None),
        Plan::Orders(vec![Order::Join {
            member: 1,
            run: "b".into()
        }])
    );
    assert!(matches!(
        plan(&[Member::Serves, STARTS, waits("c", "none")], None),
        Plan::Wait(_)
    ));
    assert_eq!(
        plan(&[Member::Serves, Member::Serves, Member::Alone], None),
        Plan::Orders(vec![])
    );
}

#[test]
fn who_lost_the_majority_starts_anew() {
    assert_eq!(
        plan(&[Member::Alone, waits("b", "none"), waits("c", "none")], None),
        Plan::Orders(vec![Order::Restart { member: 0 }])
    );
    assert!(matches!(
        plan(&[Member::Alone, Member::Alone], None),
        Plan::Wait(_)
    ));
}

#[test]
fn the_primary_stays_while_it_serves() {
    let members = [Member::Serves, Member::Silent, Member::Serves];
    assert_eq!(primary(&members, Some(2)), Some(2));
    assert_eq!(primary(&members, Some(1)), Some(0));
    assert_eq!(primary(&members, Some(9)), Some(0));
    assert_eq!(primary(&[STARTS], Some(0)), None);
}

fn begins(member: usize) -> Plan {
    Plan::Orders(vec![Order::Begin {
        member,
        run: "r".into(),
    }])
}

#[test]
fn where_nobody_can_tell_a_person_decides() {
    let at = |seqno: i64| waits("r", &format!("{A}:{seqno}"));
    let doubtful: [([Member; 3], &str); 5] = [
        ([at(7), waits("r", "failed"), at(9)], "member 1 cannot recover"),
        (
            [at(7), waits("r", &format!("{A}:-1")), at(9)],
            "member 1 cannot recover",
        ),
        (
            [waits("r", ZEROS), waits("r", "none"), waits("r", ZEROS)],
            "members 0, 2",
        ),
        (
            [at(7), waits("r", &format!("{B}:9")), at(9)],
            "different clusters",
        ),
        (
            [waits("r", "none"), waits("r", "half"), waits("r", "none")],
            "member 1 was still joining",
        ),
    ];
    for (members, word) in doubtful {
        let Plan::Wait(why) = plan(&members, None) else {
            panic!("{members:?}");
        };
        assert!(why.contains(word) && why.contains(FORCE), "{why}");
        assert_eq!(plan(&members, Some(2)), begins(2));
    }
    // The name that was left there changes nothing when the members know.
    assert_eq!(plan(&[at(7), at(9), at(8)], Some(0)), begins(1));
    // And nothing before all have spoken.
    let early = [at(7), waits("r", "failed"), Member::Silent];
    assert!(matches!(plan(&early, Some(0)), Plan::Wait(_)));
}

#[test]
fn half_written_data_is_no_base() {
    let at = waits("r", &format!("{A}:3"));
    assert_eq!(
        plan(&[waits("r", "half"), at, waits("r", "none")], None),
        begins(1)
    );
    assert_eq!(plan(&[waits("r", "half"), waits("r", ZEROS)], None), begins(1));
}

#[test]
fn who_hangs_starts_anew_and_keeps_nobody_out() {
    let hung = Member::Starts { still: PATIENCE };
    assert_eq!(
        plan(&[Member::Serves, hung, waits("c", "none")], None),
        Plan::Orders(vec![Order::Restart { member: 1 }])
    );
    assert_eq!(
        plan(&[Member::Serves, tried("b", "none", 1), waits("c", "none")], None),
        Plan::Orders(vec![join(2, "c")])
    );
    assert_eq!(
        plan(&[Member::Serves, tried("b", "half", 1), Member::Silent], None),
        Plan::Orders(vec![join(1, "b")])
    );
    let slow = [
        Member::Serves,
        Member::Starts { still: 130 },
        tried("c", "half", 2),
    ];
    let text = remarks(&slow);
    assert!(
        text.contains("member 1") && text.contains("without progress for 2 minutes; it restarts after 10"),
        "{text}"
    );
    assert!(text.contains("member 2 did not finish joining 2 times"), "{text}");
}

fn any_member() -> impl Strategy<Value = Member> {
    prop_oneof![
        Just(Member::Silent),
        (0u64..700).prop_map(|still| Member::Starts { still }),
        Just(Member::Alone),
        Just(Member::Serves),
        any_waiting(),
    ]
}

fn any_waiting() -> impl Strategy<Value = Member> {
    let words = vec!["none", "failed", "half", ZEROS];
    prop_oneof![
        (-1i64..50).prop_map(|seqno| waits("r", &format!("{A}:{seqno}"))),
        (0i64..50).prop_map(|seqno| waits("r", &format!("{B}:{seqno}"))),
        prop::sample::select(words).prop_map(|word| waits("r", word)),
    ]
}

/// Mostly all wait: only then somebody may begin.
fn any_members() -> impl Strategy<Value = Vec<Member>> {
    prop_oneof![
        prop::collection::vec(any_member(), 1..6),
        prop::collection::vec(any_waiting(), 1..6),
    ]
}

proptest! {
    /// A cluster begins at most once, and only where no other could know more.
    #[test]
    fn beginning_is_safe(members in any_members(), forced in prop::option::of(0usize..6)) {
        let Plan::Orders(orders) = plan(&members, forced) else { return Ok(()) };
        let begins: Vec<usize> = orders.iter().filter_map(|order| match order {
            Order::Begin { member, .. } => Some(*member),
            _ => None,
        }).collect();
        prop_assert!(begins.len() <= 1);
        let Some(chosen) = begins.first() else { return Ok(()) };
        prop_assert_eq!(orders.len(), 1);
        let all: Vec<&Position> = members.iter().filter_map(Member::position).collect();
        prop_assert_eq!(all.len(), members.len());
        if doubt(&members).is_some() {
            prop_assert_eq!(forced, Some(*chosen));
            return Ok(());
        }
        prop_assert!(!all.contains(&&Position::Failed));
        prop_assert!(all.iter().filter(|p| ***p == Position::Unclustered).count() <= 1);
        prop_assert_ne!(all[*chosen], &Position::Half);
        prop_assert!(all.iter().all(|p| p.rank() <= all[*chosen].rank()));
    }

    /// A member that hangs does not keep the others from joining forever.
    #[test]
    fn waiting_for_a_start_ends(members in any_members()) {
        let hangs = members.iter().any(Member::hangs);
        let restarts = |plan: Plan| matches!(plan, Plan::Orders(orders)
            if orders.iter().all(|order| matches!(order, Order::Restart { .. })) && !orders.is_empty());
        prop_assert!(!hangs || restarts(plan(&members, None)));
    }
}
