//! The steps of the services, and their objects.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlaneSpec, ServiceReadiness};
use c5c3_api::common::{AppCredentialRef, CaRef, Database, KeystoneAuth, LocalRef};
use c5c3_api::conditions::control_plane::{CREDENTIALS_READY, KEYSTONE_READY, SERVICES_READY};
use c5c3_api::conditions::reason;
use c5c3_api::services::{SERVICES, Service, keystone};
use c5c3_catalogue::Release;
use serde_json::{Map, Value, json};

use super::catalogue::{self, Ground};
use super::rollout::{Rollout, own_image, reference, version};
use super::{Draft, Object, Start, State, Step, infrastructure, projection, secrets};

/// Where a service answers inside the cluster.
pub(super) fn internal_url(draft: &Draft<'_>, service: &Service) -> String {
    format!(
        "http://{}.{}.svc:{}{}",
        service.name, draft.namespace, service.port, service.path
    )
}

pub(super) fn public_url(draft: &Draft<'_>, service: &Service) -> String {
    (service.toggle)(draft.spec)
        .and_then(|toggle| toggle.public_endpoint.clone())
        .unwrap_or_else(|| internal_url(draft, service))
}

pub(super) fn plan_keystone(draft: &mut Draft<'_>, rollout: &Rollout) {
    let service = keystone();
    if service.runs(draft.spec) {
        add(
            draft,
            rollout,
            service,
            KEYSTONE_READY,
            &["release", "database", "cache"],
            None,
        );
        return;
    }
    let state = match secrets::existing_keystone(draft) {
        Ok(url) => State::NotRequired(format!("using the external Keystone at {url}")),
        Err(problem) => problem,
    };
    draft.push(Step::bare(service.name, service.title, KEYSTONE_READY, state));
}

pub(super) fn plan_others(draft: &mut Draft<'_>, rollout: &Rollout) {
    let auth_url = if keystone().runs(draft.spec) {
        Some(internal_url(draft, keystone()))
    } else {
        secrets::existing_keystone(draft).ok()
    };
    for service in SERVICES.iter().skip(1) {
        if service.runs(draft.spec) {
            if !draft.spec.korc.enabled {
                draft.add_not_required(
                    &credential_step(service),
                    &format!("credential of {}", service.title),
                    CREDENTIALS_READY,
                    format!("Secret {} is given", secrets::app_credential(service.name)),
                );
            }
            if let Some(text) = lacks(draft, service) {
                let own = reference(&draft.namespace, service);
                // What runs stays as it is.
                let stays = draft
                    .seen
                    .children
                    .contains_key(&own)
                    .then_some(Object::Keep(own));
                let state = State::failed(reason::INVALID, text);
                draft.push(Step {
                    objects: stays.into_iter().collect(),
                    ..Step::bare(service.name, service.title, SERVICES_READY, state)
                });
                continue;
            }
            let credential = credential_step(service);
            let common = ["release", "database", "cache", &credential];
            let needs = [&common[..], service.needs].concat();
            add(
                draft,
                rollout,
                service,
                SERVICES_READY,
                &needs,
                Some(auth_url.as_deref()),
            );
        } else if (service.enabled)(draft.spec) {
            let text = format!(
                "{} is not supported yet: set {}: false",
                service.title, service.switch
            );
            not_supported(draft, service.name, service.title, text);
        } else {
            let text = format!("{} is off", service.title);
            draft.add_not_required(service.name, service.title, SERVICES_READY, text);
        }
    }
}

/// What a service cannot do without and nobody can choose for the user.
fn lacks(draft: &Draft<'_>, service: &Service) -> Option<String> {
    let spec = draft.spec;
    let several = catalogue::cells(spec).len() > 1;
    let text = match service.name {
        "cinder" if spec.services.cinder.backends.is_empty() => {
            "services.cinder.backends: Cinder has no place for volumes: add a backend, or set services.cinder.enabled: false"
        }
        "nova" if several && !spec.infrastructure.messaging.hosts.is_empty() => {
            "services.nova.cells: several cells need a message bus each, and infrastructure.messaging.hosts is only one: leave hosts out, or use a single cell"
        }
        _ => return None,
    };
    Some(text.to_owned())
}

