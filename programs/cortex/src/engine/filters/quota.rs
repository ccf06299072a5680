//! Whether a project has headroom: in what it committed to, or in its quota beside that.

use super::{Context, Skipped, Survivors};
use crate::fleet::ReservationKind;
use crate::fleet::names::NONE;
use crate::request::Intent;

const MIB_PER_GIB: i64 = 1024;

fn gib(mib: i64) -> i64 {
    mib.max(0).saturating_add(MIB_PER_GIB - 1) / MIB_PER_GIB
}

/// The resource that is short, if any.
fn shortage(context: Context<'_>) -> Option<String> {
    let Context { fleet, request } = context;
    let spec = &request.spec;
    if matches!(spec.intent, Intent::Evacuate | Intent::LiveMigrate) || spec.intent.is_ours() {
        return None;
    }
    let (zone, group) = (spec.zone.as_deref()?, spec.resource_group.as_deref()?);
    let quota = fleet.quotas.as_ref()?.get(&format!("{}/{zone}", spec.project))?;
    let count = spec.num_instances;
    let wanted = gib(spec.flavor.memory_mb.saturating_mul(count));
    let project = fleet.projects.find(&spec.project);
    let own = fleet.kept.iter().filter(|kept| {
        kept.kind == ReservationKind::CommittedResource
            && kept.active
            && project != NONE
            && kept.project == project
            && kept.group.as_deref() == Some(group)
            && kept.zone.as_deref().is_none_or(|of| of == zone)
    });
    let mut committed = 0;
    for kept in own {
        let room = gib(kept.size.memory);
        if room >= wanted {
            return None;
        }
        committed += room;
    }
    [
        ("ram", wanted, committed),
        ("cores", spec.flavor.vcpus.saturating_mul(count), 0),
        ("instances", count, 0),
    ]
    .into_iter()
    .find_map(|(what, wanted, committed)| {
        let key = format!("hw_version_{group}_{what}");
        let limit = quota.limits.get(&key)?;
        let used = quota.used.get(&key).copied().unwrap_or_default();
        let headroom = limit - committed - used;
        (headroom < wanted).then(|| format!("{key}: {headroom} left of {limit}, {wanted} wanted"))
    })
}

/// Without `enforce` it only says what it would do.
pub(crate) fn enforce(
    context: Context<'_>,
    hosts: &mut Survivors<'_>,
    enforce: bool,
) -> Result<bool, Skipped> {
    let Some(short) = shortage(context) else {
        return Ok(false);
    };
    if !enforce {
        return Err(Skipped(format!("would refuse ({short}), but does not enforce")));
    }
    hosts.retain(|_| false);
    Ok(true)
}
