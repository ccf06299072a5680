//! The baseline: no known way to more privileges.

use serde_json::Value;

use super::{
    Check,
    pod::{Pod, Values, Violation, name, plural, quoted, texts, these_containers},
};

const fn check(id: &'static str, since: u32, check: fn(&Pod<'_>, u32) -> Option<Violation>) -> Check {
    Check {
        id,
        since,
        replaces: None,
        check,
    }
}

/// In the order in which violations are told.
pub(super) const CHECKS: [Check; 12] = [
    check("appArmorProfile", 0, app_armor),
    check("capabilities_baseline", 0, capabilities),
    check("hostNamespaces", 0, host_namespaces),
    check("hostPathVolumes", 0, host_paths),
    check("hostPorts", 0, host_ports),
    check("hostProbesAndHostLifecycle", 34, probe_hosts),
    check("privileged", 0, privileged),
    check("procMount", 0, proc_mount),
    check("seLinuxOptions", 0, se_linux),
    check("seccompProfile_baseline", 0, seccomp),
    check("sysctls", 0, sysctls),
    check("windowsHostProcess", 0, host_process),
];

const APP_ARMOR: &str = "container.apparmor.security.beta.kubernetes.io/";
const SECCOMP_POD: &str = "seccomp.security.alpha.kubernetes.io/pod";
const SECCOMP_CONTAINER: &str = "container.seccomp.security.alpha.kubernetes.io/";

const CAPABILITIES: [&str; 13] = [
    "AUDIT_WRITE",
    "CHOWN",
    "DAC_OVERRIDE",
    "FOWNER",
    "FSETID",
    "KILL",
    "MKNOD",
    "NET_BIND_SERVICE",
    "SETFCAP",
    "SETGID",
    "SETPCAP",
    "SETUID",
    "SYS_CHROOT",
];

/// Sysctls that reach no further than the pod, and since when they are known to.
const SYSCTLS: [(&str, u32); 14] = [
    ("kernel.shm_rmid_forced", 0),
    ("net.ipv4.ip_local_port_range", 0),
    ("net.ipv4.tcp_syncookies", 0),
    ("net.ipv4.ping_group_range", 0),
    ("net.ipv4.ip_unprivileged_port_start", 0),
    ("net.ipv4.ip_local_reserved_ports", 27),
    ("net.ipv4.tcp_keepalive_time", 29),
    ("net.ipv4.tcp_fin_timeout", 29),
    ("net.ipv4.tcp_keepalive_intvl", 29),
    ("net.ipv4.tcp_keepalive_probes", 29),
    ("net.ipv4.tcp_rmem", 32),
    ("net.ipv4.tcp_wmem", 32),
    ("net.ipv4.tcp_slow_start_after_idle", 37),
    ("net.ipv4.tcp_notsent_lowat", 37),
];

const SE_LINUX_TYPES: [(&str, u32); 5] = [
    ("", 0),
    ("container_t", 0),
    ("container_init_t", 0),
    ("container_kvm_t", 0),
    ("container_engine_t", 31),
];

fn known(table: &[(&str, u32)], text: &str, minor: u32) -> bool {
    table.iter().any(|(name, since)| *name == text && *since <= minor)
}

fn text(value: &Value) -> &str {
    value.as_str().unwrap_or_default()
}

fn annotations<'a>(pod: &Pod<'a>) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
    let map = pod.metadata["annotations"].as_object().into_iter().flatten();
    map.map(|(key, value)| (key.as_str(), text(value)))
}

/// A profile that confines, or none said.
fn confines(profile: &Value) -> bool {
    profile.is_null() || matches!(text(&profile["type"]), "RuntimeDefault" | "Localhost")
}

