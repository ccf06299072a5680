//! One row for each way to meet or to violate a control.

use serde_json::{Value, json};

use super::{Level, LevelVersion, Pod, evaluate, policy::Version};

fn standard(text: &str) -> LevelVersion {
    let (level, version) = text.split_once(':').unwrap_or((text, "latest"));
    LevelVersion {
        level: if level == "baseline" {
            Level::Baseline
        } else {
            Level::Restricted
        },
        version: version
            .strip_prefix("v1.")
            .map_or(Version::Latest, |minor| Version::Minor(minor.parse().unwrap())),
    }
}

/// A pod that meets the restricted standard, changed at `pointer`s.
fn pod(changes: &[(&str, Value)]) -> Value {
    let mut pod = json!({"metadata": {"annotations": {}}, "spec": {
        "securityContext": {"runAsNonRoot": true, "seccompProfile": {"type": "RuntimeDefault"}},
        "volumes": [{"name": "v", "emptyDir": {}}],
        "containers": [{"name": "c", "securityContext": {
            "allowPrivilegeEscalation": false, "capabilities": {"drop": ["ALL"]}}}]}});
    for (pointer, value) in changes {
        let mut place = &mut pod;
        for part in pointer.split('/').skip(1) {
            let part = part.replace("~1", "/");
            place = match part.parse::<usize>() {
                Ok(index) => &mut place[index],
                Err(_) => &mut place[part],
            };
        }
        *place = value.clone();
    }
    pod
}

const CONTAINER: &str = "/spec/containers/0/securityContext";

fn check(standard_text: &str, changes: &[(&str, Value)], expected: &[&str]) {
    let pod = pod(changes);
    let found: Vec<String> = evaluate(standard(standard_text), &Pod::of(&pod))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(found, expected, "{standard_text} {changes:?}");
}

/// `(standard, where, value, violation)`; no violation: the pod is fine.
fn table(rows: &[(&str, &str, Value, &str)]) {
    for (standard, place, value, violation) in rows {
        let place = place.replace("$C", CONTAINER);
        let expected: &[&str] = if violation.is_empty() { &[] } else { &[violation] };
        check(standard, &[(&place, value.clone())], expected);
    }
}

#[test]
fn a_hardened_pod_meets_all_standards_of_all_versions() {
    for version in 0..40 {
        for level in ["baseline", "restricted"] {
            check(&format!("{level}:v1.{version}"), &[], &[]);
        }
    }
    check("restricted", &[], &[]);
}

#[test]
fn a_plain_pod_violates_what_kubernetes_says() {
    let plain = json!({"metadata": {}, "spec": {"containers": [{"name": "a"}, {"name": "b"}]}});
    let found: Vec<String> = evaluate(standard("restricted"), &Pod::of(&plain))
        .iter()
        .map(ToString::to_string)
        .collect();
    assert_eq!(
        found.join(", "),
        "allowPrivilegeEscalation != false (containers \"a\", \"b\" must set \
         securityContext.allowPrivilegeEscalation=false), unrestricted capabilities (containers \"a\", \"b\" must set \
         securityContext.capabilities.drop=[\"ALL\"]), runAsNonRoot != true (pod or containers \"a\", \"b\" must set \
         securityContext.runAsNonRoot=true), seccompProfile (pod or containers \"a\", \"b\" must set \
         securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")"
    );
    assert!(evaluate(standard("baseline"), &Pod::of(&plain)).is_empty());
}

#[test]
fn host_namespaces() {
    table(&[
        (
            "baseline",
            "/spec/hostNetwork",
            json!(true),
            "host namespaces (hostNetwork=true)",
        ),
        (
            "baseline",
            "/spec/hostPID",
            json!(true),
            "host namespaces (hostPID=true)",
        ),
        (
            "baseline",
            "/spec/hostIPC",
            json!(true),
            "host namespaces (hostIPC=true)",
        ),
        ("baseline", "/spec/hostPID", json!(false), ""),
    ]);
    check(
        "restricted",
        &[("/spec/hostNetwork", json!(true)), ("/spec/hostIPC", json!(true))],
        &["host namespaces (hostNetwork=true, hostIPC=true)"],
    );
}

#[test]
fn privileged_containers() {
    let told = "privileged (container \"c\" must not set securityContext.privileged=true)";
    table(&[
        ("baseline", "$C/privileged", json!(true), told),
        ("baseline", "$C/privileged", json!(false), ""),
        (
            "baseline",
            "/spec/initContainers",
            json!([{"name": "c", "securityContext": {"privileged": true}}]),
            told,
        ),
        (
            "baseline",
            "/spec/ephemeralContainers",
            json!([{"name": "c", "securityContext": {"privileged": true}}]),
            told,
        ),
        (
            "baseline",
            "$C/windowsOptions",
            json!({"hostProcess": true}),
            "hostProcess (container \"c\" must not set securityContext.windowsOptions.hostProcess=true)",
        ),
    ]);
}

