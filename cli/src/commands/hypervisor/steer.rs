//! `c5c3 hypervisor pause | resume | cancel | retry`.

use std::time::Instant;

use c5c3_api::hypervisor::{Eviction, Hypervisor, Maintenance, OnboardingPhase};
use clap::Args;
use jiff::Timestamp;
use kube::Api;
use kube::api::{Patch, PatchParams};
use serde_json::json;

use super::progress::Progress;
use super::{Enable, MANAGER, enable, fleet, follow, seen, set};
use crate::cloud::access::Target;
use crate::failure::Failure;
use crate::output::say_when;

/// Its value is new whenever somebody asks.
const RETRY: &str = "hypervisor.c5c3.io/retry";

#[derive(Args)]
pub(super) struct Named {
    #[command(flatten)]
    target: Target,
    /// Name of the host.
    name: String,
}

pub(super) async fn pause(arguments: &Named, paused: bool) -> Result<(), Failure> {
    let (name, client) = (&arguments.name, fleet(&arguments.target).await?);
    let (host, eviction) = seen(&client, name).await?;
    check(&host, eviction.as_ref())?;
    set(&Api::<Eviction>::all(client), name, json!({"paused": paused})).await?;
    let said = if paused {
        format!("{name}: no new migration starts until `c5c3 hypervisor resume {name}`")
    } else {
        format!("{name}: migrations continue")
    };
    say_when(Instant::now(), &said);
    Ok(())
}

/// There has to be something to stop.
fn check(host: &Hypervisor, eviction: Option<&Eviction>) -> Result<(), Failure> {
    let name = host.metadata.name.as_deref().unwrap_or_default();
    match eviction {
        Some(_) => Ok(()),
        None => Err(Failure::Usage(format!(
            "{name} is not being drained: `c5c3 hypervisor drain {name} --reason …` starts it"
        ))),
    }
}

pub(super) async fn cancel(arguments: &Enable) -> Result<(), Failure> {
    let client = fleet(&arguments.target).await?;
    let (host, eviction) = seen(&client, &arguments.name).await?;
    check(&host, eviction.as_ref())?;
    if !matches!(
        host.spec.maintenance,
        Maintenance::Manual | Maintenance::Auto | Maintenance::Termination
    ) {
        let name = &arguments.name;
        return Err(Failure::Usage(format!(
            "the Eviction {name} was made by someone else: delete it to stop it"
        )));
    }
    enable(arguments).await
}

pub(super) async fn retry(arguments: &Enable) -> Result<(), Failure> {
    let (name, client) = (&arguments.name, fleet(&arguments.target).await?);
    let (host, _) = seen(&client, name).await?;
    if phase(&host) != Some(OnboardingPhase::Aborted) {
        return Err(Failure::Usage(format!(
            "the onboarding of {name} was not aborted: there is nothing to try again"
        )));
    }
    let params = PatchParams {
        field_manager: Some(MANAGER.to_owned()),
        ..PatchParams::default()
    };
    let asked = json!({"metadata": {"annotations": {RETRY: Timestamp::now().to_string()}}});
    let hosts: Api<Hypervisor> = Api::all(client.clone());
    hosts.patch(name, &params, &Patch::Merge(asked)).await?;
    let start = Instant::now();
    say_when(start, &format!("{name}: its onboarding starts over"));
    if arguments.patience.no_wait {
        return Ok(());
    }
    // An annotation makes no new generation: what was aborted before is not the answer.
    let mut begun = false;
    let end = |progress: &Progress| {
        begun |= progress.row.state != c5c3_api::conditions::reason::ABORTED;
        progress.enabled().filter(|_| begun)
    };
    follow(&client, name, start, arguments.patience.timeout, end).await
}

fn phase(host: &Hypervisor) -> Option<OnboardingPhase> {
    let onboarding = host.status.as_ref()?.onboarding.as_ref()?;
    Some(onboarding.phase)
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::hypervisor::{EvictionSpec, HypervisorSpec};

    #[test]
    fn only_a_drain_can_be_paused() {
        let host = Hypervisor::new("node-2", HypervisorSpec::default());
        let refused = check(&host, None).expect_err("there is none").to_string();
        assert!(refused.contains("c5c3 hypervisor drain node-2"), "{refused}");
        let eviction = Eviction::new("node-2", EvictionSpec::default());
        assert!(check(&host, Some(&eviction)).is_ok());
    }
}
