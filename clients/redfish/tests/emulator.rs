//! With the emulator of sushy-tools, OpenStack's own. It comes from the Python package index into a directory of
//! the test's own; without that it says so.

use std::io::Write as _;
use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use openstack_client::Secret;
use redfish_client::{ManagementController, Power, Redfish};

const PATIENCE: Duration = Duration::from_secs(30);
const SYSTEM: &str = "/redfish/v1/Systems/11111111-1111-1111-1111-111111111111";

struct Emulator {
    process: Child,
    port: u16,
    _directory: tempfile::TempDir,
}

impl Drop for Emulator {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// `false` where there is no way to the package index.
fn installed(at: &Path) -> bool {
    let run = |program: &str, arguments: &[&str]| {
        let mut command = Command::new(program);
        command
            .args(arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        command.status().is_ok_and(|status| status.success())
    };
    let venv = at.to_string_lossy();
    let pip = at.join("bin/pip");
    run("python3", &["-m", "venv", &venv])
        && run(
            &pip.to_string_lossy(),
            &["install", "-q", "sushy-tools==2.2.0", "passlib", "bcrypt<5"],
        )
}

fn start() -> Option<Emulator> {
    let directory = tempfile::tempdir().expect("a directory");
    let venv = directory.path().join("venv");
    if !installed(&venv) {
        let _ = writeln!(std::io::stderr(), "skipped: sushy-tools cannot be installed here");
        return None;
    }
    // admin:secret, as `htpasswd -nbB` writes it.
    let hash = Command::new(venv.join("bin/python"))
        .args([
            "-c",
            "import bcrypt; print('admin:' + bcrypt.hashpw(b'secret', bcrypt.gensalt(4)).decode())",
        ])
        .output()
        .expect("a hash");
    let path = directory.path();
    std::fs::write(path.join("users"), hash.stdout).expect("written");
    let port = TcpListener::bind("127.0.0.1:0")
        .expect("a port")
        .local_addr()
        .expect("it")
        .port();
    let settings = format!(
        "SUSHY_EMULATOR_AUTH_FILE = '{0}/users'\nSUSHY_EMULATOR_STATE_DIR = '{0}'\nSUSHY_EMULATOR_FAKE_DRIVER = True\n\
         SUSHY_EMULATOR_FAKE_SYSTEMS = [{{'uuid': '11111111-1111-1111-1111-111111111111', 'name': 'host', \
         'power_state': 'On', 'nics': []}}]\n",
        path.display()
    );
    std::fs::write(path.join("settings.py"), settings).expect("written");
    let log = std::fs::File::create(path.join("log")).expect("a log");
    let process = Command::new(venv.join("bin/sushy-emulator"))
        .args(["--fake", "--interface", "127.0.0.1", "--port", &port.to_string()])
        .args(["--config", &path.join("settings.py").to_string_lossy()])
        .stdout(Stdio::null())
        .stderr(log)
        .spawn()
        .expect("it starts");
    Some(Emulator {
        process,
        port,
        _directory: directory,
    })
}

fn machine(emulator: &Emulator, system: Option<&str>, password: &str) -> Redfish {
    let place = ManagementController {
        endpoint: format!("http://127.0.0.1:{}", emulator.port),
        system: system.map(str::to_owned),
        user: "admin".to_owned(),
        password: Secret::new(password.to_owned()),
        ca: None,
    };
    Redfish::new(&place, Arc::new(dial::Tcp)).expect("made")
}

#[tokio::test(flavor = "multi_thread")]
async fn power_is_switched_and_read_back() {
    let Some(emulator) = start() else {
        return;
    };
    let host = machine(&emulator, None, "secret");
    let end = tokio::time::Instant::now() + PATIENCE;
    let first = loop {
        match host.power().await {
            Err(error) if tokio::time::Instant::now() < end => {
                drop(error);
                tokio::time::sleep(Duration::from_millis(200)).await;
            }
            seen => break seen,
        }
    };
    assert_eq!(first.expect("an answer"), Power::On);
    host.turn(&Power::Off, PATIENCE).await.expect("off");
    assert_eq!(host.power().await.expect("an answer"), Power::Off);
    host.turn(&Power::Off, PATIENCE).await.expect("off already");
    let named = machine(&emulator, Some(SYSTEM), "secret");
    named.turn(&Power::On, PATIENCE).await.expect("on");
    assert_eq!(host.power().await.expect("an answer"), Power::On);
    let refused = machine(&emulator, None, "wrong")
        .power()
        .await
        .expect_err("refused");
    assert!(refused.to_string().contains("401"), "{refused}");
    let unknown = machine(&emulator, Some("/redfish/v1/Systems/other"), "secret");
    assert!(unknown.power().await.is_err());
}
