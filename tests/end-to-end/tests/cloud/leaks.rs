//! What is secret is in Secrets, and nowhere else.

use anyhow::ensure;
use end_to_end::cloud::Cloud;
use serde_json::Value;

/// Shorter ones may turn up by chance.
const SHORTEST: usize = 8;

pub(crate) fn nothing_secret_is_open(cloud: &Cloud) -> anyhow::Result<()> {
    let get = |what: &str, format: &str| cloud.kubectl(&["-n", "openstack", "get", what, "-o", format], "");
    let secrets: Value = serde_json::from_str(&get("secrets", "json")?)?;
    let kinds = "configmaps,pods,jobs,deployments,statefulsets,events,controlplanes,keystones,glances,placements,\
        mariadbs,users.openstack.k-orc.cloud,applicationcredentials,credentialrotations";
    let mut open = vec![("the API", get(kinds, "yaml")?)];
    if cloud.is_elsewhere() {
        for operator in ["control-plane", "services"] {
            let name = format!("deployment/c5c3-{operator}");
            let words = ["-n", "c5c3-system", "logs", "--all-pods", &name];
            open.push(("an operator's log", cloud.kubectl(&words, "")?));
        }
    } else {
        let log = std::fs::read_to_string(cloud.state().join("c5c3.log"))?;
        open.push(("the log", log));
    }
    for pod in get("pods", "name")?.lines() {
        let words = ["-n", "openstack", "logs", "--all-containers", pod];
        open.push(("a pod's log", cloud.kubectl(&words, "")?));
    }
    let (mut passwords, mut keys) = (0, 0);
    for secret in secrets["items"].as_array().into_iter().flatten() {
        for (key, value) in secret["data"].as_object().into_iter().flatten() {
            let encoded = value.as_str().unwrap_or_default();
            let text = String::from_utf8(unbase64(encoded)).unwrap_or_default();
            for hidden in hidden(key, &text) {
                *(if is_number(key) { &mut keys } else { &mut passwords }) += 1;
                for (place, text) in &open {
                    ensure!(
                        !text.contains(hidden) && !text.contains(encoded),
                        "{} {key} is in {place}",
                        secret["metadata"]["name"]
                    );
                }
            }
        }
    }
    ensure!(passwords >= 10, "only {passwords} passwords found");
    ensure!(keys >= 4, "only {keys} keys found");
    Ok(())
}

/// What of a value is not to be seen: all of a password or a key, a part of an address or a login.
fn hidden<'a>(key: &str, text: &'a str) -> Vec<&'a str> {
    let lower = key.to_lowercase();
    let found: Vec<&str> = if lower.contains("password") || lower.ends_with("_secret") || is_number(key) {
        vec![text]
    } else if lower.ends_with("connection") {
        let login = text.split_once("://").and_then(|(_, rest)| rest.split_once('@'));
        let password = login.and_then(|(login, _)| login.split_once(':'));
        password.into_iter().map(|(_, password)| password).collect()
    } else if key == "clouds.yaml" {
        let secret = |line: &&str| line.contains("password:") || line.contains("_secret:");
        let value = |line: &'a str| Some(line.split_once(": ")?.1.trim_matches(['"', '\'']));
        text.lines().filter(secret).filter_map(value).collect()
    } else {
        Vec::new()
    };
    found.into_iter().filter(|text| text.len() >= SHORTEST).collect()
}

/// Keys of Fernet have a number for a name.
fn is_number(key: &str) -> bool {
    key.bytes().all(|byte| byte.is_ascii_digit())
}

fn unbase64(text: &str) -> Vec<u8> {
    let digit = |byte: u8| match byte {
        b'A'..=b'Z' => byte - b'A',
        b'a'..=b'z' => byte - b'a' + 26,
        b'0'..=b'9' => byte - b'0' + 52,
        b'+' => 62,
        _ => 63,
    };
    let bits = text.bytes().filter(|byte| *byte != b'=').flat_map(|byte| {
        let digit = digit(byte);
        (0..6).rev().map(move |bit| digit >> bit & 1)
    });
    let bits: Vec<u8> = bits.collect();
    bits.chunks_exact(8)
        .map(|byte| byte.iter().fold(0, |all, bit| all << 1 | bit))
        .collect()
}
