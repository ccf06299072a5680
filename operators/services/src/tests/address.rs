//! Programs listen and are found on pods of IPv4, of IPv6 and of both.

use std::io::Write;
use std::process::Command;

use c5c3_api::openstack::port;
use serde_json::{Value, json};

use crate::shape::Subject;
use crate::testing::*;

fn rendered<S: Subject>(subject: S) -> Vec<Value> {
    let mut seen = observed(subject, facts());
    // The schema first, then processes that wait for each other.
    for _ in 0..5 {
        for mut job in objects(&seen)
            .into_iter()
            .filter(|object| object["kind"] == "Job")
        {
            job["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
            let name = job["metadata"]["name"].as_str().unwrap_or_default().to_owned();
            let job = serde_json::from_value(job).expect("a Job");
            seen.facts.jobs.insert(name, job);
        }
        take_deployments(&mut seen);
    }
    objects(&seen)
}

fn everything() -> Vec<Value> {
    let console = json!([{"name": "cell1", "consoleEndpoint": "https://console.example.com"}]);
    let s3 = json!({"backend": "s3", "s3": {"endpoint": "http://s3", "bucket": "images", "secretRef": {"name": "s3"}}});
    [
        rendered(keystone()),
        rendered(glance(json!({"backend": "file"}))),
        rendered(glance(s3)),
        rendered(placement()),
        rendered(nova(json!({"cells": console}))),
        rendered(neutron()),
        rendered(cinder()),
    ]
    .concat()
}

#[test]
fn nothing_listens_on_ipv4_alone_and_no_address_lacks_its_brackets() {
    let all = everything();
    let text = json!(all).to_string();
    assert!(
        text.contains("nova-novncproxy") && text.contains("worker"),
        "all is rendered"
    );
    assert!(!text.contains("0.0.0.0"), "{}", around(&text, "0.0.0.0"));
    for variable in ["$(POD_IP):", "$(HOST_IP):", "$(NODE_IP):", "$(NODE_ADDRESS):"] {
        assert!(!text.contains(variable), "{}", around(&text, variable));
    }
}

fn around<'a>(text: &'a str, what: &str) -> &'a str {
    let at = text.find(what).unwrap_or_default();
    text.get(at.saturating_sub(80)..(at + 80).min(text.len()))
        .unwrap_or(text)
}

#[test]
fn every_application_is_served_on_both_families() {
    let all = everything();
    let files = all
        .iter()
        .filter(|object| object["kind"] == "ConfigMap")
        .filter_map(|object| object["data"].as_object());
    let uwsgi: Vec<&str> = files
        .flatten()
        .filter(|(name, _)| name.ends_with("uwsgi.ini"))
        .filter_map(|(_, text)| text.as_str())
        .collect();
    assert!(uwsgi.len() >= 6, "{}", uwsgi.len());
    for text in uwsgi {
        assert!(text.contains("http-socket = [::]:"), "{text}");
    }
}

/// What Glance's pods tell each other of themselves, by the program that stands before it.
#[test]
fn a_pod_names_itself_in_a_url_whatever_its_family() {
    let s3 = json!({"backend": "s3", "s3": {"endpoint": "http://s3", "bucket": "images", "secretRef": {"name": "s3"}}});
    let all = rendered(glance(s3));
    let map = all
        .iter()
        .find(|object| object["kind"] == "ConfigMap")
        .expect("there");
    let front = map["data"]["api-front.py"].as_str().expect("a program");
    let pod = all
        .iter()
        .find(|object| object["kind"] == "Deployment")
        .expect("there");
    let variables = pod["spec"]["template"]["spec"]["containers"][0]["env"].as_array();
    let url = variables
        .into_iter()
        .flatten()
        .find(|variable| variable["name"] == "OS_DEFAULT__WORKER_SELF_REFERENCE_URL")
        .expect("told")["value"]
        .as_str()
        .expect("text")
        .to_owned();
    if Command::new("python3").arg("--version").output().is_err() {
        let _ = writeln!(std::io::stderr(), "skipped: there is no python3 on this machine");
        return;
    }
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("front.py");
    let mut file = std::fs::File::create(&path).expect("made");
    let served = front.replace("\"glance.wsgi.api:application\"", "\"os:getcwd\"");
    assert_ne!(served, front);
    let told = "\nprint(os.environ['OS_DEFAULT__WORKER_SELF_REFERENCE_URL'])\n";
    write!(file, "{served}{told}").expect("written");
    for (address, host) in [("10.0.0.7", "10.0.0.7"), ("fd00::7", "[fd00::7]")] {
        let out = Command::new("python3")
            .arg(&path)
            .env("POD_IP", address)
            .env("OS_DEFAULT__WORKER_SELF_REFERENCE_URL", &url)
            .output()
            .expect("runs");
        let said = String::from_utf8_lossy(&out.stdout);
        assert_eq!(said.trim(), format!("http://{host}:{}", port::GLANCE), "{out:?}");
    }
}
