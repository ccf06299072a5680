//! `c5c3 plan`.

use std::collections::BTreeMap;
use std::path::PathBuf;

use anyhow::Context;
use c5c3_api::c5c3::ControlPlane;
use c5c3_control_plane::forecast::{Change, Forecast, Verb, World, forecast};
use c5c3_control_plane::plan::{SeenSecret, secret_names};
use clap::Args;
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use kube::api::{Api, DynamicObject, PostParams};
use kube::core::ApiResource;
use kube::{Client, ResourceExt};
use serde_json::{Value, json};

use crate::cloud::access::Target;
use crate::cloud::sight::Sight;
use crate::cloud::snapshot;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{Format, print, print_values};

const EXAMPLES: &str = "\
Examples:
  c5c3 plan -f cloud.yaml            what this ControlPlane would change, stage by stage
  c5c3 plan -f cloud.yaml -o json

Nothing is written: the API server validates the object in a dry run.

Exit codes:
  0  the change can be made   3  no such cluster
  4  it is refused or blocked";

/// Preview what a changed ControlPlane would do; nothing is written.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    target: Target,
    /// File with the changed ControlPlane; - reads standard input.
    #[arg(short = 'f', long = "file", value_name = "FILE")]
    file: PathBuf,
    #[arg(long, short, value_enum, default_value_t = Format::Table)]
    output: Format,
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let text = read(&arguments.file)?;
    let given =
        control_plane(&text).map_err(|why| Failure::Usage(format!("{}: {why}", arguments.file.display())))?;
    block_on(async {
        let target = &arguments.target;
        let namespace = given["metadata"]["namespace"]
            .as_str()
            .unwrap_or(&target.namespace)
            .to_owned();
        let client = target.client().await?;
        let object = checked(&client, &namespace, given).await?;
        let world = world(&client, &namespace, &object).await?;
        let forecast = forecast(&object, world);
        match arguments.output {
            Format::Table => print(&words(&forecast))?,
            format => print_values(&[json!(forecast)], format)?,
        }
        if forecast.refusal.is_some() || forecast.blocker.is_some() {
            Err(Failure::Unwell)
        } else {
            Ok(())
        }
    })
}

/// The one ControlPlane among the documents of a file; `up` takes the same file.
fn control_plane(text: &str) -> Result<Value, String> {
    let documents: Vec<Value> = serde_saphyr::from_multiple(text).map_err(|error| error.to_string())?;
    let mut planes = documents
        .into_iter()
        .filter(|document| document["kind"] == "ControlPlane");
    match (planes.next(), planes.count()) {
        (Some(plane), 0) => Ok(plane),
        (None, _) => Err("it contains no ControlPlane; pass a file with exactly one".to_owned()),
        (Some(_), more) => Err(format!(
            "it contains {} ControlPlanes; pass a file with exactly one",
            more + 1
        )),
    }
}

fn read(file: &PathBuf) -> Result<String, Failure> {
    let name = file.display();
    let text = if file.as_os_str() == "-" {
        std::io::read_to_string(std::io::stdin())
    } else {
        std::fs::read_to_string(file)
    };
    Ok(text.with_context(|| format!("cannot read {name}"))?)
}

/// As the API server would store it: with defaults, and refused by the same rules.
async fn checked(client: &Client, namespace: &str, mut given: Value) -> Result<ControlPlane, Failure> {
    let resource = ApiResource::erase::<ControlPlane>(&());
    let api: Api<DynamicObject> = Api::namespaced_with(client.clone(), namespace, &resource);
    let name = given["metadata"]["name"].as_str().unwrap_or_default().to_owned();
    given["metadata"]["namespace"] = namespace.into();
    let live = api.get_opt(&name).await?;
    let params = PostParams {
        dry_run: true,
        ..PostParams::default()
    };
    let stored = match &live {
        Some(live) => {
            given["metadata"]["resourceVersion"] = json!(live.resource_version());
            api.replace(&name, &params, &serde_json::from_value(given)?)
                .await?
        }
        None => api.create(&params, &serde_json::from_value(given)?).await?,
    };
    let mut object = serde_json::to_value(stored)?;
    object["status"] = live.map(|live| live.data["status"].clone()).unwrap_or_default();
    Ok(serde_json::from_value(object)?)
}

