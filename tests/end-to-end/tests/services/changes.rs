//! Only what must restart restarts.

use anyhow::{Context, ensure};
use end_to_end::cloud::{ask, token};
use serde_json::json;

use crate::world::{PASSWORD, World};

pub(crate) fn replicas_restart_nothing(world: &World) -> anyhow::Result<()> {
    let before = world.pods()?;
    world.change(&json!({"replicas": 4}))?;
    world.until_ready()?;
    let more = world.pods()?;
    ensure!(
        more.len() == 4 && more.is_superset(&before),
        "{before:?} became {more:?}"
    );
    world.change(&json!({"replicas": 3}))?;
    let after = world.until("three pods", || {
        let pods = world.pods()?;
        Ok((pods.len() == 3).then_some(pods))
    })?;
    ensure!(after.is_subset(&more), "{more:?} became {after:?}");
    world.until_ready()
}

pub(crate) fn options_and_policies_restart_the_pods(world: &World) -> anyhow::Result<()> {
    let before = (world.pods()?, jobs(world)?);
    ensure!(regions(world)?.starts_with("HTTP/1.1 200"));
    world.change(&json!({
        "extraConfig": {"token": {"expiration": "7200"}},
        "policyOverrides": {"rules": {"identity:list_regions": "!"}},
    }))?;
    world.until_ready()?;
    let pods = world.pods()?;
    ensure!(pods.is_disjoint(&before.0), "{pods:?} still runs");
    ensure!(jobs(world)? == before.1, "the schema needs no other Job");
    let refused = regions(world)?;
    ensure!(refused.starts_with("HTTP/1.1 403"), "{refused}");
    Ok(())
}

/// What the admin is told who asks for the regions.
fn regions(world: &World) -> anyhow::Result<String> {
    let token = token(&world.url, PASSWORD)?.ok().context("a token")?;
    let own = format!("X-Auth-Token: {token}");
    ask(&format!("{}/regions", world.url), &[&own], None)
}

pub(crate) fn a_database_password_restarts_the_pods(world: &World) -> anyhow::Result<()> {
    let before = (world.pods()?, jobs(world)?);
    world.patch(
        "secret/keystone-database",
        &json!({"stringData": {"password": "another-database"}}),
    )?;
    world.until("another Job", || Ok((jobs(world)? != before.1).then_some(())))?;
    world.until("other pods", || {
        let pods = world.pods()?;
        Ok((!pods.is_empty() && pods.is_disjoint(&before.0)).then_some(()))
    })?;
    world.until_ready()?;
    // The account of the old password goes with the last pod that used it.
    world.until("one account", || {
        let users = world.kubectl(&["get", "users.k8s.mariadb.com", "-o", "name"])?;
        Ok((users.lines().count() == 1).then_some(()))
    })
}

fn jobs(world: &World) -> anyhow::Result<String> {
    let labels = "app.kubernetes.io/name=keystone,app.kubernetes.io/instance=keystone";
    world.kubectl(&["get", "jobs", "-l", labels, "-o", "name"])
}
