//! Units of systemd on which a hypervisor stands. systemd tells of them over D-Bus; a host without it is no fault.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::conditions::hypervisor::{LIBVIRTD_SERVICE, OPENVSWITCH_SERVICE};
use c5c3_kit::States;
use futures::{FutureExt, StreamExt};
use tokio::sync::watch;
use zbus::connection::Builder;
use zbus::message::Type;
use zbus::{Connection, MatchRule, MessageStream, OwnedObjectPath, OwnedVariant};

/// Each is a condition of the same name.
pub(crate) const UNITS: [&str; 2] = [LIBVIRTD_SERVICE, OPENVSWITCH_SERVICE];

const SYSTEMD: &str = "org.freedesktop.systemd1";
const MANAGER: &str = "org.freedesktop.systemd1.Manager";
const UNIT: &str = "org.freedesktop.systemd1.Unit";
const PROPERTIES: &str = "org.freedesktop.DBus.Properties";
const TOP: &str = "/org/freedesktop/systemd1";
/// Between tries to connect.
const FIRST: Duration = Duration::from_secs(1);
const LONGEST: Duration = Duration::from_secs(60);
/// An answer takes no longer.
const PATIENCE: Duration = Duration::from_secs(10);
/// Changes that come together are one look.
const BURST: Duration = Duration::from_millis(50);
const UNREAD: NonZeroUsize = NonZeroUsize::new(64).unwrap();

/// What systemd says of a unit.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Unit {
    pub load: String,
    pub active: String,
    pub sub: String,
}

/// What is known of the units, by name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Units {
    /// Nothing yet.
    #[default]
    Starting,
    Known(BTreeMap<&'static str, Unit>),
    /// This host has no system bus, or not for this agent.
    NoBus(String),
    /// It had one.
    Lost(String),
}

/// Pure: the conditions of all units.
pub(crate) fn states(states: States, units: &Units) -> States {
    UNITS.iter().fold(states, |states, unit| match units {
        Units::Starting => states.unknown(unit, "Connecting", "systemd has not answered yet"),
        Units::NoBus(why) => states.unknown(unit, "NoSystemBus", why),
        Units::Lost(why) => states.unknown(unit, "Disconnected", why),
        Units::Known(known) => match known.get(unit) {
            Some(seen) => state(states, unit, seen),
            None => states.unknown(unit, "Connecting", "systemd has not told of it yet"),
        },
    })
}

fn state(states: States, name: &'static str, unit: &Unit) -> States {
    let said = format!("{} ({})", unit.active, unit.sub);
    match (unit.load.as_str(), unit.active.as_str()) {
        ("not-found", _) => states.not_required(name, "the operating system has no such unit"),
        ("masked", _) => states.unmet(name, "Masked", "the unit is masked: nothing can start it"),
        (_, "active" | "reloading" | "refreshing") => states.met(name, "Active", said),
        (_, "activating") => states.unknown(name, "Activating", said),
        (_, "deactivating") => states.unmet(name, "Deactivating", said),
        (_, "failed") => states.unmet(name, "Failed", said),
        (_, "inactive") => states.unmet(name, "Inactive", said),
        // A word that this version does not know.
        _ => states.unknown(name, "Unknown", said),
    }
}

/// Follows the units of the host whose root is here, until it is dropped.
pub(crate) async fn follow(root: PathBuf, seen: watch::Sender<Arc<Units>>) {
    let socket = root.join("run/dbus/system_bus_socket");
    let address = format!("unix:path={}", socket.display());
    let mut pause = FIRST;
    loop {
        let Err(error) = listen(&address, &seen).await;
        let why = format!("{}: {error}", socket.display());
        let before = seen.borrow().clone();
        match *before {
            Units::Known(_) => {
                pause = FIRST;
                tell(&seen, Units::Lost(why));
            }
            Units::Lost(_) => {}
            Units::Starting | Units::NoBus(_) => tell(&seen, Units::NoBus(why)),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST);
    }
}

fn tell(seen: &watch::Sender<Arc<Units>>, units: Units) {
    seen.send_if_modified(|seen| {
        let news = **seen != units;
        if news {
            *seen = Arc::new(units);
        }
        news
    });
}

async fn listen(address: &str, seen: &watch::Sender<Arc<Units>>) -> zbus::Result<Infallible> {
    let connecting = Builder::address(address).method_timeout(PATIENCE).build();
    let connected = tokio::time::timeout(PATIENCE, connecting).await;
    let connection = connected.map_err(|_| zbus::Error::Failure("no answer".to_owned()))??;
    // First hear, then look: no change is missed.
    let manager = MatchRule::builder()
        .msg_type(Type::Signal)
        .sender(SYSTEMD)
        .interface(MANAGER)
        .member("Reloading")
        .path(TOP)
        .build()?;
    // A systemd that is replaced by a newer one has forgotten who listens.
    let replaced = MatchRule::builder()
        .msg_type(Type::Signal)
        .sender("org.freedesktop.DBus")
        .interface("org.freedesktop.DBus")
        .member("NameOwnerChanged")
        .arg(0, SYSTEMD)
        .build()?;
    let mut streams = Vec::new();
    for rule in [manager, replaced] {
        streams.push(MessageStream::for_match_rule(rule, &connection, Some(UNREAD)).await?);
    }
    let mut paths = Vec::new();
    for unit in UNITS {
        let answer = connection
            .call_method(Some(SYSTEMD), TOP, Some(MANAGER), "LoadUnit", &unit)
            .await?;
        let path: OwnedObjectPath = answer.body().deserialize()?;
        let rule = MatchRule::builder()
            .msg_type(Type::Signal)
            .sender(SYSTEMD)
            .interface(PROPERTIES)
            .member("PropertiesChanged")
            .path(path.clone())
            .build()?;
        streams.push(MessageStream::for_match_rule(rule, &connection, Some(UNREAD)).await?);
        paths.push((unit, path));
    }
    let mut news = futures::stream::select_all(streams);
    loop {
        // Who has subscribed already is refused, which is as good.
        let subscribed = connection
            .call_method(Some(SYSTEMD), TOP, Some(MANAGER), "Subscribe", &())
            .await;
        if let Err(error) = subscribed {
            tracing::debug!("systemd: {error}");
        }
        let mut known = BTreeMap::new();
        for (unit, path) in &paths {
            known.insert(*unit, read(&connection, path).await?);
        }
        tell(seen, Units::Known(known));
        match news.next().await {
            Some(heard) => drop(heard?),
            None => return Err(zbus::Error::Failure("the connection was closed".to_owned())),
        }
        tokio::time::sleep(BURST).await;
        while let Some(Some(heard)) = news.next().now_or_never() {
            drop(heard?);
        }
    }
}

async fn read(connection: &Connection, path: &OwnedObjectPath) -> zbus::Result<Unit> {
    let property = async |name: &str| -> zbus::Result<String> {
        let answer = connection
            .call_method(Some(SYSTEMD), path, Some(PROPERTIES), "Get", &(UNIT, name))
            .await?;
        let value: OwnedVariant = answer.body().deserialize()?;
        String::try_from(value).map_err(|_| zbus::Error::Failure(format!("{name} is no text")))
    };
    Ok(Unit {
        load: property("LoadState").await?,
        active: property("ActiveState").await?,
        sub: property("SubState").await?,
    })
}

#[cfg(test)]
#[path = "units_tests.rs"]
mod tests;
