//! What K-ORC's objects say is in a real Keystone, and stays there.
//!
//! Needs root. The images are built first; that takes minutes once, then nothing.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, ensure};
use end_to_end::cloud::{Cloud, ask, fed, said, token};
use end_to_end::patience::until_true;
use end_to_end::process;
use serde_json::{Value, json};

/// Twice the interval at which Keystone is looked at, and some.
const DRIFT: Duration = Duration::from_secs(140);
const SERVICES: usize = 8;
const KINDS: &str = "domains.openstack.k-orc.cloud,projects.openstack.k-orc.cloud,roles.openstack.k-orc.cloud,\
    groups.openstack.k-orc.cloud,users.openstack.k-orc.cloud,services.openstack.k-orc.cloud,\
    endpoints.openstack.k-orc.cloud,roleassignments.openstack.k-orc.cloud";
const CREDENTIALS: &str = "applicationcredentials.openstack.k-orc.cloud";

struct Keystone {
    cloud: Cloud,
    url: String,
    token: String,
}

fn object(kind: &str, name: &str, fields: &Value) -> Value {
    let mut spec = json!({"cloudCredentialsRef": {"cloudName": "admin", "secretName": "k-orc-clouds-yaml"}});
    let parts = spec.as_object_mut().zip(fields.as_object().cloned());
    if let Some((spec, fields)) = parts {
        spec.extend(fields);
    }
    json!({"apiVersion": "openstack.k-orc.cloud/v1alpha1", "kind": kind,
        "metadata": {"namespace": "openstack", "name": name}, "spec": spec})
}

fn managed(kind: &str, name: &str, resource: &Value) -> Value {
    object(
        kind,
        name,
        &json!({"managementPolicy": "managed", "resource": resource}),
    )
}

fn imported(kind: &str, name: &str, wanted: &str) -> Value {
    let import = json!({"filter": {"name": wanted}});
    object(
        kind,
        name,
        &json!({"managementPolicy": "unmanaged", "import": import}),
    )
}

fn secret(name: &str, key: &str, text: &str) -> Value {
    json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"namespace": "openstack", "name": name},
        "stringData": {key: text}})
}

/// The login of the user itself: only it can make its credentials.
fn login(password: &str) -> Value {
    let clouds = format!(
        "clouds: {{openstack: {{auth: {{auth_url: 'http://keystone.openstack.svc:5000/v3', username: glance, \
         password: {password}, project_name: service, user_domain_name: Default, project_domain_name: Default}}, \
         region_name: RegionOne, interface: internal}}}}"
    );
    secret("glance-login", "clouds.yaml", &clouds)
}

fn granted(role: &str) -> Value {
    let grant = json!({"roleRef": role, "userRef": "glance", "projectRef": "service"});
    managed("RoleAssignment", &format!("glance-{role}"), &grant)
}

fn credential() -> Value {
    let mut credential = managed(
        "ApplicationCredential",
        "glance-1",
        &json!({"userRef": "glance", "roleRefs": ["admin", "service"],
            "expiresAt": "2099-01-01T00:00:00Z", "secretRef": "glance-app-credential-1"}),
    );
    credential["spec"]["cloudCredentialsRef"] =
        json!({"cloudName": "openstack", "secretName": "glance-login"});
    credential
}

/// Eight services with three endpoints each, and what a service user needs.
fn objects() -> Vec<Value> {
    let clouds = "clouds: {admin: {auth: {auth_url: 'http://keystone.openstack.svc:5000/v3', username: admin, \
        password: try-me-admin, project_name: admin, user_domain_name: Default, project_domain_name: Default}, \
        region_name: RegionOne, interface: internal}}";
    let mut all = vec![
        secret("k-orc-clouds-yaml", "clouds.yaml", clouds),
        secret("glance-service-user", "password", "first-password"),
        imported("Domain", "default", "Default"),
        imported("Role", "admin", "admin"),
        imported("Role", "service", "service"),
        imported("Project", "admin", "admin"),
        managed("Domain", "guests", &json!({"description": "for guests"})),
        managed(
            "Project",
            "service",
            &json!({"domainRef": "default", "tags": ["b", "a"]}),
        ),
        managed("Role", "auditor", &json!({"description": "reads"})),
        managed("Group", "operators", &json!({"domainRef": "default"})),
        managed(
            "User",
            "glance",
            &json!({"domainRef": "default", "defaultProjectRef": "service",
            "passwordRef": {"name": "glance-service-user", "key": "password"}}),
        ),
        granted("admin"),
        granted("service"),
    ];
    for n in 0..SERVICES {
        let name = format!("service-{n}");
        all.push(managed(
            "Service",
            &name,
            &json!({"type": format!("type-{n}"), "description": "one of many"}),
        ));
        for interface in ["public", "internal", "admin"] {
            let url = format!("http://{name}.openstack.svc:80/{interface}");
            let resource = json!({"serviceRef": name, "interface": interface, "url": url});
            all.push(managed("Endpoint", &format!("{name}-{interface}"), &resource));
        }
    }
    all
}

