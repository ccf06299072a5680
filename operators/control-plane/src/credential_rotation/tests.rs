use super::*;
use c5c3_api::c5c3::{CredentialRotationSpec, RotationSchedule, RotationType};
use c5c3_api::foreign::korc::{CloudCredentialsRef, UserSpec};
use k8s_openapi::ByteString;

fn at(day: i64) -> Timestamp {
    Timestamp::from_second(day * 86_400).expect("a time")
}

fn rotation() -> CredentialRotation {
    let mut object = CredentialRotation::new(
        "glance",
        CredentialRotationSpec {
            target_service_user: "glance".into(),
            rotation_type: RotationType::default(),
            schedule: RotationSchedule {
                interval_days: 90,
                pre_rotation_days: 7,
            },
            grace_period_days: 1,
        },
    );
    object.metadata.namespace = Some("ns".into());
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
        },
        data: [(
            "application_credential_id".to_owned(),
            ByteString(format!("id-{number}").into_bytes()),
        )]
        .into(),
        words: "Keystone does not answer".to_owned(),
    }
}

fn observed(facts: Facts, day: i64) -> Observed<CredentialRotations> {
    Observed {
        object: rotation(),
        facts,
        now: at(day),
    }
}

fn objects(observed: &Observed<CredentialRotations>) -> Vec<Value> {
    let decision = CredentialRotations::decide(observed).expect("decides");
    decision
        .wanted()
        .iter()
        .map(|wanted| wanted.object().clone())
        .collect()
}

#[test]
fn the_first_credential_has_the_roles_of_the_user() {
    let facts = |roles| Facts {
        user: Some(user(roles)),
        ..Facts::default()
    };
    let [made] = objects(&observed(facts(Some("admin, service")), 0))
        .try_into()
        .expect("one object");
    assert_eq!(made["metadata"]["name"], "glance-1");
    let resource = &made["spec"]["resource"];
    assert_eq!(resource["roleRefs"], json!(["admin", "service"]));
    assert_eq!(resource["secretRef"], "glance-app-credential-1");
    assert_eq!(resource["expiresAt"], "1970-04-01T00:00:00Z");
    assert_eq!(made["spec"]["cloudCredentialsRef"]["secretName"], "clouds");
    let [made] = objects(&observed(facts(None), 0)).try_into().expect("one object");
    assert_eq!(made["spec"]["resource"]["roleRefs"], json!(["service"]));
}

#[test]
fn without_its_user_it_says_so() {
    let error = CredentialRotations::decide(&observed(Facts::default(), 0)).expect_err("no user");
    assert_eq!(error.reason(), "UserMissing");
    assert!(error.to_string().contains("User glance"), "{error}");
}

#[test]
fn consumers_get_a_copy_of_the_newest_complete_credential() {
    let facts = Facts {
        user: Some(user(None)),
        credentials: vec![stored(1, 0, true), stored(2, 83, true)],
        current: Some(Current {
            number: 1,
            since: at(0),
        }),
        ..Facts::default()
    };
    let observed = observed(facts, 84);
    let [secret] = objects(&observed).try_into().expect("one object");
    assert_eq!(secret["metadata"]["name"], "glance-app-credential");
    assert_eq!(secret["metadata"]["annotations"][CREDENTIAL], "glance-2");
    assert_eq!(
        secret["metadata"]["annotations"][SWITCHED],
        "1970-03-26T00:00:00Z"
    );
    let decision = CredentialRotations::decide(&observed).expect("decides");
    let report = CredentialRotations::report(&observed, &Applied::rehearse(decision));
    let status = report.status_fields();
    assert_eq!(status["currentCredentialRef"]["name"], "glance-2");
    assert_eq!(status["lastRotation"], "1970-03-25T00:00:00Z");
    assert_eq!(status["nextRotation"], "1970-06-16T00:00:00Z");
}

#[test]
fn a_credential_that_is_not_complete_changes_nothing_for_consumers() {
    let facts = Facts {
        user: Some(user(None)),
        credentials: vec![stored(1, 0, true), stored(2, 83, false)],
        current: Some(Current {
            number: 1,
            since: at(0),
        }),
        ..Facts::default()
    };
    let observed = observed(facts, 84);
    let [secret] = objects(&observed).try_into().expect("one object");
    assert_eq!(secret["metadata"]["annotations"][CREDENTIAL], "glance-1");
    let report = CredentialRotations::report(&observed, &Applied::rehearse(Decision::hold()));
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
        user: Some(user(None)),
        ..Facts::default()
    };
    let observed = observed(facts, 1);
    let report = CredentialRotations::report(&observed, &Applied::rehearse(Decision::hold()));
    assert!(!format!("{report:?}").contains("id-1"));
}
