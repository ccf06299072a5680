//! Steps that drop hosts. Each looks at the question once and then at every host in a tight loop;
//! why a host was dropped is said only when somebody asks.

mod capacity;
mod groups;
mod hardware;
mod projects;
mod quota;

use super::params::{self, Params, Wrong};
use super::{Candidate, Context, Skipped};
use crate::fleet::ReservationKind;
use crate::fleet::names::{NONE, QuickMap};
use crate::request::{ImageType, Intent};

/// Every filter, by its name without the prefix `filter_`, which is understood too.
pub const NAMES: [&str; 17] = [
    "status_conditions",
    "correct_az",
    "host_instructions",
    "image_properties",
    "capabilities",
    "has_requested_traits",
    "external_customer",
    "has_accelerators",
    "instance_group_affinity",
    "instance_group_anti_affinity",
    "has_enough_capacity",
    "allowed_projects",
    "aggregate_metadata",
    "live_migratable",
    "requested_destination",
    "quota_enforcement",
    "exclude_hosts",
];

#[derive(Clone, Debug, PartialEq)]
pub enum Filter {
    StatusConditions,
    CorrectAz,
    HostInstructions,
    ImageProperties,
    Capabilities,
    HasRequestedTraits,
    ExternalCustomer {
        prefixes: Vec<String>,
        ignored: Vec<String>,
    },
    HasAccelerators,
    InstanceGroupAffinity,
    InstanceGroupAntiAffinity,
    HasEnoughCapacity {
        lock_reserved: bool,
        ignored: Vec<ReservationKind>,
        assume_empty: bool,
    },
    AllowedProjects,
    AggregateMetadata,
    LiveMigratable,
    RequestedDestination,
    QuotaEnforcement {
        enforce: bool,
    },
    ExcludeHosts {
        hosts: Vec<String>,
    },
}

/// The hosts that are left.
pub struct Survivors<'a> {
    pub candidates: &'a mut Vec<Candidate>,
    pub dropped: &'a mut Vec<(Candidate, u32)>,
    pub filter: u32,
}

impl Survivors<'_> {
    fn retain(&mut self, mut keep: impl FnMut(&Candidate) -> bool) {
        let (dropped, filter) = (&mut *self.dropped, self.filter);
        self.candidates.retain(|candidate| {
            let kept = keep(candidate);
            if !kept {
                dropped.push((*candidate, filter));
            }
            kept
        });
    }

    /// Drops hosts that nobody knows, and those for which `keep` does not hold.
    fn retain_known(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.retain(|candidate| candidate.host != NONE && keep(candidate.host));
    }

    /// Keeps hosts that nobody knows.
    fn retain_unless_known(&mut self, mut keep: impl FnMut(u32) -> bool) {
        self.retain(|candidate| candidate.host == NONE || keep(candidate.host));
    }
}

fn reservation_kinds(params: &Params, key: &str) -> Result<Vec<ReservationKind>, Wrong> {
    let of = |name: &String| match name.as_str() {
        "CommittedResource" | "CommittedResourceReservation" => Ok(ReservationKind::CommittedResource),
        "Failover" | "FailoverReservation" => Ok(ReservationKind::Failover),
        other => Err(format!("{key}: use CommittedResource or Failover, not {other}")),
    };
    params::texts(params, key)?.iter().map(of).collect()
}

impl Filter {
    /// `None`: nobody knows such a filter.
    pub fn make(name: &str, params: &Params) -> Option<Result<Self, Wrong>> {
        let filter = match name.strip_prefix("filter_").unwrap_or(name) {
            "status_conditions" => Ok(Filter::StatusConditions),
            "correct_az" => Ok(Filter::CorrectAz),
            "host_instructions" => Ok(Filter::HostInstructions),
            "image_properties" => Ok(Filter::ImageProperties),
            "capabilities" => Ok(Filter::Capabilities),
            "has_requested_traits" => Ok(Filter::HasRequestedTraits),
            "external_customer" => Self::external_customer(params),
            "has_accelerators" => Ok(Filter::HasAccelerators),
            "instance_group_affinity" => Ok(Filter::InstanceGroupAffinity),
            "instance_group_anti_affinity" => Ok(Filter::InstanceGroupAntiAffinity),
            "has_enough_capacity" => Self::has_enough_capacity(params),
            "allowed_projects" => Ok(Filter::AllowedProjects),
            "aggregate_metadata" => Ok(Filter::AggregateMetadata),
            "live_migratable" => Ok(Filter::LiveMigratable),
            "requested_destination" => Ok(Filter::RequestedDestination),
            "quota_enforcement" => {
                params::yes(params, "enforce").map(|enforce| Filter::QuotaEnforcement { enforce })
            }
            "exclude_hosts" => {
                params::texts(params, "excludedHosts").map(|hosts| Filter::ExcludeHosts { hosts })
            }
            _ => return None,
        };
        Some(filter)
    }

