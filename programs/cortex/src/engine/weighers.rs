//! Steps that order hosts. An opinion is a number for each host, 0 where there is none.

use super::params::{self, Params, Scale, Weights, Wrong};
use super::{Candidate, Context, Skipped};
use crate::fleet::names::{NONE, QuickMap};
use crate::fleet::{Contention, ReservationKind};
use crate::request::Intent;

/// Every weigher. Those without a prefix are known as `vmware_…` too.
pub const NAMES: [&str; 9] = [
    "kvm_binpack",
    "kvm_prefer_smaller_hosts",
    "kvm_instance_group_soft_affinity",
    "kvm_failover_evacuation",
    "kvm_committed_resource_reservation",
    "kvm_failover_reservation_consolidation",
    "avoid_long_term_contended_hosts",
    "avoid_short_term_contended_hosts",
    "anti_affinity_noisy_projects",
];

#[derive(Clone, Debug, PartialEq)]
pub enum Weigher {
    Binpack(Weights),
    PreferSmallerHosts(Weights),
    SoftAffinity,
    /// Opinion of the hosts that are meant, and of all others.
    FailoverEvacuation(f64, f64),
    CommittedReservation(f64, f64),
    FailoverConsolidation {
        total: f64,
        same: f64,
    },
    /// Scales of average and maximum.
    LongTermContention(Scale, Scale),
    ShortTermContention(Scale, Scale),
    NoisyProjects(Scale),
}

impl Weigher {
    /// `None`: nobody knows such a weigher.
    pub fn make(name: &str, params: &Params) -> Option<Result<Self, Wrong>> {
        let pair = |one: &str, other: &str| {
            Ok((
                params::number(params, one, 1.0)?,
                params::number(params, other, 0.1)?,
            ))
        };
        let contention = || {
            let usual = |high| Scale {
                from: 0.0,
                to: 10.0,
                low: 0.0,
                high,
            };
            let average = Scale::read(params, "avgCPUContention", usual(-0.75))?;
            Ok((average, Scale::read(params, "maxCPUContention", usual(-0.25))?))
        };
        let weigher = match name.strip_prefix("vmware_").unwrap_or(name) {
            "kvm_binpack" | "binpack" => params::weights(params).map(Weigher::Binpack),
            "kvm_prefer_smaller_hosts" => params::weights(params).map(Weigher::PreferSmallerHosts),
            "kvm_instance_group_soft_affinity" => Ok(Weigher::SoftAffinity),
            "kvm_failover_evacuation" => pair("failoverHostWeight", "defaultHostWeight")
                .map(|(own, other)| Weigher::FailoverEvacuation(own, other)),
            "kvm_committed_resource_reservation" => pair("reservationHostWeight", "defaultHostWeight")
                .map(|(own, other)| Weigher::CommittedReservation(own, other)),
            "kvm_failover_reservation_consolidation" => Self::consolidation(params),
            "avoid_long_term_contended_hosts" => {
                contention().map(|(average, max)| Weigher::LongTermContention(average, max))
            }
            "avoid_short_term_contended_hosts" => {
                contention().map(|(average, max)| Weigher::ShortTermContention(average, max))
            }
            "anti_affinity_noisy_projects" => {
                let usual = Scale {
                    from: 20.0,
                    to: 100.0,
                    low: 0.0,
                    high: -0.5,
                };
                Scale::read(params, "avgCPUUsage", usual).map(Weigher::NoisyProjects)
            }
            _ => return None,
        };
        Some(weigher)
    }

    fn consolidation(params: &Params) -> Result<Self, Wrong> {
        let total = params::number(params, "totalCountWeight", 1.0)?;
        let same = params::number(params, "sameSpecPenalty", 0.1)?;
        if total < 0.0 || same < 0.0 || (same > 0.0 && same >= total) {
            return Err("sameSpecPenalty: must be 0 or more, and below totalCountWeight".to_owned());
        }
        Ok(Weigher::FailoverConsolidation { total, same })
    }

