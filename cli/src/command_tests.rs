//! Help texts fit a terminal, and what the charts start fits the program.

use clap::{CommandFactory, Parser};
use k8s_openapi::api::apps::v1::{DaemonSet, Deployment};
use serde_json::Value;

use crate::roles;
use crate::{Cli, Command};

const WIDTH: usize = 100;

#[test]
fn help_fits_a_terminal_and_tells_a_default_once() {
    let mut left = vec![Cli::command()];
    while let Some(command) = left.pop() {
        let name = command.get_name().to_owned();
        let after = command.get_after_help().map(ToString::to_string);
        for line in after.as_deref().unwrap_or_default().lines() {
            assert!(line.chars().count() <= WIDTH, "{name}: {line}");
        }
        for argument in command.get_arguments() {
            let help = argument.get_help().map(ToString::to_string).unwrap_or_default();
            assert!(
                argument.get_default_values().is_empty() || !help.contains("[default:"),
                "{name} {}: {help}",
                argument.get_id()
            );
        }
        left.extend(command.get_subcommands().cloned());
    }
}

/// What Helm makes of the charts; `make docs` records it.
fn rendered(chart: &str) -> Vec<Value> {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/end-to-end/golden/charts");
    let text = std::fs::read_to_string(format!("{directory}/{chart}.yaml")).expect("a rendered chart");
    serde_saphyr::from_multiple(&text).expect("YAML")
}

#[test]
fn deployments_run_every_operator_under_its_account() {
    let objects = [
        rendered("control-plane"),
        rendered("hypervisor"),
        rendered("storage"),
    ]
    .concat();
    for role in roles::all() {
        let name = role.name.trim_start_matches("c5c3-");
        let of_kind = |kind: &str| {
            let mut found = objects.iter();
            found
                .find(|object| object["kind"] == kind && object["metadata"]["name"] == role.name)
                .unwrap_or_else(|| panic!("no {kind} {}", role.name))
        };
        let value = of_kind("Deployment").clone();
        let deployment: Deployment = serde_json::from_value(value.clone()).expect("a Deployment");
        // A field that the type does not know would be lost.
        assert_eq!(serde_json::to_value(&deployment).expect("JSON"), value, "{name}");
        of_kind("ServiceAccount");

        let spec = deployment.spec;
        let labels = spec.template.metadata.and_then(|metadata| metadata.labels);
        let selected = spec.selector.match_labels.expect("a selector");
        assert!(
            selected
                .iter()
                .all(|(key, value)| labels.as_ref().is_some_and(|l| l.get(key) == Some(value)))
        );
        let pod = spec.template.spec.expect("a pod");
        assert_eq!(pod.service_account_name.as_deref(), Some(role.name));
        let [container] = pod.containers.as_slice() else {
            panic!("{name}: one container");
        };
        let image = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));
        assert_eq!(container.image.as_deref(), Some(image));

        let Command::Operator(arguments) = parsed(container.args.as_deref()) else {
            panic!("{name}: no operator");
        };
        let (operator, port, leads) = arguments.deployed();
        assert_eq!(operator, name);
        assert!(
            leads,
            "{name}: its lease is in its own namespace, where it may write one"
        );
        let ports = container.ports.iter().flatten();
        assert!(ports.clone().any(|open| open.name.as_deref() == Some("metrics") && open.container_port == i32::from(port)));

        // The chart splits the rules by place; together they are what the operator declares.
        let mut granted = rights(&of_kind("ClusterRole")["rules"]);
        let mut declared = rights(&serde_json::json!(role.access.rules()));
        granted.sort();
        granted.dedup();
        declared.sort();
        assert_eq!(granted, declared, "{name}");
    }
}

#[test]
fn agents_of_the_charts_are_started_with_arguments_that_are_there() {
    for object in [rendered("hypervisor"), rendered("storage")].concat() {
        if object["kind"] == "DaemonSet" {
            let set: DaemonSet = serde_json::from_value(object).expect("a DaemonSet");
            let pod = set.spec.template.spec.expect("a pod");
            for container in pod.containers {
                let command = parsed(container.args.as_deref());
                assert!(matches!(command, Command::Agent(_) | Command::Prysm(_)));
            }
        }
    }
}

