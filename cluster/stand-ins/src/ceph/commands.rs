//! Commands to the monitors, sent from inside of a monitor's pod.

use kube::{Client, ResourceExt};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};

use c5c3_kit::{ReadError, Reader};
use k8s_openapi::api::core::v1::Pod;

use crate::error::Error;
use crate::exec::{self, ExecError, ExecTarget};
use crate::objects::is_pod_ready;
use c5c3_kit::mask::Mask;

const TELL: &[&str] = &["python3", "-c", include_str!("tell.py")];
/// There is no such thing.
const ENOENT: i32 = 2;

/// One command, as `ceph` sends it.
#[derive(Clone, PartialEq, Serialize)]
pub struct Command {
    command: Map<String, Value>,
    #[serde(skip_serializing_if = "String::is_empty")]
    input: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    may: Vec<i32>,
}

/// Without its input, which may be secret.
impl std::fmt::Debug for Command {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        Value::Object(self.command.clone()).fmt(f)
    }
}

impl Command {
    pub fn new(prefix: &str) -> Self {
        Self {
            command: Map::new(),
            input: String::new(),
            may: Vec::new(),
        }
        .with("prefix", prefix)
    }

    /// A command whose answer is JSON.
    pub fn ask(prefix: &str) -> Self {
        Self::new(prefix).with("format", "json")
    }

    pub fn with(mut self, name: &str, value: impl Into<Value>) -> Self {
        self.command.insert(name.to_owned(), value.into());
        self
    }

    pub fn input(mut self, input: String) -> Self {
        self.input = input;
        self
    }

    /// "Not found" counts as an answer, not as an error.
    pub fn or_nothing(mut self) -> Self {
        self.may.push(ENOENT);
        self
    }

    #[cfg(test)]
    pub fn words(&self) -> Value {
        Value::Object(self.command.clone())
    }
}

/// What was asked.
#[derive(Clone, Debug, Deserialize)]
pub(crate) struct Answer {
    code: i32,
    out: String,
}

impl Answer {
    /// `None`: there is no such thing.
    pub(crate) fn read<T: DeserializeOwned>(&self) -> Result<Option<T>, Error> {
        if self.code != 0 {
            return Ok(None);
        }
        let read = serde_json::from_str(&self.out);
        read.map(Some)
            .map_err(|error| Error::Ceph(format!("an answer cannot be read: {error}")))
    }
}

/// Commands for the monitors of a cluster.
#[derive(Clone)]
pub struct Orders {
    pub place: ExecTarget,
    pub commands: Vec<Command>,
    /// What a complaint must not repeat.
    pub hidden: Vec<String>,
}

impl std::fmt::Debug for Orders {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(&self.commands).finish()
    }
}

pub(crate) async fn execute(client: &Client, orders: &Orders) -> Result<Vec<Answer>, Error> {
    let input = serde_json::to_string(&orders.commands).unwrap_or_default();
    let said = exec::run(client, &orders.place, TELL, &input).await;
    let out = said.map_err(|error| match error {
        ExecError::Failed { said, .. } => {
            let last = said.trim().lines().last().unwrap_or_default();
            Error::Ceph(Mask::of(&orders.hidden).hide(last))
        }
        other => Error::Command(other),
    })?;
    let answers: Result<Vec<Answer>, _> = serde_json::from_str(&out);
    let answers = answers.map_err(|error| Error::Ceph(format!("an answer cannot be read: {error}")))?;
    if answers.len() == orders.commands.len() {
        Ok(answers)
    } else {
        Err(Error::Ceph("answers are missing".to_owned()))
    }
}

/// Where the monitors of a namespace can be told something.
pub(crate) async fn places(reader: &Reader, namespace: &str) -> Result<Vec<ExecTarget>, ReadError> {
    let selector = format!("app=rook-ceph-mon,rook_cluster={namespace}");
    let mut pods: Vec<Pod> = reader.list(namespace, &selector).await?;
    pods.retain(is_pod_ready);
    pods.sort_by_key(ResourceExt::name_any);
    let place = |pod: &Pod| ExecTarget {
        namespace: namespace.to_owned(),
        pod: pod.name_any(),
        container: "mon",
    };
    Ok(pods.iter().map(place).collect())
}

/// Asks one monitor after the other until one answers, and tells who did. A refusal is an answer.
pub(crate) async fn ask(
    client: &Client,
    places: &[ExecTarget],
    commands: Vec<Command>,
) -> Result<Option<(ExecTarget, Vec<Answer>)>, Error> {
    let mut last = None;
    for place in places {
        let orders = Orders {
            place: place.clone(),
            commands: commands.clone(),
            hidden: Vec::new(),
        };
        match execute(client, &orders).await {
            Ok(answers) => return Ok(Some((orders.place, answers))),
            Err(error) => last = Some(error),
        }
    }
    last.map_or(Ok(None), Err)
}
