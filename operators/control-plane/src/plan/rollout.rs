//! Which image each service gets now. Whatever changes one, a release, a newer build of it or a pin,
//! it goes from tier to tier.

use std::collections::BTreeMap;

use c5c3_api::c5c3::{ControlPlane, ControlPlaneSpec, ServiceReadiness, UpdatePhase, UpdatePolicy};
use c5c3_api::common::Image;
use c5c3_api::conditions::control_plane::SERVICES_READY;
use c5c3_api::services::{SERVICES, Service};
use c5c3_catalogue::Release;
use c5c3_kit::kinds::Key;
use c5c3_kit::{HOME, Reference};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{Child, Draft, Health, Refusal, Seen, State, Step, release};

/// The steps whose objects every service stands on.
const INFRASTRUCTURE: [&str; 5] = ["database", "cache", "messaging", "valkey", "ovn"];

pub(super) struct Rollout {
    /// The release that was complete before, when it is another one.
    from: Option<String>,
    to: Option<Release>,
    /// Newer builds of the release that runs are left alone.
    holds: bool,
    /// What the status said of the services last.
    told: BTreeMap<String, ServiceReadiness>,
    pub refusal: Option<Refusal>,
}

impl Rollout {
    pub(crate) fn of(object: &ControlPlane, seen: &Seen) -> Self {
        let wanted = &object.spec.open_stack_release;
        let status = object.status.as_ref();
        let same = status.and_then(|status| status.installed_release.as_ref()) == Some(wanted);
        let mut rollout = Rollout {
            from: None,
            to: seen
                .releases
                .iter()
                .find(|release| release.name == *wanted)
                .cloned()
                .map(|release| Release {
                    registry: object
                        .spec
                        .global
                        .image_registry
                        .clone()
                        .unwrap_or(release.registry),
                    ..release
                }),
            holds: same && object.spec.update_policy == UpdatePolicy::Hold,
            told: status.map(|status| status.services.clone()).unwrap_or_default(),
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
            release::image(&to, service.image())?;
            for image in service.images {
                release::image(&to, image)?;
            }
        }
        let schemas: Vec<(&str, String)> = running
            .iter()
            .filter_map(|service| {
                let child = existing(object, seen, service)?;
                // What has begun to contract is in the database, whatever is said to be installed.
                let version = child.contracting.as_ref().or(child.installed.as_ref())?;
                Some((service.title, self.release_of(seen, service, version)?))
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

    /// The release of a version: as the catalogue knows it, or as it was told when that still did.
    pub(crate) fn release_of(&self, seen: &Seen, service: &Service, version: &str) -> Option<String> {
        let known = release::of_version(&seen.releases, service.name, version);
        known.map(|release| release.name.clone()).or_else(|| {
            let told = self.told.get(service.name)?;
            told.release
                .clone()
                .filter(|_| told.version.as_deref() == Some(version))
        })
    }

    /// The release that is rolled out; none while it is refused.
    pub(crate) fn release(&self) -> Option<&Release> {
        self.to.as_ref().filter(|_| self.refusal.is_none())
    }

    /// A server keeps the image that it has: newer builds of the release that runs are left alone.
    pub(crate) fn holds(&self) -> bool {
        self.holds
    }

    /// A service that is not well while the first image of another release is still to come: nothing
    /// that is broken is updated.
    fn unwell(&self, draft: &Draft<'_>) -> Option<String> {
        self.from.as_ref()?;
        let release = self.release()?;
        let running = || {
            let parts = SERVICES
                .iter()
                .filter(|service| service.runs(draft.spec) && !service.judges);
            parts.filter_map(|service| Some((service, self.child(draft, service)?)))
        };
        let started = |service: &Service, child: &Child| {
            let target = release::image(release, service.image()).ok();
            let target = target.as_ref().map(value_of);
            own_image(draft.spec, service).is_none() && same_image(child.image.as_ref(), target.as_ref())
        };
        if running().any(|(service, child)| started(service, child)) {
            return None;
        }
        running().find_map(|(service, child)| {
            let why = &child.health.trouble()?.message;
            Some(format!(
                "{} is rolled out once everything that runs is healthy; {}: {why}; if only another image helps, set services.{}.image",
                release.name, service.title, service.name
            ))
        })
    }

    /// The first step of every plan.
    pub(crate) fn step(&self, draft: &Draft<'_>) -> Step {
        let wanted = &draft.spec.open_stack_release;
        let state = match &self.refusal {
            Some(refusal) => State::failed(refusal.reason(), refusal.to_string()),
            None => self.unwell(draft).map_or(State::Done, State::Running),
        };
        Step::bare("release", &format!("release {wanted}"), SERVICES_READY, state)
    }

    /// The image that a service should have in the end: its pin, or that of the release.
    fn target(&self, spec: &ControlPlaneSpec, service: &Service, existing: Option<&Child>) -> Option<Value> {
        if let Some(own) = own_image(spec, service) {
            return Some(own);
        }
        let pinned = self.told.get(service.name).is_some_and(|told| told.pinned);
        if self.holds
            && !pinned
            && let Some(stays) = existing.and_then(|child| child.image.clone())
        {
            return Some(stays);
        }
        let image = release::image(self.to.as_ref()?, service.image()).ok()?;
        Some(value_of(&image))
    }

    /// The image of the release that updatePolicy keeps from a service, as its tag.
    pub(crate) fn held(&self, draft: &Draft<'_>, service: &Service) -> Option<String> {
        let child = self.child(draft, service);
        let stays = self.target(draft.spec, service, child)?;
        let newest = value_of(&release::image(self.release()?, service.image()).ok()?);
        let held = own_image(draft.spec, service).is_none() && !same_image(Some(&stays), Some(&newest));
        version(&newest).map(str::to_owned).filter(|_| held)
    }

    /// The release for what comes with the image of a service; none while that stays as it is.
    pub(crate) fn companions(
        &self,
        draft: &Draft<'_>,
        service: &Service,
        existing: Option<&Child>,
    ) -> Option<&Release> {
        let moves = existing.is_none() || (!self.holds && self.is_open(draft, service.tier));
        self.release().filter(|_| moves)
    }

    /// `None` when it is not known: the release was refused and there is nothing to stay with.
    pub(crate) fn image(
        &self,
        draft: &Draft<'_>,
        service: &Service,
        existing: Option<&Child>,
    ) -> Option<Value> {
        let stays = existing.and_then(|child| child.image.clone());
        if self.refusal.is_some() {
            return stays;
        }
        let new = self.target(draft.spec, service, existing)?;
        if stays.is_none() || self.is_open(draft, service.tier) {
            return Some(new);
        }
        stays
    }

    /// Infrastructure is healthy and has the new images, and so have all services of earlier tiers.
    fn is_open(&self, draft: &Draft<'_>, tier: u8) -> bool {
        draft.open(&INFRASTRUCTURE.map(str::to_owned)).is_empty()
            && !draft.changes_infrastructure
            && self.unwell(draft).is_none()
            && SERVICES
                .iter()
                .filter(|service| service.tier < tier && service.runs(draft.spec))
                .all(|service| self.runs_new(draft, service))
    }

    /// What an update has still to do for a service that is healthy as it is.
    pub(crate) fn pending(&self, draft: &Draft<'_>, service: &Service) -> Option<String> {
        if !self.updates(draft) || self.runs_new(draft, service) {
            return None;
        }
        let earlier = |other: &&Service| {
            other.tier < service.tier && other.runs(draft.spec) && !self.runs_new(draft, other)
        };
        let target = self.target(draft.spec, service, self.child(draft, service))?;
        Some(match SERVICES.iter().find(earlier) {
            Some(other) => format!("{} is updated after {}", service.title, other.title),
            None => format!("{} is updated to {}", service.title, self.aim(&target)),
        })
    }

    /// What an image is of: a release where another one comes, else its own version.
    fn aim(&self, target: &Value) -> String {
        let release = self.to.as_ref().filter(|_| self.from.is_some());
        release.map_or_else(
            || version(target).unwrap_or_default().to_owned(),
            |release| release.name.clone(),
        )
    }

    /// Another release, or another image of what is installed.
    fn updates(&self, draft: &Draft<'_>) -> bool {
        let changes = |service: &Service| {
            let child = self.child(draft, service);
            let target = self.target(draft.spec, service, child);
            child.zip(target).is_some_and(|(child, target)| {
                let installed = child.installed.as_deref();
                !same_image(child.image.as_ref(), Some(&target))
                    || installed.is_some_and(|installed| Some(installed) != version(&target))
            })
        };
        let running = || SERVICES.iter().filter(|service| service.runs(draft.spec));
        self.refusal.is_none() && (self.from.is_some() || running().any(changes))
    }

    fn child<'a>(&self, draft: &'a Draft<'_>, service: &Service) -> Option<&'a Child> {
        draft.seen.children.get(&reference(&draft.namespace, service))
    }

    fn runs_new(&self, draft: &Draft<'_>, service: &Service) -> bool {
        let Some(child) = self.child(draft, service) else {
            return false;
        };
        let wanted = self.target(draft.spec, service, Some(child));
        // Ready is of its newest generation, and of pods of this image; the schema has to be too.
        child.health == Health::Ready
            && wanted.is_some()
            && same_image(child.image.as_ref(), wanted.as_ref())
            && wanted
                .as_ref()
                .is_some_and(|image| child.installed.as_deref() == version(image))
    }

    /// A service has an image of a newer release than the wanted one, and not its schema: it goes back.
    fn goes_back(&self, draft: &Draft<'_>, wanted: &str) -> bool {
        let running = SERVICES.iter().filter(|service| service.runs(draft.spec));
        running.into_iter().any(|service| {
            let newer = |child: &Child| {
                let tag = version(child.image.as_ref()?)?;
                let release = self.release_of(draft.seen, service, tag)?;
                Some(release::is_newer(&release, wanted))
            };
            own_image(draft.spec, service).is_none()
                && self.child(draft, service).and_then(newer) == Some(true)
        })
    }

    /// The phase of an update, and the release that runs completely.
    pub(crate) fn progress(&self, object: &ControlPlane, draft: &Draft<'_>) -> (UpdatePhase, Option<String>) {
        let status = object.status.as_ref();
        let before = status.and_then(|status| status.installed_release.clone());
        if let Some(refusal) = &self.refusal {
            return (refusal.phase(), before);
        }
        let wanted = &object.spec.open_stack_release;
        let running = || SERVICES.iter().filter(|service| service.runs(draft.spec));
        let lagging = running().find(|service| !self.runs_new(draft, service));
        // A cloud of pins alone says nothing of a release.
        let follows = running().any(|service| own_image(draft.spec, service).is_none());
        let complete = lagging.is_none() && follows;
        let all_done = draft.steps.iter().all(|step| step.state.is_done());
        let last = status.and_then(|status| status.update_phase).unwrap_or_default();
        let under_way = !matches!(
            last,
            UpdatePhase::Idle | UpdatePhase::Complete | UpdatePhase::Validating
        );
        let back = self.goes_back(draft, wanted) || last == UpdatePhase::RollingBack;
        let updates = self.updates(draft) || draft.changes_infrastructure;
        if !updates && !under_way {
            let phase = match last {
                UpdatePhase::Complete => UpdatePhase::Complete,
                _ => UpdatePhase::Idle,
            };
            let installed = if complete { Some(wanted.clone()) } else { before };
            return (phase, installed);
        }
        let well = draft.open(&INFRASTRUCTURE.map(str::to_owned)).is_empty() && !draft.changes_infrastructure;
        match lagging {
            Some(_) if self.unwell(draft).is_some() => (UpdatePhase::Validating, before),
            _ if back && lagging.is_some() => (UpdatePhase::RollingBack, before),
            Some(service) if service.tier == 0 && !well => (UpdatePhase::UpdatingInfra, before),
            Some(service) if service.tier == 0 => (UpdatePhase::UpdatingKeystone, before),
            Some(service) if service.judges => (UpdatePhase::Verifying, before),
            Some(_) => (UpdatePhase::UpdatingServices, before),
            // Only servers below the services got another image.
            None if !well && (updates || last == UpdatePhase::UpdatingInfra) => {
                (UpdatePhase::UpdatingInfra, before)
            }
            // Nothing here follows a release, or all is as it was.
            None if all_done && (back || !follows) => (UpdatePhase::Idle, before),
            None => (UpdatePhase::Verifying, before),
        }
    }
}

/// As the objects that are there have it.
fn value_of(image: &Image) -> Value {
    json!(image)
}

/// The image that the spec names for a service.
pub(super) fn own_image(spec: &ControlPlaneSpec, service: &Service) -> Option<Value> {
    Some(value_of((service.pin)(spec)?))
}

/// What a service calls the version of an image.
pub(super) fn version(image: &Value) -> Option<&str> {
    let field = |name: &str| image.get(name).and_then(Value::as_str);
    field("tag").or_else(|| field("digest"))
}

pub(super) fn same_image(a: Option<&Value>, b: Option<&Value>) -> bool {
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

/// The object of a service.
pub(super) fn reference(namespace: &str, service: &Service) -> Reference {
    Reference {
        cluster: HOME,
        kind: format!("{}.{}", service.kind, service.group),
        key: Key::new(Some(namespace), service.name),
    }
}

fn existing<'a>(object: &ControlPlane, seen: &'a Seen, service: &Service) -> Option<&'a Child> {
    let namespace = object.namespace().unwrap_or_default();
    seen.children.get(&reference(&namespace, service))
}
