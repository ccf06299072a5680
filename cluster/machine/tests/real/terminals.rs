//! Terminals and attached containers, with the real kubectl on a terminal of its own; a log
//! that is put aside while it is read.

use std::collections::BTreeMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use embedded_node::kubelet::rotate_above;
use nix::pty::{Winsize, openpty};

use super::test_cluster::TestCluster;

/// A program on a terminal of 33 lines and 101 columns.
struct Terminal {
    child: Child,
    keys: File,
    screen: mpsc::Receiver<u8>,
    seen: String,
}

impl Terminal {
    fn start(cluster: &TestCluster, args: &[&str]) -> Self {
        let size = Winsize {
            ws_row: 33,
            ws_col: 101,
            ws_xpixel: 0,
            ws_ypixel: 0,
        };
        let pair = openpty(Some(&size), None).unwrap();
        let end = || Stdio::from(pair.slave.try_clone().unwrap());
        let child = cluster
            .command(args)
            .stdin(end())
            .stdout(end())
            .stderr(end())
            .spawn()
            .unwrap();
        let keys = File::from(pair.master);
        let mut reader = keys.try_clone().unwrap();
        let (tell, screen) = mpsc::channel();
        std::thread::spawn(move || {
            let mut byte = [0];
            while reader.read_exact(&mut byte).is_ok() && tell.send(byte[0]).is_ok() {}
        });
        Self {
            child,
            keys,
            screen,
            seen: String::new(),
        }
    }

    fn type_in(&mut self, text: &str) {
        self.keys.write_all(text.as_bytes()).unwrap();
    }

    fn shows(&mut self, wanted: &str) {
        while !self.seen.contains(wanted) {
            match self.screen.recv_timeout(Duration::from_secs(30)) {
                Ok(byte) => self.seen.push(char::from(byte)),
                Err(_) => panic!("{wanted:?} is not in {:?}", self.seen),
            }
        }
    }
}

pub(super) fn terminals(cluster: &TestCluster) {
    let echo = "while read line; do echo got $line; test \"$line\" = end && exit 0; done; exit 5";
    for (name, tty) in [("piped", "false"), ("typed", "true")] {
        cluster.apply(&format!(
            r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"{name}"}},"spec":{{"restartPolicy":"Never",
            "terminationGracePeriodSeconds":0,"containers":[{{"name":"main","image":"c5c3.local/busybox:1",
            "stdin":true,"tty":{tty},"command":["sh","-c",{}]}}]}}}}"#,
            serde_json::Value::from(echo)
        ));
    }
    cluster.kubectl(&[
        "wait",
        "--for=condition=Ready",
        "pod/piped",
        "pod/typed",
        "--timeout=60s",
    ]);
    // A shell on a terminal: its size, its echo, its exit code.
    let mut shell = Terminal::start(cluster, &["exec", "-it", "piped", "--", "sh"]);
    // The size comes after the start, as from every kubectl.
    shell.type_in("until [ -n \"$(stty size 2>/dev/null)\" ]; do sleep 0.1; done; stty size; tty\n");
    shell.shows("33 101");
    shell.shows("/dev/pts/");
    shell.type_in("exit 7\n");
    let code = shell.child.wait().unwrap().code();
    assert_eq!(code, Some(7), "{:?}", shell.seen);

    // The container's own input, by a pipe.
    let mut attach = cluster
        .command(&["attach", "-i", "piped"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let mut input = attach.stdin.take().unwrap();
    let mut lines = BufReader::new(attach.stdout.take().unwrap()).lines();
    for word in ["one", "two"] {
        writeln!(input, "{word}").unwrap();
        assert_eq!(lines.next().unwrap().unwrap(), format!("got {word}"));
    }
    writeln!(input, "end").unwrap();
    assert_eq!(lines.next().unwrap().unwrap(), "got end");
    drop(input);
    attach.wait().unwrap();
    cluster.kubectl(&[
        "wait",
        "--for=jsonpath={.status.phase}=Succeeded",
        "pod/piped",
        "--timeout=30s",
    ]);
    assert_eq!(cluster.kubectl(&["logs", "piped"]), "got one\ngot two\ngot end\n");

    // And by a terminal.
    let mut attach = Terminal::start(cluster, &["attach", "-it", "typed"]);
    attach.type_in("hello\n");
    attach.shows("got hello");
    attach.type_in("end\n");
    attach.shows("got end");
    attach.child.wait().unwrap();

    // `run -i` makes a pod, feeds it, shows what it says and removes it.
    let mut run = cluster
        .command(&[
            "run",
            "once",
            "-i",
            "--rm",
            "--quiet",
            "--restart=Never",
            "--image=c5c3.local/busybox:1",
            "--",
            "sh",
            "-c",
            "read a; echo $a $a; sleep 1",
        ])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    run.stdin.take().unwrap().write_all(b"twice\n").unwrap();
    let done = run.wait_with_output().unwrap();
    let text = String::from_utf8_lossy(&done.stdout).into_owned();
    assert!(
        text.contains("twice twice"),
        "{text} {}",
        String::from_utf8_lossy(&done.stderr)
    );
    cluster.kubectl(&["delete", "pod", "piped", "typed", "--grace-period=0"]);
}

/// No line is lost or told twice when a log is put aside while somebody follows it.
pub(super) fn long_log(cluster: &TestCluster) {
    let script = "i=0; while test $i -lt 400; do echo number $i; i=$((i+1)); usleep 5000; done; sleep 1000";
    let script = script.replace("usleep", "busybox usleep");
    cluster.apply(&format!(
        r#"{{"apiVersion":"v1","kind":"Pod","metadata":{{"name":"long"}},"spec":{{"nodeName":"node-1",
        "terminationGracePeriodSeconds":0,"containers":[{{"name":"main","image":"c5c3.local/busybox:1",
        "command":["sh","-c",{}]}}]}}}}"#,
        serde_json::Value::from(script)
    ));
    cluster.kubectl(&["wait", "--for=condition=Ready", "pod/long", "--timeout=60s"]);
    let mut follow = cluster.spawn(&["logs", "-f", "long"]);
    let mut lines = BufReader::new(follow.stdout.take().unwrap()).lines();
    let mut paths = BTreeMap::new();
    for i in 0..400 {
        assert_eq!(lines.next().unwrap().unwrap(), format!("number {i}"));
        if i % 100 == 50 {
            cluster.runtime(1, async |cri| rotate_above(&cri, 1000, &mut paths).await.unwrap());
        }
    }
    follow.kill().unwrap();
    follow.wait().unwrap();
    let logs = paths
        .values()
        .find(|p| p.to_string_lossy().contains("_long_"))
        .unwrap();
    let aside = |n: u8| logs.with_extension(format!("log.{n}"));
    assert!(aside(1).exists() && aside(2).exists(), "{logs:?}");
    cluster.kubectl(&["delete", "pod", "long", "--grace-period=0", "--force"]);
}
