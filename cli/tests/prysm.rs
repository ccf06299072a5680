//! Prysm as it is run beside RadosGW.

use std::fs::File;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

struct Producer {
    child: Child,
    address: String,
}

impl Producer {
    fn start(arguments: &[&str]) -> Self {
        let mut child = Command::new(env!("CARGO_BIN_EXE_c5c3"))
            .args([
                "prysm",
                "ops-log",
                "--listen",
                "127.0.0.1:0",
                "--interval",
                "10",
                "--pod",
                "rgw-0",
            ])
            .args(arguments)
            .stderr(Stdio::piped())
            .spawn()
            .expect("it starts");
        let stderr = BufReader::new(child.stderr.take().expect("piped"));
        let line = stderr
            .lines()
            .map_while(Result::ok)
            .find(|line| line.contains("metrics at"));
        let line = line.expect("it tells where it listens");
        let address = line
            .split("http://")
            .nth(1)
            .and_then(|rest| rest.split('/').next());
        Producer {
            child,
            address: address.expect("an address").to_owned(),
        }
    }

    fn page(&self) -> String {
        let mut stream = TcpStream::connect(&self.address).expect("it listens");
        write!(
            stream,
            "GET /metrics HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n"
        )
        .expect("asked");
        let mut page = String::new();
        stream.read_to_string(&mut page).expect("answered");
        page
    }

    /// Waits until the page has this line.
    fn shows(&self, line: &str) {
        let end = Instant::now() + Duration::from_secs(20);
        while !self.page().lines().any(|each| each == line) {
            assert!(Instant::now() < end, "{line}\nis not in\n{}", self.page());
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Producer {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn line(user: &str, status: &str) -> String {
    format!(
        r#"{{"bucket":"b","user":"{user}","operation":"put_obj","uri":"PUT /b/k HTTP/1.1","http_status":"{status}","total_time":3}}"#
    )
}

#[test]
fn prysm_counts_what_is_written_through_rotation_truncation_and_its_own_restart() {
    let directory = tempfile::tempdir().expect("a directory");
    let log = directory.path().join("ops.log");
    let position = directory.path().join("position");
    let arguments = [
        "--file",
        log.to_str().expect("a name"),
        "--position",
        position.to_str().expect("a name"),
    ];
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(&log)
        .expect("a log");
    let requests = |count: u64| {
        format!(
            r#"radosgw_total_requests_per_tenant{{pod="rgw-0",tenant="acme",method="PUT",http_status="200"}} {count}"#
        )
    };

    let producer = Producer::start(&[&arguments[..], &["--from-start"]].concat());
    for _ in 0..500 {
        file.write_all(line("acme$ann", "200").as_bytes())
            .expect("written");
    }
    producer.shows(&requests(500));
    file.write_all(b"\nnot an entry\n").expect("written");
    producer.shows("prysm_ops_log_malformed_total 1");

    std::fs::rename(&log, directory.path().join("ops.log.1")).expect("rotated");
    file.write_all(line("acme$ann", "200").as_bytes())
        .expect("written to the old file");
    let mut file = File::options()
        .append(true)
        .create(true)
        .open(&log)
        .expect("a log");
    for _ in 0..9 {
        writeln!(file, "{}", line("acme$ann", "200")).expect("written");
    }
    producer.shows(&requests(510));

    file.set_len(0).expect("truncated");
    producer.page();
    std::thread::sleep(Duration::from_millis(100));
    writeln!(file, "{}", line("acme$bob", "503")).expect("written");
    producer.shows(r#"radosgw_errors_per_user{pod="rgw-0",user="bob",tenant="acme",http_status="503"} 1"#);
    producer.shows("prysm_ops_log_entries_total 511");

    // What is written while nobody reads is not lost, and nothing is read twice.
    std::thread::sleep(Duration::from_millis(100));
    drop(producer);
    writeln!(file, "{}", line("acme$ann", "200")).expect("written");
    let producer = Producer::start(&arguments);
    producer.shows(&requests(1));
    producer.shows("prysm_ops_log_entries_total 1");
}
