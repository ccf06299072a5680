use super::*;
use crate::clouds_yaml::Cloud;
use c5c3_api::c5c3::{CredentialRotationSpec, RotationSchedule, RotationType};
use c5c3_api::conditions::reason;
use c5c3_api::foreign::korc::UserSpec;
use serde_json::{Value, json};

#[path = "refusal_tests.rs"]
mod refusals;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(day * 86_400).expect("a time")
}

fn rotation() -> CredentialRotation {
    let mut object = CredentialRotation::new(
        "glance",
        CredentialRotationSpec {
            target_service_user: "glance".into(),
            rotation_type: RotationType::default(),
            ceph_client: None,
            schedule: RotationSchedule {
                interval_days: 90,
                pre_rotation_days: 7,
            },
            grace_period_days: 1,
        },
    );
    object.metadata.namespace = Some("ns".into());
    object.metadata.uid = Some("3f2a9c1d-0000-4000-8000-000000000000".into());
    object
}

fn user(roles: Option<&str>) -> User {
    let mut user = User::new(
        "glance",
        UserSpec {
            cloud_credentials_ref: CloudCredentialsRef {
                cloud_name: "admin".into(),
                secret_name: "clouds".into(),
            },
            ..UserSpec::default()
        },
    );
    user.metadata.annotations = roles.map(|roles| [(crate::plan::ROLES.to_owned(), roles.to_owned())].into());
    user
}

fn stored(number: u64, made: i64, complete: bool) -> Stored {
    Stored {
        seen: schedule::Credential {
            number,
            created: at(made),
            expires: at(made + 90),
            complete,
            deleting: false,
            lost: false,
            on_request: false,
            stopped: false,
            made: complete,
        },
        id: Some(format!("id-{number}")),
        secret: Some(Hidden(format!("hush-{number}"))),
        has_secret: true,
        request: None,
        words: "Keystone does not answer".to_owned(),
    }
}

fn known() -> Facts {
    let cloud = Cloud {
        auth_url: "http://keystone/v3".to_owned(),
        interface: None,
    };
    Facts {
        user: Some(user(None)),
        cloud: Some(Ok(cloud)),
        login: Some(Ok(Login {
            clouds: Hidden("clouds: {}".to_owned()),
            ca: None,
        })),
        random: [7; 24],
        ..Facts::default()
    }
}

fn since(number: u64, day: i64) -> Option<Current> {
    Some(Current {
        number,
        since: at(day),
    })
}

fn text(secret: &Value, key: &str) -> String {
    let bytes: k8s_openapi::ByteString = serde_json::from_value(secret["data"][key].clone()).expect("bytes");
    String::from_utf8(bytes.0).expect("text")
}

fn message(observed: &Observed<CredentialRotations>) -> String {
    let report = observed.report(&Applied::rehearse(Decision::hold()));
    report
        .states()
        .get(ROTATION_SCHEDULED)
        .expect("reported")
        .message
        .clone()
}

fn observed(facts: Facts, day: i64) -> Observed<CredentialRotations> {
    Observed {
        object: rotation(),
        facts,
        now: at(day),
    }
}

/// The object that it waits for.
fn blocker(facts: Facts) -> Option<String> {
    let report = observed(facts, 84).report(&Applied::rehearse(Decision::hold()));
    let state = report.states().get(ROTATION_SCHEDULED).expect("reported");
    state.blocker.as_ref().map(ToString::to_string)
}

#[test]
fn what_it_waits_for_is_named_for_programs() {
    let first = Facts {
        credentials: vec![stored(1, 83, false)],
        ..known()
    };
    let credential = "ApplicationCredential.openstack.k-orc.cloud glance-1";
    assert_eq!(blocker(first).as_deref(), Some(credential));
    let held = Facts {
        missing_role: Some("the user has no role yet".to_owned()),
        ..known()
    };
    let user = "User.openstack.k-orc.cloud glance";
    assert_eq!(blocker(held).as_deref(), Some(user));
    let well = Facts {
        credentials: vec![stored(1, 83, true)],
        current: since(1, 83),
        ..known()
    };
    assert_eq!(blocker(well), None);
}

