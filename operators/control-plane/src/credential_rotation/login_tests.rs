use super::*;
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

const CLOUDS: &str = "clouds: {admin: {auth: {auth_url: 'http://k', password: root}, region_name: north}}";

fn read<T: DeserializeOwned>(object: Value) -> T {
    serde_json::from_value(object).expect("it fits")
}

fn secret(key: &str, text: &str) -> Secret {
    read(json!({"metadata": {"name": "s"}, "data": {key: encoded(text)}}))
}

fn status(id: Option<&str>, available: &str, words: &str) -> Value {
    json!({"id": id, "conditions": [
        {"type": "Available", "status": available}, {"type": "Progressing", "status": "True", "message": words},
    ]})
}

fn user(resource: &Value, roles: Option<&str>) -> User {
    let annotations = roles.map(|roles| json!({crate::plan::ROLES: roles}));
    read(json!({
        "metadata": {"name": "glance", "namespace": "ns", "annotations": annotations.unwrap_or(json!({}))},
        "spec": {"cloudCredentialsRef": {"cloudName": "admin", "secretName": "clouds"}, "resource": resource},
        "status": status(Some("u1"), "True", ""),
    }))
}

fn glance() -> User {
    let resource = json!({"defaultProjectRef": "service", "passwordRef": {"name": "pw", "key": "k"}});
    user(&resource, Some("admin, service"))
}

fn grant(name: &str, resource: &Value, available: &str) -> RoleAssignment {
    read(json!({
        "metadata": {"name": name},
        "spec": {"cloudCredentialsRef": {"cloudName": "admin", "secretName": "clouds"}, "resource": resource},
        "status": status(None, available, "Waiting for User/glance to be ready"),
    }))
}

fn project(id: Option<&str>) -> Project {
    read(json!({
        "metadata": {"name": "service"},
        "spec": {"cloudCredentialsRef": {"cloudName": "admin", "secretName": "clouds"}},
        "status": status(id, "False", "Keystone does not answer"),
    }))
}

fn sources() -> Sources {
    Sources {
        clouds: Some(secret(clouds_yaml::KEY, CLOUDS)),
        password: Some(secret("k", "hush")),
        project: Some(project(Some("p1"))),
        assignments: Vec::new(),
    }
}

#[test]
fn the_user_itself_logs_in() {
    let mut known = sources();
    if let Some(data) = known.clouds.as_mut().and_then(|secret| secret.data.as_mut()) {
        data.insert(CA.to_owned(), encoded("PEM"));
    }
    let login = login(&glance(), &known).unwrap_or_else(|lack| panic!("{lack:?}"));
    let cloud: Value = serde_saphyr::from_str(&login.clouds.0).expect("YAML");
    let auth = json!({"auth_url": "http://k/v3", "user_id": "u1", "password": "hush", "project_id": "p1"});
    let expected = json!({"clouds": {"openstack": {"auth": auth, "region_name": "north"}}});
    assert_eq!(cloud, expected);
    let data = data(&login);
    assert_eq!(data[CA], encoded("PEM"));
    assert!(data.contains_key(clouds_yaml::KEY));
}

#[test]
fn what_is_missing_is_named_and_no_secret_is_told() {
    let waits = |text: &str| Err(Lack::Waits(text.to_owned()));
    let told = |user: &User, sources: &Sources| login(user, sources).map(|_| ());
    let resource = |fields: Value| user(&fields, None);
    let both = json!({"defaultProjectRef": "service", "passwordRef": "pw"});
    let mut young = glance();
    young.status = None;
    let without = |change: fn(&mut Sources)| {
        let mut sources = sources();
        change(&mut sources);
        sources
    };
    let imported: User = read(json!({
        "metadata": {"name": "glance"},
        "spec": {"cloudCredentialsRef": {"cloudName": "admin", "secretName": "clouds"},
            "managementPolicy": "unmanaged", "import": {"filter": {"name": "glance"}}},
    }));
    for (user, sources, expected) in [
        (glance(), sources(), Ok(())),
        (imported, sources(), Err(Lack::NoPassword)),
        (
            resource(json!({"defaultProjectRef": "service"})),
            sources(),
            Err(Lack::NoPassword),
        ),
        (
            resource(json!({"passwordRef": "pw"})),
            sources(),
            Err(Lack::NoProject),
        ),
        (
            young,
            sources(),
            waits("User glance: K-ORC has not created it yet"),
        ),
        (
            glance(),
            without(|sources| sources.project = None),
            waits("Project service is missing: create it"),
        ),
        (
            glance(),
            without(|sources| sources.project = Some(project(None))),
            waits("Project service: Keystone does not answer"),
        ),
        (
            glance(),
            without(|sources| sources.password = None),
            waits("Secret pw has no key k: create it"),
        ),
        (
            resource(both),
            sources(),
            waits("Secret pw has no key password: create it"),
        ),
        (
            glance(),
            without(|sources| sources.clouds = None),
            waits(
                "Secret clouds has no clouds.yaml: create it, or correct cloudCredentialsRef of User glance",
            ),
        ),
        (
            glance(),
            without(|sources| sources.clouds = Some(secret(clouds_yaml::KEY, "clouds: hush"))),
            waits("Secret clouds: clouds.yaml is not YAML in the form that OpenStack clients read"),
        ),
    ] {
        assert_eq!(told(&user, &sources), expected);
    }
}

