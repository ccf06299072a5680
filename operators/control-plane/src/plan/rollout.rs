//! Which image each service gets now: an update goes from tier to tier.

use c5c3_api::c5c3::{ControlPlane, UpdatePhase};
use c5c3_api::conditions::control_plane::SERVICES_READY;
use c5c3_catalogue::Release;
use kube::ResourceExt;
use serde_json::{Value, json};

use super::catalogue::{SERVICES, Service};
use super::{Child, Draft, Health, Refusal, Seen, State, Step, release};

pub(super) struct Rollout {
    /// The release that was complete before, when it is another one.
    from: Option<String>,
    to: Option<Release>,
    pub refusal: Option<Refusal>,
}

impl Rollout {
    pub fn of(object: &ControlPlane, seen: &Seen) -> Self {
        let wanted = &object.spec.open_stack_release;
        let mut rollout = Rollout {
            from: None,
            to: seen
                .releases
                .iter()
                .find(|release| release.name == *wanted)
                .cloned(),
            refusal: None,
        };
        rollout.refusal = rollout.check(object, seen).err();
        rollout
    }

    fn check(&mut self, object: &ControlPlane, seen: &Seen) -> Result<(), Refusal> {
        let wanted = object.spec.open_stack_release.clone();
        let Some(to) = self.to.clone() else {
            return Err(Refusal::Unknown {
                wanted,
                known: seen.releases.iter().map(|release| release.name.clone()).collect(),
            });
        };
        let running: Vec<_> = SERVICES
            .iter()
            .filter(|service| service.runs(&object.spec) && own_image(&object.spec, service).is_none())
            .collect();
        for service in &running {
            release::image(&to, service.name)?;
            for image in service.images {
                release::image(&to, image)?;
            }
        }
        let schemas: Vec<(&str, String)> = running
            .iter()
            .filter_map(|service| {
                let version = existing(object, seen, service)?.installed.as_ref()?;
                let release = release::of_version(&seen.releases, service.name, version)?;
                Some((service.title, release.name.clone()))
            })
            .collect();
        if let Some((service, newer)) = schemas.iter().find(|(_, name)| release::is_newer(name, &wanted)) {
            return Err(Refusal::Back {
                from: newer.clone(),
                to: wanted,
                service: (*service).to_owned(),
            });
        }
        let status = object.status.as_ref();
        let complete = status.and_then(|status| status.installed_release.clone());
        let oldest = || schemas.iter().map(|(_, name)| name.clone()).min();
        self.from = complete.or_else(oldest).filter(|from| *from != wanted);
        match &self.from {
            Some(from) => release::step(from, &wanted),
            None => Ok(()),
        }
    }

    /// The release that is rolled out; none while it is refused.
    pub fn release(&self) -> Option<&Release> {
        self.to.as_ref().filter(|_| self.refusal.is_none())
    }

    /// The first step of every plan.
    pub fn step(&self, wanted: &str) -> Step {
        Step {
            name: "release".to_owned(),
            title: format!("release {wanted}"),
            part: SERVICES_READY,
            needs: Vec::new(),
            state: match &self.refusal {
                Some(refusal) => State::failed(refusal.reason(), refusal.to_string()),
                None => State::Done,
            },
            objects: Vec::new(),
        }
    }

    /// `None` when it is not known: the release was refused and there is nothing to stay with.
    pub fn image(&self, draft: &Draft<'_>, service: &Service, existing: Option<&Child>) -> Option<Value> {
        let stays = existing.and_then(|child| child.image.clone());
        if self.refusal.is_some() {
            return stays;
        }
        if let Some(own) = own_image(draft.spec, service) {
            return Some(own);
        }
        let new = release::image(self.to.as_ref()?, service.name).ok()?;
        if self.from.is_none() || self.is_open(draft, service.tier) {
            return Some(new);
        }
        Some(stays.unwrap_or(new))
    }

    /// Infrastructure is well and every service of an earlier tier runs the new release.
    fn is_open(&self, draft: &Draft<'_>, tier: u8) -> bool {
        let infrastructure = ["database", "cache", "messaging", "valkey", "ovn"].map(str::to_owned);
        draft.open(&infrastructure).is_empty()
            && SERVICES
                .iter()
                .filter(|service| service.tier < tier && service.runs(draft.spec))
                .all(|service| self.runs_new(draft, service))
    }

