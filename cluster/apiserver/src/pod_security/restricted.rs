//! The restricted standard: what is known of hardening pods, on top of the baseline.

use super::{
    Check,
    baseline::{unconfined_seccomp, unmasked_proc},
    pod::{Pod, Values, Violation, name, plural, quoted, texts, these_containers},
};

/// In the order in which violations are told.
pub(super) const CHECKS: [Check; 7] = [
    Check {
        id: "allowPrivilegeEscalation",
        since: 8,
        replaces: None,
        check: privilege_escalation,
    },
    Check {
        id: "capabilities_restricted",
        since: 22,
        replaces: Some("capabilities_baseline"),
        check: capabilities,
    },
    Check {
        id: "procMount_restricted",
        since: 35,
        replaces: Some("procMount"),
        check: unmasked_proc,
    },
    Check {
        id: "restrictedVolumes",
        since: 0,
        replaces: Some("hostPathVolumes"),
        check: volumes,
    },
    Check {
        id: "runAsNonRoot",
        since: 0,
        replaces: None,
        check: run_as_non_root,
    },
    Check {
        id: "runAsUser",
        since: 23,
        replaces: None,
        check: run_as_user,
    },
    Check {
        id: "seccompProfile_restricted",
        since: 19,
        replaces: Some("seccompProfile_baseline"),
        check: seccomp,
    },
];

const VOLUMES: [&str; 9] = [
    "configMap",
    "csi",
    "downwardAPI",
    "emptyDir",
    "ephemeral",
    "image",
    "persistentVolumeClaim",
    "projected",
    "secret",
];

/// Windows knows neither privilege escalation, capabilities nor seccomp.
fn exempt(pod: &Pod<'_>, minor: u32) -> bool {
    minor >= 25 && pod.is_windows()
}

fn privilege_escalation(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if exempt(pod, minor) {
        return None;
    }
    let bad =
        pod.containers_where(|container| container["securityContext"]["allowPrivilegeEscalation"] != false);
    if bad.is_empty() {
        return None;
    }
    Violation::new(
        "allowPrivilegeEscalation != false",
        format!(
            "{} must set securityContext.allowPrivilegeEscalation=false",
            these_containers(&bad)
        ),
    )
}

fn capabilities(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if exempt(pod, minor) {
        return None;
    }
    let keeping = pod.containers_where(|container| {
        !texts(&container["securityContext"]["capabilities"]["drop"]).any(|name| name == "ALL")
    });
    let mut added = Values::new();
    let adding = pod.containers_where(|container| {
        let add = &container["securityContext"]["capabilities"]["add"];
        let other: Vec<&str> = texts(add).filter(|name| *name != "NET_BIND_SERVICE").collect();
        added.extend(&other);
        !other.is_empty()
    });
    let mut details = Vec::new();
    if !keeping.is_empty() {
        let who = these_containers(&keeping);
        details.push(format!(
            "{who} must set securityContext.capabilities.drop=[\"ALL\"]"
        ));
    }
    if !adding.is_empty() {
        let who = these_containers(&adding);
        let what = quoted(added);
        details.push(format!(
            "{who} must not include {what} in securityContext.capabilities.add"
        ));
    }
    if details.is_empty() {
        return None;
    }
    Violation::new("unrestricted capabilities", details.join("; "))
}

fn volumes(pod: &Pod<'_>, _: u32) -> Option<Violation> {
    let mut kinds = Values::new();
    let mut bad = Vec::new();
    for volume in pod.volumes() {
        let sources = volume.as_object().into_iter().flatten();
        let mut sources = sources
            .map(|(source, _)| source.as_str())
            .filter(|key| *key != "name");
        if sources.clone().any(|source| VOLUMES.contains(&source)) {
            continue;
        }
        kinds.insert(sources.next().unwrap_or("unknown"));
        bad.push(name(volume));
    }
    if bad.is_empty() {
        return None;
    }
    let detail = format!(
        "{} {} {} {} {}",
        plural("volume", "volumes", bad.len()),
        quoted(bad.iter().copied()),
        plural("uses", "use", bad.len()),
        plural("restricted volume type", "restricted volume types", kinds.len()),
        quoted(kinds)
    );
    Violation::new("restricted volume types", detail)
}

fn run_as_non_root(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    const REASON: &str = "runAsNonRoot != true";
    if minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    if let Some(setters) = pod.setters(|context| context["runAsNonRoot"] == false) {
        let detail = format!("{setters} must not set securityContext.runAsNonRoot=false");
        return Violation::new(REASON, detail);
    }
    if pod.context()["runAsNonRoot"] == true {
        return None;
    }
    let silent = pod.containers_where(|container| container["securityContext"]["runAsNonRoot"].is_null());
    if silent.is_empty() {
        return None;
    }
    let who = these_containers(&silent);
    Violation::new(
        REASON,
        format!("pod or {who} must set securityContext.runAsNonRoot=true"),
    )
}

fn run_as_user(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if minor >= 35 && pod.has_user_namespace() {
        return None;
    }
    let setters = pod.setters(|context| context["runAsUser"] == 0)?;
    Violation::new("runAsUser=0", format!("{setters} must not set runAsUser=0"))
}

fn seccomp(pod: &Pod<'_>, minor: u32) -> Option<Violation> {
    if exempt(pod, minor) {
        return None;
    }
    if let Some(violation) = unconfined_seccomp(pod) {
        return Some(violation);
    }
    if !pod.context()["seccompProfile"].is_null() {
        return None;
    }
    let silent = pod.containers_where(|container| container["securityContext"]["seccompProfile"].is_null());
    if silent.is_empty() {
        return None;
    }
    Violation::new(
        "seccompProfile",
        format!(
            "pod or {} must set securityContext.seccompProfile.type to \"RuntimeDefault\" or \"Localhost\"",
            these_containers(&silent)
        ),
    )
}