    pub fn name(&self) -> &'static str {
        match self {
            Weigher::Binpack(_) => "kvm_binpack",
            Weigher::PreferSmallerHosts(_) => "kvm_prefer_smaller_hosts",
            Weigher::SoftAffinity => "kvm_instance_group_soft_affinity",
            Weigher::FailoverEvacuation(..) => "kvm_failover_evacuation",
            Weigher::CommittedReservation(..) => "kvm_committed_resource_reservation",
            Weigher::FailoverConsolidation { .. } => "kvm_failover_reservation_consolidation",
            Weigher::LongTermContention(..) => "avoid_long_term_contended_hosts",
            Weigher::ShortTermContention(..) => "avoid_short_term_contended_hosts",
            Weigher::NoisyProjects(_) => "anti_affinity_noisy_projects",
        }
    }

    /// `false`: it has nothing to say about this question.
    pub fn weigh(
        &self,
        context: Context<'_>,
        hosts: &[Candidate],
        opinions: &mut [f64],
    ) -> Result<bool, Skipped> {
        let fleet = context.fleet;
        match self {
            Weigher::Binpack(weights) => {
                context.needs_fleet()?;
                binpack(context, *weights, hosts, opinions);
                Ok(true)
            }
            Weigher::PreferSmallerHosts(weights) => {
                context.needs_fleet()?;
                let memory = smaller(
                    &fleet.memory,
                    &fleet.known_capacity,
                    weights.memory,
                    hosts,
                    opinions,
                );
                let cpu = smaller(&fleet.cpu, &fleet.known_capacity, weights.cpu, hosts, opinions);
                let sum = memory + cpu;
                if sum > 0.0 {
                    opinions.iter_mut().for_each(|opinion| *opinion /= sum);
                }
                Ok(sum > 0.0)
            }
            Weigher::SoftAffinity => Ok(soft_affinity(context, hosts, opinions)),
            Weigher::FailoverEvacuation(own, other) => {
                if context.request.spec.intent != Intent::Evacuate {
                    return Ok(false);
                }
                let meant = failover_hosts(context);
                prefer(&meant, *own, *other, hosts, opinions);
                Ok(true)
            }
            Weigher::CommittedReservation(own, other) => {
                let Some(meant) = committed_hosts(context) else {
                    return Ok(false);
                };
                prefer(&meant, *own, *other, hosts, opinions);
                Ok(true)
            }
            Weigher::FailoverConsolidation { total, same } => {
                Ok(consolidate(context, *total, *same, hosts, opinions))
            }
            Weigher::LongTermContention(average, max) => {
                contended(fleet.long_term.as_deref(), *average, *max, hosts, opinions)
            }
            Weigher::ShortTermContention(average, max) => {
                contended(fleet.short_term.as_deref(), *average, *max, hosts, opinions)
            }
            Weigher::NoisyProjects(scale) => {
                let Some(noise) = &fleet.noise else {
                    return Err(Skipped("no knowledge of noisy projects".to_owned()));
                };
                let Some(own) = noise.get(&fleet.projects.find(&context.request.spec.project)) else {
                    return Ok(false);
                };
                let own: QuickMap<u32, f64> = own.iter().copied().collect();
                for (host, opinion) in hosts.iter().zip(opinions) {
                    if let Some(usage) = own.get(&host.host) {
                        *opinion = scale.of(*usage);
                    }
                }
                Ok(true)
            }
        }
    }
}

/// Utilisation after the placement; it may be above 1.
fn binpack(context: Context<'_>, weights: Weights, hosts: &[Candidate], opinions: &mut [f64]) {
    let fleet = context.fleet;
    let spec = &context.request.spec;
    let share = |used: i64, more: i64, capacity: i64| (used + more) as f64 / capacity as f64;
    let cpu = spec.flavor.vcpus.saturating_mul(spec.num_instances);
    let memory = spec.flavor.memory_mb.saturating_mul(spec.num_instances);
    for (host, opinion) in hosts.iter().zip(opinions) {
        let at = host.host as usize;
        if host.host == NONE || !fleet.known_capacity[at] {
            continue;
        }
        let (mut sum, mut weight) = (0.0, 0.0);
        if weights.memory > 0.0 && fleet.memory[at] > 0 {
            sum += weights.memory * share(fleet.used_memory[at], memory, fleet.memory[at]);
            weight += weights.memory;
        }
        if weights.cpu > 0.0 && fleet.cpu[at] > 0 {
            sum += weights.cpu * share(fleet.used_cpu[at], cpu, fleet.cpu[at]);
            weight += weights.cpu;
        }
        if weight > 0.0 {
            *opinion = sum / weight;
        }
    }
}