#[test]
fn a_password_is_used_when_keystone_has_it() {
    let mut user = glance();
    let told = |user: &mut User, applied: &str| {
        let shown = json!({"appliedPasswordRef": applied}).as_object().cloned();
        user.status.as_mut().expect("there").resource = shown;
        login(user, &sources()).map(|_| ())
    };
    assert_eq!(told(&mut user, "pw"), Ok(()));
    assert_eq!(told(&mut user, ""), Ok(()), "a K-ORC that does not tell");
    let words = "User glance: K-ORC has not set the password of Secret pw yet";
    assert_eq!(told(&mut user, "pw-before"), Err(Lack::Waits(words.to_owned())));
}

#[test]
fn every_role_has_to_be_assigned() {
    let on = |role: &str, user: &str, project: &str| json!({"roleRef": role, "userRef": user, "projectRef": project});
    let has = |role: &str| grant(&format!("x-{role}"), &on(role, "glance", "service"), "True");
    let mut going = has("service");
    going.metadata.deletion_timestamp = Some(read(json!("2026-01-01T00:00:00Z")));
    let imported: RoleAssignment = read(json!({
        "metadata": {"name": "found"},
        "spec": {"cloudCredentialsRef": {"cloudName": "admin", "secretName": "clouds"},
            "managementPolicy": "unmanaged", "import": {"filter": on("service", "glance", "service")}},
        "status": status(None, "True", ""),
    }));
    let none = "User glance has no RoleAssignment of Role service on Project service: create one";
    let waiting = "Waiting for User/glance to be ready";
    for (assignments, expected) in [
        (vec![has("admin"), has("service")], None),
        (vec![has("admin"), imported], None),
        (vec![has("admin")], Some(none.to_owned())),
        (
            vec![
                has("admin"),
                grant("other", &on("service", "nova", "service"), "True"),
            ],
            Some(none.to_owned()),
        ),
        (
            vec![
                has("admin"),
                grant("other", &on("service", "glance", "admin"), "True"),
            ],
            Some(none.to_owned()),
        ),
        (
            vec![
                has("admin"),
                grant("late", &on("service", "glance", "service"), "False"),
            ],
            Some(format!("RoleAssignment late: {waiting}")),
        ),
        (
            vec![has("admin"), going],
            Some(format!("RoleAssignment x-service: {waiting}")),
        ),
    ] {
        assert_eq!(missing_role(&glance(), &assignments), expected);
    }
    // Who names no roles is taken to have them.
    let plain = user(&json!({}), None);
    assert_eq!(missing_role(&plain, &[]), None);
    assert_eq!(
        (roles(&plain), roles(&glance())),
        (vec!["service"], vec!["admin", "service"])
    );
}

#[test]
fn what_the_user_names_is_watched() {
    let all = references(&glance());
    let all: Vec<String> = all.iter().map(ToString::to_string).collect();
    let of = |kind: &str, name: &str| format!("{kind}.openstack.k-orc.cloud ns/{name}");
    assert_eq!(
        all,
        [
            "Secret ns/clouds".to_owned(),
            "Secret ns/pw".to_owned(),
            of("Project", "service"),
            // Any of the namespace: no name is known before one is made.
            of("RoleAssignment", ""),
        ]
    );
}