#[test]
fn capabilities() {
    table(&[
        (
            "baseline",
            "$C/capabilities",
            json!({"add": ["SYS_ADMIN", "CHOWN", "NET_RAW"]}),
            "non-default capabilities (container \"c\" must not include \"NET_RAW\", \"SYS_ADMIN\" in securityContext.capabilities.add)",
        ),
        ("baseline", "$C/capabilities", json!({"add": ["CHOWN"]}), ""),
        (
            "restricted",
            "$C/capabilities",
            json!({"drop": ["ALL"], "add": ["NET_BIND_SERVICE"]}),
            "",
        ),
        (
            "restricted",
            "$C/capabilities",
            json!({"drop": ["KILL"], "add": ["CHOWN"]}),
            "unrestricted capabilities (container \"c\" must set securityContext.capabilities.drop=[\"ALL\"]; container \"c\" must not include \"CHOWN\" in securityContext.capabilities.add)",
        ),
        ("restricted:v1.21", "$C/capabilities", json!({}), ""),
    ]);
}

#[test]
fn host_paths_and_volume_types() {
    table(&[
        (
            "baseline",
            "/spec/volumes",
            json!([{"name": "v", "hostPath": {"path": "/"}}]),
            "hostPath volumes (volume \"v\")",
        ),
        (
            "restricted",
            "/spec/volumes",
            json!([{"name": "v", "hostPath": {"path": "/"}}, {"name": "w", "nfs": {}}]),
            "restricted volume types (volumes \"v\", \"w\" use restricted volume types \"hostPath\", \"nfs\")",
        ),
        ("baseline", "/spec/volumes", json!([{"name": "w", "nfs": {}}]), ""),
        (
            "restricted",
            "/spec/volumes",
            json!([{"name": "w"}]),
            "restricted volume types (volume \"w\" uses restricted volume type \"unknown\")",
        ),
        (
            "restricted",
            "/spec/volumes",
            json!([{"name": "a", "configMap": {}}, {"name": "b", "secret": {}}, {"name": "c", "projected": {}},
                {"name": "d", "persistentVolumeClaim": {}}, {"name": "e", "csi": {}}, {"name": "f", "ephemeral": {}},
                {"name": "g", "downwardAPI": {}}, {"name": "h", "image": {}}]),
            "",
        ),
    ]);
}

#[test]
fn host_ports() {
    table(&[
        (
            "baseline",
            "/spec/containers/0/ports",
            json!([{"hostPort": 80}, {"hostPort": 443}, {"containerPort": 1}]),
            "hostPort (container \"c\" uses hostPorts 443, 80)",
        ),
        (
            "baseline",
            "/spec/containers/0/ports",
            json!([{"hostPort": 0}]),
            "",
        ),
    ]);
}

#[test]
fn hosts_of_probes() {
    let told = "probe or lifecycle host (container \"c\" uses probe or lifecycle host \"10.0.0.1\")";
    table(&[
        (
            "baseline",
            "/spec/containers/0/livenessProbe",
            json!({"httpGet": {"host": "10.0.0.1"}}),
            told,
        ),
        (
            "baseline",
            "/spec/containers/0/lifecycle",
            json!({"preStop": {"tcpSocket": {"host": "10.0.0.1"}}}),
            told,
        ),
        (
            "baseline",
            "/spec/containers/0/startupProbe",
            json!({"httpGet": {"host": ""}}),
            "",
        ),
        (
            "baseline:v1.33",
            "/spec/containers/0/livenessProbe",
            json!({"httpGet": {"host": "10.0.0.1"}}),
            "",
        ),
    ]);
}

#[test]
fn app_armor() {
    let annotation = "/metadata/annotations/container.apparmor.security.beta.kubernetes.io~1c";
    table(&[
        (
            "baseline",
            "$C/appArmorProfile",
            json!({"type": "Unconfined"}),
            "forbidden AppArmor profile (container \"c\" must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            "baseline",
            "/spec/securityContext/appArmorProfile",
            json!({"type": "Unconfined"}),
            "forbidden AppArmor profile (pod must not set AppArmor profile type to \"Unconfined\")",
        ),
        (
            "baseline",
            "$C/appArmorProfile",
            json!({"type": "RuntimeDefault"}),
            "",
        ),
        ("baseline", annotation, json!("localhost/x"), ""),
        (
            "baseline",
            annotation,
            json!("unconfined"),
            "forbidden AppArmor profile (annotation must not set AppArmor profile type to \"container.apparmor.security.beta.kubernetes.io/c=\"unconfined\"\")",
        ),
    ]);
}

#[test]
fn se_linux() {
    table(&[
        (
            "baseline",
            "$C/seLinuxOptions",
            json!({"type": "spc_t", "user": "u", "role": "r"}),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"spc_t\"; user may not be set; role may not be set)",
        ),
        (
            "baseline",
            "/spec/securityContext/seLinuxOptions",
            json!({"type": "container_t", "level": "s0"}),
            "",
        ),
        (
            "baseline",
            "$C/seLinuxOptions",
            json!({"type": "container_engine_t"}),
            "",
        ),
        (
            "baseline:v1.30",
            "$C/seLinuxOptions",
            json!({"type": "container_engine_t"}),
            "seLinuxOptions (container \"c\" set forbidden securityContext.seLinuxOptions: type \"container_engine_t\")",
        ),
    ]);
}

