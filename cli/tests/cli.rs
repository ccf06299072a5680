//! The binary as people and scripts see it.

use assert_cmd::Command;
use serde_json::Value;

fn c5c3(arguments: &[&str]) -> (i32, String, String) {
    let output = Command::new(env!("CARGO_BIN_EXE_c5c3"))
        .args(arguments)
        .env_remove("KUBECONFIG")
        .env_remove("C5C3_STATE_DIR")
        .env("HOME", "/nonexistent")
        .output()
        .expect("runs");
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).expect("UTF-8");
    (
        output.status.code().expect("a code"),
        text(&output.stdout),
        text(&output.stderr),
    )
}

#[test]
fn help_has_examples_and_exit_codes() {
    let (code, out, _) = c5c3(&["--help"]);
    assert_eq!(code, 0);
    for part in [
        "Examples:",
        "Exit codes:",
        "crds",
        "operator",
        "version",
        "completions",
    ] {
        assert!(out.contains(part), "{part} is missing from\n{out}");
    }
}

#[test]
fn version_in_every_format() {
    let (code, out, _) = c5c3(&["version"]);
    assert_eq!((code, out.starts_with("c5c3 0.")), (0, true));
    let (_, out, _) = c5c3(&["version", "-o", "json"]);
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
    let (_, out, _) = c5c3(&["version", "-o", "yaml"]);
    let value: Value = serde_saphyr::from_str(&out).expect("YAML");
    assert_eq!(value["version"], env!("CARGO_PKG_VERSION"));
}

#[test]
fn crds_prints_every_kind_as_documents() {
    let (code, out, _) = c5c3(&["crds"]);
    assert_eq!(code, 0);
    let documents: Vec<Value> = serde_saphyr::from_multiple(&out).expect("YAML");
    assert!(documents.len() > 20, "only {} definitions", documents.len());
    // A cluster without Crossplane must be able to take them all.
    assert!(
        documents
            .iter()
            .all(|d| d["kind"] == "CustomResourceDefinition" && d["metadata"]["name"].is_string())
    );
    let (_, out, _) = c5c3(&["crds", "--crossplane"]);
    assert!(out.contains("kind: CompositeResourceDefinition"));
}

#[test]
fn crds_filters_by_group_and_kind() {
    let (code, out, _) = c5c3(&[
        "crds",
        "--group",
        "c5c3.io",
        "--kind",
        "secretaggregates",
        "-o",
        "json",
    ]);
    assert_eq!(code, 0);
    let value: Value = serde_json::from_str(&out).expect("JSON");
    assert_eq!(value["metadata"]["name"], "secretaggregates.c5c3.io");
    let (_, out, _) = c5c3(&["crds", "--group", "c5c3.io", "-o", "table"]);
    assert!(out.starts_with("KIND"), "no colour off a terminal: {out:?}");
    assert_eq!(out.lines().count(), 4);
}

#[test]
fn what_is_not_there_exits_3_and_bad_arguments_2() {
    let (code, _, err) = c5c3(&["crds", "--kind", "Toaster"]);
    assert_eq!(code, 3);
    assert!(err.contains("c5c3 crds -o table"), "{err}");
    assert_eq!(c5c3(&["crds", "-o", "xml"]).0, 2);
    for cluster in ["x", "home=x"] {
        assert_eq!(c5c3(&["operator", "control-plane", "--cluster", cluster]).0, 2);
    }
    assert_eq!(c5c3(&["operator", "control-plane", "--log", "=x=,"]).0, 2);
}

#[test]
fn an_operator_without_a_cluster_says_what_to_do() {
    let (code, _, err) = c5c3(&["operator", "control-plane", "--metrics-address", "127.0.0.1:0"]);
    assert_eq!(code, 1);
    assert!(err.contains("--kubeconfig"), "{err}");
}

#[test]
fn an_operator_whose_server_does_not_answer_exits_4() {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("kubeconfig");
    // One accepts and says nothing; on port 9 of loopback nobody listens.
    let silent = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let quiet = silent.local_addr().expect("an address").port();
    for port in [quiet, 9] {
        let kubeconfig = format!(
            "{{apiVersion: v1, kind: Config, current-context: a, \
            contexts: [{{name: a, context: {{cluster: a, user: a}}}}], users: [{{name: a, user: {{}}}}], \
            clusters: [{{name: a, cluster: {{server: 'http://127.0.0.1:{port}'}}}}]}}"
        );
        std::fs::write(&path, kubeconfig).expect("writes");
        let path = path.to_str().expect("UTF-8");
        let (code, _, err) = c5c3(&["operator", "control-plane", "--kubeconfig", path, "--wait", "0"]);
        assert_eq!(code, 4, "{err}");
        assert!(err.contains("no answer from the API server"), "{err}");
    }
    drop(silent);
    let path = path.to_str().expect("UTF-8");
    let (code, _, err) = c5c3(&[
        "operator",
        "control-plane",
        "--kubeconfig",
        path,
        "--context",
        "b",
    ]);
    assert_eq!(code, 1, "{err}");
}