    fn external_customer(params: &Params) -> Result<Self, Wrong> {
        let prefixes = params::texts(params, "domainNamePrefixes")?;
        if prefixes.is_empty() {
            return Err("domainNamePrefixes: name at least one, or leave the filter out".to_owned());
        }
        Ok(Filter::ExternalCustomer {
            prefixes,
            ignored: params::texts(params, "ignoredDomainNames")?,
        })
    }

    fn has_enough_capacity(params: &Params) -> Result<Self, Wrong> {
        Ok(Filter::HasEnoughCapacity {
            lock_reserved: params::yes(params, "lockReserved")?,
            ignored: reservation_kinds(params, "ignoredReservationTypes")?,
            assume_empty: params::yes(params, "ignoreAllocations")?,
        })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Filter::StatusConditions => "status_conditions",
            Filter::CorrectAz => "correct_az",
            Filter::HostInstructions => "host_instructions",
            Filter::ImageProperties => "image_properties",
            Filter::Capabilities => "capabilities",
            Filter::HasRequestedTraits => "has_requested_traits",
            Filter::ExternalCustomer { .. } => "external_customer",
            Filter::HasAccelerators => "has_accelerators",
            Filter::InstanceGroupAffinity => "instance_group_affinity",
            Filter::InstanceGroupAntiAffinity => "instance_group_anti_affinity",
            Filter::HasEnoughCapacity { .. } => "has_enough_capacity",
            Filter::AllowedProjects => "allowed_projects",
            Filter::AggregateMetadata => "aggregate_metadata",
            Filter::LiveMigratable => "live_migratable",
            Filter::RequestedDestination => "requested_destination",
            Filter::QuotaEnforcement { .. } => "quota_enforcement",
            Filter::ExcludeHosts { .. } => "exclude_hosts",
        }
    }

    /// `false`: it has nothing to say about this question.
    pub fn apply(&self, context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
        let Context { fleet, request } = context;
        let spec = &request.spec;
        match self {
            Filter::StatusConditions => {
                context.needs_fleet()?;
                hosts.retain_known(|host| fleet.unfit[host as usize].is_none());
                Ok(true)
            }
            Filter::CorrectAz => {
                let Some(zone) = &spec.zone else { return Ok(false) };
                context.needs_fleet()?;
                let zone = fleet.zones.find(zone);
                hosts.retain_known(|host| zone != NONE && fleet.zone[host as usize] == zone);
                Ok(true)
            }
            Filter::HostInstructions => Ok(instructions(context, hosts)),
            Filter::ImageProperties => {
                // All hosts that are known run KVM or what takes its images.
                if spec.intent.is_ours() || spec.image != ImageType::Foreign {
                    return Ok(false);
                }
                context.needs_fleet()?;
                hosts.retain_unless_known(|_| false);
                Ok(true)
            }
            Filter::Capabilities => hardware::capabilities(context, hosts),
            Filter::HasRequestedTraits => hardware::traits(context, hosts),
            Filter::HasAccelerators => hardware::accelerators(context, hosts),
            Filter::LiveMigratable => hardware::live_migratable(context, hosts),
            Filter::ExternalCustomer { prefixes, ignored } => {
                projects::external_customer(context, hosts, prefixes, ignored)
            }
            Filter::AllowedProjects => projects::allowed(context, hosts),
            Filter::AggregateMetadata => projects::aggregates(context, hosts),
            Filter::InstanceGroupAffinity => Ok(groups::affinity(context, hosts)),
            Filter::InstanceGroupAntiAffinity => groups::anti_affinity(context, hosts),
            Filter::RequestedDestination => groups::destination(context, hosts),
            Filter::HasEnoughCapacity {
                lock_reserved,
                ignored,
                assume_empty,
            } => {
                let rules = capacity::Rules::of(request, *lock_reserved, ignored, *assume_empty);
                capacity::enough(context, hosts, &rules)
            }
            Filter::QuotaEnforcement { enforce } => quota::enforce(context, hosts, *enforce),
            Filter::ExcludeHosts { hosts: excluded } => {
                if excluded.is_empty() {
                    return Ok(false);
                }
                let excluded = Named::of(context, excluded);
                hosts.retain(|candidate| !excluded.has(candidate));
                Ok(true)
            }
        }
    }

    /// Why this filter dropped that host, in words.
    pub fn reason(&self, context: Context<'_>, host: u32) -> String {
        let Context { fleet, request } = context;
        let spec = &request.spec;
        let is_ours = matches!(self, Filter::HostInstructions | Filter::ExcludeHosts { .. });
        if host == NONE && !is_ours && !matches!(self, Filter::QuotaEnforcement { .. }) {
            return "is not known to Cortex".to_owned();
        }
        match self {
            Filter::StatusConditions => {
                let why = fleet.unfit.get(host as usize).cloned().flatten();
                why.unwrap_or_else(|| "may not take servers".to_owned())
            }
            Filter::CorrectAz => {
                let has = fleet.zones.name(fleet.zone[host as usize]);
                let has = if has.is_empty() { "no zone" } else { has };
                format!("is in {has}, not in {}", spec.zone.as_deref().unwrap_or_default())
            }
            Filter::HostInstructions => "is ignored, or not among the hosts that are forced".to_owned(),
            Filter::ImageProperties => "runs KVM, for which the image was not made".to_owned(),
            Filter::Capabilities => hardware::capabilities_reason(context, host),
            Filter::HasRequestedTraits => hardware::traits_reason(context, host),
            Filter::HasAccelerators => format!("has no trait {}", hardware::ACCELERATORS),
            Filter::LiveMigratable => hardware::live_migratable_reason(context, host),
            Filter::ExternalCustomer { .. } => format!("has no trait {}", projects::EXCLUSIVE),
            Filter::AllowedProjects => "is for other projects (allowedProjects)".to_owned(),
            Filter::AggregateMetadata => "is in aggregates for other projects (filter_tenant_id)".to_owned(),
            Filter::InstanceGroupAffinity => "has no server of the group".to_owned(),
            Filter::InstanceGroupAntiAffinity => groups::anti_affinity_reason(context, host),
            Filter::RequestedDestination => "is not the destination that was asked for".to_owned(),
            Filter::HasEnoughCapacity {
                lock_reserved,
                ignored,
                assume_empty,
            } => {
                let rules = capacity::Rules::of(request, *lock_reserved, ignored, *assume_empty);
                capacity::reason(context, host, &rules)
            }
            Filter::QuotaEnforcement { .. } => "the project has no quota left".to_owned(),
            Filter::ExcludeHosts { .. } => "is excluded by the pipeline".to_owned(),
        }
    }
}