#[test]
fn the_labels_injector_of_the_chart_is_asked_where_it_listens() {
    let objects = rendered("hypervisor");
    let name = c5c3_labels::NAME;
    let of_kind = |kind: &str| {
        let mut found = objects.iter();
        let found = found.find(|object| object["kind"] == kind && object["metadata"]["name"] == name);
        found.unwrap_or_else(|| panic!("no {kind} {name}"))
    };
    let deployment = serde_json::from_value(of_kind("Deployment").clone());
    let deployment: Deployment = deployment.expect("a Deployment");
    let pod = deployment.spec.template.spec.expect("a pod");
    let [container] = pod.containers.as_slice() else {
        panic!("one container");
    };
    let Command::LabelsInjector(arguments) = parsed(container.args.as_deref()) else {
        panic!("another program");
    };
    let ports = container.ports.iter().flatten();
    let webhook = ports.clone().find(|port| port.name.as_deref() == Some("webhook"));
    let port = webhook.expect("a port").container_port;
    assert_eq!(port, i32::from(arguments.listens_on()));
    assert_eq!(of_kind("Service")["spec"]["ports"][0]["targetPort"], "webhook");
    for hook in of_kind("MutatingWebhookConfiguration")["webhooks"]
        .as_array()
        .expect("webhooks")
    {
        assert_eq!(hook["failurePolicy"], "Ignore");
        let service = &hook["clientConfig"]["service"];
        assert!(
            service["name"] == name && service["path"] == "/mutate",
            "{service}"
        );
    }
}

#[test]
fn the_webhook_of_the_sidecar_is_reached_where_it_listens() {
    let text = include_str!("../../deploy/quickstart/sidecar.yaml");
    let objects: Vec<Value> = serde_saphyr::from_multiple(text).expect("YAML");
    let of_kind = |kind: &str| objects.iter().find(|object| object["kind"] == kind).expect(kind);
    let (service, hook) = (of_kind("Service"), of_kind("MutatingWebhookConfiguration"));
    let deployment: Deployment = serde_json::from_value(of_kind("Deployment").clone()).expect("a Deployment");
    assert_eq!(
        &serde_json::to_value(&deployment).expect("JSON"),
        of_kind("Deployment")
    );
    let pod = deployment.spec.template;
    let labels = pod.metadata.expect("metadata").labels.expect("labels");
    let selector = service["spec"]["selector"].as_object().expect("a selector");
    assert!(
        selector
            .iter()
            .all(|(name, value)| labels.get(name).map(String::as_str) == value.as_str())
    );
    let client = &hook["webhooks"][0]["clientConfig"]["service"];
    assert_eq!(client["name"], service["metadata"]["name"]);
    assert_eq!(client["port"], service["spec"]["ports"][0]["port"]);

    let container = pod.spec.expect("a pod").containers.remove(0);
    assert!(matches!(parsed(container.args.as_deref()), Command::Prysm(_)));
    let words = container.args.expect("arguments");
    let port = container.ports.expect("ports").remove(0);
    assert_eq!(
        service["spec"]["ports"][0]["targetPort"],
        port.name.expect("a name")
    );
    assert!(words.contains(&format!("--listen=[::]:{}", port.container_port)));
    let image = concat!("ghcr.io/c5c3/c5c3:", env!("CARGO_PKG_VERSION"));
    assert_eq!(container.image.as_deref(), Some(image));
    assert!(words.contains(&format!("--image={image}")));
}

/// Group, resource and verb of each right.
fn rights(rules: &Value) -> Vec<[String; 3]> {
    let words = |rule: &Value, field: &str| -> Vec<String> {
        let all = rule[field].as_array().into_iter().flatten();
        all.filter_map(|word| word.as_str().map(str::to_owned)).collect()
    };
    let mut all = Vec::new();
    for rule in rules.as_array().into_iter().flatten() {
        for group in words(rule, "apiGroups") {
            for resource in words(rule, "resources") {
                let verbs = words(rule, "verbs").into_iter();
                all.extend(verbs.map(|verb| [group.clone(), resource.clone(), verb]));
            }
        }
    }
    all
}

fn parsed(words: Option<&[String]>) -> Command {
    let words = words.unwrap_or_default().iter().map(String::as_str);
    // The node's name comes from the environment of the pod.
    let mut words: Vec<&str> = ["c5c3"].into_iter().chain(words).collect();
    if words.get(1) == Some(&"agent") {
        words.push("--node-name=node-1");
    }
    match Cli::try_parse_from(&words) {
        Ok(cli) => cli.command,
        Err(error) => panic!("{words:?}: {error}"),
    }
}
