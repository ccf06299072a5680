//! The end of an update.

use super::world::*;
use super::*;

/// Every service has the new release, and the last phase was that of services.
fn updated() -> (Seen, Plan) {
    let old = installed(small(&json!({})), "2025.2");
    let seen = running(&old);
    let mut new = installed(small(&json!({"openStackRelease": "2026.1"})), "2025.2");
    let seen = carried_out(&new, seen, ready);
    if let Some(status) = new.status.as_mut() {
        status.update_phase = Some(UpdatePhase::UpdatingServices);
    }
    let plan = plan(&new, &seen);
    (seen, plan)
}

#[test]
fn an_update_is_complete_when_the_services_answered() {
    let (seen, plan) = updated();
    assert!(plan.awaits_verification());
    let asked = plan.progress(&seen.children, &BTreeSet::new());
    assert_eq!(
        (asked.update, asked.installed.as_deref()),
        (UpdatePhase::Verifying, Some("2025.2"))
    );
    assert_eq!(asked.blocker().map(|step| step.name.as_str()), Some(VERIFICATION));
    let served = asked.verified("2026.1");
    assert_eq!(
        (served.update, served.installed.as_deref()),
        (UpdatePhase::Complete, Some("2026.1"))
    );
    assert!(served.blocker().is_none() && !served.awaits_verification());
}

#[test]
fn what_was_just_written_is_judged_as_it_is_now() {
    let (seen, plan) = updated();
    let keystone = seen
        .children
        .keys()
        .find(|child| child.kind.starts_with("Keystone."));
    let keystone = keystone.expect("a Keystone").clone();
    let mut live = seen.children.clone();
    let text = "its latest change has not been processed yet".to_owned();
    live.get_mut(&keystone).expect("there").health = Health::progressing(text.clone());
    // Nothing was written: the plan knew as much.
    assert!(plan.progress(&live, &BTreeSet::new()).awaits_verification());
    let progress = plan.progress(&live, &[keystone.clone()].into());
    let blocker = progress.blocker().expect("blocked");
    assert_eq!(blocker.state, State::Running(format!("Keystone: {text}")));
    assert_eq!(blocker.blocker.as_ref(), Some(&keystone));
    let told = &progress.services["keystone"];
    assert!(
        !told.ready
            && told
                .message
                .as_deref()
                .is_some_and(|message| message.ends_with(&text))
    );
    // An answer from before the change proves nothing of it.
    assert_eq!(progress.verified("2026.1").update, UpdatePhase::Verifying);
}

#[test]
fn there_is_a_login_with_and_without_korc() {
    for korc in [true, false] {
        let object = small(&json!({"korc": {"enabled": korc}}));
        let seen = running(&object);
        let login = login(&object, &seen).expect("a login");
        let found = crate::clouds_yaml::find(&login.text, &login.cloud).expect("a cloud");
        assert!(
            found.auth_url.starts_with("http://keystone."),
            "{}",
            found.auth_url
        );
        assert!(!format!("{login:?}").contains("auth_url"), "it is never shown");
    }
}

#[test]
fn what_services_stand_on_is_open_to_those_who_need_it() {
    let object = small(&json!({"infrastructure": {"messaging": {"replicas": 1}}}));
    let plan = plan(&object, &running(&object));
    let policies: Vec<&Value> = plan
        .wanted()
        .filter(|one| one["kind"] == "NetworkPolicy")
        .collect();
    let named: Vec<&Value> = policies.iter().map(|one| &one["metadata"]["name"]).collect();
    assert_eq!(named, ["mariadb", "memcached", "rabbitmq"]);
    for policy in &policies {
        let own = &policy["spec"]["podSelector"]["matchLabels"]["app.kubernetes.io/name"];
        assert_eq!(own, &policy["metadata"]["name"]);
        let typed: k8s_openapi::api::networking::v1::NetworkPolicy =
            serde_json::from_value((*policy).clone()).expect("a NetworkPolicy");
        assert_eq!(
            serde_json::to_value(typed.spec).expect("JSON"),
            policy["spec"],
            "nothing is lost"
        );
    }
    let cache = policies[1]["spec"]["ingress"].to_string();
    assert!(
        !cache.contains("namespaceSelector") && cache.contains("11211"),
        "{cache}"
    );
    let others = small(&json!({"infrastructure": {"database": {"host": "db.example.com"},
        "cache": {"servers": ["cache.example.com:11211"]}}}));
    let plan = super::plan(&others, &running(&others));
    assert!(
        !plan.wanted().any(|one| one["kind"] == "NetworkPolicy"),
        "servers of others are theirs"
    );
}