fn instructions(context: Context<'_>, hosts: &mut Survivors<'_>) -> bool {
    let spec = &context.request.spec;
    if spec.ignore_hosts.is_empty() && spec.force_hosts.is_empty() {
        return false;
    }
    let ignored = Named::of(context, &spec.ignore_hosts);
    let forced = Named::of(context, &spec.force_hosts);
    let any = spec.force_hosts.is_empty();
    hosts.retain(|candidate| !ignored.has(candidate) && (any || forced.has(candidate)));
    true
}

/// Hosts by name, known or not, as the places they have in the question.
struct Named(QuickMap<u32, ()>);

/// Hosts that nobody knows are told apart by their places, with this bit.
const SLOT: u32 = 1 << 31;

impl Named {
    fn of(context: Context<'_>, names: &[String]) -> Self {
        let Context { fleet, request } = context;
        let mut numbers = QuickMap::default();
        for name in names {
            match fleet.hosts.find(name) {
                NONE => {
                    let slot = request.hosts.iter().position(|(host, _)| host == name);
                    if let Some(slot) = slot.and_then(|slot| u32::try_from(slot).ok()) {
                        numbers.insert(slot | SLOT, ());
                    }
                }
                host => {
                    numbers.insert(host, ());
                }
            }
        }
        Named(numbers)
    }

    fn has(&self, candidate: &Candidate) -> bool {
        let number = match candidate.host {
            NONE => candidate.slot | SLOT,
            host => host,
        };
        !self.0.is_empty() && self.0.contains_key(&number)
    }
}

/// Questions of our own that ask for room, whoever may use it.
fn any_project(intent: Intent) -> bool {
    matches!(intent, Intent::ReserveForFailover | Intent::CapacityProbe)
}
