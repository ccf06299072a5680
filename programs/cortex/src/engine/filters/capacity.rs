//! Free capacity: effective capacity, minus what servers use, minus what is reserved for others.

use super::{Context, Skipped, Survivors};
use crate::fleet::names::{NONE, QuickMap};
use crate::fleet::{Amount, Kept, ReservationKind};
use crate::request::{Intent, Request};

pub(crate) struct Rules<'a> {
    /// Reserved room stays closed, even to those it is kept for.
    pub lock: bool,
    pub ignored: &'a [ReservationKind],
    pub assume_empty: bool,
}

impl<'a> Rules<'a> {
    /// Those of the pipeline and those of the question.
    pub(crate) fn of(
        request: &Request<'_>,
        lock: bool,
        ignored: &'a [ReservationKind],
        assume_empty: bool,
    ) -> Self {
        Rules {
            lock: lock || request.options.lock_reservations,
            ignored,
            assume_empty: assume_empty || request.options.assume_empty_hosts,
        }
    }

    fn heeds(&self, kind: ReservationKind, request: &crate::request::Options) -> bool {
        !self.ignored.contains(&kind) && !request.ignored_reservation_types.contains(&kind)
    }
}

/// What all the servers of the question take together.
fn needed(context: Context<'_>) -> Result<Amount, Skipped> {
    let spec = &context.request.spec;
    if spec.flavor.vcpus <= 0 || spec.flavor.memory_mb <= 0 {
        return Err(Skipped("the flavour has no processor or no memory".to_owned()));
    }
    Ok(Amount::new(spec.flavor.vcpus, spec.flavor.memory_mb).times(spec.num_instances))
}

/// Whether the room is kept for the very server of this question.
fn is_open(context: Context<'_>, kept: &Kept, rules: &Rules<'_>) -> bool {
    let spec = &context.request.spec;
    if !kept.active || rules.lock {
        return false;
    }
    match kept.kind {
        ReservationKind::CommittedResource => {
            spec.intent != Intent::ReserveForCommittedResource && kept.group == spec.resource_group
        }
        // Otherwise an ordinary migration would eat what the next outage needs.
        ReservationKind::Failover => spec.intent == Intent::Evacuate,
    }
}

/// Room that is open to this question alone, by host.
fn open(context: Context<'_>, rules: &Rules<'_>) -> QuickMap<u32, Amount> {
    let Context { fleet, request } = context;
    let mut opened: QuickMap<u32, Amount> = QuickMap::default();
    let project = fleet.projects.find(&request.spec.project);
    let of_project = fleet.kept_for_project.get(&project).filter(|_| project != NONE);
    let of_server = fleet.kept_for_server.get(request.spec.instance.as_str());
    let numbers = of_project.into_iter().chain(of_server).flatten();
    for number in numbers {
        let kept = &fleet.kept[*number as usize];
        if rules.heeds(kept.kind, &request.options) && is_open(context, kept, rules) {
            let sum = opened.entry(kept.host).or_default();
            *sum = sum.plus(kept.size);
        }
    }
    opened
}

pub(crate) fn enough(
    context: Context<'_>,
    hosts: &mut Survivors<'_>,
    rules: &Rules<'_>,
) -> Result<bool, Skipped> {
    context.needs_fleet()?;
    let needed = needed(context)?;
    let Context { fleet, request } = context;
    let opened = open(context, rules);
    let committed = rules.heeds(ReservationKind::CommittedResource, &request.options);
    let failover = rules.heeds(ReservationKind::Failover, &request.options);
    hosts.retain_known(|host| {
        let at = host as usize;
        if !fleet.known_capacity[at] {
            return false;
        }
        let mut free = Amount::new(fleet.cpu[at], fleet.memory[at]);
        if !rules.assume_empty {
            free = free.minus(Amount::new(fleet.used_cpu[at], fleet.used_memory[at]));
        }
        if committed {
            free = free.minus(fleet.committed[at]);
        }
        if failover {
            free = free.minus(fleet.failover[at]);
        }
        if !opened.is_empty()
            && let Some(opened) = opened.get(&host)
        {
            free = free.plus(*opened);
        }
        needed.fits(free)
    });
    Ok(true)
}

pub(crate) fn reason(context: Context<'_>, host: u32, rules: &Rules<'_>) -> String {
    let Context { fleet, request } = context;
    let at = host as usize;
    if !fleet.known_capacity[at] {
        return "has an unknown capacity".to_owned();
    }
    let needed = needed(context).unwrap_or_default();
    let mut kept = Amount::default();
    for (kind, sum) in [
        (ReservationKind::CommittedResource, fleet.committed[at]),
        (ReservationKind::Failover, fleet.failover[at]),
    ] {
        if rules.heeds(kind, &request.options) {
            kept = kept.plus(sum);
        }
    }
    kept = kept.minus(open(context, rules).get(&host).copied().unwrap_or_default());
    let used = if rules.assume_empty {
        Amount::default()
    } else {
        fleet.used(host)
    };
    let free = fleet.capacity(host).minus(used).minus(kept);
    let mut parts = Vec::new();
    if needed.cpu > free.cpu {
        parts.push(format!("{} of {} CPUs", free.cpu.max(0), needed.cpu));
    }
    if needed.memory > free.memory {
        parts.push(format!(
            "{} of {} MiB of memory",
            free.memory.max(0),
            needed.memory
        ));
    }
    let because = if kept.cpu > 0 || kept.memory > 0 {
        format!(", with {} CPUs and {} MiB kept for others", kept.cpu, kept.memory)
    } else {
        String::new()
    };
    format!("has only {} free{because}", parts.join(" and "))
}
