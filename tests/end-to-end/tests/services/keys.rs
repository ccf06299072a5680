//! Keys are rotated in running pods: nothing restarts and nothing is lost.

use anyhow::{Context, ensure};
use end_to_end::cloud::{ask, token};
use end_to_end::stream::Stream;
use serde_json::{Value, json};

use crate::world::{PASSWORD, World};

/// Makes a set look as if its last rotation, and the last new key, were long ago.
fn age(world: &World, secret: &str) -> anyhow::Result<()> {
    let ago = "2020-01-01T00:00:00Z";
    let marks = json!({"c5c3.io/rotated-at": ago, "c5c3.io/staged-at": ago});
    world.patch(
        &format!("secret/{secret}"),
        &json!({"metadata": {"annotations": marks}}),
    )
}

fn rotate(world: &World, secret: &str, primary: u32) -> anyhow::Result<()> {
    age(world, secret)?;
    world.until(&format!("key {primary} of {secret}"), || {
        let keys = world.get(&format!("secret/{secret}"))?;
        Ok(keys["data"].get(primary.to_string()).map(drop))
    })
}

/// Every pod has the key with that number, without a restart.
fn everywhere(world: &World, directory: &str, number: u32) -> anyhow::Result<()> {
    let path = format!("/var/lib/keystone/{directory}/{number}");
    for pod in world.pods()? {
        world.until(&format!("{path} in {pod}"), || {
            Ok(world.kubectl(&["exec", &pod, "--", "test", "-e", &path]).ok())
        })?;
    }
    Ok(())
}

pub(crate) fn tokens_outlive_a_rotation(world: &World, stream: &Stream<'_>) -> anyhow::Result<()> {
    let before = world.pods()?;
    let old = token(&world.url, PASSWORD)?.ok().context("a token")?;
    // The staged key has been in every pod since its start; it is what becomes primary.
    everywhere(world, "fernet-keys", 0)?;
    rotate(world, "keystone-fernet-keys", 2)?;
    stream.more(10)?;
    everywhere(world, "fernet-keys", 2)?;
    let headers = [format!("X-Auth-Token: {old}"), format!("X-Subject-Token: {old}")];
    // As many times as it takes to meet every worker of every pod.
    for _ in 0..12 {
        let headers: Vec<&str> = headers.iter().map(String::as_str).collect();
        let valid = ask(&format!("{}/auth/tokens", world.url), &headers, None)?;
        ensure!(valid.starts_with("HTTP/1.1 200"), "{valid}");
    }
    ensure!(world.pods()? == before, "a pod was restarted");
    Ok(())
}

pub(crate) fn stored_credentials_outlive_every_rotation(world: &World) -> anyhow::Result<()> {
    let admin = token(&world.url, PASSWORD)?.ok().context("a token")?;
    let own = format!("X-Auth-Token: {admin}");
    let user = world_user(world, &own)?;
    let credential = json!({"credential": {"type": "cert", "blob": "what was stored", "user_id": user}});
    let url = format!("{}/credentials", world.url);
    let made = body(&ask(&url, &[&own], Some(&credential))?)?;
    let id = made["credential"]["id"].as_str().context("a credential")?;

    // Three rotations push the first key out: without migration nobody could read it any more.
    for primary in 2..=4 {
        rotate(world, "keystone-credential-keys", primary)?;
        everywhere(world, "credential-keys", primary)?;
    }
    world.until("the migration is done", || {
        let object = world.get("keystone/keystone")?;
        let part = crate::world::condition(&object, "CredentialKeysReady").cloned();
        let words = part.unwrap_or_default()["message"].to_string();
        Ok(words.contains("next rotation").then_some(()))
    })?;
    let keys = world.get("secret/keystone-credential-keys")?;
    ensure!(keys["data"].get("1").is_none(), "the first key is still there");
    let found = body(&ask(&format!("{url}/{id}"), &[&own], None)?)?;
    ensure!(found["credential"]["blob"] == "what was stored", "{found}");
    Ok(())
}

fn world_user(world: &World, own: &str) -> anyhow::Result<String> {
    let users = body(&ask(&format!("{}/users?name=admin", world.url), &[own], None)?)?;
    let id = users["users"][0]["id"].as_str();
    id.map(str::to_owned).with_context(|| users.to_string())
}

fn body(answer: &str) -> anyhow::Result<Value> {
    let (_, text) = answer.split_once("\r\n\r\n").context("a body")?;
    serde_json::from_str(text).with_context(|| answer.to_owned())
}
