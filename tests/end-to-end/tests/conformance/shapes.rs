//! What we send to the operators of others is what their definitions allow, on a real kube-apiserver.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use http::Request;
use kube::client::Body;
use serde_json::{Value, json};

const NAMESPACE: &str = "shapes";
const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
/// Fields and kinds that K-ORC has since August 2026 and not in the newest version that its module proxy has.
const NEWER: [&str; 1] = ["RoleAssignment"];
/// Of each there has to be one, or this would prove nothing.
const KINDS: [&str; 14] = [
    "k8s.mariadb.com/MariaDB",
    "k8s.mariadb.com/Database",
    "k8s.mariadb.com/User",
    "k8s.mariadb.com/Grant",
    "rabbitmq.com/RabbitmqCluster",
    "rabbitmq.com/Vhost",
    "rabbitmq.com/User",
    "rabbitmq.com/Permission",
    "openstack.k-orc.cloud/Domain",
    "openstack.k-orc.cloud/Project",
    "openstack.k-orc.cloud/Role",
    "openstack.k-orc.cloud/Service",
    "openstack.k-orc.cloud/Endpoint",
    "openstack.k-orc.cloud/User",
];

async fn ask(client: &kube::Client, method: &str, path: &str, body: &Value) -> anyhow::Result<(u16, Value)> {
    let request = Request::builder()
        .method(method)
        .uri(path)
        .header("content-type", "application/json")
        .body(Body::from(body.to_string().into_bytes()))?;
    let answer = client.send(request).await?;
    let code = answer.status().as_u16();
    let bytes = answer.into_body().collect_bytes().await?;
    Ok((code, serde_json::from_slice(&bytes).unwrap_or(Value::Null)))
}

/// The objects of a snapshot in JSON.
fn rendered(file: &str) -> anyhow::Result<Vec<Value>> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../operators")
        .join(file);
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let body = text.splitn(3, "---\n").nth(2).context("a snapshot")?;
    Ok(serde_json::from_str(body)?)
}

/// The definitions in a directory, by group and kind.
fn definitions(directory: &Path) -> anyhow::Result<BTreeMap<String, Value>> {
    let mut found = BTreeMap::new();
    for entry in std::fs::read_dir(directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "yaml") {
            let crd: Value = serde_saphyr::from_str(&std::fs::read_to_string(&path)?)?;
            let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
            let key = format!(
                "{}/{}",
                text(&crd["spec"]["group"]),
                text(&crd["spec"]["names"]["kind"])
            );
            found.insert(key, crd);
        }
    }
    Ok(found)
}

/// Waits until a kind is there: a definition is taken a moment before.
async fn served(client: &kube::Client, list: &str) -> anyhow::Result<()> {
    for _ in 0..60 {
        if ask(client, "GET", list, &Value::Null).await?.0 == 200 {
            return Ok(());
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
    anyhow::bail!("{list} is not served")
}

pub(crate) async fn are_allowed(client: &kube::Client) -> anyhow::Result<()> {
    let directory = std::env::var_os("C5C3_FOREIGN_CRDS").context("scripts/fetch-foreign-crds makes one")?;
    let definitions = definitions(&PathBuf::from(directory))?;
    let mut objects =
        rendered("control-plane/src/plan/golden/snapshots/c5c3_control_plane__plan__golden__objects.snap")?;
    objects.extend(rendered(
        "services/src/tests/snapshots/c5c3_services__tests__rendered__foreign.snap",
    )?);
    ask(
        client,
        "POST",
        "/api/v1/namespaces",
        &json!({"metadata": {"name": NAMESPACE}}),
    )
    .await?;
    let (mut refused, mut seen) = (Vec::new(), BTreeSet::new());
    for mut object in objects {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let (version, kind) = (text(&object["apiVersion"]), text(&object["kind"]));
        let group = version.split('/').next().unwrap_or_default();
        let key = format!("{group}/{kind}");
        let of_others = KINDS.iter().any(|known| known.starts_with(&format!("{group}/")));
        let Some(crd) = definitions.get(&key) else {
            anyhow::ensure!(
                !of_others || NEWER.contains(&kind.as_str()),
                "{key} has no definition"
            );
            continue;
        };
        let plural = text(&crd["spec"]["names"]["plural"]);
        if seen.insert(key.clone()) {
            let (code, answer) = ask(client, "POST", DEFINITIONS, crd).await?;
            anyhow::ensure!([201, 409].contains(&code), "{key}: {answer}");
            let list = format!("/apis/{version}/{plural}?limit=1");
            served(client, &list).await?;
        }
        object["metadata"]["namespace"] = json!(NAMESPACE);
        let known = crd.to_string();
        if let Some(spec) = object["spec"].as_object_mut() {
            spec.retain(|field, _| {
                !NEWER.contains(&field.as_str()) || known.contains(&format!("\"{field}\""))
            });
        }
        let path =
            format!("/apis/{version}/namespaces/{NAMESPACE}/{plural}?dryRun=All&fieldValidation=Strict");
        let (code, answer) = ask(client, "POST", &path, &object).await?;
        if code != 201 {
            refused.push(format!(
                "{key} {}: {}",
                object["metadata"]["name"], answer["message"]
            ));
        }
    }
    let missing: Vec<&str> = KINDS.into_iter().filter(|kind| !seen.contains(*kind)).collect();
    anyhow::ensure!(missing.is_empty(), "nothing of {missing:?} is sent");
    anyhow::ensure!(refused.is_empty(), "{}", refused.join("\n"));
    Ok(())
}
