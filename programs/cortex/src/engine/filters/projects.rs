//! Which projects may use a host.

use super::{Context, Skipped, Survivors, any_project};

pub(crate) const EXCLUSIVE: &str = "CUSTOM_EXTERNAL_CUSTOMER_EXCLUSIVE";

pub(crate) fn external_customer(
    context: Context<'_>,
    hosts: &mut Survivors<'_>,
    prefixes: &[String],
    ignored: &[String],
) -> Result<bool, Skipped> {
    let spec = &context.request.spec;
    let Some(domain) = &spec.domain_name else {
        return Ok(false);
    };
    let external = prefixes.iter().any(|prefix| domain.starts_with(prefix)) && !ignored.contains(domain);
    if !external || any_project(spec.intent) {
        return Ok(false);
    }
    context.needs_fleet()?;
    let traits = &context.fleet.traits;
    let mask = traits.mask([EXCLUSIVE]);
    hosts.retain_known(|host| traits.has_all(host, &mask));
    Ok(true)
}

pub(crate) fn allowed(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let spec = &context.request.spec;
    if spec.project.is_empty() || any_project(spec.intent) {
        return Ok(false);
    }
    context.needs_fleet()?;
    let fleet = context.fleet;
    let project = fleet.projects.find(&spec.project);
    hosts.retain_unless_known(|host| {
        let allowed = fleet.allowed.of(host);
        allowed.is_empty() || allowed.contains(&project)
    });
    Ok(true)
}

pub(crate) fn aggregates(context: Context<'_>, hosts: &mut Survivors<'_>) -> Result<bool, Skipped> {
    let spec = &context.request.spec;
    if any_project(spec.intent) {
        return Ok(false);
    }
    context.needs_fleet()?;
    let fleet = context.fleet;
    let project = fleet.projects.find(&spec.project);
    hosts.retain_unless_known(|host| {
        !fleet.is_restricted[host as usize] || fleet.restricted.of(host).contains(&project)
    });
    Ok(true)
}
