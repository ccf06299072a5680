use std::collections::HashMap;
use std::process::{Child, Command, Stdio};
use std::sync::Mutex;

use c5c3_kit::conditions::Truth;
use zbus::Variant;

use super::*;

fn unit(load: &str, active: &str, sub: &str) -> Unit {
    Unit {
        load: load.to_owned(),
        active: active.to_owned(),
        sub: sub.to_owned(),
    }
}

#[test]
fn what_systemd_says_becomes_a_condition() {
    let known = |unit| Units::Known(BTreeMap::from([(LIBVIRTD_SERVICE, unit)]));
    for (units, truth, reason, said) in [
        (Units::Starting, Truth::Unknown, "Connecting", ""),
        (
            Units::NoBus("none".to_owned()),
            Truth::Unknown,
            "NoSystemBus",
            "none",
        ),
        (
            Units::Lost("gone".to_owned()),
            Truth::Unknown,
            "Disconnected",
            "gone",
        ),
        (
            known(unit("loaded", "active", "running")),
            Truth::True,
            "Active",
            "active (running)",
        ),
        (
            known(unit("loaded", "activating", "auto-restart")),
            Truth::Unknown,
            "Activating",
            "auto-restart",
        ),
        (
            known(unit("loaded", "deactivating", "stop-sigterm")),
            Truth::False,
            "Deactivating",
            "stop",
        ),
        (
            known(unit("loaded", "inactive", "dead")),
            Truth::False,
            "Inactive",
            "inactive (dead)",
        ),
        (
            known(unit("loaded", "failed", "failed")),
            Truth::False,
            "Failed",
            "failed (failed)",
        ),
        (
            known(unit("masked", "inactive", "dead")),
            Truth::False,
            "Masked",
            "masked",
        ),
        (
            known(unit("not-found", "inactive", "dead")),
            Truth::True,
            "NotRequired",
            "no such unit",
        ),
        (
            known(unit("loaded", "thinking", "hard")),
            Truth::Unknown,
            "Unknown",
            "thinking (hard)",
        ),
        (known(Unit::default()), Truth::Unknown, "Unknown", ""),
    ] {
        let states = states(States::default(), &units);
        let state = states.get(LIBVIRTD_SERVICE).expect("always told");
        assert_eq!((state.truth, state.reason.as_str()), (truth, reason), "{units:?}");
        assert!(state.message.contains(said), "{}", state.message);
        assert!(states.get(OPENVSWITCH_SERVICE).is_some(), "each unit is told");
    }
}

#[tokio::test]
async fn a_host_without_a_bus_is_told_once() {
    let root = tempfile::tempdir().expect("a directory");
    let (seen, mut units) = watch::channel(Arc::new(Units::default()));
    let follow = tokio::spawn(follow(root.path().to_owned(), seen));
    units.changed().await.expect("news");
    assert!(matches!(**units.borrow_and_update(), Units::NoBus(_)));
    tokio::time::sleep(Duration::from_millis(1500)).await;
    assert!(
        !units.has_changed().expect("open"),
        "tried again, and nothing new"
    );
    follow.abort();
}

struct Bus(Child);

impl Drop for Bus {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// `None`: this machine has no such program.
fn bus(address: &str) -> Option<Bus> {
    let mut command = Command::new("dbus-daemon");
    command.args(["--session", "--nofork", "--nopidfile", "--address", address]);
    command
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .ok()
        .map(Bus)
}

/// Says what it is told to say of every unit.
async fn systemd(connection: Connection, active: Arc<Mutex<&'static str>>) {
    let mut calls = MessageStream::from(&connection);
    while let Some(Ok(call)) = calls.next().await {
        let header = call.header();
        if header.message_type() != Type::MethodCall {
            continue;
        }
        let member = header.member().map(ToString::to_string).unwrap_or_default();
        let answered = match member.as_str() {
            "LoadUnit" => {
                let name: String = call.body().deserialize().expect("a name");
                let escaped = name.replace('.', "_2e").replace('-', "_2d");
                let path = format!("{TOP}/unit/{escaped}");
                let path = OwnedObjectPath::try_from(path).expect("a path");
                connection.reply(&header, &path).await
            }
            "Get" => {
                let (_, name): (String, String) = call.body().deserialize().expect("a property");
                let value = match name.as_str() {
                    "LoadState" => "loaded",
                    "ActiveState" => *active.lock().expect("no panic"),
                    _ => "running",
                };
                connection.reply(&header, &Variant::from(value)).await
            }
            _ => connection.reply(&header, &()).await,
        };
        answered.expect("answered");
    }
}

async fn until(units: &mut watch::Receiver<Arc<Units>>, what: &str, holds: impl Fn(&Units) -> bool) {
    let limit = Duration::from_secs(30);
    let waited = tokio::time::timeout(limit, units.wait_for(|units| holds(units))).await;
    waited.expect(what).expect("open");
}

fn is(units: &Units, active: &str) -> bool {
    let Units::Known(known) = units else {
        return false;
    };
    known.len() == UNITS.len() && known.values().all(|unit| unit.active == active)
}

#[tokio::test]
async fn changes_are_heard_over_a_real_bus_and_its_loss_is_told() {
    let root = tempfile::tempdir().expect("a directory");
    let directory = root.path().join("run/dbus");
    std::fs::create_dir_all(&directory).expect("a directory");
    let address = format!("unix:path={}", directory.join("system_bus_socket").display());
    let Some(daemon) = bus(&address) else {
        use std::io::Write;
        let _ = writeln!(std::io::stderr(), "skipped: there is no dbus-daemon");
        return;
    };
    let (seen, mut units) = watch::channel(Arc::new(Units::default()));
    let follow = tokio::spawn(follow(root.path().to_owned(), seen));
    let connection = loop {
        match Builder::address(address.as_str()).build().await {
            Ok(connection) => break connection,
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    let active = Arc::new(Mutex::new("active"));
    let answers = tokio::spawn(systemd(connection.clone(), active.clone()));
    connection.request_name(SYSTEMD).await.expect("the name");
    until(&mut units, "both units are known", |units| is(units, "active")).await;

    *active.lock().expect("no panic") = "failed";
    let changed: HashMap<&str, Variant<'_>> = HashMap::from([("ActiveState", Variant::from("failed"))]);
    let path = format!("{TOP}/unit/libvirtd_2eservice");
    let told = connection
        .emit_signal(
            None::<&str>,
            path,
            PROPERTIES,
            "PropertiesChanged",
            &(UNIT, changed, Vec::<&str>::new()),
        )
        .await;
    told.expect("sent");
    until(&mut units, "the failure is heard", |units| is(units, "failed")).await;

    answers.abort();
    drop(daemon);
    until(&mut units, "the loss is told", |units| {
        matches!(units, Units::Lost(_))
    })
    .await;
    follow.abort();
}