impl Keystone {
    fn start() -> anyhow::Result<Self> {
        let cloud = Cloud::up(&["keystone", "mariadb", "memcached"])?;
        let port = process::free_port()?;
        let quickstart = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy/quickstart/identity.yaml");
        let yaml = std::fs::read_to_string(quickstart)?
            .replace("c5c3.io/expose: \"5000\"", &format!("c5c3.io/expose: \"{port}\""))
            .replace("http://127.0.0.1:5000/v3", &format!("http://127.0.0.1:{port}/v3"));
        cloud.kubectl(&["apply", "-f", "-"], &yaml)?;
        let keystone = Self {
            cloud,
            url: format!("http://127.0.0.1:{port}/v3"),
            token: String::new(),
        };
        // Applied before Keystone is there: they have to wait for it.
        keystone.apply(&objects())?;
        let ready = [
            "wait",
            "--for=condition=Ready",
            "keystone/keystone",
            "--timeout=300s",
        ];
        keystone.kubectl(&ready)?;
        let start = Instant::now();
        keystone.all_available(KINDS)?;
        // With K-ORC one that is asked for before its roles are assigned fails for good.
        keystone.apply(&[login("first-password"), credential()])?;
        keystone.all_available(CREDENTIALS)?;
        println!(
            "{} objects settled {:?} after Ready",
            objects().len() - 1,
            start.elapsed()
        );
        let token = token(&keystone.url, "try-me-admin")?;
        let token = token.map_err(|status| anyhow::anyhow!("no token: {status}"))?;
        Ok(Self { token, ..keystone })
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.cloud
            .kubectl(&[&["-n", "openstack"], arguments].concat(), "")
    }

    fn apply(&self, objects: &[Value]) -> anyhow::Result<()> {
        let list = json!({"apiVersion": "v1", "kind": "List", "items": objects});
        self.cloud
            .kubectl(&["apply", "-f", "-"], &list.to_string())
            .map(drop)
    }

    fn get(&self, what: &str) -> anyhow::Result<Value> {
        Ok(serde_json::from_str(
            &self.kubectl(&["get", what, "-o", "json"])?,
        )?)
    }

    fn id(&self, what: &str) -> anyhow::Result<String> {
        let object = self.get(what)?;
        let id = object.pointer("/status/id").and_then(Value::as_str);
        id.map(str::to_owned).with_context(|| format!("{what} has no id"))
    }

    fn all_available(&self, kinds: &str) -> anyhow::Result<()> {
        let waiting = self.kubectl(&[
            "wait",
            "--for=condition=Available",
            "--all",
            kinds,
            "--timeout=150s",
        ]);
        waiting
            .map(drop)
            .or_else(|error| Err(error.context(self.kubectl(&["get", "openstack"])?)))
    }

    /// An answer of Keystone; `None` when there is no such thing.
    fn ask(&self, method: &str, path: &str) -> anyhow::Result<Option<Value>> {
        let mut command = Command::new("curl");
        command.args(["-sS", "-w", "\n%{http_code}", "-m", "30", "-X", method, "-K", "-"]);
        command.arg(format!("{}{path}", self.url));
        let header = format!("header = \"X-Auth-Token: {}\"\n", self.token);
        let answer = said(fed(command, &header)?, path)?;
        let (body, status) = answer.rsplit_once('\n').context("a status")?;
        match status {
            "404" => Ok(None),
            _ if status.starts_with('2') => Ok(Some(serde_json::from_str(body).unwrap_or_default())),
            _ => anyhow::bail!("{method} {path}: {status} {body}"),
        }
    }

    /// The status line of a login with the credential in this Secret.
    fn login(&self, secret: &str) -> anyhow::Result<String> {
        let secret = self.get(&format!("secret/{secret}"))?;
        if secret["data"]["application_credential_id"].is_null() {
            return Ok("the credential is being created".to_owned());
        }
        let part = |key: &str| -> anyhow::Result<String> {
            let text = secret["data"][key]
                .as_str()
                .with_context(|| format!("no {key}"))?;
            let mut command = Command::new("base64");
            command.arg("-d");
            said(fed(command, text)?, "base64")
        };
        let credential = json!({"id": part("application_credential_id")?, "secret": part("application_credential_secret")?});
        ensure!(part("clouds.yaml")?.contains("v3applicationcredential"));
        let identity = json!({"methods": ["application_credential"], "application_credential": credential});
        let answer = ask(
            &format!("{}/auth/tokens", self.url),
            &[],
            Some(&json!({"auth": {"identity": identity}})),
        )?;
        Ok(answer.lines().next().unwrap_or_default().to_owned())
    }
}