/// The login aside.
fn objects(observed: &Observed<CredentialRotations>) -> Vec<Value> {
    let mut all = all_objects(observed);
    all.retain(|object| object["metadata"]["name"] != "glance-login");
    all
}

fn all_objects(observed: &Observed<CredentialRotations>) -> Vec<Value> {
    let decision = observed.decide().expect("decides");
    decision
        .wanted()
        .iter()
        .map(|wanted| wanted.object().clone())
        .collect()
}

fn kept(observed: &Observed<CredentialRotations>) -> Vec<String> {
    let decision = observed.decide().expect("decides");
    decision.kept().iter().map(ToString::to_string).collect()
}

#[test]
fn the_first_credential_has_the_roles_of_the_user() {
    let facts = |roles| Facts {
        user: Some(user(roles)),
        ..known()
    };
    let [secret, made] = objects(&observed(facts(Some("admin, service")), 0))
        .try_into()
        .expect("two objects");
    // K-ORC reads the secret, so it is there first.
    assert_eq!(secret["metadata"]["name"], "glance-app-credential-1");
    assert_eq!(text(&secret, "value"), "07".repeat(24));
    assert_eq!(made["metadata"]["name"], "glance-1");
    let resource = &made["spec"]["resource"];
    assert_eq!(resource["roleRefs"], json!(["admin", "service"]));
    assert_eq!(resource["name"], "glance-1-3f2a9c1d");
    assert_eq!(resource["secretRef"], "glance-app-credential-1");
    assert_eq!(resource["expiresAt"], "1970-04-01T00:00:00Z");
    let login = json!({"cloudName": "openstack", "secretName": "glance-login"});
    assert_eq!(made["spec"]["cloudCredentialsRef"], login);
    let [_, made] = objects(&observed(facts(None), 0))
        .try_into()
        .expect("two objects");
    assert_eq!(made["spec"]["resource"]["roleRefs"], json!(["service"]));
}

#[test]
fn the_login_of_the_user_is_there_before_it_is_used() {
    let [login, _, made] = all_objects(&observed(known(), 0))
        .try_into()
        .expect("three objects");
    assert_eq!(login["metadata"]["name"], "glance-login");
    assert_eq!(text(&login, "clouds.yaml"), "clouds: {}");
    assert_eq!(made["kind"], "ApplicationCredential");
    // One that cannot be told again stays, also for what an earlier version made without it.
    let facts = Facts {
        credentials: vec![stored(1, 0, true)],
        current: since(1, 0),
        login: Some(Err(Lack::NoPassword)),
        ..known()
    };
    let observed = observed(facts, 1);
    assert!(kept(&observed).contains(&"Secret ns/glance-login".to_owned()));
    let told = message(&observed);
    assert!(told.starts_with("glance-1 is valid until"), "{told}");
}

#[test]
fn nothing_is_asked_for_before_it_can_be_made() {
    let role = "RoleAssignment glance-admin: Waiting for Role/admin to be ready";
    let facts = |login: Result<Login, Lack>, missing_role: Option<&str>| Facts {
        login: Some(login),
        missing_role: missing_role.map(str::to_owned),
        ..known()
    };
    let login = || known().login.and_then(Result::ok).ok_or(Lack::NoPassword);
    let waits = |text: &str| Err(Lack::Waits(text.to_owned()));
    for (facts, words) in [
        (facts(login(), Some(role)), role),
        (
            facts(waits("User glance: is made"), Some(role)),
            "User glance: is made",
        ),
    ] {
        let first = observed(facts.clone(), 0);
        assert!(objects(&first).is_empty());
        let report = first.report(&Applied::rehearse(Decision::hold()));
        let state = report.states().get(ROTATION_SCHEDULED).expect("reported");
        assert_eq!(
            (state.reason.as_str(), state.truth.as_str()),
            (reason::WAITING, "False")
        );
        assert_eq!(state.message, format!("glance-1 is waiting: {words}"));
        assert_eq!(
            report.status_fields().get("nextRotation"),
            None,
            "it is not known"
        );

        // Consumers keep what they have, and the request stays open.
        let mut next = observed(
            Facts {
                credentials: vec![stored(1, 0, true)],
                current: since(1, 0),
                ..facts
            },
            1,
        );
        next.object.metadata.annotations = Some([(ROTATE_NOW.to_owned(), "leak".to_owned())].into());
        let told = message(&next);
        assert!(
            told.starts_with(&format!("glance-2 is waiting: {words}; glance-1 is valid")),
            "{told}"
        );
        let report = next.report(&Applied::rehearse(Decision::hold()));
        assert_eq!(report.status_fields().get("rotateNow"), None);
    }
    for (lack, reason, words) in [
        (
            Lack::NoPassword,
            "PasswordMissing",
            "User glance has no passwordRef",
        ),
        (
            Lack::NoProject,
            "ProjectMissing",
            "User glance has no defaultProjectRef",
        ),
    ] {
        let error = observed(facts(Err(lack), None), 0).decide().expect_err("refused");
        assert_eq!(error.reason(), reason);
        assert_eq!(error.retry(), Retry::OnChange);
        assert!(error.to_string().starts_with(words), "{error}");
    }
}