#[test]
fn proc_mount() {
    let told = "procMount (container \"c\" must not set securityContext.procMount to \"Unmasked\")";
    table(&[
        ("baseline", "$C/procMount", json!("Unmasked"), told),
        ("restricted", "$C/procMount", json!("Unmasked"), told),
        ("baseline", "$C/procMount", json!("Default"), ""),
    ]);
    let unmasked = [
        ("/spec/hostUsers", json!(false)),
        ("/spec/containers/0/securityContext/procMount", json!("Unmasked")),
    ];
    check("baseline", &unmasked, &[]);
    check("baseline:v1.34", &unmasked, &[told]);
    check("restricted", &unmasked, &[told]);
}

#[test]
fn seccomp() {
    let container =
        "seccompProfile (container \"c\" must not set securityContext.seccompProfile.type to \"Unconfined\")";
    table(&[
        (
            "baseline",
            "$C/seccompProfile",
            json!({"type": "Unconfined"}),
            container,
        ),
        (
            "restricted",
            "$C/seccompProfile",
            json!({"type": "Unconfined"}),
            container,
        ),
        (
            "baseline",
            "/spec/securityContext/seccompProfile",
            json!({"type": "Unconfined"}),
            "seccompProfile (pod must not set securityContext.seccompProfile.type to \"Unconfined\")",
        ),
        (
            "restricted",
            "/spec/securityContext/seccompProfile",
            Value::Null,
            "seccompProfile (pod or container \"c\" must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\")",
        ),
        (
            "baseline",
            "/spec/securityContext/seccompProfile",
            Value::Null,
            "",
        ),
        (
            "baseline:v1.18",
            "/metadata/annotations/seccomp.security.alpha.kubernetes.io~1pod",
            json!("unconfined"),
            "seccompProfile (forbidden annotation seccomp.security.alpha.kubernetes.io/pod=\"unconfined\")",
        ),
    ]);
}

#[test]
fn sysctls() {
    let list = |name: &str| json!([{"name": name, "value": "1"}]);
    table(&[
        (
            "baseline",
            "/spec/securityContext/sysctls",
            list("kernel.msgmax"),
            "forbidden sysctls (kernel.msgmax)",
        ),
        (
            "baseline",
            "/spec/securityContext/sysctls",
            list("net.ipv4.tcp_rmem"),
            "",
        ),
        (
            "baseline:v1.31",
            "/spec/securityContext/sysctls",
            list("net.ipv4.tcp_rmem"),
            "forbidden sysctls (net.ipv4.tcp_rmem)",
        ),
    ]);
}

#[test]
fn privilege_escalation() {
    let told = "allowPrivilegeEscalation != false (container \"c\" must set securityContext.allowPrivilegeEscalation=false)";
    table(&[
        ("restricted", "$C/allowPrivilegeEscalation", json!(true), told),
        ("restricted", "$C/allowPrivilegeEscalation", Value::Null, told),
        ("baseline", "$C/allowPrivilegeEscalation", json!(true), ""),
        ("restricted:v1.7", "$C/allowPrivilegeEscalation", json!(true), ""),
    ]);
    check(
        "restricted",
        &[
            ("/spec/os", json!({"name": "windows"})),
            ("/spec/containers/0/securityContext", json!({})),
        ],
        &[],
    );
}

#[test]
fn root() {
    table(&[
        (
            "restricted",
            "/spec/securityContext/runAsNonRoot",
            Value::Null,
            "runAsNonRoot != true (pod or container \"c\" must set securityContext.runAsNonRoot=true)",
        ),
        (
            "restricted",
            "/spec/securityContext/runAsNonRoot",
            json!(false),
            "runAsNonRoot != true (pod must not set securityContext.runAsNonRoot=false)",
        ),
        (
            "restricted",
            "$C/runAsNonRoot",
            json!(false),
            "runAsNonRoot != true (container \"c\" must not set securityContext.runAsNonRoot=false)",
        ),
        (
            "restricted",
            "$C/runAsUser",
            json!(0),
            "runAsUser=0 (container \"c\" must not set runAsUser=0)",
        ),
        (
            "restricted",
            "/spec/securityContext/runAsUser",
            json!(0),
            "runAsUser=0 (pod must not set runAsUser=0)",
        ),
        ("restricted", "$C/runAsUser", json!(1000), ""),
        ("restricted:v1.22", "$C/runAsUser", json!(0), ""),
        ("baseline", "$C/runAsUser", json!(0), ""),
    ]);
    check(
        "restricted",
        &[
            ("/spec/hostUsers", json!(false)),
            ("/spec/securityContext/runAsUser", json!(0)),
            ("/spec/securityContext/runAsNonRoot", json!(false)),
        ],
        &[],
    );
}
