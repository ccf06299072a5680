//! What a machine or its owner does not allow is said plainly; low limits are lived with.

use std::process::Command;

use super::bed::require;
use super::town::{PROGRAM, Town, both};

#[test]
fn missing_rights_are_named() {
    require();
    let directory = tempfile::tempdir().unwrap();
    let state = directory.path().join("state");
    let up = |wrapper: &[&str]| {
        let done = Command::new(wrapper[0])
            .args(&wrapper[1..])
            .args([PROGRAM, "up"])
            .arg(&state)
            .arg("1")
            .output()
            .unwrap();
        assert!(!done.status.success());
        both(&done)
    };
    let text = up(&["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]);
    assert!(text.contains("run this as root"), "{text}");
    let text = up(&["setpriv", "--bounding-set=-sys_admin", "--inh-caps=-sys_admin"]);
    for kind in ["network", "mount", "UTS", "IPC", "PID", "cgroup"] {
        let said = format!("may not make {kind} namespaces");
        assert!(
            text.contains(&said) && text.contains("CAP_SYS_ADMIN is needed"),
            "{text}"
        );
    }
    let text = up(&["prlimit", "--nofile=200:200"]);
    assert!(
        text.contains("only 200 files may be open at once, 1024 are needed"),
        "{text}"
    );
    assert!(
        !state.exists() || std::fs::read_dir(&state).unwrap().next().is_none(),
        "nothing was begun"
    );
}

/// As few open files as are allowed at all, the soft limit lower still.
#[test]
fn few_open_files_are_enough() {
    let mut town = Town::new(1);
    town.wrapper = ["prlimit", "--nofile=256:1024"].map(String::from).into();
    town.up();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", town.daemon())).unwrap();
    let files = limits.lines().find(|l| l.starts_with("Max open files")).unwrap();
    assert_eq!(
        files.split_whitespace().nth(3),
        Some("1024"),
        "raised to what is allowed: {files}"
    );
    town.kubectl(&[
        "create",
        "deployment",
        "many",
        "--image=c5c3.local/busybox:1",
        "--replicas=10",
    ]);
    town.kubectl(&["rollout", "status", "deployment/many", "--timeout=120s"]);
    town.kubectl(&["delete", "deployment", "many"]);
    town.down(true);
    assert!(!town.state.exists());
}
