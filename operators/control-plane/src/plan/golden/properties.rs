//! What holds for every plan.

use super::super::*;
use super::world::*;
use proptest::prelude::*;
use serde_json::json;

fn spec() -> impl Strategy<Value = Value> {
    (any::<[bool; 8]>(), prop_oneof![Just("2025.2"), Just("2026.1"), Just("1999.1")]).prop_map(|(flags, release)| {
            let [glance, placement, korc, messaging, host, servers, valkey, nova] = flags;
            let mut changes = json!({
                "openStackRelease": release,
                "services": {"glance": {"enabled": glance}, "placement": {"enabled": placement}, "nova": {"enabled": nova}},
                "korc": {"enabled": korc},
            });
            if messaging { changes["infrastructure"]["messaging"] = json!({"replicas": 1}); }
            if host { changes["infrastructure"]["database"] = json!({"replicas": null, "host": "db"}); }
            if servers { changes["infrastructure"]["cache"] = json!({"replicas": null, "servers": ["c:1"]}); }
            if valkey { changes["infrastructure"]["valkey"] = json!({"replicas": 1}); }
            changes
        })
}

fn health() -> impl Strategy<Value = Health> {
    prop_oneof![
        3 => Just(Health::Ready),
        1 => Just(Health::progressing("is starting")),
        1 => Just(failed("no".to_owned())),
    ]
}

proptest! {
    /// Whatever was before, whatever is seen: planning never panics, never wants and removes the
    /// same object, keeps everything while refused, and is done exactly when nothing blocks.
    #[test]
    fn plans_hold_together(before in spec(), after in spec(), healths in prop::collection::vec(health(), 60), lose in any::<u64>()) {
        let old = small(&before);
        let pick = |name: &str| healths[name.len() * 7 % healths.len()].clone();
        let mut seen = carried_out(&old, empty(&old), pick);
        let object = small(&after);
        seen.random.extend(empty(&object).random);
        let mut index = 0u32;
        seen.children.retain(|_, _| { index += 1; lose >> (index % 64) & 1 == 0 });
        let plan = plan(&object, &seen);
        let wanted: std::collections::BTreeSet<Reference> = plan.wanted().map(reference).collect();
        for removed in plan.removal.now.iter().chain(&plan.removal.later) {
            prop_assert!(!wanted.contains(removed), "{removed}");
        }
        prop_assert!(plan.refusal.is_none() || plan.removal.is_empty());
        let all_done = plan.steps.iter().all(|step| step.state.is_done());
        prop_assert_eq!(plan.blocker().is_none(), all_done);
        for step in &plan.steps {
            if let State::Waiting(steps) = &step.state {
                prop_assert!(!steps.is_empty() && steps.iter().all(|name| step.needs.contains(name)));
            }
        }
        // Nothing of a held-back part is made while Keystone is down, and nothing made is lost.
        if plan.refusal.is_none() {
            for (owned, _) in &seen.owned {
                let known = wanted.contains(owned) || plan.kept().any(|kept| kept == owned) || plan.removal.now.contains(owned);
                prop_assert!(known, "{owned} is forgotten");
            }
        }
    }
}
