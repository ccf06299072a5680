//! The end of an update.

use super::world::*;
use super::*;

/// Every service has the new release, and the last phase was that of services.
fn updated(verified: Option<Result<(), String>>) -> Plan {
    let old = installed(small(&json!({})), "2025.2");
    let seen = running(&old);
    let mut new = installed(small(&json!({"openStackRelease": "2026.1"})), "2025.2");
    let mut seen = carried_out(&new, seen, ready);
    if let Some(status) = new.status.as_mut() {
        status.update_phase = Some(UpdatePhase::UpdatingServices);
    }
    seen.verified = verified;
    plan(&new, &seen)
}

#[test]
fn an_update_is_complete_when_the_services_answered() {
    let asked = updated(None);
    assert_eq!(asked.update, UpdatePhase::Verifying);
    assert!(asked.awaits_verification() && asked.installed.as_deref() == Some("2025.2"));
    let refused = updated(Some(Err("ask image through its public endpoint: 503".to_owned())));
    assert_eq!(refused.update, UpdatePhase::Verifying);
    let blocker = refused.blocker().map(Step::text).unwrap_or_default();
    assert!(
        blocker.contains("ask image through its public endpoint"),
        "{blocker}"
    );
    let served = updated(Some(Ok(())));
    assert_eq!(served.update, UpdatePhase::Complete);
    assert!(!served.awaits_verification() && served.installed.as_deref() == Some("2026.1"));
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
