//! Help texts fit a terminal, and the deployments in `deploy/operators` fit the program.

use clap::{CommandFactory, Parser};
use k8s_openapi::api::apps::v1::Deployment;
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

#[test]
fn deployments_run_every_operator_under_its_account() {
    let directory = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/operators");
    for role in roles::all() {
        let name = role.name.trim_start_matches("c5c3-");
        let text =
            std::fs::read_to_string(format!("{directory}/{name}.yaml")).expect("a file for each operator");
        let value: Value = serde_saphyr::from_str(&text).expect("YAML");
        let deployment: Deployment = serde_json::from_value(value.clone()).expect("a Deployment");
        // A field that the type does not know would be lost.
        assert_eq!(serde_json::to_value(&deployment).expect("JSON"), value, "{name}");
        assert_eq!(deployment.metadata.name.as_deref(), Some(role.name));
        assert_eq!(deployment.metadata.namespace.as_deref(), Some(roles::NAMESPACE));

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

        let words = container.args.iter().flatten().map(String::as_str);
        let parsed =
            Cli::try_parse_from(["c5c3"].into_iter().chain(words)).unwrap_or_else(|e| panic!("{name}: {e}"));
        let Command::Operator(arguments) = parsed.command else {
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
    }
}
