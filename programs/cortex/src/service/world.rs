//! The world as sources tell it, each its own part. A placement takes the picture of the moment and
//! never waits for the next one.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError, RwLock};

use c5c3_api::cortex::SchedulingDomain;

use crate::engine::{Compiled, PipelineDraft, compile, defaults};
use crate::fleet::{Draft, Features, Fleet, Host, Reservation, Server};

/// Who tells.
#[derive(Clone, Debug)]
pub enum Source {
    /// Hosts and servers of Nova and Placement.
    OpenStack {
        hosts: BTreeMap<String, Host>,
        servers: BTreeMap<String, Server>,
    },
    /// What Hypervisor objects say about hosts, which wins over what OpenStack says.
    Hypervisors(BTreeMap<String, Host>),
    Reservations(BTreeMap<String, Reservation>),
}

#[derive(Debug, Default)]
struct Parts {
    hosts: BTreeMap<String, Host>,
    servers: BTreeMap<String, Server>,
    hypervisors: BTreeMap<String, Host>,
    reservations: BTreeMap<String, Reservation>,
    features: Features,
}

type Pipelines = BTreeMap<(SchedulingDomain, String), Arc<Compiled>>;

#[derive(Debug, Default)]
pub struct World {
    base: Vec<(SchedulingDomain, PipelineDraft)>,
    parts: Mutex<Parts>,
    fleet: RwLock<Arc<Fleet>>,
    pipelines: RwLock<Arc<Pipelines>>,
    shadows: RwLock<Arc<Pipelines>>,
    kpis: RwLock<BTreeSet<String>>,
}

/// Two reports about the same host: the second wins where it says something.
fn merge(below: &Host, above: &Host) -> Host {
    let or = |one: &Option<String>, other: &Option<String>| one.clone().or_else(|| other.clone());
    let set = |one: &BTreeSet<String>, other: &BTreeSet<String>| {
        if one.is_empty() {
            other.clone()
        } else {
            one.clone()
        }
    };
    Host {
        // Whoever says no is right.
        unfit: or(&above.unfit, &below.unfit),
        zone: or(&above.zone, &below.zone),
        hypervisor_type: match above.hypervisor_type {
            crate::fleet::HypervisorType::Other => below.hypervisor_type,
            told => told,
        },
        arch: or(&above.arch, &below.arch),
        traits: above.traits.union(&below.traits).cloned().collect(),
        // Those of Nova have their metadata.
        aggregates: if below.aggregates.is_empty() {
            above.aggregates.clone()
        } else {
            below.aggregates.clone()
        },
        // Placement's are those that Nova claims against.
        capacity: below.capacity.or(above.capacity),
        used: below.used.or(above.used),
        allowed_projects: set(&above.allowed_projects, &below.allowed_projects),
        cpu_modes: set(&above.cpu_modes, &below.cpu_modes),
        features: set(&above.features, &below.features),
        devices: set(&above.devices, &below.devices),
    }
}

impl Parts {
    fn draft(&self) -> Draft {
        let mut hosts = self.hosts.clone();
        for (name, told) in &self.hypervisors {
            let merged = match hosts.get(name) {
                Some(below) => merge(below, told),
                None => told.clone(),
            };
            hosts.insert(name.clone(), merged);
        }
        Draft {
            hosts,
            servers: self.servers.clone(),
            reservations: self.reservations.clone(),
            features: self.features.clone(),
        }
    }
}

impl World {
    /// With the usual pipelines.
    pub fn usual() -> Self {
        World::with(defaults::all())
    }

    /// With these pipelines, which serve where no Pipeline object has their name.
    pub fn with(base: Vec<(SchedulingDomain, PipelineDraft)>) -> Self {
        let world = World {
            base,
            ..World::default()
        };
        world.set_pipelines(Vec::new(), Vec::new());
        world
    }

    fn parts(&self) -> std::sync::MutexGuard<'_, Parts> {
        // Only whole values are stored.
        self.parts.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub fn fleet(&self) -> Arc<Fleet> {
        self.fleet.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The whole world, for `what-if` and for a file.
    pub fn draft(&self) -> Draft {
        self.parts().draft()
    }

    fn change(&self, change: impl FnOnce(&mut Parts)) {
        let mut parts = self.parts();
        change(&mut parts);
        // Under the lock: pictures follow each other in the order of what was told.
        let packed = Arc::new(Fleet::pack(parts.draft()));
        *self.fleet.write().unwrap_or_else(PoisonError::into_inner) = packed;
    }

    /// What was known before; sources replace it part by part.
    pub fn start_with(&self, draft: Draft) {
        self.change(|parts| {
            *parts = Parts {
                hosts: draft.hosts,
                servers: draft.servers,
                hypervisors: BTreeMap::new(),
                reservations: draft.reservations,
                features: draft.features,
            }
        });
    }

    pub fn tell(&self, source: Source) {
        self.change(|parts| match source {
            Source::OpenStack { hosts, servers } => (parts.hosts, parts.servers) = (hosts, servers),
            Source::Hypervisors(hosts) => parts.hypervisors = hosts,
            Source::Reservations(reservations) => parts.reservations = reservations,
        });
    }

    /// Room that was just given away; the object says so a moment later.
    pub fn keep(&self, name: &str, reservation: &Reservation) {
        if self.parts().reservations.get(name) != Some(reservation) {
            self.change(|parts| {
                parts.reservations.insert(name.to_owned(), reservation.clone());
            });
        }
    }

    /// Figures that are published.
    pub fn set_kpis(&self, names: BTreeSet<String>) {
        *self.kpis.write().unwrap_or_else(PoisonError::into_inner) = names;
    }

    pub fn kpis(&self) -> BTreeSet<String> {
        self.kpis.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub fn learn(&self, learn: impl FnOnce(&mut Features)) {
        self.change(|parts| learn(&mut parts.features));
    }

    pub fn features(&self) -> Features {
        self.parts().features.clone()
    }

    /// Replaces all pipelines but those that the world began with: they stay where no other has their name.
    pub fn set_pipelines(
        &self,
        made: Vec<(SchedulingDomain, PipelineDraft)>,
        shadows: Vec<(SchedulingDomain, PipelineDraft)>,
    ) {
        let compiled = |drafts: Vec<(SchedulingDomain, PipelineDraft)>| -> Pipelines {
            let of = |(domain, draft): (SchedulingDomain, PipelineDraft)| {
                ((domain, draft.name.clone()), Arc::new(compile(&draft)))
            };
            drafts.into_iter().map(of).collect()
        };
        let put = |lock: &RwLock<Arc<Pipelines>>, all| {
            *lock.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(all);
        };
        // Of two with one name the later one is kept.
        let serving = self.base.iter().cloned().chain(made);
        put(&self.pipelines, compiled(serving.collect()));
        put(&self.shadows, compiled(shadows));
    }

    pub fn pipeline(&self, domain: SchedulingDomain, name: &str) -> Option<Arc<Compiled>> {
        let all = self.pipelines.read().unwrap_or_else(PoisonError::into_inner);
        all.get(&(domain, name.to_owned())).cloned()
    }

    /// Pipelines that are asked beside the one that decides, to compare.
    pub fn shadows(&self, domain: SchedulingDomain) -> Vec<Arc<Compiled>> {
        let all = self.shadows.read().unwrap_or_else(PoisonError::into_inner);
        let own = all.iter().filter(|((of, _), _)| *of == domain);
        own.map(|(_, compiled)| compiled.clone()).collect()
    }
}
