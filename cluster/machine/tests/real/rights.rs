//! What a machine or its owner does not allow is said plainly; low limits are lived with.

use std::path::Path;
use std::process::{Child, Command, Stdio};

use embedded_node::containerd::plugin_directory;
use machine::preflight;

use super::test_cluster::{PROGRAM, TestCluster, both};
use super::test_nodes::require;

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
        let said = format!("not allowed to create {kind} namespaces");
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
    let mut cluster = TestCluster::new(1);
    cluster.wrapper = ["prlimit", "--nofile=256:1024"].map(String::from).into();
    cluster.up();
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", cluster.daemon())).unwrap();
    let files = limits.lines().find(|l| l.starts_with("Max open files")).unwrap();
    assert_eq!(
        files.split_whitespace().nth(3),
        Some("1024"),
        "raised to what is allowed: {files}"
    );
    cluster.kubectl(&[
        "create",
        "deployment",
        "many",
        "--image=c5c3.local/busybox:1",
        "--replicas=10",
    ]);
    cluster.kubectl(&["rollout", "status", "deployment/many", "--timeout=120s"]);
    cluster.kubectl(&["delete", "deployment", "many"]);
    cluster.down(true);
    assert!(!cluster.state.exists());
}

#[test]
fn names_that_are_not_whole_paths() {
    let cluster = TestCluster::new(1);
    cluster.up_from_beside();
    cluster.kubectl(&["run", "p", "--image=c5c3.local/busybox:1", "--", "sleep", "1000"]);
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/p", "--timeout=60s"]);
    let home = std::fs::read_link(format!("/proc/{}/cwd", cluster.daemon())).unwrap();
    assert_eq!(home, Path::new("/"), "the daemon holds nobody's directory");
    cluster.down(true);
    assert!(!cluster.state.exists());
}

/// A mount namespace in which the machine is another one; ends with its process.
struct Elsewhere(Child);

impl Elsewhere {
    fn new(script: &str) -> Self {
        let mut child = Command::new("unshare")
            .args([
                "-m",
                "sh",
                "-ec",
                &format!("{script}\necho ready\nexec sleep 1000"),
            ])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut said = String::new();
        let stdout = child.stdout.take().unwrap();
        std::io::BufRead::read_line(&mut std::io::BufReader::new(stdout), &mut said).unwrap();
        assert_eq!(said, "ready\n");
        Self(child)
    }

    /// What runs a program there.
    fn way(&self) -> Vec<String> {
        let namespace = format!("--mount=/proc/{}/ns/mnt", self.0.id());
        vec!["nsenter".into(), namespace, "--".into()]
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Only version 2 of control groups, and settings that nobody may change.
#[test]
fn another_machine() {
    require();
    let elsewhere = Elsewhere::new(
        "umount -R -l /sys/fs/cgroup\n\
         mount -t cgroup2 none /sys/fs/cgroup\n\
         mount --bind /proc/sys /proc/sys\n\
         mount -o remount,bind,ro /proc/sys",
    );
    let mut cluster = TestCluster::new(1);
    cluster.wrapper = elsewhere.way();
    cluster.up();
    let ready = "jsonpath={.items[*].status.conditions[?(@.type=='Ready')].status}";
    assert_eq!(cluster.kubectl(&["get", "nodes", "-o", ready]), "True");
    // Whatever the kernel offers reaches the pods: nobody sits in the node's own group.
    let show = |file: &str| {
        let path = format!("/sys/fs/cgroup/{}/{file}", cluster.node_layout(1).cgroup);
        let mut command = cluster.wrapper.clone();
        command.extend(["cat".to_owned(), path]);
        let done = Command::new(&command[0]).args(&command[1..]).output().unwrap();
        assert!(done.status.success(), "{}", both(&done));
        String::from_utf8(done.stdout).unwrap()
    };
    assert_eq!(show("cgroup.procs"), "");
    assert_ne!(show("system/cgroup.procs"), "");
    assert_eq!(show("cgroup.subtree_control"), show("cgroup.controllers"));
    cluster.down(true);
    assert!(!cluster.state.exists());
    drop(cluster);
}

/// What `preflight::install` does on a machine that [`missing_programs_are_installed`] makes.
#[test]
#[ignore = "part of another test"]
fn install_here() {
    let state = std::env::var("STATE").unwrap();
    let mut said = Vec::new();
    preflight::install(Path::new(&state), &mut |line| said.push(line.to_owned())).unwrap();
    println!("said: {}", said.join("; "));
}

/// apt-get here is a script that finds its list too old at first, and then brings the programs.
const APT: &str = r#"#!/bin/sh
echo "$@" >> "$STATE/calls"
case "$*" in
*" update") touch "$STATE/fresh" ;;
*) test -e "$STATE/fresh" || { echo "no such package" >&2; exit 100; }
   umount "$HIDDEN" && umount "$PLUGINS" ;;
esac
"#;

#[test]
fn missing_programs_are_installed() {
    use std::os::unix::fs::PermissionsExt;
    require();
    let directory = tempfile::tempdir().unwrap();
    let (state, tools) = (directory.path().join("state"), directory.path().join("tools"));
    std::fs::create_dir_all(&state).unwrap();
    std::fs::create_dir_all(&tools).unwrap();
    std::fs::write(tools.join("apt-get"), APT).unwrap();
    std::fs::set_permissions(tools.join("apt-get"), std::fs::Permissions::from_mode(0o755)).unwrap();
    let hidden = super::test_nodes::machine().runc;
    let plugins = plugin_directory().unwrap();
    // A device in the place of a program is no program, an empty directory has no plugins.
    let elsewhere = Elsewhere::new(&format!(
        "mount --bind /dev/null {hidden}\nmount -t tmpfs none {plugins}"
    ));
    let path = format!("{}:{}", tools.display(), std::env::var("PATH").unwrap());
    let run = || {
        let way = elsewhere.way();
        Command::new(&way[0])
            .args(&way[1..])
            .arg(std::env::current_exe().unwrap())
            .args([
                "--ignored",
                "--exact",
                "real::rights::install_here",
                "--nocapture",
            ])
            .env("PATH", &path)
            .env("STATE", &state)
            .env("HIDDEN", &hidden)
            .env("PLUGINS", plugins)
            .output()
            .unwrap()
    };
    let done = run();
    let text = both(&done);
    assert!(done.status.success(), "{text}");
    let wanted = "runc containernetworking-plugins";
    let said = format!("said: installing {wanted}; fetching the package lists");
    assert!(text.contains(&said), "{text}");
    let calls = std::fs::read_to_string(state.join("calls")).unwrap();
    let calls: Vec<&str> = calls.lines().collect();
    assert_eq!(calls.len(), 3, "{calls:?}");
    assert!(calls[0].ends_with(&format!("install {wanted}")), "{calls:?}");
    assert!(calls[1].ends_with("update"), "{calls:?}");
    assert_eq!(calls[0], calls[2]);
    assert!(!state.join(".packages").exists(), "no archives stay");
    // Nothing is missing any more: nothing is said or called.
    let again = run();
    assert!(both(&again).contains("said: \n"), "{}", both(&again));
    let calls = std::fs::read_to_string(state.join("calls")).unwrap();
    assert_eq!(calls.lines().count(), 3);
}
