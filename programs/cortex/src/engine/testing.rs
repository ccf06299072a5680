//! Small worlds and questions for tests.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};

use super::{Context, Explanation, PipelineDraft, StepDraft, compile, run};
use crate::fleet::{Amount, Draft, Fleet, Host, HypervisorType, Server};
use crate::request::{Flavor, Request, Spec};

/// A host with 16 CPUs and 64 GiB, that may take servers.
pub(crate) fn host() -> Host {
    Host {
        hypervisor_type: HypervisorType::Kvm,
        arch: Some("x86_64".into()),
        capacity: Some(Amount::new(16, 65536)),
        ..Host::default()
    }
}

pub(crate) fn world(hosts: &[(&str, Host)]) -> Draft {
    Draft {
        hosts: hosts
            .iter()
            .map(|(name, host)| ((*name).to_owned(), host.clone()))
            .collect(),
        ..Draft::default()
    }
}

pub(crate) fn server(host: &str, project: &str, cpu: i64, memory: i64) -> Server {
    Server {
        host: host.to_owned(),
        project: project.to_owned(),
        size: Amount::new(cpu, memory),
        ..Server::default()
    }
}

/// A server with one CPU and 1 GiB.
pub(crate) fn spec() -> Spec {
    Spec {
        project: "p".into(),
        instance: "new".into(),
        num_instances: 1,
        flavor: Flavor {
            vcpus: 1,
            memory_mb: 1024,
            ..Flavor::default()
        },
        ..Spec::default()
    }
}

pub(crate) fn with_specs(pairs: &[(&str, &str)]) -> Spec {
    let mut spec = spec();
    let pairs = pairs
        .iter()
        .map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
    spec.flavor.extra_specs = pairs.collect();
    spec
}

/// A question about these hosts, with falling weights.
pub(crate) fn question<'a>(hosts: &[&'a str], spec: &Spec) -> Request<'a> {
    Request {
        hosts: hosts.iter().map(|host| (Cow::Borrowed(*host), 0.0)).collect(),
        spec: spec.clone(),
        ..Request::default()
    }
}

pub(crate) fn step(name: &str, params: serde_json::Value) -> StepDraft {
    StepDraft {
        params: serde_json::from_value::<BTreeMap<_, _>>(params).expect("an object"),
        ..StepDraft::named(name)
    }
}

pub(crate) fn only_filter(step: StepDraft) -> PipelineDraft {
    PipelineDraft {
        filters: vec![step],
        ..PipelineDraft::default()
    }
}

pub(crate) fn only_weigher(step: StepDraft) -> PipelineDraft {
    PipelineDraft {
        weighers: vec![step],
        ..PipelineDraft::default()
    }
}

/// The hosts that are left, best first, and the explanation.
pub(crate) fn decide(
    pipeline: &PipelineDraft,
    draft: Draft,
    request: &Request<'_>,
) -> (Vec<String>, Explanation) {
    let compiled = compile(pipeline);
    assert!(
        compiled.is_usable() && compiled.broken_weighers.is_empty(),
        "{compiled:?}"
    );
    let fleet = Fleet::pack(draft);
    let context = Context {
        fleet: &fleet,
        request,
    };
    let outcome = run(&compiled.pipeline, context);
    let hosts = outcome.hosts().map(str::to_owned).collect();
    (hosts, Explanation::of(&outcome))
}

/// Runs one filter over all hosts of a world.
pub(crate) fn filtered(name: &str, params: Value, draft: &Draft, spec: &Spec) -> (Vec<String>, String) {
    let hosts: Vec<&str> = draft.hosts.keys().map(String::as_str).collect();
    let pipeline = only_filter(step(name, params));
    let (left, explanation) = decide(&pipeline, draft.clone(), &question(&hosts, spec));
    let reasons: Vec<String> = explanation.dropped.iter().map(|one| one.reason.clone()).collect();
    (left, reasons.join("; "))
}

pub(crate) fn left(name: &str, draft: &Draft, spec: &Spec) -> Vec<String> {
    filtered(name, json!({}), draft, spec).0
}

pub(crate) fn set(names: &[&str]) -> BTreeSet<String> {
    names.iter().map(|name| (*name).to_owned()).collect()
}
