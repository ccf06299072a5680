//! K-ORC gives up on a credential, or takes too long.

use super::*;

const WORDS: &str = "invalid configuration creating resource: no such role";

fn refused(number: u64, made: i64) -> Stored {
    let mut stored = stored(number, made, false);
    stored.seen.stopped = true;
    stored.id = None;
    stored.words = WORDS.to_owned();
    stored
}

fn later(facts: Facts, day: i64, minutes: i64) -> Observed<CredentialRotations> {
    let mut observed = observed(facts, day);
    observed.now += jiff::SignedDuration::from_mins(minutes);
    observed
}

fn state(observed: &Observed<CredentialRotations>) -> (String, String, String) {
    let report = observed.report(&Applied::rehearse(Decision::hold()));
    let state = report.states().get(ROTATION_SCHEDULED).expect("reported");
    let truth = state.truth.as_str().to_owned();
    (truth, state.reason.clone(), state.message.clone())
}

fn names(observed: &Observed<CredentialRotations>) -> Vec<String> {
    let all = objects(observed);
    let credentials = all
        .iter()
        .filter(|object| object["kind"] == "ApplicationCredential");
    let name = |object: &Value| object["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    credentials.map(name).collect()
}

#[test]
fn a_refusal_is_told_and_tried_again_under_the_next_number() {
    let mut second = refused(2, 83);
    second.request = Some("leak".to_owned());
    let facts = Facts {
        credentials: vec![stored(1, 0, true), second],
        current: since(1, 0),
        ..known()
    };
    let pausing = later(facts.clone(), 83, 0);
    let told = format!(
        "K-ORC has given up on glance-2: {WORDS}, next attempt at 1970-03-25T00:01:00Z; glance-1 is valid until 1970-04-01T00:00:00Z and stays in use"
    );
    assert_eq!(state(&pausing), ("False".into(), reason::FAILED.into(), told));
    assert!(names(&pausing).is_empty());
    // Its object stays until then, for what K-ORC says of it.
    assert!(kept(&pausing).iter().any(|kept| kept.ends_with("ns/glance-2")));

    let trying = later(facts.clone(), 83, 1);
    assert_eq!(names(&trying), ["glance-3"]);
    let made = objects(&trying).pop().expect("an object");
    assert_eq!(made["metadata"]["annotations"][ROTATE_NOW], "leak", "still open");
    let (truth, _, told) = state(&trying);
    assert!(
        told.starts_with("glance-3 is being created; K-ORC has given up on glance-2"),
        "{told}"
    );
    assert_eq!(truth, "False");

    let mut third = Facts {
        credentials: [facts.credentials.clone(), vec![stored(3, 83, false)]].concat(),
        ..facts
    };
    assert_eq!(
        state(&later(third.clone(), 83, 2)).0,
        "False",
        "not before it worked"
    );
    third.credentials[2].seen.complete = true;
    let done = later(third, 83, 3);
    assert_eq!(state(&done).0, "True");
    assert!(!kept(&done).iter().any(|kept| kept.ends_with("ns/glance-2")));
}

#[test]
fn the_first_one_is_no_exception() {
    let facts = Facts {
        credentials: vec![refused(1, 0)],
        ..known()
    };
    let told = format!("K-ORC has given up on glance-1: {WORDS}, next attempt at 1970-01-01T00:01:00Z");
    let observed = later(facts.clone(), 0, 0);
    assert_eq!(state(&observed), ("False".into(), reason::FAILED.into(), told));
    assert_eq!(names(&later(facts, 0, 1)), ["glance-2"]);
}

#[test]
fn one_that_takes_longer_than_an_hour_is_told() {
    let facts = Facts {
        credentials: vec![stored(1, 0, true), stored(2, 83, false)],
        current: since(1, 0),
        ..known()
    };
    let (truth, why, _) = state(&later(facts.clone(), 83, 59));
    assert_eq!((truth.as_str(), why.as_str()), ("True", reason::ROTATING));
    let (truth, why, told) = state(&later(facts, 83, 60));
    assert_eq!((truth.as_str(), why.as_str()), ("False", reason::PROGRESSING));
    let words = "glance-2: Keystone does not answer, for more than an hour; glance-1 is valid until";
    assert!(told.starts_with(words), "{told}");

    let facts = Facts {
        credentials: vec![stored(1, 0, true)],
        current: since(1, 0),
        missing_role: Some("RoleAssignment glance-admin: no".to_owned()),
        ..known()
    };
    assert_eq!(state(&later(facts.clone(), 83, 59)).0, "True");
    let (truth, why, told) = state(&later(facts.clone(), 83, 60));
    assert_eq!((truth.as_str(), why.as_str()), ("False", reason::WAITING));
    assert!(
        told.starts_with("glance-2 is waiting: RoleAssignment glance-admin: no, for"),
        "{told}"
    );
    // Nothing was in the way, nobody looked: it is made now.
    let free = Facts {
        missing_role: None,
        ..facts
    };
    assert_eq!(state(&later(free, 84, 0)).0, "True");
}

#[test]
fn every_field_acts_or_is_refused() {
    let digest = |facts: Facts, day: i64, spec: &Value| {
        let mut observed = observed(facts, day);
        let Ok(parsed) = serde_json::from_value(spec.clone()) else {
            return "the API knows no such value".to_owned();
        };
        observed.object.spec = parsed;
        let references = CredentialRotations::references(&observed.object);
        let decided = match observed.decide() {
            Ok(decision) => {
                let wanted: Vec<&Value> = decision.wanted().iter().map(Wanted::object).collect();
                let kept: Vec<String> = decision.kept().iter().map(ToString::to_string).collect();
                json!([wanted, kept, format!("{:?}", decision.actions())])
            }
            Err(refused) => json!(refused.to_string()),
        };
        let report = observed.report(&Applied::rehearse(Decision::hold()));
        let told = format!("{:?} {}", report.states(), report.status_fields());
        format!("{references:?} {decided} {told}")
    };
    // One credential that is to be replaced soon, and one that was replaced and is to go.
    let mut one = known();
    one.credentials = vec![stored(1, 0, true)];
    one.current = since(1, 0);
    let mut two = known();
    two.credentials = vec![stored(1, 0, true), stored(2, 84, true)];
    two.current = since(2, 84);
    let spec = json!(rotation().spec);
    let ignored = c5c3_api::fields::ignored("CredentialRotation", &[spec], |spec| {
        digest(one.clone(), 84, spec) + &digest(two.clone(), 91, spec)
    });
    // Admission lets it say only what cephClient says, which decides.
    assert_eq!(ignored, ["rotationType"], "accepted and ignored");
}