fn eventually(what: &str, look: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let start = Instant::now();
    until_true(what, DRIFT, look)?;
    println!("{what}: after {:?}", start.elapsed());
    Ok(())
}

#[test]
fn objects_are_in_keystone_and_stay_there() -> anyhow::Result<()> {
    let keystone = Keystone::start()?;
    let (user, project) = (
        keystone.id("users.openstack.k-orc.cloud/glance")?,
        keystone.id("project/service")?,
    );
    let endpoint = keystone.id("endpoints.openstack.k-orc.cloud/service-0-public")?;
    let live = keystone
        .ask("GET", &format!("/endpoints/{endpoint}"))?
        .context("an endpoint")?;
    assert_eq!(live["endpoint"]["region"], "RegionOne");
    let live = keystone
        .ask("GET", &format!("/projects/{project}"))?
        .context("a project")?;
    assert_eq!(live["project"]["name"], "service");
    let answer = keystone.login("glance-app-credential-1")?;
    assert!(answer.contains("201"), "{answer}");

    // Nobody changes anything: Keystone is looked at, nothing is written.
    let ours = ["group=\"openstack.k-orc.cloud\"", "resource=\"secrets\""];
    let before = keystone.cloud.writes(&ours)?;
    std::thread::sleep(Duration::from_secs(75));
    keystone.cloud.nothing_written_since(&before, &ours)?;

    // Behind its back: an endpoint, a role of the user, and the credential itself.
    let role = keystone.id("roles.openstack.k-orc.cloud/service")?;
    keystone
        .ask("DELETE", &format!("/endpoints/{endpoint}"))?
        .context("deleted")?;
    keystone
        .ask(
            "DELETE",
            &format!("/projects/{project}/users/{user}/roles/{role}"),
        )?
        .context("revoked")?;
    let credential = keystone.id("applicationcredential/glance-1")?;
    keystone.ask(
        "DELETE",
        &format!("/users/{user}/application_credentials/{credential}"),
    )?;
    let answer = keystone.login("glance-app-credential-1")?;
    assert!(!answer.contains("201"), "{answer}");
    eventually("the endpoint is back", || {
        let id = keystone.id("endpoints.openstack.k-orc.cloud/service-0-public")?;
        Ok(id != endpoint && keystone.ask("GET", &format!("/endpoints/{id}"))?.is_some())
    })?;
    let assigned = format!("/role_assignments?user.id={user}&scope.project.id={project}&role.id={role}");
    eventually("the role is back", || {
        let list = keystone.ask("GET", &assigned)?.context("a list")?;
        Ok(list["role_assignments"]
            .as_array()
            .is_some_and(|list| list.len() == 1))
    })?;
    eventually("the credential works again", || {
        Ok(keystone.login("glance-app-credential-1")?.contains("201"))
    })?;

    // A new password reaches Keystone.
    keystone.apply(&[
        secret("glance-service-user", "password", "second-password"),
        login("second-password"),
    ])?;
    let login = |password: &str| {
        let user = json!({"id": user, "password": password});
        let body = json!({"auth": {"identity": {"methods": ["password"], "password": {"user": user}}}});
        Ok(ask(&format!("{}/auth/tokens", keystone.url), &[], Some(&body))?.contains("X-Subject-Token"))
    };
    eventually("the new password works", || login("second-password"))?;
    assert!(!login("first-password")?);

    // Deleted objects leave Keystone; imported ones do not.
    let guests = keystone.id("domain/guests")?;
    let groups = keystone.id("groups.openstack.k-orc.cloud/operators")?;
    let service = keystone.id("services.openstack.k-orc.cloud/service-0")?;
    let gone = keystone.kubectl(&["delete", "--timeout=50s", "applicationcredential/glance-1"]);
    gone.or_else(|error| Err(error.context(keystone.kubectl(&["get", "openstack"])?)))?;
    // All but the Secrets: without the login nothing could be deleted.
    let mut all = objects();
    all.retain(|object| object["kind"] != "Secret");
    let list = json!({"apiVersion": "v1", "kind": "List", "items": all});
    keystone
        .cloud
        .kubectl(&["delete", "--timeout=50s", "-f", "-"], &list.to_string())
        .or_else(|error| Err(error.context(keystone.kubectl(&["get", "openstack"])?)))?;
    for path in [
        format!("/users/{user}"),
        format!("/projects/{project}"),
        format!("/domains/{guests}"),
        format!("/groups/{groups}"),
        format!("/services/{service}"),
    ] {
        assert!(keystone.ask("GET", &path)?.is_none(), "{path} is still there");
    }
    let domain = keystone
        .ask("GET", "/domains/default")?
        .context("the imported domain stays")?;
    assert_eq!(domain["domain"]["name"], "Default");
    Ok(())
}