#[test]
fn the_login_goes_after_the_credentials() {
    let going = |credentials: Vec<Stored>| {
        let mut observed = observed(
            Facts {
                credentials,
                ..known()
            },
            1,
        );
        observed.object.metadata.deletion_timestamp =
            Some(k8s_openapi::apimachinery::pkg::apis::meta::v1::Time(at(1)));
        assert!(all_objects(&observed).is_empty());
        kept(&observed)
    };
    assert_eq!(going(vec![stored(1, 0, true)]), ["Secret ns/glance-login"]);
    assert!(going(Vec::new()).is_empty());
}

#[test]
fn a_secret_that_was_chosen_before_a_crash_is_used() {
    let facts = Facts {
        chosen: [(1, Hidden("before".to_owned()))].into(),
        ..known()
    };
    let [secret, _] = objects(&observed(facts, 0)).try_into().expect("two objects");
    assert_eq!(text(&secret, "value"), "before");
}

#[test]
fn a_secret_that_was_deleted_is_put_back() {
    let mut lost = stored(1, 0, true);
    lost.has_secret = false;
    let facts = Facts {
        credentials: vec![lost],
        current: since(1, 0),
        ..known()
    };
    let [secret, stable] = objects(&observed(facts, 1)).try_into().expect("two objects");
    assert_eq!(secret["metadata"]["name"], "glance-app-credential-1");
    assert_eq!(text(&secret, "value"), "hush-1");
    assert_eq!(stable["metadata"]["name"], "glance-app-credential");
}

#[test]
fn a_request_is_honoured_once() {
    let mut facts = Facts {
        credentials: vec![stored(1, 0, true)],
        current: since(1, 0),
        ..known()
    };
    let ask = |facts: &Facts, status: Option<&str>| {
        let mut observed = observed(facts.clone(), 1);
        observed.object.metadata.annotations = Some([(ROTATE_NOW.to_owned(), "leak".to_owned())].into());
        observed.object.status = Some(CredentialRotationStatus {
            rotate_now: status.map(str::to_owned),
            ..CredentialRotationStatus::default()
        });
        observed
    };
    let asked = ask(&facts, Some("before"));
    let made = objects(&asked).pop().expect("an object");
    assert_eq!(made["metadata"]["name"], "glance-2");
    assert_eq!(made["metadata"]["annotations"][ROTATE_NOW], "leak");
    let report = asked.report(&Applied::rehearse(Decision::hold()));
    assert_eq!(report.status_fields()["rotateNow"], "leak");
    assert_eq!(objects(&ask(&facts, Some("leak"))).len(), 1, "the status knows");
    // The status was not written, but the credential is there.
    let mut second = stored(2, 1, true);
    second.request = Some("leak".to_owned());
    second.seen.on_request = true;
    facts.credentials.push(second);
    let asked = ask(&facts, None);
    let [stable] = objects(&asked).try_into().expect("one object");
    assert_eq!(text(&stable, "application_credential_id"), "id-2");
    assert!(
        message(&asked).contains("consumers are switching away from glance-1"),
        "{}",
        message(&asked)
    );
    facts.current = since(2, 1);
    facts.behind = vec!["glance-abc".to_owned()];
    let words = message(&ask(&facts, None));
    assert!(words.contains("glance-1 is still used by glance-abc"), "{words}");
    facts.behind.clear();
    let words = message(&ask(&facts, None));
    assert!(
        words.ends_with("no pod uses glance-1 any more; deletion at 1970-01-03T00:00:00Z"),
        "{words}"
    );
}

