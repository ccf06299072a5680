//! Hardware properties of a host.

use super::{Context, Skipped, Survivors};
use crate::fleet::Fleet;
use crate::fleet::names::NONE;
use crate::request::Intent;

pub(crate) const ACCELERATORS: &str = "COMPUTE_ACCELERATORS";
const CAPABILITIES: &str = "capabilities:";
const TRAIT: &str = "trait:";
/// Comparisons that flavours can write and that are not understood here: the filter stays out.
const OPERATORS: [&str; 10] = ["=", "<in>", "<all-in>", "!=", ">=", "<=", "s<", "s>", "<or>", "<"];

fn wanted<'a>(context: Context<'a>, prefix: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> + Clone {
    let specs = context.request.spec.flavor.extra_specs.iter();
    specs.filter_map(move |(key, value)| Some((key.strip_prefix(prefix)?, value.as_str())))
}

fn has_capability(fleet: &Fleet, host: u32, key: &str, value: &str) -> bool {
    match key {
        "hypervisor_type" => {
            let has = fleet.hypervisor_type[host as usize].in_flavours();
            has.is_some_and(|has| has.eq_ignore_ascii_case(value))
        }
        "cpu_arch" => {
            let arch = fleet.arch[host as usize];
            arch != NONE && arch == fleet.arches.find(value)
        }
        _ => false,
    }
}

pub(crate) fn capabilities(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let wanted = wanted(context, CAPABILITIES);
    if wanted.clone().next().is_none() {
        return Ok(false);
    }
    for (key, value) in wanted.clone() {
        if let Some(operator) = OPERATORS.iter().find(|operator| value.contains(*operator)) {
            let text = format!("{CAPABILITIES}{key}: comparisons such as {operator} are not understood");
            return Err(Skipped(text));
        }
    }
    context.needs_fleet()?;
    let fleet = context.fleet;
    for (key, value) in wanted {
        match key {
            // Once for the question, not for each host.
            "cpu_arch" => {
                let arch = fleet.arches.find(value);
                hosts.retain_known(|host| arch != NONE && fleet.arch[host as usize] == arch);
            }
            _ => hosts.retain_known(|host| has_capability(fleet, host, key, value)),
        }
    }
    Ok(true)
}

pub(crate) fn capabilities_reason(context: Context<'_>, host: u32) -> String {
    let lacks = wanted(context, CAPABILITIES)
        .filter(|(key, value)| !has_capability(context.fleet, host, key, value))
        .map(|(key, value)| format!("{key}={value}"));
    format!("does not have {}", lacks.collect::<Vec<_>>().join(", "))
}

fn traits_of<'a>(context: Context<'a>, state: &'a str) -> impl Iterator<Item = &'a str> {
    wanted(context, TRAIT).filter_map(move |(name, value)| (value == state).then_some(name))
}

pub(crate) fn traits(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let fleet = context.fleet;
    let (mut required, mut forbidden) = (traits_of(context, "required"), traits_of(context, "forbidden"));
    if required.next().is_none() && forbidden.next().is_none() {
        return Ok(false);
    }
    context.needs_fleet()?;
    let required = fleet.traits.mask(traits_of(context, "required"));
    let forbidden = fleet.traits.mask(traits_of(context, "forbidden"));
    hosts.retain_known(|host| {
        fleet.traits.has_all(host, &required) && !fleet.traits.has_any(host, &forbidden)
    });
    Ok(true)
}

pub(crate) fn traits_reason(context: Context<'_>, host: u32) -> String {
    let has = |name: &&str| context.fleet.traits.has(host, name);
    let lacks: Vec<&str> = traits_of(context, "required").filter(|name| !has(name)).collect();
    let hinders: Vec<&str> = traits_of(context, "forbidden").filter(has).collect();
    let mut parts = Vec::new();
    if !lacks.is_empty() {
        parts.push(format!("lacks the trait {}", lacks.join(", ")));
    }
    if !hinders.is_empty() {
        parts.push(format!("has the forbidden trait {}", hinders.join(", ")));
    }
    parts.join(" and ")
}

pub(crate) fn accelerators(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let specs = &context.request.spec.flavor.extra_specs;
    if !specs.contains_key("accel:device_profile") {
        return Ok(false);
    }
    context.needs_fleet()?;
    let traits = &context.fleet.traits;
    let mask = traits.mask([ACCELERATORS]);
    hosts.retain_known(|host| traits.has_all(host, &mask));
    Ok(true)
}

/// The host that the server leaves, where the question is one of live migration.
fn source(context: Context<'_>) -> Option<u32> {
    let spec = &context.request.spec;
    if spec.intent != Intent::LiveMigrate {
        return None;
    }
    let host = context.fleet.hosts.find(spec.source_host.as_ref()?);
    (host != NONE).then_some(host)
}

pub(crate) fn live_migratable(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let Some(source) = source(context) else {
        return Ok(false);
    };
    let fleet = context.fleet;
    let modes = fleet.cpu_modes.mask_of(source);
    let features = fleet.features.mask_of(source);
    let devices = fleet.devices.mask_of(source);
    let arch = fleet.arch[source as usize];
    hosts.retain_known(|host| {
        fleet.arch[host as usize] == arch
            && fleet.cpu_modes.has_all(host, &modes)
            && fleet.features.has_all(host, &features)
            && fleet.devices.has_all(host, &devices)
    });
    Ok(true)
}

pub(crate) fn live_migratable_reason(context: Context<'_>, host: u32) -> String {
    let fleet = context.fleet;
    let Some(source) = source(context) else {
        return "cannot take the running server".to_owned();
    };
    let from = fleet.hosts.name(source);
    if fleet.arch[host as usize] != fleet.arch[source as usize] {
        return format!("has another architecture than {from}");
    }
    let sets = [
        ("CPU modes", &fleet.cpu_modes),
        ("features", &fleet.features),
        ("devices", &fleet.devices),
    ];
    let lacking = sets.iter().find_map(|(what, sets)| {
        let has = sets.names_of(host);
        let lacks: Vec<&str> = sets
            .names_of(source)
            .into_iter()
            .filter(|one| !has.contains(one))
            .collect();
        (!lacks.is_empty()).then(|| format!("lacks {what} of {from}: {}", lacks.join(", ")))
    });
    lacking.unwrap_or_else(|| "cannot take the running server".to_owned())
}
