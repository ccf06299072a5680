//! Nova's scheduler asks Cortex where that is switched on, and only there.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::process::Command;

use c5c3_api::openstack::Nova;
use c5c3_catalogue::Catalogue;
use c5c3_kit::Observed;
use serde_json::{Value, json};

use crate::build;
use crate::config::check;
use crate::reconcile::Services;
use crate::shape::Subject;
use crate::testing::*;

fn asking(enabled: bool) -> Nova {
    let external = json!({"enabled": enabled, "endpoint": "http://cortex:8080"});
    nova(json!({"scheduler": {"externalScheduler": external}}))
}

fn ready(nova: Nova) -> Observed<Services<Nova>> {
    let mut seen = observed(nova, facts());
    take_job(&mut seen, "nova-api-db-sync", Some("Complete"));
    for _ in 0..3 {
        take_deployments(&mut seen);
    }
    seen
}

fn scheduler(seen: &Observed<Services<Nova>>) -> Value {
    let found = objects(seen)
        .into_iter()
        .find(|object| object["kind"] == "StatefulSet" && object["metadata"]["name"] == "nova-scheduler");
    found.expect("a scheduler")["spec"]["template"]["spec"].clone()
}

fn variables(pod: &Value) -> BTreeMap<String, String> {
    let all = pod["containers"][0]["env"]
        .as_array()
        .cloned()
        .unwrap_or_default();
    let text = |one: &Value, key: &str| one[key].as_str().unwrap_or_default().to_owned();
    all.iter()
        .map(|one| (text(one, "name"), text(one, "value")))
        .collect()
}

#[test]
fn the_scheduler_alone_has_the_filter_and_knows_the_endpoint() {
    let seen = ready(asking(true));
    let pod = scheduler(&seen);
    let variables = variables(&pod);
    assert_eq!(variables["CORTEX_ENDPOINT"], "http://cortex:8080");
    assert_eq!(variables["PYTHONPATH"], "/etc/nova");
    let with_filter: Vec<Value> = objects(&seen)
        .into_iter()
        .filter(|object| object["kind"] == "ConfigMap" && !object["data"]["nova_cortex.py"].is_null())
        .collect();
    let [map] = with_filter.as_slice() else {
        panic!("{} maps", with_filter.len())
    };
    let text = map["data"]["nova.conf"].as_str().expect("a file");
    for line in [
        "available_filters = nova_cortex.all_filters",
        "weight_classes = nova.scheduler.weights.all_weighers,nova_cortex.CortexWeigher",
    ] {
        assert!(text.contains(line), "{text}");
    }
    assert!(
        text.contains("ServerGroupAffinityFilter,CortexFilter\n"),
        "ours is the last"
    );
    assert!(
        pod.to_string()
            .contains(map["metadata"]["name"].as_str().expect("a name"))
    );
}

#[test]
fn switched_off_nothing_of_it_is_there() {
    for nova in [asking(false), nova(json!({}))] {
        let seen = ready(nova);
        assert!(!variables(&scheduler(&seen)).contains_key("CORTEX_ENDPOINT"));
        let all = objects(&seen);
        assert!(
            all.iter()
                .all(|object| object["data"]["nova_cortex.py"].is_null())
        );
    }
}

#[test]
fn its_options_are_known_to_every_release() {
    let service = asking(true).shape();
    let free: Vec<&str> = service.free_groups.iter().map(String::as_str).collect();
    let settings = service
        .settings
        .iter()
        .find(|settings| settings.name == "scheduler");
    let options = build::options(&service, settings.expect("there"), &facts()).expect("options");
    let options: BTreeMap<_, _> = options
        .iter()
        .map(|(group, all)| (group.clone(), all.clone()))
        .collect();
    for release in ["2025.2", "2026.1"] {
        let catalogue = Catalogue::load(release, "nova").expect("a catalogue");
        check(&options, &catalogue, &free).unwrap_or_else(|error| panic!("{release}: {error}"));
    }
}

/// The client itself, with a real server: answers, refusals, silence and trickles.
#[test]
fn the_client_falls_back_in_time() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/src/kinds/nova");
    let ran = Command::new("python3")
        .args(["-B", "cortex_test.py"])
        .current_dir(folder)
        .output();
    let output = match ran {
        Ok(output) => output,
        Err(error) => {
            let _ = writeln!(
                std::io::stderr(),
                "skipped: there is no python3 on this machine: {error}"
            );
            return;
        }
    };
    let told = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{told}");
    assert!(told.contains("Ran 6 tests"), "{told}");
}