/// Adds 1 for the smallest of the hosts, 0 for the largest, times `weight`. Gives the weight that
/// counted: 0 when all hosts are alike.
fn smaller(capacity: &[i64], known: &[bool], weight: f64, hosts: &[Candidate], opinions: &mut [f64]) -> f64 {
    let of = |host: &Candidate| {
        let at = host.host as usize;
        (host.host != NONE && known[at]).then(|| capacity[at])
    };
    let (least, most) = hosts
        .iter()
        .filter_map(of)
        .fold((i64::MAX, i64::MIN), |(least, most), one| {
            (least.min(one), most.max(one))
        });
    if weight == 0.0 || least >= most {
        return 0.0;
    }
    let range = (most - least) as f64;
    for (host, opinion) in hosts.iter().zip(opinions) {
        if let Some(capacity) = of(host) {
            *opinion += weight * (1.0 - (capacity - least) as f64 / range);
        }
    }
    weight
}

fn soft_affinity(context: Context<'_>, hosts: &[Candidate], opinions: &mut [f64]) -> bool {
    let Some(group) = &context.request.spec.group else {
        return false;
    };
    let factor = match group.policy.as_str() {
        "soft-affinity" => 1.0,
        "soft-anti-affinity" => -1.0,
        _ => return false,
    };
    let counts = context.fleet.count(group.members.iter().map(String::as_str));
    if counts.is_empty() {
        return false;
    }
    for (host, opinion) in hosts.iter().zip(opinions) {
        if let Some(count) = counts.get(&host.host) {
            *opinion = factor * f64::from(*count);
        }
    }
    true
}

fn prefer(meant: &QuickMap<u32, ()>, own: f64, other: f64, hosts: &[Candidate], opinions: &mut [f64]) {
    for (host, opinion) in hosts.iter().zip(opinions) {
        *opinion = if meant.contains_key(&host.host) {
            own
        } else {
            other
        };
    }
}

fn failover_hosts(context: Context<'_>) -> QuickMap<u32, ()> {
    let fleet = context.fleet;
    let numbers = fleet.kept_for_server.get(context.request.spec.instance.as_str());
    let kept = numbers
        .into_iter()
        .flatten()
        .map(|number| &fleet.kept[*number as usize]);
    let meant = kept.filter(|kept| kept.active && kept.kind == ReservationKind::Failover);
    meant.map(|kept| (kept.host, ())).collect()
}

/// `None`: the question is of no group of resources.
fn committed_hosts(context: Context<'_>) -> Option<QuickMap<u32, ()>> {
    let Context { fleet, request } = context;
    let spec = &request.spec;
    let group = spec.resource_group.as_ref()?;
    let numbers = fleet.kept_for_project.get(&fleet.projects.find(&spec.project));
    let kept = numbers
        .into_iter()
        .flatten()
        .map(|number| &fleet.kept[*number as usize]);
    let meant = kept.filter(|kept| {
        kept.active
            && kept.kind == ReservationKind::CommittedResource
            && kept.group.as_ref() == Some(group)
            && kept.zone == spec.zone
            && kept.size.memory >= spec.flavor.memory_mb
    });
    (spec.intent != Intent::ReserveForFailover).then(|| meant.map(|kept| (kept.host, ())).collect())
}

/// Failovers gather on few hosts, which are then free of servers; those of one group spread a little.
fn consolidate(
    context: Context<'_>,
    total: f64,
    same: f64,
    hosts: &[Candidate],
    opinions: &mut [f64],
) -> bool {
    let Context { fleet, request } = context;
    let failovers = || {
        let kept = fleet.kept.iter();
        kept.filter(|kept| kept.active && kept.kind == ReservationKind::Failover)
    };
    let count = failovers().count() as f64;
    if request.spec.intent != Intent::ReserveForFailover || count == 0.0 {
        return false;
    }
    let mut on_host: QuickMap<u32, (f64, f64)> = QuickMap::default();
    for kept in failovers() {
        let sums = on_host.entry(kept.host).or_default();
        sums.0 += 1.0;
        if kept.group.is_some() && kept.group == request.spec.resource_group {
            sums.1 += 1.0;
        }
    }
    for (host, opinion) in hosts.iter().zip(opinions) {
        if let Some((all, alike)) = on_host.get(&host.host) {
            *opinion = (total * all - same * alike) / count;
        }
    }
    true
}

fn contended(
    known: Option<&[Contention]>,
    average: Scale,
    max: Scale,
    hosts: &[Candidate],
    opinions: &mut [f64],
) -> Result<bool, Skipped> {
    let Some(known) = known else {
        return Err(Skipped("no knowledge of contention".to_owned()));
    };
    for (host, opinion) in hosts.iter().zip(opinions) {
        if let Some(contention) = known.get(host.host as usize) {
            *opinion = average.of(contention.avg) + max.of(contention.max);
        }
    }
    Ok(true)
}