/// What is asked for and not there yet is told: a cloud without the TLS that it should have is not Ready.
pub(super) fn plan_global(draft: &mut Draft<'_>) {
    let global = &draft.spec.global;
    let asked = [
        ("tls", "TLS", global.tls.as_ref().is_some_and(|tls| tls.enabled)),
        ("monitoring", "Monitoring", global.monitoring.enabled),
    ];
    for (name, title, _) in asked.into_iter().filter(|(_, _, asked)| *asked) {
        let text = format!("{title} is not supported yet: set global.{name}.enabled: false");
        not_supported(draft, name, title, text);
    }
}

fn not_supported(draft: &mut Draft<'_>, name: &str, title: &str, text: String) {
    let state = State::failed(reason::NOT_SUPPORTED, text);
    draft.push(Step::bare(name, title, SERVICES_READY, state));
}

pub(super) fn credential_step(service: &Service) -> String {
    format!("{}-credential", service.name)
}

/// `auth_url`: `None` for Keystone itself, `Some(None)` while the address of Keystone is not known.
fn add(
    draft: &mut Draft<'_>,
    rollout: &Rollout,
    service: &'static Service,
    part: &'static str,
    needs: &[&str],
    auth_url: Option<Option<&str>>,
) {
    let bare = object(draft, service, Map::new());
    let existing = draft.child(&bare).cloned();
    let image = rollout.image(draft, service, existing.as_ref());
    if let (Some(image), false) = (image, auth_url == Some(None)) {
        let release = rollout.companions(draft, service, existing.as_ref());
        let images = existing.map(|child| child.images).unwrap_or_default();
        let fields = fields(draft, (release, &images), service, image, auth_url.flatten());
        let whole = object(draft, service, fields);
        draft.add(
            service.name,
            service.title,
            part,
            needs,
            Start::AtOnce,
            vec![whole],
        );
        note_new_credential(draft, service);
        note_update(draft, rollout, service);
        return;
    }
    // What it would look like is not known: what runs stays as it is.
    draft.add(
        service.name,
        service.title,
        part,
        needs,
        Start::AtOnce,
        vec![bare],
    );
    let own = reference(&draft.namespace, service);
    let stays = draft
        .seen
        .children
        .contains_key(&own)
        .then_some(Object::Keep(own));
    if let Some(step) = draft.steps.last_mut() {
        step.objects = stays.into_iter().collect();
    }
}

/// Its credential was written a moment ago, and what the service said was true until then.
fn note_new_credential(draft: &mut Draft<'_>, service: &Service) {
    let made = draft.spec.korc.enabled;
    let bare = object(draft, service, Map::new());
    let trouble = draft.child(&bare).and_then(|child| child.health.trouble());
    let waits_for_it = trouble.is_some_and(|trouble| {
        let blocker = trouble.blocker.as_ref();
        let secret = secrets::app_credential(service.name);
        trouble.reason == reason::SECRET_MISSING
            && blocker.is_some_and(|blocker| blocker.kind == "Secret" && blocker.name == secret)
    });
    if let Some(step) = draft.steps.last_mut()
        && let State::Failed { .. } = &step.state
        && made
        && waits_for_it
    {
        step.state = State::Running(format!("{} is loading its new credential", service.title));
    }
}

/// One that is healthy in the release before is not done: a cloud in the middle of an update is not Ready.
fn note_update(draft: &mut Draft<'_>, rollout: &Rollout, service: &Service) {
    let pending = rollout.pending(draft, service);
    if let (Some(text), Some(step)) = (pending, draft.steps.last_mut())
        && step.state.is_done()
    {
        step.state = State::Running(text);
    }
}

/// Untyped: one way for all kinds of services, and of their fields only those that a cloud decides. A whole spec
/// would leave out a field with its default, and then nobody would keep it so.
fn object(draft: &Draft<'_>, service: &Service, fields: Map<String, Value>) -> Value {
    json!({
        "apiVersion": service.api_version(),
        "kind": service.kind,
        "metadata": draft.metadata(service.name),
        "spec": fields,
    })
}

/// Who vouches for a Keystone of others; K-ORC reads it under the same key.
fn authority(draft: &Draft<'_>) -> Option<CaRef> {
    const KEY: &str = "cacert";
    let secret = secrets::clouds(draft.spec).secret_name;
    let given = draft.seen.secrets.get(&secret)?.data.get(KEY)?;
    let ours = keystone().runs(draft.spec);
    (!ours && !given.is_empty()).then(|| CaRef {
        name: secret,
        key: KEY.to_owned(),
    })
}

