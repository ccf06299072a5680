//! Webhooks as their configurations say them. Pure.

use std::{sync::Arc, time::Duration};

use apimachinery::{cel::Condition, selector::LabelSelectorSpec};
use base64::{Engine, engine::general_purpose::STANDARD};
use rustls::{
    ClientConfig, RootCertStore,
    pki_types::{CertificateDer, ServerName, pem::PemObject},
};
use serde::Deserialize;
use serde_json::Value;

use super::matching::{Reach, Rule, selector};

/// Variables of match conditions.
pub(super) const VARIABLES: [&str; 3] = ["object", "oldObject", "request"];

/// One webhook, ready for use.
#[derive(Debug)]
pub(super) struct Hook {
    pub name: String,
    pub reach: Reach,
    pub conditions: Vec<(String, Condition)>,
    /// Without an answer the request fails.
    pub fail: bool,
    /// It does nothing beside answering, at least for requests that change nothing.
    pub dry_run: bool,
    /// Asked again when others have changed the object after it.
    pub reinvoke: bool,
    pub timeout: Duration,
    pub place: WebhookAddress,
}

/// Where a webhook is, and whom its certificate must name.
#[derive(Clone)]
pub(super) struct WebhookAddress {
    pub host: String,
    pub port: u16,
    pub path: String,
    pub server: ServerName<'static>,
    pub tls: Arc<ClientConfig>,
}

impl std::fmt::Debug for WebhookAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "https://{}:{}{}", self.host, self.port, self.path)
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Wire {
    name: String,
    client_config: ClientConfigWire,
    #[serde(default)]
    rules: Vec<Rule>,
    failure_policy: Option<String>,
    match_policy: Option<String>,
    namespace_selector: Option<LabelSelectorSpec>,
    object_selector: Option<LabelSelectorSpec>,
    side_effects: Option<String>,
    timeout_seconds: Option<u64>,
    reinvocation_policy: Option<String>,
    #[serde(default)]
    match_conditions: Vec<ConditionWire>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ClientConfigWire {
    url: Option<String>,
    service: Option<ServiceWire>,
    ca_bundle: Option<String>,
}

#[derive(Deserialize)]
struct ServiceWire {
    namespace: String,
    name: String,
    path: Option<String>,
    port: Option<u16>,
}

#[derive(Deserialize)]
pub(super) struct ConditionWire {
    name: String,
    expression: String,
}

pub(super) fn compiled(
    conditions: Vec<ConditionWire>,
    variables: &[&str],
) -> Result<Vec<(String, Condition)>, String> {
    let compile = |condition: ConditionWire| {
        let compiled = Condition::compile(&condition.expression, variables)?;
        Ok((condition.name, compiled))
    };
    conditions.into_iter().map(compile).collect()
}

/// The webhook of an entry of a configuration.
pub(super) fn read(entry: &Value) -> Result<Hook, String> {
    let wire = Wire::deserialize(entry).map_err(|error| error.to_string())?;
    Ok(Hook {
        place: place(&wire.client_config)?,
        name: wire.name,
        reach: Reach {
            rules: wire.rules,
            but: Vec::new(),
            namespaces: selector(wire.namespace_selector)?,
            objects: selector(wire.object_selector)?,
            exact: wire.match_policy.as_deref() == Some("Exact"),
        },
        conditions: compiled(wire.match_conditions, &VARIABLES)?,
        fail: wire.failure_policy.as_deref() != Some("Ignore"),
        dry_run: matches!(wire.side_effects.as_deref(), Some("None" | "NoneOnDryRun")),
        reinvoke: wire.reinvocation_policy.as_deref() == Some("IfNeeded"),
        timeout: Duration::from_secs(wire.timeout_seconds.unwrap_or(10).clamp(1, 30)),
    })
}

fn place(config: &ClientConfigWire) -> Result<WebhookAddress, String> {
    let (host, port, path) = match (&config.service, &config.url) {
        (Some(service), None) => (
            format!("{}.{}.svc", service.name, service.namespace),
            service.port.unwrap_or(443),
            service.path.clone().unwrap_or_default(),
        ),
        (None, Some(url)) => {
            let uri: http::Uri = url.parse().map_err(|error| format!("url {url:?}: {error}"))?;
            if uri.scheme_str() != Some("https") {
                return Err(format!("url {url:?}: 'https' is the only allowed URL scheme"));
            }
            let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
            (host, uri.port_u16().unwrap_or(443), uri.path().to_owned())
        }
        _ => return Err("exactly one of url or service is required".to_owned()),
    };
    let path = if path.starts_with('/') {
        path
    } else {
        format!("/{path}")
    };
    let server = ServerName::try_from(host.clone()).map_err(|error| format!("{host:?}: {error}"))?;
    Ok(WebhookAddress {
        tls: trust(config.ca_bundle.as_deref().unwrap_or_default())?,
        host,
        port,
        path,
        server,
    })
}

/// Only the certificates of the configuration are trusted; without any, nobody is.
fn trust(bundle: &str) -> Result<Arc<ClientConfig>, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("caBundle: {error}");
    let pem = STANDARD.decode(bundle).map_err(|error| wrong(&error))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&pem) {
        let certificate = certificate.map_err(|error| wrong(&error))?;
        roots.add(certificate).map_err(|error| wrong(&error))?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| wrong(&error))?
        .with_root_certificates(roots)
        .with_no_client_auth();
    Ok(Arc::new(config))
}
