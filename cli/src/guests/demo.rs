//! A server to try out a cloud, and everything it needs. Each step reuses what exists.

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::time::Duration;

use anyhow::anyhow;
use bytes::Bytes;
use futures::stream;
use openstack_client::{
    Class, Compute, Content, Flavour, ImageDraft, Images, KeyPair, Networking, Server, ServerDraft,
};
use tokio::io::AsyncReadExt;
use tokio::time::{Instant, sleep};

use super::network::{Networks, Outside, floating, networks};
use super::{failed, key};
use crate::failure::Failure;

pub(crate) const SERVER: &str = "demo";
const IMAGE: &str = "guest";
const KEY: &str = "c5c3-demo";
const FLAVOUR: &str = "tiny";
/// What the guest says when it can be used, and from time to time later.
const READY: [&str; 2] = ["c5c3-guest: ready", "c5c3-guest: alive"];
const POLL: Duration = Duration::from_millis(500);
const CHUNK: usize = 1 << 20;

/// What the machine brings along.
pub(crate) struct Wish {
    /// A raw disk; when it is missing the cloud must have the image.
    pub disk: PathBuf,
    pub outside: Outside,
    pub public_key: String,
    pub wait: Duration,
}

/// Everything is there and the guest said that it is ready.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Made {
    pub server: String,
    pub address: Ipv4Addr,
}