fn fields(
    draft: &Draft<'_>,
    (release, images): (Option<&Release>, &BTreeMap<String, Value>),
    service: &Service,
    image: Value,
    auth_url: Option<&str>,
) -> Map<String, Value> {
    let spec = draft.spec;
    let ground = Ground {
        spec,
        namespace: &draft.namespace,
        release,
        images,
    };
    let mut fields = catalogue::own_fields(service, &ground);
    fields.put("image", image);
    if service.keeps {
        fields.put("database", database(spec, service.name));
        fields.put("cache", cache(spec));
    }
    if service.messaging {
        let messaging = infrastructure::messaging(spec, &secrets::messaging(service.name));
        fields.put("messaging", messaging);
    }
    if let Some(url) = auth_url {
        fields.put(
            "keystone",
            KeystoneAuth {
                auth_url: url.to_owned(),
                app_credential_ref: AppCredentialRef {
                    secret_name: secrets::app_credential(service.name),
                },
                ca_secret_ref: authority(draft),
            },
        );
    }
    fields.put_some("pods", spec.global.pods.as_ref());
    let toggle = (service.toggle)(spec);
    let own = toggle.and_then(|toggle| toggle.policy_overrides.as_ref());
    let policy = projection::policy(spec.global.policy_overrides.as_ref(), own);
    fields.put_some("policyOverrides", policy);
    if let Some(toggle) = toggle {
        let config = Some(&toggle.extra_config).filter(|config| !config.is_empty());
        fields.put_some("extraConfig", config);
        fields.put_some("resources", toggle.resources.as_ref());
        let url = toggle.public_endpoint.as_ref().filter(|_| service.tells_address);
        fields.put_some("publicEndpoint", url);
    }
    fields.0
}

fn database(spec: &ControlPlaneSpec, service: &str) -> Database {
    let cluster = &spec.infrastructure.database;
    let managed = cluster.host.is_none();
    Database {
        cluster_ref: managed.then(|| LocalRef::new(infrastructure::DATABASE)),
        host: cluster.host.clone(),
        port: cluster.port,
        database: service.to_owned(),
        secret_ref: LocalRef::new(secrets::database(service)),
    }
}

/// Untyped: the type always names a backend, and that is the service's to choose.
fn cache(spec: &ControlPlaneSpec) -> Value {
    match spec.infrastructure.cache.servers.as_slice() {
        [] => json!({"clusterRef": {"name": infrastructure::CACHE}}),
        servers => json!({"servers": servers}),
    }
}

/// Each service at a glance, and what there is to say of its image.
pub(super) fn readiness(
    draft: &Draft<'_>,
    rollout: &Rollout,
) -> (BTreeMap<String, ServiceReadiness>, BTreeMap<String, String>) {
    let mut all = BTreeMap::new();
    let mut notes = BTreeMap::new();
    for service in SERVICES.iter().filter(|service| (service.enabled)(draft.spec)) {
        let Some(step) = draft.steps.iter().find(|step| step.name == service.name) else {
            continue;
        };
        let child = draft.child(&object(draft, service, Map::new()));
        let installed = child.and_then(|child| child.installed.clone());
        let image = child.and_then(|child| child.image.as_ref());
        let pinned = service.runs(draft.spec) && own_image(draft.spec, service).is_some();
        let note = note_image(draft, rollout, service, pinned);
        let message = joined(&step.text(), note.as_ref());
        notes.extend(note.map(|note| (service.name.to_owned(), note)));
        all.insert(
            service.name.to_owned(),
            ServiceReadiness {
                ready: step.state.is_done(),
                release: installed
                    .as_deref()
                    .and_then(|version| rollout.release_of(draft.seen, service, version)),
                version: installed,
                image: image.and_then(version).map(str::to_owned),
                pinned,
                message,
            },
        );
    }
    (all, notes)
}

pub(super) fn joined(text: &str, note: Option<&String>) -> Option<String> {
    let all = [Some(text), note.map(String::as_str)];
    let all: Vec<&str> = all.into_iter().flatten().filter(|one| !one.is_empty()).collect();
    (!all.is_empty()).then(|| all.join("; "))
}

/// Why a service has another image than its release.
fn note_image(draft: &Draft<'_>, rollout: &Rollout, service: &Service, pinned: bool) -> Option<String> {
    if pinned {
        return Some(format!(
            "services.{}.image names its image: it does not follow openStackRelease",
            service.name
        ));
    }
    let newer = rollout.held(draft, service)?;
    Some(format!("updatePolicy holds back {newer}"))
}
