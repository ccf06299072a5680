//! The administrator's kubeconfig: a context for each logical cluster.

use std::{net::SocketAddr, path::Path};

use base64::{Engine, engine::general_purpose::STANDARD};
use serde_json::{Value, json};

use super::{
    Authority,
    files::{self, KeyError},
};

/// Writes the kubeconfig with mode 0600. The context that a person chose stays chosen, and a file that
/// is right already is not touched.
pub fn write(
    path: &Path,
    authority: &Authority,
    address: SocketAddr,
    clusters: &[String],
) -> Result<(), KeyError> {
    let old: Option<Value> = files::read(path)?.and_then(|text| serde_saphyr::from_str(&text).ok());
    let chosen = old
        .as_ref()
        .and_then(|config| config["current-context"].as_str())
        .filter(|chosen| clusters.iter().any(|cluster| cluster == chosen))
        .or(clusters.first().map(String::as_str))
        .unwrap_or_default();
    let mut config = kubeconfig(authority, address, clusters, chosen);
    if let Some(old) = &old {
        keep_namespaces(&mut config, old);
        if *old == config {
            return Ok(());
        }
    }
    let text = serde_saphyr::to_string(&config).map_err(|error| KeyError::Refused(error.to_string()))?;
    files::write(path, &text)
}

fn kubeconfig(authority: &Authority, address: SocketAddr, clusters: &[String], chosen: &str) -> Value {
    let user = "admin";
    let entry = |name: &String| {
        json!({"name": name, "cluster": {
            "server": format!("https://{address}/clusters/{name}"),
            "certificate-authority-data": STANDARD.encode(authority.certificate()),
        }})
    };
    let context = |name: &String| json!({"name": name, "context": {"cluster": name, "user": user}});
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters.iter().map(entry).collect::<Vec<_>>(),
        "contexts": clusters.iter().map(context).collect::<Vec<_>>(),
        "current-context": chosen,
        "users": [{"name": user, "user": {
            "client-certificate-data": STANDARD.encode(&authority.admin().certificate),
            "client-key-data": STANDARD.encode(&authority.admin().key),
        }}],
    })
}

/// `kubectl config set-context --namespace` writes into the contexts.
fn keep_namespaces(config: &mut Value, old: &Value) {
    let Some(contexts) = config["contexts"].as_array_mut() else {
        return;
    };
    for context in contexts {
        let mut before = old["contexts"].as_array().into_iter().flatten();
        let same = before.find(|before| before["name"] == context["name"]);
        if let Some(namespace) = same.and_then(|before| before["context"].get("namespace")) {
            context["context"]["namespace"] = namespace.clone();
        }
    }
}