#[test]
fn completions_for_every_shell() {
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let (code, out, _) = c5c3(&["completions", shell]);
        assert!(code == 0 && out.contains("crds"), "{shell}");
    }
}

#[test]
fn roles_are_generated_and_ask_for_no_more_than_needed() {
    let (code, out, _) = c5c3(&["rbac"]);
    assert_eq!(code, 0);
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/rbac/operators.yaml");
    let text = format!("# Generated by `make docs`: the operators' accounts and what they may do.\n{out}");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all(concat!(env!("CARGO_MANIFEST_DIR"), "/../deploy/rbac")).expect("a directory");
        std::fs::write(file, &text).expect("written");
    }
    let there = std::fs::read_to_string(file).unwrap_or_default();
    assert!(
        there == text,
        "deploy/rbac/operators.yaml is stale: run `make docs`"
    );
    let objects: Vec<Value> = serde_saphyr::from_multiple(&out).expect("YAML");
    let rules = objects
        .iter()
        .flat_map(|object| object["rules"].as_array().into_iter().flatten());
    for rule in rules {
        let has = |field: &str, text: &str| {
            let all = rule[field].as_array();
            all.is_some_and(|all| all.iter().any(|one| one == text))
        };
        assert!(
            !has("verbs", "*") && !has("resources", "*") && !has("apiGroups", "*"),
            "{rule}"
        );
        assert!(
            !has("verbs", "escalate") && !has("verbs", "impersonate") && !has("resources", "pods/exec"),
            "{rule}"
        );
    }
    assert_eq!(c5c3(&["rbac", "--operator", "nobody"]).0, 3);
}

/// Names of the subcommands in a help text.
fn subcommands(help: &str) -> Vec<String> {
    let listed = help.lines().skip_while(|line| *line != "Commands:").skip(1);
    listed
        .take_while(|line| line.starts_with("  "))
        .filter(|line| !line.starts_with("   "))
        .filter_map(|line| line.split_whitespace().next())
        .filter(|name| *name != "help")
        .map(str::to_owned)
        .collect()
}

#[test]
fn every_command_has_examples() {
    let mut left = vec![Vec::new()];
    let mut looked_at = 0;
    while let Some(command) = left.pop() {
        let words: Vec<&str> = command.iter().map(String::as_str).chain(["--help"]).collect();
        let (code, out, _) = c5c3(&words);
        assert!(
            code == 0 && out.contains("Examples:"),
            "{words:?} has none:\n{out}"
        );
        looked_at += 1;
        for name in subcommands(&out) {
            left.push([command.clone(), vec![name]].concat());
        }
    }
    assert!(looked_at > 25, "only {looked_at} commands found");
}

#[test]
fn a_place_without_a_cluster_is_named_and_not_replaced_by_another() {
    let directory = tempfile::tempdir().expect("a directory");
    let state = directory.path().join("typo");
    let state = state.to_str().expect("UTF-8");
    for words in ["status", "explain", "env", "demo", "ssh demo", "console demo"] {
        let (command, rest) = words.split_once(' ').unwrap_or((words, ""));
        let rest = rest.split_whitespace();
        let (code, _, err) = c5c3(
            &[command, "--state-dir", state]
                .into_iter()
                .chain(rest)
                .collect::<Vec<_>>(),
        );
        assert_eq!(code, 3, "{command}: {err}");
        assert!(
            err.contains(&format!("c5c3 up --state-dir {state}")),
            "{command}: {err}"
        );
    }
}

#[test]
fn a_purge_leaves_alone_what_is_not_ours() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("thesis.txt");
    std::fs::write(&file, "mine").expect("writes");
    let path = directory.path().to_str().expect("UTF-8");
    let (code, _, err) = c5c3(&["down", "--purge", "--state-dir", path]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains(&format!("--state-dir {path}:")), "{err}");
    let (code, _, err) = c5c3(&["up", "--state-dir", path, "--cluster-only"]);
    assert_eq!(code, 2, "{err}");
    assert!(err.contains("name a new or an empty directory"), "{err}");
    assert_eq!(std::fs::read_to_string(file).expect("it is there"), "mine");
}

#[test]
fn a_file_without_objects_is_refused_before_anything_starts() {
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("cloud.yaml");
    let state = directory.path().join("state");
    let words = |path: &std::path::Path| path.to_str().expect("UTF-8").to_owned();
    for (text, said) in [
        ("# nothing\n", "contains no object"),
        ("kind: ControlPlane\n", "document 1 has no apiVersion"),
    ] {
        std::fs::write(&file, text).expect("writes");
        let (code, _, err) = c5c3(&["up", "--state-dir", &words(&state), "-f", &words(&file)]);
        assert_eq!(code, 2, "{err}");
        assert!(err.contains(said), "{err}");
    }
    assert!(!state.exists());
}

#[test]
fn a_reader_that_goes_away_is_no_failure() {
    let (reader, writer) = std::io::pipe().expect("a pipe");
    drop(reader);
    let status = std::process::Command::new(env!("CARGO_BIN_EXE_c5c3"))
        .arg("crds")
        .stdout(writer)
        .status()
        .expect("runs");
    assert_eq!(status.code(), Some(0));
}