async fn world(client: &Client, namespace: &str, object: &ControlPlane) -> Result<World, Failure> {
    let secrets: Api<Secret> = Api::namespaced(client.clone(), namespace);
    let names: Vec<String> = secret_names(&object.spec).into_iter().collect();
    let found = try_join_all(names.iter().map(|name| secrets.get_opt(name))).await?;
    Ok(World {
        objects: snapshot::read(&Sight::at_home(client.clone()), namespace)
            .await?
            .objects,
        secrets: found.into_iter().flatten().map(seen).collect(),
        releases: c5c3_control_plane::control_plane::releases(),
    })
}

fn seen(secret: Secret) -> (String, SeenSecret) {
    let name = secret.name_any();
    let data = secret.data.unwrap_or_default();
    let data: BTreeMap<String, Vec<u8>> = data.into_iter().map(|(key, value)| (key, value.0)).collect();
    (name, SeenSecret { data, ours: true })
}

/// For a person.
fn words(forecast: &Forecast) -> String {
    let mut text = String::new();
    if let Some(refusal) = &forecast.refusal {
        text.push_str(&format!("Refused: {refusal}\n\n"));
    }
    for stage in &forecast.stages {
        text.push_str(&format!("Stage {} ({:?})\n", stage.number, stage.phase));
        for change in &stage.steps {
            text.push_str(&line(change));
        }
    }
    if forecast.stages.is_empty() {
        text.push_str("Nothing changes.\n");
    }
    match forecast.way_back_until {
        Some(0) => text.push_str("\nOnce the first stage begins, the change cannot be undone.\n"),
        Some(stage) => text.push_str(&format!("\nThe change can be undone until stage {stage} ends.\n")),
        None => {}
    }
    if let Some(blocker) = &forecast.blocker {
        text.push_str(&format!("\nThe change would not complete: {blocker}\n"));
    }
    text
}

fn line(change: &Change) -> String {
    let sign = match change.verb {
        Verb::Create => '+',
        Verb::Change => '~',
        Verb::Delete => '-',
    };
    let effect = &change.effect;
    let mut text = format!("  {sign} {}\n", change.object);
    let fields = change.fields.iter().cloned();
    let restarts = effect.restarts.iter().map(|what| format!("restarts: {what}"));
    let interruption = effect
        .interruption
        .iter()
        .map(|what| format!("users notice: {what}"));
    let end = effect.point_of_no_return.then(|| "point of no return".to_owned());
    for more in fields.chain(restarts).chain(interruption).chain(end) {
        text.push_str(&format!("      {more}\n"));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::c5c3::UpdatePhase;
    use c5c3_control_plane::forecast::{Effect, Stage};

    #[test]
    fn the_file_of_up_is_the_file_of_plan() {
        let small = include_str!("../../../../deploy/profiles/small.yaml");
        assert_eq!(control_plane(small).expect("one")["metadata"]["name"], "cloud");
        for (text, said) in [
            ("kind: Keystone", "contains no ControlPlane"),
            ("", "contains no ControlPlane"),
            (
                "kind: ControlPlane\n---\nkind: ControlPlane",
                "it contains 2 ControlPlanes",
            ),
            ("kind: [", "line"),
        ] {
            let error = control_plane(text).expect_err(text);
            assert!(error.contains(said), "{error}");
        }
    }

    #[test]
    fn a_forecast_in_words() {
        let change = Change {
            verb: Verb::Change,
            object: "Keystone.keystone.openstack.c5c3.io openstack/keystone".to_owned(),
            fields: vec!["spec.image.tag: 28.1.0 → 29.1.0".to_owned()],
            effect: Effect {
                restarts: Some("pods are replaced".to_owned()),
                interruption: None,
                point_of_no_return: true,
            },
        };
        let stage = Stage {
            number: 1,
            phase: UpdatePhase::UpdatingKeystone,
            steps: vec![change],
        };
        let forecast = Forecast {
            stages: vec![stage],
            way_back_until: Some(0),
            ..Forecast::default()
        };
        let expected = "Stage 1 (UpdatingKeystone)\n  \
            ~ Keystone.keystone.openstack.c5c3.io openstack/keystone\n      \
            spec.image.tag: 28.1.0 → 29.1.0\n      \
            restarts: pods are replaced\n      \
            point of no return\n\n\
            Once the first stage begins, the change cannot be undone.\n";
        assert_eq!(words(&forecast), expected);
        assert_eq!(words(&Forecast::default()), "Nothing changes.\n");
    }
}