fn app_armor(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut values = Values::new();
    let mut setters: Vec<String> = Vec::new();
    setters.extend(pod.setters(|context| {
        let profile = &context["appArmorProfile"];
        let bad = !confines(profile);
        if bad {
            values.insert(text(&profile["type"]));
        }
        bad
    }));
    let mut annotated: Vec<String> = annotations(pod)
        .filter(|(key, value)| {
            let fine = value.is_empty() || *value == "runtime/default" || value.starts_with("localhost/");
            key.starts_with(APP_ARMOR) && !fine
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    annotated.sort();
    if !annotated.is_empty() {
        setters.push(plural("annotation", "annotations", annotated.len()).to_owned());
    }
    if setters.is_empty() {
        return None;
    }
    let all: Vec<&str> = values
        .into_iter()
        .chain(annotated.iter().map(String::as_str))
        .collect();
    Violation::new(
        plural(
            "forbidden AppArmor profile",
            "forbidden AppArmor profiles",
            all.len(),
        ),
        format!(
            "{} must not set AppArmor profile type to {}",
            setters.join(" and "),
            quoted(all)
        ),
    )
}

fn capabilities(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut added = Values::new();
    let bad = pod.containers_where(|container| {
        let add = &container["securityContext"]["capabilities"]["add"];
        let other: Vec<&str> = texts(add).filter(|name| !CAPABILITIES.contains(name)).collect();
        added.extend(&other);
        !other.is_empty()
    });
    if bad.is_empty() {
        return None;
    }
    Violation::new(
        "non-default capabilities",
        format!(
            "{} must not include {} in securityContext.capabilities.add",
            these_containers(&bad),
            quoted(added)
        ),
    )
}

fn host_namespaces(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let shared: Vec<String> = ["hostNetwork", "hostPID", "hostIPC"]
        .iter()
        .filter(|field| pod.spec[**field] == true)
        .map(|field| format!("{field}=true"))
        .collect();
    if shared.is_empty() {
        return None;
    }
    Violation::new("host namespaces", shared.join(", "))
}

fn host_paths(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let bad: Vec<&str> = pod
        .volumes()
        .filter(|volume| !volume["hostPath"].is_null())
        .map(name)
        .collect();
    if bad.is_empty() {
        return None;
    }
    let word = plural("volume", "volumes", bad.len());
    Violation::new("hostPath volumes", format!("{word} {}", quoted(bad)))
}

fn host_ports(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut ports = std::collections::BTreeSet::new();
    let bad = pod.containers_where(|container| {
        let taken: Vec<String> = container["ports"]
            .as_array()
            .into_iter()
            .flatten()
            .filter_map(|port| port["hostPort"].as_i64())
            .filter(|port| *port != 0)
            .map(|port| port.to_string())
            .collect();
        let any = !taken.is_empty();
        ports.extend(taken);
        any
    });
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {}",
        these_containers(&bad),
        plural("uses", "use", bad.len()),
        plural("hostPort", "hostPorts", ports.len()),
        ports.into_iter().collect::<Vec<_>>().join(", ")
    );
    Violation::new("hostPort", detail)
}

/// The node sends probes and hooks: with another host they reach what the pod cannot.
fn probe_hosts(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut hosts = Values::new();
    let mut bad = Values::new();
    for container in pod.containers() {
        let lifecycle = &container["lifecycle"];
        let handlers = [
            &container["livenessProbe"],
            &container["readinessProbe"],
            &container["startupProbe"],
            &lifecycle["postStart"],
            &lifecycle["preStop"],
        ];
        for host in handlers
            .iter()
            .flat_map(|handler| ["httpGet", "tcpSocket"].map(|way| text(&handler[way]["host"])))
            .filter(|host| !host.is_empty())
        {
            hosts.insert(host);
            bad.insert(name(container));
        }
    }
    if bad.is_empty() {
        return None;
    }
    let bad: Vec<&str> = bad.into_iter().collect();
    let detail = format!(
        "{} {} {} {}",
        these_containers(&bad),
        plural("uses", "use", bad.len()),
        plural("probe or lifecycle host", "probe or lifecycle hosts", hosts.len()),
        quoted(hosts)
    );
    Violation::new("probe or lifecycle host", detail)
}

fn privileged(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let bad = pod.containers_where(|container| container["securityContext"]["privileged"] == true);
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} must not set securityContext.privileged=true",
        these_containers(&bad)
    );
    Violation::new("privileged", detail)
}

