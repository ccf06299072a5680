//! `steps.py` as it runs in a Job, with commands that repeat what they were given.

use std::io::Write;
use std::process::{Command, Output};

/// Runs one command; the variables are those of the Job's environment.
fn run(script: &str, environment: &[(&str, &str)]) -> Output {
    let directory = tempfile::tempdir().expect("a directory");
    let path = directory.path().join("command.py");
    std::fs::write(&path, script).expect("written");
    Command::new("python3")
        .args(["-c", include_str!("steps.py"), "--"])
        .arg(&path)
        .env_clear()
        .envs(std::env::var_os("PATH").map(|value| ("PATH", value)))
        .envs(environment.iter().copied())
        .output()
        .expect("python3 runs")
}

fn is_skipped() -> bool {
    let missing = Command::new("python3").arg("--version").output().is_err();
    if missing {
        // Not by a macro: those are silent in tests that pass.
        let _ = writeln!(std::io::stderr(), "skipped: there is no python3 on this machine");
    }
    missing
}

#[test]
fn last_words_of_a_job_carry_no_secret_in_any_form() {
    if is_skipped() {
        return;
    }
    let secret = "s'ecr\"et/\u{e4} 1";
    let environment = [
        ("OS_KEYSTONE_AUTHTOKEN__PASSWORD", secret),
        (
            "OS_DEFAULT__TRANSPORT_URL",
            "rabbit://nova:hunter%2Ftwo@rabbitmq:5672/",
        ),
        ("OS_DEFAULT__DEBUG", "true-enough"),
    ];
    let script = r#"
import base64, json, os, sys, urllib.parse
secret = os.environ["OS_KEYSTONE_AUTHTOKEN__PASSWORD"]
print(secret, flush=True)
print(repr(secret), repr(secret.encode()), json.dumps(secret), file=sys.stderr)
print(urllib.parse.quote(secret, safe=""), base64.b64encode(secret.encode()).decode(), secret.encode().hex())
print("hunter/two", "hunter%2Ftwo", os.environ["OS_DEFAULT__DEBUG"])
sys.exit(f"cannot log in with {secret}")
"#;
    let output = run(script, &environment);
    let said = String::from_utf8(output.stdout).expect("text");
    assert_eq!(
        (output.status.code(), output.stderr.len()),
        (Some(1), 0),
        "{said}"
    );
    for word in ["ecr", "s%27", "hunter", "cydlY3", "73276563"] {
        assert!(!said.contains(word), "{word}: {said}");
    }
    assert!(said.contains("true-enough"), "{said}");
    assert!(said.ends_with("cannot log in with ***\n"), "{said}");
}

/// The mask of the operator itself passes the same examples.
#[test]
fn a_job_hides_all_that_the_operator_hides() {
    if is_skipped() {
        return;
    }
    let examples = include_str!("../../../../kit/src/mask_examples.json");
    let all: Vec<[String; 3]> = serde_json::from_str(examples).expect("examples");
    let mut secrets: Vec<&String> = all.iter().map(|[secret, ..]| secret).collect();
    secrets.dedup();
    assert!(secrets.len() > 2);
    for secret in secrets {
        let of_it = || all.iter().filter(|[of, ..]| of == secret);
        let said: Vec<&String> = of_it().map(|[_, said, _]| said).collect();
        let script = format!(
            "import json\nfor line in json.loads({:?}): print(line)",
            serde_json::to_string(&said).expect("writes")
        );
        let output = run(&script, &[("OS_DATABASE__PASSWORD", secret)]);
        let text = String::from_utf8(output.stdout).expect("text");
        let masked: Vec<&str> = of_it().map(|[.., masked]| masked.as_str()).collect();
        assert_eq!(text.lines().collect::<Vec<_>>(), masked, "{secret}");
    }
}

#[test]
fn a_job_tells_which_command_failed() {
    if is_skipped() {
        return;
    }
    assert!(run("pass", &[]).status.success());
    let output = run("raise ValueError('no')", &[]);
    assert_eq!(output.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&output.stdout).ends_with("ValueError: no\n"));
}

/// Answers as a server of this version would: no database is asked here.
const SERVER: &str = r#"
import os
class pool: NullPool = None
class Answer:
    def __init__(self, value): self.value = value
    def scalar(self): return self.value
class Engine:
    class dialect: name = "mysql"
    def connect(self): return self
    def close(self): pass
    def __enter__(self): return self
    def __exit__(self, *_): pass
    def exec_driver_sql(self, question):
        for part, name in (("VERSION()", "VERSION"), ("data_length", "LARGEST"), ("disks", "FREE")):
            if part in question:
                return Answer(os.environ[name])
def create_engine(url, poolclass): return Engine()
"#;

#[test]
fn nothing_is_changed_on_a_server_that_is_too_old_or_too_full() {
    if is_skipped() {
        return;
    }
    let modules = tempfile::tempdir().expect("a directory");
    std::fs::write(modules.path().join("sqlalchemy.py"), SERVER).expect("written");
    let path = modules.path().display().to_string();
    let mib = |number: u64| (number << 20).to_string();
    for (version, largest, free, words) in [
        ("11.8.3-MariaDB-deb13", mib(10), Some(mib(10)), None),
        ("11.8.3-MariaDB-deb13", mib(10), None, None),
        ("5.5.5-10.6.12-MariaDB", mib(0), Some(mib(1)), None),
        ("8.0.36", mib(0), None, None),
        (
            "10.3.39-MariaDB",
            mib(0),
            None,
            Some("MariaDB 10.3.39-MariaDB is older than 10.6"),
        ),
        ("5.7.44", mib(0), None, Some("MySQL 5.7.44 is older than 8.0")),
        (
            "11.8.3-MariaDB",
            mib(10),
            Some(mib(9)),
            Some("9 MiB are free and the largest table has 10"),
        ),
    ] {
        let mut environment = vec![
            ("PYTHONPATH", path.as_str()),
            ("OS_DATABASE__CONNECTION", "mysql+pymysql://u:secret-1@db/x"),
            ("VERSION", version),
            ("LARGEST", largest.as_str()),
        ];
        environment.extend(free.as_deref().map(|free| ("FREE", free)));
        let output = run("print('changed')", &environment);
        let said = String::from_utf8_lossy(&output.stdout).into_owned();
        match words {
            None => assert!(
                output.status.success() && said.contains("changed"),
                "{version}: {said}"
            ),
            Some(words) => {
                assert_eq!(output.status.code(), Some(1), "{said}");
                assert!(
                    said.contains(words) && !said.contains("changed"),
                    "{version}: {said}"
                );
            }
        }
    }
}
