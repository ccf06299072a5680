//! Transcripts: requests from a script, answers recorded from a real kube-apiserver.
//!
//! A script is a YAML list of [`Step`]s. What a server answers is stripped of what no two servers
//! share (uids, revisions, times) and compared with the record beside the script. The embedded
//! server is held to the record on every test run; `make conformance` holds the record itself to a
//! real server, and `RECORD=1 make conformance` writes it again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use http::Request;
use kube::client::Body;
use serde::{Deserialize, Serialize};
use serde_json::Value;

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Step {
    /// What the step shows.
    pub name: String,
    pub method: String,
    pub path: String,
    /// The user to act as; the administrator if none is named.
    #[serde(default, rename = "as")]
    pub user: Option<String>,
    #[serde(default)]
    pub content_type: Option<String>,
    #[serde(default)]
    pub accept: Option<String>,
    #[serde(default)]
    pub body: Option<Value>,
    /// Values of the answer for later steps, by JSON pointer; used as `${name}`.
    #[serde(default)]
    pub save: BTreeMap<String, String>,
    /// Ask again until the value at the pointer is this.
    #[serde(default)]
    pub until: Option<Until>,
    /// The only parts of the answer that are compared; the whole if none is named.
    #[serde(default)]
    pub compare: Vec<String>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Until {
    pub pointer: String,
    pub equals: Value,
}

#[derive(Debug, Serialize, Deserialize, PartialEq)]
pub struct Answer {
    pub name: String,
    pub code: u16,
    pub body: Value,
}

pub struct Transcript {
    pub name: String,
    steps: Vec<Step>,
    record: PathBuf,
}

/// All scripts of the directory, by name.
pub fn load_all() -> anyhow::Result<Vec<Transcript>> {
    let directory = Path::new(env!("CARGO_MANIFEST_DIR")).join("transcripts");
    let mut all = Vec::new();
    for entry in std::fs::read_dir(&directory).with_context(|| directory.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_none_or(|extension| extension != "yaml") {
            continue;
        }
        let text = std::fs::read_to_string(&path)?;
        let steps = serde_saphyr::from_str(&text).with_context(|| path.display().to_string())?;
        let name = path
            .file_stem()
            .unwrap_or_default()
            .to_string_lossy()
            .into_owned();
        all.push(Transcript {
            name,
            steps,
            record: path.with_extension("json"),
        });
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    anyhow::ensure!(!all.is_empty(), "no scripts in {}", directory.display());
    Ok(all)
}

impl Transcript {
    /// Plays the script on a server.
    pub async fn play(&self, client: &kube::Client) -> anyhow::Result<Vec<Answer>> {
        let mut saved = BTreeMap::new();
        let mut answers = Vec::new();
        for step in &self.steps {
            let answer = play(client, step, &mut saved).await;
            answers.push(answer.with_context(|| format!("{}: {}", self.name, step.name))?);
        }
        Ok(answers)
    }

    pub fn recorded(&self) -> anyhow::Result<Vec<Answer>> {
        let text = std::fs::read_to_string(&self.record).with_context(|| {
            format!(
                "{} is missing: record it with RECORD=1 make conformance",
                self.record.display()
            )
        })?;
        Ok(serde_json::from_str(&text)?)
    }

    pub fn write(&self, answers: &[Answer]) -> anyhow::Result<()> {
        Ok(std::fs::write(
            &self.record,
            serde_json::to_string_pretty(answers)? + "\n",
        )?)
    }

    /// The steps that differ, in a form to read.
    pub fn differences(&self, answers: &[Answer], recorded: &[Answer]) -> Vec<String> {
        let mut found = Vec::new();
        if answers.len() != recorded.len() {
            found.push(format!(
                "{}: {} answers, {} recorded",
                self.name,
                answers.len(),
                recorded.len()
            ));
        }
        for (own, real) in answers.iter().zip(recorded).filter(|(own, real)| own != real) {
            let mut lines = vec![format!("{}: {}", self.name, real.name)];
            if own.code != real.code {
                lines.push(format!("  code: here {}, Kubernetes {}", own.code, real.code));
            }
            compare("", &own.body, &real.body, &mut lines);
            found.push(lines.join("\n"));
        }
        found
    }
}

fn compare(path: &str, own: &Value, real: &Value, lines: &mut Vec<String>) {
    if own == real {
        return;
    }
    match (own, real) {
        (Value::Object(a), Value::Object(b)) => {
            let names: std::collections::BTreeSet<_> = a.keys().chain(b.keys()).collect();
            for name in names {
                compare(
                    &format!("{path}/{name}"),
                    a.get(name).unwrap_or(&Value::Null),
                    b.get(name).unwrap_or(&Value::Null),
                    lines,
                );
            }
        }
        (Value::Array(a), Value::Array(b)) if a.len() == b.len() => {
            for (index, (own, real)) in a.iter().zip(b).enumerate() {
                compare(&format!("{path}/{index}"), own, real, lines);
            }
        }
        _ => lines.push(format!("  {path}\n    here       {own}\n    Kubernetes {real}")),
    }
}

fn fill(text: &str, saved: &BTreeMap<String, String>) -> String {
    saved.iter().fold(text.to_owned(), |text, (name, value)| {
        text.replace(&format!("${{{name}}}"), value)
    })
}

async fn play(
    client: &kube::Client,
    step: &Step,
    saved: &mut BTreeMap<String, String>,
) -> anyhow::Result<Answer> {
    let (mut code, mut body) = ask(client, step, saved).await?;
    if let Some(until) = &step.until {
        for tries in 0.. {
            if body.pointer(&until.pointer) == Some(&until.equals) {
                break;
            }
            anyhow::ensure!(
                tries < 100,
                "{} is not {} after 10 s: {body}",
                until.pointer,
                until.equals
            );
            tokio::time::sleep(Duration::from_millis(100)).await;
            (code, body) = ask(client, step, saved).await?;
        }
    }
    for (name, pointer) in &step.save {
        let value = body
            .pointer(pointer)
            .with_context(|| format!("the answer has no {pointer}: {body}"))?;
        saved.insert(
            name.clone(),
            value.as_str().map_or_else(|| value.to_string(), str::to_owned),
        );
    }
    if !step.compare.is_empty() {
        let parts = step.compare.iter().map(|pointer| {
            (
                pointer.clone(),
                body.pointer(pointer).cloned().unwrap_or(Value::Null),
            )
        });
        body = Value::Object(parts.collect());
    }
    strip(&mut body, saved);
    Ok(Answer {
        name: step.name.clone(),
        code,
        body,
    })
}

async fn ask(
    client: &kube::Client,
    step: &Step,
    saved: &BTreeMap<String, String>,
) -> anyhow::Result<(u16, Value)> {
    let mut request = Request::builder()
        .method(step.method.as_str())
        .uri(fill(&step.path, saved));
    let body = match &step.body {
        Some(Value::String(text)) => fill(text, saved).into_bytes(),
        Some(body) => fill(&body.to_string(), saved).into_bytes(),
        None => Vec::new(),
    };
    if step.body.is_some() {
        request = request.header(
            "content-type",
            step.content_type.as_deref().unwrap_or("application/json"),
        );
    }
    if let Some(user) = &step.user {
        request = request.header("impersonate-user", user);
    }
    request = request.header("accept", step.accept.as_deref().unwrap_or("application/json"));
    let answer = tokio::time::timeout(
        Duration::from_secs(20),
        client.send(request.body(Body::from(body))?),
    )
    .await??;
    let code = answer.status().as_u16();
    let bytes = tokio::time::timeout(Duration::from_secs(20), answer.into_body().collect_bytes()).await??;
    let text = String::from_utf8_lossy(&bytes);
    // A watch answers with a document a line.
    let frames: Result<Vec<Value>, _> = serde_json::Deserializer::from_str(&text).into_iter().collect();
    let body = match frames {
        Ok(mut frames) if frames.len() == 1 => frames.remove(0),
        Ok(frames) if !frames.is_empty() => Value::Array(frames),
        _ => Value::String(text.into_owned()),
    };
    Ok((code, body))
}

/// Takes out what no two servers share.
fn strip(value: &mut Value, saved: &BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            // A hint for storage migration, which the embedded server has none of.
            map.remove("storageVersionHash");
            for (name, value) in map {
                let mark = match name.as_str() {
                    "uid" => Some("<uid>"),
                    "resourceVersion" => Some("<revision>"),
                    "continue" => Some("<continue>"),
                    "creationTimestamp" | "deletionTimestamp" | "time" | "lastTransitionTime" => {
                        Some("<time>")
                    }
                    _ => None,
                };
                match (mark, &*value) {
                    (Some(mark), Value::String(text)) if !text.is_empty() => *value = mark.into(),
                    _ => strip(value, saved),
                }
            }
        }
        Value::Array(list) => list.iter_mut().for_each(|value| strip(value, saved)),
        Value::String(text) => {
            for (name, value) in saved {
                *text = text.replace(value, &format!("${{{name}}}"));
            }
        }
        _ => {}
    }
}
