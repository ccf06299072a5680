//! What people do with servers, on two hypervisors.

use std::time::Duration;

use anyhow::{Context, ensure};
use end_to_end::patience::{until, until_ok};
use openstack_client::{Action, Compute, Fields, Flavour, Images, NetworkKind, Networking, Operating};
use serde_json::json;

use super::pings::Ping;
use super::world::World;
use super::{PATIENCE, inside};

/// The longest time without an answer while a guest moves.
const MOST: Duration = Duration::from_secs(1);

/// The second server: its id, its address and its host.
pub(crate) struct Second {
    pub id: String,
    pub address: String,
    host: String,
}

pub(crate) fn two_servers_on_two_hosts_reach_each_other(world: &World<'_>) -> anyhow::Result<Second> {
    let first = world.named("demo")?.host.context("the first one's host")?;
    let hosts = world.hosts()?;
    let other = hosts.into_iter().find(|host| *host != first);
    let other = other.context("a second hypervisor")?;
    let draft = world.draft("two");
    let id = world.run(world.session.create_server_on(&draft, &other))?;
    let seen = world.settled(&id, "ACTIVE")?;
    ensure!(seen.host.as_deref() == Some(other.as_str()), "{seen:?}");
    world.booted(&id)?;
    let address = seen.server.addresses.values().flatten().next();
    let address = address.context("an address")?.addr.to_string();
    // The first one finds out where the other is.
    until_ok("the second guest answers the first", PATIENCE, || {
        inside(world.cloud, &format!("ping -c 1 -W 2 {address}"))
    })?;
    let answered = inside(world.cloud, &format!("ping -c 3 -w 30 {address}"))?;
    ensure!(answered.contains(" 0% packet loss"), "{answered}");
    Ok(Second {
        id,
        address,
        host: other,
    })
}

pub(crate) fn a_security_group_blocks_what_it_does_not_let_in(
    world: &World<'_>,
    second: &Second,
) -> anyhow::Result<()> {
    let session = &world.session;
    let closed = Fields::new().with("name", "closed");
    let closed = world.run(session.make(NetworkKind::SecurityGroup, &closed))?;
    let filter = [("device_id", second.id.as_str())];
    let ports = world.run(session.found(NetworkKind::Port, &filter))?;
    let port = &ports.first().context("its port")?.id;
    let guarded_by = |group: &str| {
        let groups = Fields::new().with("security_groups", json!([group]));
        world.run(session.change(NetworkKind::Port, port, &groups))
    };
    let ping = format!("ping -c 1 -W 2 {}", second.address);
    // Both a ping and a connection: the group lets out and nothing in.
    let connect = format!("timeout 3 nc {} 22 || true", second.address);
    let greeted = inside(world.cloud, &connect)?;
    ensure!(greeted.contains("SSH-2.0"), "{greeted}");
    guarded_by(&closed.id)?;
    until("it is not reached any more", PATIENCE, || {
        Ok(match inside(world.cloud, &ping) {
            Err(_) => Ok(()),
            Ok(said) => Err(said),
        })
    })?;
    let greeted = inside(world.cloud, &connect)?;
    ensure!(!greeted.contains("SSH-2.0"), "{greeted}");
    guarded_by(&world.draft.security_group)?;
    until_ok("it is reached again", PATIENCE, || inside(world.cloud, &ping))?;
    Ok(())
}

pub(crate) fn a_guest_moves_while_it_is_pinged(world: &World<'_>, second: &Second) -> anyhow::Result<()> {
    let hosts = world.hosts()?;
    let target = hosts.into_iter().find(|host| *host != second.host);
    let target = target.context("another hypervisor")?;
    let ping = Ping::start(world.cloud, "demo", &second.address)?;
    let host = Some(target.clone());
    world.run(world.session.act(&second.id, &Action::LiveMigrate { host }))?;
    until("it is on the other host", PATIENCE, || {
        let seen = world.server(&second.id)?;
        ensure!(seen.server.status != "ERROR", "{seen:?}");
        let arrived = seen.host.as_deref() == Some(target.as_str()) && seen.task.is_none();
        Ok(if arrived { Ok(()) } else { Err(format!("{seen:?}")) })
    })?;
    // Long enough that what was lost would show.
    std::thread::sleep(2 * MOST);
    let heard = ping.stop()?;
    println!("moved to {target}: {heard:?}");
    ensure!(heard.answers > 20 && heard.gap <= MOST, "{heard:?}");
    Ok(())
}

/// Its disk goes to the other hypervisor, and its memory grows.
pub(crate) fn it_is_migrated_and_resized(world: &World<'_>, second: &Second) -> anyhow::Result<()> {
    let session = &world.session;
    let here = world.server(&second.id)?.host.context("its host")?;
    let hosts = world.hosts()?;
    let other = hosts
        .into_iter()
        .find(|host| *host != here)
        .context("another host")?;
    let host = Some(other.clone());
    world.run(session.act(&second.id, &Action::Migrate { host }))?;
    let seen = world.settled(&second.id, "VERIFY_RESIZE")?;
    ensure!(seen.host.as_deref() == Some(other.as_str()), "{seen:?}");
    world.run(session.act(&second.id, &Action::ConfirmResize))?;
    world.settled(&second.id, "ACTIVE")?;
    let larger = Flavour {
        name: "larger".to_owned(),
        vcpus: 1,
        ram: 192,
        disk: 1,
        ..Flavour::default()
    };
    let flavour = world.run(session.create_flavour(&larger))?.id;
    world.run(session.act(&second.id, &Action::Resize { flavour }))?;
    world.settled(&second.id, "VERIFY_RESIZE")?;
    world.run(session.act(&second.id, &Action::ConfirmResize))?;
    world.settled(&second.id, "ACTIVE")?;
    let ping = format!("ping -c 1 -W 2 {}", second.address);
    until_ok("it boots with its address", PATIENCE, || {
        inside(world.cloud, &ping)
    })?;
    Ok(())
}

/// The image of it, of which its disk is a clone then.
pub(crate) fn it_is_kept_as_an_image_and_made_anew(
    world: &World<'_>,
    second: &Second,
) -> anyhow::Result<String> {
    let session = &world.session;
    let name = "two-kept";
    world.run(session.act(&second.id, &Action::Snapshot { name: name.into() }))?;
    let image = until("the snapshot is in Glance", PATIENCE, || {
        let found = world.run(session.images(Some(name)))?;
        let seen = format!("{found:?}");
        let active = found.into_iter().find(|image| image.status == "active");
        Ok(active.filter(|image| image.size > Some(0)).ok_or(seen))
    })?;
    world.settled(&second.id, "ACTIVE")?;
    let image = image.id;
    let before = world.run(session.console(&second.id))?;
    let rebuild = Action::Rebuild { image: image.clone() };
    world.run(session.act(&second.id, &rebuild))?;
    world.settled(&second.id, "ACTIVE")?;
    world.booted(&second.id)?;
    let after = world.run(session.console(&second.id))?;
    ensure!(before != after, "its console is the old one");
    let ping = format!("ping -c 1 -W 2 {}", second.address);
    until_ok("it keeps its address", PATIENCE, || inside(world.cloud, &ping))?;
    Ok(image)
}

pub(crate) fn deleted_it_is_gone(world: &World<'_>, second: &Second, image: &str) -> anyhow::Result<()> {
    let used = world.run(world.session.delete_image(image));
    ensure!(used.is_err(), "the image went while a disk is a clone of it");
    world.run(world.session.delete_server(&second.id))?;
    world.gone(&second.id, PATIENCE)?;
    world.run(world.session.delete_image(image))
}