fn proc_mount(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    unmasked_proc(pod, minor)
}

pub(super) fn unmasked_proc(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut kinds = Values::new();
    let bad = pod.containers_where(|container| {
        let mount = container["securityContext"]["procMount"].as_str();
        let bad = mount.filter(|mount| *mount != "Default");
        kinds.extend(bad);
        bad.is_some()
    });
    if bad.is_empty() {
        return None;
    }
    Violation::new(
        "procMount",
        format!(
            "{} must not set securityContext.procMount to {}",
            these_containers(&bad),
            quoted(kinds)
        ),
    )
}

fn se_linux(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    let mut kinds = Values::new();
    let (mut user, mut role) = (false, false);
    let setters = pod.setters(|context| {
        let options = &context["seLinuxOptions"];
        let kind = text(&options["type"]);
        let bad_kind = !known(&SE_LINUX_TYPES, kind, minor);
        if bad_kind {
            kinds.insert(kind);
        }
        let (sets_user, sets_role) = (
            !text(&options["user"]).is_empty(),
            !text(&options["role"]).is_empty(),
        );
        user |= sets_user;
        role |= sets_role;
        bad_kind || sets_user || sets_role
    })?;
    let mut faults = Vec::new();
    if !kinds.is_empty() {
        faults.push(format!(
            "{} {}",
            plural("type", "types", kinds.len()),
            quoted(kinds)
        ));
    }
    if user {
        faults.push("user may not be set".to_owned());
    }
    if role {
        faults.push("role may not be set".to_owned());
    }
    Violation::new(
        "seLinuxOptions",
        format!(
            "{setters} set forbidden securityContext.seLinuxOptions: {}",
            faults.join("; ")
        ),
    )
}

fn seccomp(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor < 19 {
        return seccomp_annotations(pod);
    }
    unconfined_seccomp(pod)
}

/// Who asks for a seccomp profile that confines nothing.
pub(super) fn unconfined_seccomp(pod: &Pod<'_>) -> Option<Violation> {
    let mut kinds = Values::new();
    let setters = pod.setters(|context| {
        let profile = &context["seccompProfile"];
        let bad = !confines(profile);
        if bad {
            kinds.insert(text(&profile["type"]));
        }
        bad
    })?;
    Violation::new(
        "seccompProfile",
        format!(
            "{setters} must not set securityContext.seccompProfile.type to {}",
            quoted(kinds)
        ),
    )
}

fn seccomp_annotations(pod: &Pod<'_>) -> Option<Violation> {
    let names: Vec<&str> = pod.containers().map(name).collect();
    let mut bad: Vec<String> = annotations(pod)
        .filter(|(key, value)| {
            let of_container = key
                .strip_prefix(SECCOMP_CONTAINER)
                .is_some_and(|c| names.contains(&c));
            let fine =
                matches!(*value, "runtime/default" | "docker/default") || value.starts_with("localhost/");
            (*key == SECCOMP_POD || of_container) && !fine
        })
        .map(|(key, value)| format!("{key}={value:?}"))
        .collect();
    if bad.is_empty() {
        return None;
    }
    bad.sort();
    let word = plural("annotation", "annotations", bad.len());
    Violation::new("seccompProfile", format!("forbidden {word} {}", bad.join(", ")))
}

fn sysctls(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    let bad: Vec<&str> = pod.context()["sysctls"]
        .as_array()
        .into_iter()
        .flatten()
        .map(name)
        .filter(|name| !known(&SYSCTLS, name, minor))
        .collect();
    if bad.is_empty() {
        return None;
    }
    Violation::new("forbidden sysctls", bad.join(", "))
}

fn host_process(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let setters = pod.setters(|context| context["windowsOptions"]["hostProcess"] == true)?;
    Violation::new(
        "hostProcess",
        format!("{setters} must not set securityContext.windowsOptions.hostProcess=true"),
    )
}