pub(crate) async fn demo(
    cloud: &(impl Images + Compute + Networking),
    wish: &Wish,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Made, Failure> {
    let deadline = Instant::now() + wish.wait;
    let (image, flavour, (), networks) = tokio::try_join!(
        image(cloud, wish, say),
        flavour(cloud, say),
        key_pair(cloud, wish, say),
        async { networks(cloud, &wish.outside, say).await.map_err(failed) },
    )?;
    let made = server(cloud, image, flavour, &networks, deadline, say).await?;
    let server = active(cloud, &made, deadline, say).await?;
    let address = floating(cloud, &networks.external, &server.id)
        .await
        .map_err(failed)?
        .ok_or_else(|| {
            anyhow!("server {SERVER} has no port in Neutron: delete it and run this command again")
        })?;
    say(&format!("its floating address is {address}"));
    booted(cloud, &server.id, deadline, say).await?;
    Ok(Made {
        server: server.id,
        address,
    })
}

async fn image(
    cloud: &(impl Images + ?Sized),
    wish: &Wish,
    say: &(dyn Fn(&str) + Sync),
) -> Result<String, Failure> {
    let there = cloud.images(Some(IMAGE)).await.map_err(failed)?;
    if let Some(image) = there.iter().find(|image| image.status == "active") {
        say(&format!("image {IMAGE} exists"));
        return Ok(image.id.clone());
    }
    // One that was begun and never got its content.
    let begun = there.into_iter().find(|image| image.status == "queued");
    let image = match begun {
        Some(image) => image,
        None => {
            let draft = ImageDraft {
                visibility: "public".to_owned(),
                ..ImageDraft::raw(IMAGE)
            };
            cloud.create_image(&draft).await.map_err(failed)?
        }
    };
    let content = read(&wish.disk).await?;
    cloud.upload_image(&image.id, content).await.map_err(failed)?;
    say(&format!("image {IMAGE} uploaded"));
    Ok(image.id)
}

/// A file, piece by piece.
async fn read(disk: &std::path::Path) -> Result<Content, Failure> {
    let file = tokio::fs::File::open(disk)
        .await
        .map_err(|error| anyhow!("cannot read the guest's disk {}: {error}", disk.display()))?;
    Ok(Content::new(stream::try_unfold(file, |mut file| async move {
        let mut chunk = vec![0; CHUNK];
        let length = file.read(&mut chunk).await?;
        chunk.truncate(length);
        Ok((length > 0).then(|| (Bytes::from(chunk), file)))
    })))
}

async fn flavour(cloud: &(impl Compute + ?Sized), say: &(dyn Fn(&str) + Sync)) -> Result<String, Failure> {
    let there = cloud.flavours().await.map_err(failed)?;
    if let Some(found) = there.into_iter().find(|flavour| flavour.name == FLAVOUR) {
        say(&format!("flavour {FLAVOUR} exists"));
        return Ok(found.id);
    }
    let wanted = Flavour {
        name: FLAVOUR.to_owned(),
        vcpus: 1,
        ram: 128,
        disk: 1,
        ..Flavour::default()
    };
    let made = cloud.create_flavour(&wanted).await.map_err(failed)?;
    say(&format!("flavour {FLAVOUR} created"));
    Ok(made.id)
}

async fn key_pair(
    cloud: &(impl Compute + ?Sized),
    wish: &Wish,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), Failure> {
    match cloud.key_pair(KEY).await.map_err(failed)? {
        Some(found) if key::same(&found.public_key, &wish.public_key) => {
            say(&format!("key {KEY} exists"));
            Ok(())
        }
        Some(_) => Err(Failure::Failed(anyhow!(
            "key {KEY} in the cloud is not the one in this state directory: delete it and the server (`c5c3 openstack keypair delete {KEY}`, `c5c3 openstack server delete {SERVER}`), then run this command again"
        ))),
        None => {
            let pair = KeyPair {
                name: KEY.to_owned(),
                public_key: wish.public_key.clone(),
            };
            cloud.create_key_pair(&pair).await.map_err(failed)?;
            say(&format!("key {KEY} created"));
            Ok(())
        }
    }
}

fn late(what: &str) -> Failure {
    Failure::NotReady(format!(
        "{what}; `c5c3 explain` says whether the cloud is healthy; `c5c3 demo` continues where it stopped"
    ))
}

/// The id of the server; it is made when a hypervisor can take it.
async fn server(
    cloud: &(impl Compute + ?Sized),
    image: String,
    flavour: String,
    networks: &Networks,
    deadline: Instant,
    say: &(dyn Fn(&str) + Sync),
) -> Result<String, Failure> {
    let there = cloud.servers(SERVER).await.map_err(failed)?;
    if let Some(found) = there.into_iter().next() {
        say(&format!("server {SERVER} exists"));
        return Ok(found.id);
    }
    loop {
        let hosts = cloud.compute_services("nova-compute").await.map_err(failed)?;
        if hosts.iter().any(|host| host.state == "up") {
            break;
        }
        if Instant::now() > deadline {
            return Err(late(
                "no hypervisor of the cloud is up: check that a node runs guests (`c5c3 up --hypervisors 1` creates one)",
            ));
        }
        sleep(POLL).await;
    }
    let draft = ServerDraft {
        name: SERVER.to_owned(),
        flavour,
        image,
        network: networks.own.clone(),
        key: KEY.to_owned(),
        security_group: networks.group.clone(),
    };
    let id = cloud.create_server(&draft).await.map_err(failed)?;
    say(&format!("server {SERVER} is being created"));
    Ok(id)
}

/// Waits until the server runs.
async fn active(
    cloud: &(impl Compute + ?Sized),
    id: &str,
    deadline: Instant,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Server, Failure> {
    loop {
        let seen = cloud.server(id).await.map_err(failed)?;
        let server =
            seen.ok_or_else(|| Failure::NotFound(format!("server {SERVER} was deleted in the meantime")))?;
        match server.status.as_str() {
            "ACTIVE" => {
                say(&format!("server {SERVER} is ACTIVE"));
                return Ok(server);
            }
            "ERROR" => {
                let why = server.fault.map(|fault| fault.message).unwrap_or_default();
                return Err(Failure::Failed(anyhow!(
                    "server {SERVER} is in status ERROR: {why}; run `c5c3 openstack server delete {SERVER}`, then this command again"
                )));
            }
            "SHUTOFF" => {
                return Err(Failure::NotReady(format!(
                    "server {SERVER} is shut off: run `c5c3 openstack server start {SERVER}`, then this command again"
                )));
            }
            status if Instant::now() > deadline => {
                return Err(late(&format!("server {SERVER} is still in status {status}")));
            }
            _ => sleep(POLL).await,
        }
    }
}

/// Waits until the guest says that it is ready.
async fn booted(
    cloud: &(impl Compute + ?Sized),
    id: &str,
    deadline: Instant,
    say: &(dyn Fn(&str) + Sync),
) -> Result<(), Failure> {
    loop {
        let said = match cloud.console(id).await {
            // A server that has just begun has none yet.
            Err(error) if matches!(error.class(), Class::NotFound | Class::Conflict) => String::new(),
            said => said.map_err(failed)?,
        };
        let line = said
            .lines()
            .find(|line| READY.iter().any(|word| line.contains(word)));
        if let Some(line) = line {
            say(line.trim());
            return Ok(());
        }
        if Instant::now() > deadline {
            return Err(late(&format!(
                "the guest is not ready yet: `c5c3 console {SERVER}` shows how far it got"
            )));
        }
        sleep(POLL).await;
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use super::super::fake::Fake;
    use super::*;

    fn wish(directory: &tempfile::TempDir) -> Wish {
        let disk = directory.path().join("disk.raw");
        std::fs::write(&disk, vec![7; CHUNK + 10]).expect("written");
        Wish {
            disk,
            outside: Outside {
                range: "10.194.0.0/24".into(),
                gateway: Ipv4Addr::new(10, 194, 0, 1),
            },
            public_key: "ssh-ed25519 AAAA us".into(),
            // Nothing that this cloud does takes time.
            wait: Duration::ZERO,
        }
    }

    async fn ran(cloud: &Fake, wish: &Wish) -> (Result<Made, Failure>, Vec<String>) {
        let lines = Mutex::new(Vec::new());
        let say = |line: &str| lines.lock().expect("lines").push(line.to_owned());
        let outcome = demo(cloud, wish, &say).await;
        (outcome, lines.into_inner().expect("lines"))
    }

    #[tokio::test]
    async fn a_second_run_finds_everything_and_makes_nothing() {
        let directory = tempfile::tempdir().expect("a directory");
        let (cloud, wish) = (Fake::default(), wish(&directory));
        let (first, said) = ran(&cloud, &wish).await;
        let first = first.expect("made");
        assert_eq!(first.address, Ipv4Addr::new(10, 194, 0, 120));
        assert!(
            said.iter().any(|line| line == "server demo is ACTIVE"),
            "{said:?}"
        );
        assert_eq!(cloud.uploaded(), CHUNK + 10);
        let before = cloud.changes();
        let (second, said) = ran(&cloud, &wish).await;
        assert_eq!(second.expect("found"), first);
        assert_eq!(cloud.changes(), before, "{said:?}");
        assert!(said.contains(&"networks public and demo exist".to_owned()));
    }

    #[tokio::test]
    async fn a_new_server_gets_the_address_of_the_one_before() {
        let directory = tempfile::tempdir().expect("a directory");
        let (cloud, wish) = (Fake::default(), wish(&directory));
        let first = ran(&cloud, &wish).await.0.expect("made");
        cloud.forget_servers();
        let second = ran(&cloud, &wish).await.0.expect("made");
        assert_ne!(second.server, first.server);
        assert_eq!(cloud.count("FloatingIp"), 1);
    }

    #[tokio::test]
    async fn what_fails_is_told_with_a_way_out() {
        let directory = tempfile::tempdir().expect("a directory");
        let wish = wish(&directory);
        for (status, said) in [
            ("ERROR", "server delete demo"),
            ("SHUTOFF", "server start demo"),
            ("BUILD", "status BUILD"),
        ] {
            let cloud = Fake::default();
            cloud.add_server(SERVER, status);
            let error = ran(&cloud, &wish).await.0.expect_err(status);
            assert!(error.to_string().contains(said), "{error}");
        }
        let nobody = Fake::without_hypervisor();
        let error = ran(&nobody, &wish).await.0.expect_err("nobody takes it");
        assert!(error.to_string().contains("--hypervisors 1"), "{error}");
        let other = Fake::default();
        let pair = KeyPair {
            name: KEY.into(),
            public_key: "ssh-ed25519 BBBB".into(),
        };
        other.create_key_pair(&pair).await.expect("made");
        let error = ran(&other, &wish).await.0.expect_err("another key");
        assert!(error.to_string().contains("keypair delete c5c3-demo"), "{error}");
    }
}
