//! Server groups, and destinations that somebody asked for.

use super::{Context, Named, Skipped, Survivors};
use crate::fleet::names::NONE;
use crate::request::Group;

fn group<'a>(context: Context<'a>, policy: &str) -> Option<&'a Group> {
    let spec = &context.request.spec;
    let group = spec.group.as_ref().filter(|group| group.policy == policy);
    group.filter(|_| !spec.intent.is_ours())
}

pub(crate) fn affinity(context: Context<'_>, hosts: &mut Survivors<'_>) -> bool {
    match group(context, "affinity") {
        Some(group) if !group.hosts.is_empty() => {
            let own = Named::of(context, &group.hosts);
            hosts.retain(|candidate| own.has(candidate));
            true
        }
        _ => false,
    }
}

pub(crate) fn anti_affinity(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let Some(group) = group(context, "anti-affinity").filter(|group| !group.members.is_empty()) else {
        return Ok(false);
    };
    context.needs_fleet()?;
    let fleet = context.fleet;
    let counts = fleet.count(group.members.iter().map(String::as_str));
    // A resize may stay where the server is.
    let own = fleet
        .server_host
        .get(context.request.spec.instance.as_str())
        .copied();
    hosts.retain_known(|host| {
        let count = counts.get(&host).copied().unwrap_or_default();
        count < group.max_per_host || own == Some(host)
    });
    Ok(true)
}

pub(crate) fn anti_affinity_reason(context: Context<'_>, host: u32) -> String {
    let Some(group) = group(context, "anti-affinity") else {
        return "has servers of the group".to_owned();
    };
    let counts = context.fleet.count(group.members.iter().map(String::as_str));
    let count = counts.get(&host).copied().unwrap_or_default();
    format!(
        "has {count} servers of the group, the maximum is {}",
        group.max_per_host
    )
}

pub(crate) fn destination(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let spec = &context.request.spec;
    let Some(wanted) = spec.destination.as_ref().filter(|_| !spec.intent.is_ours()) else {
        return Ok(false);
    };
    let groups = !(wanted.aggregates.is_empty() && wanted.forbidden_aggregates.is_empty());
    if !groups && wanted.host.is_empty() {
        return Ok(false);
    }
    let aggregates = &context.fleet.aggregates;
    if groups {
        context.needs_fleet()?;
    }
    for group in &wanted.aggregates {
        let any = aggregates.mask(group.split(',').map(str::trim));
        hosts.retain_known(|host| aggregates.has_any(host, &any));
    }
    if !wanted.forbidden_aggregates.is_empty() {
        let names = wanted
            .forbidden_aggregates
            .iter()
            .flat_map(|group| group.split(','));
        let any = aggregates.mask(names.map(str::trim));
        hosts.retain(|candidate| candidate.host == NONE || !aggregates.has_any(candidate.host, &any));
    }
    if !wanted.host.is_empty() {
        let one = Named::of(context, std::slice::from_ref(&wanted.host));
        hosts.retain(|candidate| one.has(candidate));
    }
    Ok(true)
}
