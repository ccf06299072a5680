//! Cortex: where servers and volumes go. It is this program in another role, and keeps what it knows in memory.

use c5c3_api::common::{LogFormat, LogLevel, ServiceCommon};
use c5c3_api::conditions::DEPLOYMENT_READY;
use c5c3_api::cortex::{
    Cortex, Pipeline, PipelineSpec, PipelineToggle, PipelineType, SchedulingDomain, Step as PipelineStep,
    Weigher,
};
use c5c3_api::openstack::port;
use c5c3_kit::Part;
use kube::ResourceExt;
use serde_json::json;

use crate::error::Error;
use crate::shape::{Login, Port, Process, Runs, Service, Settings, Subject};

/// The account with which it reads and writes its kinds. It is made where rights are given (the chart, `c5c3 up`):
/// an operator that could bind it could give rights away.
pub(crate) const ACCOUNT: &str = "c5c3-cortex";
/// The pipelines that Nova's and Cinder's questions lead to.
const NOVA: [&str; 2] = ["kvm-general-purpose-load-balancing", "kvm-hana-bin-packing"];
const CINDER: [&str; 1] = ["cinder"];
const PIPELINES: &str = "pipelines.yaml";

impl Subject for Cortex {
    const SERVICE: &'static str = "cortex";
    const PARTS: &'static [Part] = &[Part::required(DEPLOYMENT_READY)];

    fn check(&self) -> Result<(), Error> {
        let spec = &self.spec;
        let common = &spec.common;
        let sources = &spec.datasources;
        let asked = |toggle: &Option<_>| {
            let toggle: Option<&c5c3_api::cortex::DatasourceToggle> = toggle.as_ref();
            toggle.is_some_and(|toggle| toggle.enabled || toggle.endpoint.is_some())
        };
        let logs_json = common.logging.as_ref().map(|logging| logging.format) == Some(LogFormat::Json);
        let table = [
            (
                spec.database.is_some(),
                "database",
                "a database",
                "leave it out: Cortex keeps what it knows in memory",
            ),
            (
                asked(&sources.nova),
                "datasources.nova",
                "a source",
                "leave it out: Nova is read in any case",
            ),
            (
                asked(&sources.prometheus),
                "datasources.prometheus",
                "a source",
                "leave it out, and make a Datasource object",
            ),
            (
                !common.extra_config.is_empty(),
                "extraConfig",
                "an option",
                "leave it out: Cortex has no file of options",
            ),
            (
                common.policy_overrides.is_some(),
                "policyOverrides",
                "a rule",
                "leave it out: a NetworkPolicy decides who may ask",
            ),
            (
                common.public_endpoint.is_some(),
                "publicEndpoint",
                "an address",
                "leave it out: Cortex has no login",
            ),
            (logs_json, "logging.format", "json", "use text"),
        ];
        let refused = table.into_iter().find(|(refused, ..)| *refused);
        refused.map_or(Ok(()), |(_, field, value, way_out)| {
            Err(Error::NotSupported {
                field,
                value,
                way_out,
            })
        })
    }

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let mut settings = Settings::default();
        settings.logins.push(Login {
            group: "keystone",
            secret: spec.keystone.app_credential_ref.secret_name.clone(),
        });
        let mut command: Vec<String> = ["c5c3", "cortex", "serve", "--kubernetes"]
            .map(str::to_owned)
            .into();
        let mut say = |flag: &str, value: &str| command.push(format!("--{flag}={value}"));
        say("listen", &format!("[::]:{}", port::CORTEX));
        say("auth-url", &spec.keystone.auth_url);
        say("log", level(&spec.common));
        if let Some(namespace) = &self.metadata.namespace {
            say("namespace", namespace);
        }
        if spec.keystone.ca_secret_ref.is_some() {
            say("ca", &format!("/etc/cortex/{}", super::CA_FILE));
        }
        let pipelines = pipelines(self);
        if let Some(text) = &pipelines {
            let text = serde_json::to_string_pretty(text).unwrap_or_default();
            settings.files.push((PIPELINES.to_owned(), text));
            say("pipelines", &format!("/etc/cortex/{PIPELINES}"));
        }
        let runs = Runs::Program {
            command,
            port: Some(Port {
                number: port::CORTEX,
                path: Some("/healthz"),
            }),
        };
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            settings: vec![settings],
            keystone: Some(spec.keystone.clone()),
            tells: pipelines.map(|all| json!({"activePipelines": names(&all)})),
            processes: vec![Process {
                grace: 30,
                account: Some(ACCOUNT),
                ..Process::new("api", runs, DEPLOYMENT_READY).replicas(spec.replicas)
            }],
            ..Service::new(self, spec.common.clone())
        }
    }
}

fn level(common: &ServiceCommon) -> &'static str {
    let level = common.logging.as_ref().map(|logging| logging.level);
    match level.unwrap_or_default() {
        LogLevel::Debug => "debug",
        LogLevel::Info => "info",
        LogLevel::Warning => "warn",
        LogLevel::Error => "error",
    }
}

/// The Pipelines that the spec speaks of. One without steps has the usual ones; without any of them, Cortex
/// serves all that it knows.
fn pipelines(cortex: &Cortex) -> Option<Vec<Pipeline>> {
    let spec = &cortex.spec.pipelines;
    let domains = [
        (SchedulingDomain::Nova, &NOVA[..], &spec.nova),
        (SchedulingDomain::Cinder, &CINDER[..], &spec.cinder),
    ];
    if domains.iter().all(|(_, _, toggle)| toggle.is_none()) {
        return None;
    }
    let enabled = domains.into_iter().filter_map(|(domain, names, toggle)| {
        Some((domain, names, toggle.as_ref().filter(|one| one.enabled)?))
    });
    Some(
        enabled
            .flat_map(|(domain, names, toggle)| names.iter().map(move |name| pipeline(domain, name, toggle)))
            .collect(),
    )
}

fn pipeline(domain: SchedulingDomain, name: &str, toggle: &PipelineToggle) -> Pipeline {
    let filters = toggle.filters.iter().map(|one| PipelineStep {
        name: one.name.clone(),
        ..PipelineStep::default()
    });
    let weighers = toggle.weighers.iter().map(|one| Weigher {
        name: one.name.clone(),
        multiplier: Some(one.weight),
        ..Weigher::default()
    });
    let spec = PipelineSpec {
        scheduling_domain: domain,
        type_: PipelineType::FilterWeigher,
        ignore_preselection: false,
        create_decisions: true,
        filters: filters.collect(),
        weighers: weighers.collect(),
        detectors: Vec::new(),
    };
    Pipeline::new(name, spec)
}

fn names(pipelines: &[Pipeline]) -> Vec<String> {
    let mut names: Vec<String> = pipelines.iter().map(ResourceExt::name_any).collect();
    names.sort_unstable();
    names
}