#[test]
fn a_keystone_that_is_away_changes_no_secret() {
    let facts = Facts {
        credentials: vec![stored(1, 0, true), stored(2, 83, false)],
        current: since(2, 83),
        ..known()
    };
    let observed = observed(facts, 84);
    assert_eq!(objects(&observed), Vec::<Value>::new());
    assert_eq!(
        message(&observed),
        "glance-2: Keystone does not answer; consumers keep using it"
    );
}

#[test]
fn a_login_that_cannot_be_read_is_told() {
    let facts = Facts {
        credentials: vec![stored(1, 0, false)],
        cloud: Some(Err("Secret clouds has no clouds.yaml: create it".to_owned())),
        ..known()
    };
    let words = message(&observed(facts, 1));
    assert_eq!(words, "glance-1: Secret clouds has no clouds.yaml: create it");
}

#[test]
fn without_its_user_it_says_so() {
    let error = observed(Facts::default(), 0).decide().expect_err("no user");
    assert_eq!(error.reason(), "UserMissing");
    assert!(error.to_string().contains("User glance"), "{error}");
    let user = error.blocker().map(|user| user.to_string());
    assert_eq!(user.as_deref(), Some("User.openstack.k-orc.cloud glance"));
}

#[test]
fn consumers_get_the_newest_complete_credential() {
    let facts = Facts {
        credentials: vec![stored(1, 0, true), stored(2, 83, true)],
        current: since(1, 0),
        ..known()
    };
    let observed = observed(facts, 84);
    let [secret] = objects(&observed).try_into().expect("one object");
    assert_eq!(secret["metadata"]["name"], "glance-app-credential");
    assert_eq!(secret["metadata"]["annotations"][CREDENTIAL], "glance-2");
    assert_eq!(text(&secret, "application_credential_secret"), "hush-2");
    let clouds = text(&secret, "clouds.yaml");
    assert!(clouds.contains("\"http://keystone/v3\"") && clouds.contains("\"hush-2\""));
    assert_eq!(
        secret["metadata"]["annotations"][SWITCHED],
        "1970-03-26T00:00:00Z"
    );
    let decision = observed.decide().expect("decides");
    let report = observed.report(&Applied::rehearse(decision));
    let status = report.status_fields();
    assert_eq!(status["currentCredentialRef"]["name"], "glance-2");
    assert_eq!(status["lastRotation"], "1970-03-25T00:00:00Z");
    assert_eq!(status["nextRotation"], "1970-06-16T00:00:00Z");
}

#[test]
fn a_credential_that_is_not_complete_changes_nothing_for_consumers() {
    let facts = Facts {
        credentials: vec![stored(1, 0, true), stored(2, 83, false)],
        current: since(1, 0),
        ..known()
    };
    let observed = observed(facts, 84);
    let [secret] = objects(&observed).try_into().expect("one object");
    assert_eq!(secret["metadata"]["annotations"][CREDENTIAL], "glance-1");
    let report = observed.report(&Applied::rehearse(Decision::hold()));
    let state = report.states().get(ROTATION_SCHEDULED).expect("reported");
    assert!(
        state.message.contains("glance-2: Keystone does not answer"),
        "{}",
        state.message
    );
}

#[test]
fn no_value_of_a_secret_is_told() {
    let facts = Facts {
        credentials: vec![stored(1, 0, true)],
        ..known()
    };
    let observed = observed(facts, 1);
    let report = observed.report(&Applied::rehearse(Decision::hold()));
    let told = format!("{report:?}");
    assert!(!told.contains("id-1") && !told.contains("hush-1"));
}