    /// What an update has still to do for a service that is well as it is.
    pub fn pending(&self, draft: &Draft<'_>, service: &Service) -> Option<String> {
        if self.from.is_none() || self.refusal.is_some() || self.runs_new(draft, service) {
            return None;
        }
        let earlier = |other: &&Service| {
            other.tier < service.tier && other.runs(draft.spec) && !self.runs_new(draft, other)
        };
        Some(match SERVICES.iter().find(earlier) {
            Some(other) => format!("{} is updated after {}", service.title, other.title),
            None => format!("{} is updated to {}", service.title, self.to.as_ref()?.name),
        })
    }

    fn runs_new(&self, draft: &Draft<'_>, service: &Service) -> bool {
        let wanted =
            own_image(draft.spec, service).or_else(|| release::image(self.to.as_ref()?, service.name).ok());
        let Some(child) = draft.seen.children.get(&reference(&draft.namespace, service)) else {
            return false;
        };
        // Ready is of its newest generation, and of pods of this image; the schema has to be too.
        child.health == Health::Ready
            && wanted.is_some()
            && same_image(child.image.as_ref(), wanted.as_ref())
            && wanted
                .as_ref()
                .is_some_and(|image| child.installed.as_deref() == version(image))
    }

    /// The phase of an update, and the release that runs completely.
    pub fn progress(&self, object: &ControlPlane, draft: &Draft<'_>) -> (UpdatePhase, Option<String>) {
        let status = object.status.as_ref();
        let before = status.and_then(|status| status.installed_release.clone());
        if let Some(refusal) = &self.refusal {
            return (refusal.phase(), before);
        }
        let old = |service: &&Service| service.runs(draft.spec) && !self.runs_new(draft, service);
        let lagging = SERVICES.iter().find(old);
        let complete = lagging.is_none() && SERVICES.iter().any(|service| service.runs(draft.spec));
        let wanted = Some(object.spec.open_stack_release.clone());
        let all_done = draft.steps.iter().all(|step| step.state.is_done());
        let last = status.and_then(|status| status.update_phase).unwrap_or_default();
        if self.from.is_none() {
            let phase = match last {
                UpdatePhase::Complete => UpdatePhase::Complete,
                _ => UpdatePhase::Idle,
            };
            return (phase, if complete { wanted } else { before });
        }
        let infrastructure = ["database", "cache", "messaging", "valkey", "ovn"].map(str::to_owned);
        match lagging {
            Some(service) if service.tier == 0 && !draft.open(&infrastructure).is_empty() => {
                (UpdatePhase::UpdatingInfra, before)
            }
            Some(service) if service.tier == 0 => (UpdatePhase::UpdatingKeystone, before),
            Some(_) => (UpdatePhase::UpdatingServices, before),
            None if all_done => (UpdatePhase::Complete, wanted),
            None => (UpdatePhase::Verifying, before),
        }
    }
}

fn own_image(spec: &c5c3_api::c5c3::ControlPlaneSpec, service: &Service) -> Option<Value> {
    let image = (service.toggle)(spec)?.image.as_ref()?;
    Some(json!(image))
}

/// What a service calls the version of an image.
fn version(image: &Value) -> Option<&str> {
    let field = |name: &str| image.get(name).and_then(Value::as_str);
    field("tag").or_else(|| field("digest"))
}

fn same_image(a: Option<&Value>, b: Option<&Value>) -> bool {
    let field = |image: Option<&Value>, name: &str| {
        image
            .and_then(|image| image.get(name))
            .and_then(Value::as_str)
            .map(str::to_owned)
    };
    ["repository", "tag", "digest"]
        .iter()
        .all(|name| field(a, name) == field(b, name))
}

fn reference(namespace: &str, service: &Service) -> c5c3_kit::Reference {
    super::reference(&json!({
        "apiVersion": service.api_version(), "kind": service.kind,
        "metadata": {"namespace": namespace, "name": service.name},
    }))
}

fn existing<'a>(object: &ControlPlane, seen: &'a Seen, service: &Service) -> Option<&'a Child> {
    let namespace = object.namespace().unwrap_or_default();
    seen.children.get(&reference(&namespace, service))
}
