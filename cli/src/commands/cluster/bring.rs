//! Applies a cloud to a cluster and waits until it is ready.

use std::time::{Duration, Instant};

use c5c3_api::c5c3::ControlPlane;
use kube::{Api, ResourceExt};

use crate::cloud::access::Target;
use crate::cloud::profile::{Bundle, exposures};
use crate::cloud::progress::Shown;
use crate::cloud::sight::{self, Sight};
use crate::cloud::{accounts, apply, explain, profile, progress, snapshot};
use crate::commands::cloud::explain::words;
use crate::failure::Failure;
use crate::output::{end_waiting, say_when, show_waiting};
use crate::roles;

/// Where people reach the cloud.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exposed {
    /// By Services that `up` adds for this machine.
    OnLoopback,
    /// As its ControlPlane says.
    AsSaid,
}

/// Applies the objects and waits until every cloud among them is ready.
pub(crate) async fn bring(
    mut target: Target,
    bundle: &Bundle,
    exposed: Exposed,
    wait: u64,
    start: Instant,
) -> Result<(), Failure> {
    let client = target.client().await?;
    // Operators make no namespaces, and what they make elsewhere needs one.
    for plane in &bundle.planes {
        for name in sight::named(std::slice::from_ref(plane), &[]) {
            apply::namespace(&target.other(&name).await?, &place(plane)).await?;
        }
    }
    for object in &bundle.objects {
        match profile::cluster_of(object) {
            Some(name) => apply::apply(&target.other(name).await?, &profile::unplaced(object)).await?,
            None => apply::apply(&client, object).await?,
        }
    }
    for access in accounts::wanted(&bundle.objects).map_err(Failure::Usage)? {
        let token = accounts::token(&target.other(&access.cluster).await?, &access).await?;
        let secret = accounts::secret(&access, &target.kubeconfig()?, &token)
            .ok_or_else(|| Failure::NotFound(format!("the kubeconfig has no context {}", access.cluster)))?;
        let home = match &access.home {
            Some(name) => target.other(name).await?,
            None => client.clone(),
        };
        apply::apply(&home, &secret).await?;
    }
    for plane in bundle.planes.iter().filter(|_| exposed == Exposed::OnLoopback) {
        let api: Api<ControlPlane> = Api::namespaced(client.clone(), &place(plane));
        // As the server knows it: what belongs to it names its uid.
        for service in exposures(&api.get(&plane.name_any()).await?) {
            apply::apply(&client, &service).await?;
        }
    }
    // Its kinds are the cluster's, so the rights to them are given by a person: here.
    for plane in bundle.planes.iter().filter(|plane| plane.spec.cortex.enabled) {
        for object in roles::cortex().objects(&place(plane)) {
            apply::apply(&client, &object).await?;
        }
    }
    let began = Instant::now();
    for plane in &bundle.planes {
        let patience = Duration::from_secs(wait).saturating_sub(began.elapsed());
        let mut show = |shown: Shown<'_>| match shown {
            Shown::Done(line) => say_when(start, line),
            Shown::Waiting(waiting) => show_waiting(start, &waiting.message, waiting.new),
        };
        target.namespace = place(plane);
        let sight = target.sight().await?;
        let ready = progress::follow(&sight, &place(plane), &plane.name_any(), patience, &mut show).await;
        end_waiting();
        if !ready? {
            return Err(late(&sight, plane, wait).await?);
        }
    }
    Ok(())
}

/// Reading a file has given it a namespace, and so has the server.
fn place(plane: &ControlPlane) -> String {
    plane.namespace().unwrap_or_default()
}

async fn late(sight: &Sight, plane: &ControlPlane, wait: u64) -> Result<Failure, Failure> {
    let seen = snapshot::read(sight, &place(plane)).await?;
    let blocked = explain::start(&seen, None)
        .ok()
        .flatten()
        .map(|object| words(&explain::explain(&seen, object)))
        .unwrap_or_default();
    Ok(Failure::NotReady(format!(
        "the cloud is not ready after {wait} s. Its deployment continues; run `c5c3 up` again to keep waiting\n\n{blocked}"
    )))
}
