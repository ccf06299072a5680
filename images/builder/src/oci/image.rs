//! An image of layers: configuration and manifest.

use std::collections::BTreeMap;

use c5c3_catalogue::Release;
use serde_json::{Value, json};

use crate::build::disk::{ARTIFACT, RAW};
use crate::build::plan;
use crate::error::Result;
use crate::oci::store::{
    CONFIG, Descriptor, EMPTY, LAYER, MANIFEST, Manifest, NAME, REF_NAME, Record, Store,
};
use crate::sources::recipe::Recipe;

/// The release an image belongs to: in the index, and as a label of the services.
pub(crate) const RELEASE: &str = "c5c3.io/release";

/// Writes configuration and manifest; one descriptor for each reference.
pub(crate) fn write(
    store: &Store,
    release: &Release,
    recipe: &Recipe,
    image: &plan::Image,
    layers: &[&Record],
) -> Result<Vec<Descriptor>> {
    let part = |media_type: &str, layer: &Record| Descriptor {
        media_type: media_type.to_owned(),
        digest: layer.digest.clone(),
        size: layer.size,
        artifact_type: None,
        annotations: BTreeMap::new(),
    };
    let manifest = match (&recipe.disk, layers.last()) {
        (Some(_), Some(layer)) => Manifest {
            schema_version: 2,
            media_type: MANIFEST.into(),
            artifact_type: Some(ARTIFACT.into()),
            config: store.put(EMPTY, b"{}")?,
            layers: vec![titled(part(RAW, layer), format!("{}.raw", recipe.name))],
            subject: None,
        },
        _ => Manifest {
            schema_version: 2,
            media_type: MANIFEST.into(),
            artifact_type: None,
            config: store.put(CONFIG, &bytes(&config(release, recipe, image, layers)))?,
            layers: layers.iter().map(|layer| part(LAYER, layer)).collect(),
            subject: None,
        },
    };
    let mut descriptor = store.put(
        MANIFEST,
        &bytes(&serde_json::to_value(&manifest).unwrap_or_default()),
    )?;
    descriptor.artifact_type = manifest.artifact_type;
    let named = |reference: &String| Descriptor {
        annotations: BTreeMap::from([
            (NAME.to_owned(), reference.clone()),
            (REF_NAME.to_owned(), reference.clone()),
            (RELEASE.to_owned(), release.name.clone()),
        ]),
        ..descriptor.clone()
    };
    Ok(image.references.iter().map(named).collect())
}

/// The name under which tools write the blob to a file.
fn titled(blob: Descriptor, name: String) -> Descriptor {
    Descriptor {
        annotations: BTreeMap::from([("org.opencontainers.image.title".to_owned(), name)]),
        ..blob
    }
}

fn bytes(value: &Value) -> Vec<u8> {
    value.to_string().into_bytes()
}

/// The architecture as OCI names it.
pub(crate) fn architecture() -> &'static str {
    match std::env::consts::ARCH {
        "x86_64" => "amd64",
        "aarch64" => "arm64",
        other => other,
    }
}

fn config(release: &Release, recipe: &Recipe, image: &plan::Image, layers: &[&Record]) -> Value {
    let settings = recipe.image.as_ref();
    let user = image.user.unwrap_or_default();
    let env: Vec<String> = settings
        .iter()
        .flat_map(|image| &image.env)
        .map(|(name, value)| format!("{name}={value}"))
        .collect();
    let mut labels = BTreeMap::from([
        ("org.opencontainers.image.title", recipe.name.clone()),
        ("org.opencontainers.image.description", recipe.description.clone()),
        ("org.opencontainers.image.version", image.version.clone()),
        (
            "org.opencontainers.image.source",
            env!("CARGO_PKG_REPOSITORY").to_owned(),
        ),
    ]);
    // A server is the same in every release that has it.
    if recipe.python.is_some() {
        labels.insert(RELEASE, release.name.clone());
    }
    if image.patches > 0 {
        labels.insert("c5c3.io/patches", image.patches.to_string());
    }
    let main = recipe.debian.as_ref().and_then(|debian| debian.main.as_ref());
    let version = main.and_then(|main| layers.iter().find_map(|layer| layer.debian.get(&main.value)));
    if let (Some(main), Some(version)) = (main, version) {
        labels.insert("c5c3.io/debian-package", format!("{}={version}", main.value));
    }
    let mut container = json!({ "User": format!("{}:{}", user.0, user.1), "Env": env, "Labels": labels });
    if let Some(settings) = settings {
        for (name, words) in [("Entrypoint", &settings.entrypoint), ("Cmd", &settings.command)] {
            if !words.is_empty() {
                container[name] = json!(words);
            }
        }
        if let Some(workdir) = &settings.workdir {
            container["WorkingDir"] = json!(workdir);
        }
    }
    json!({
        "created": release.date,
        "architecture": architecture(),
        "os": "linux",
        "config": container,
        "rootfs": { "type": "layers", "diff_ids": layers.iter().map(|layer| &layer.diff_id).collect::<Vec<_>>() },
        "history": layers.iter().map(|layer| json!({
            "created": release.date,
            "created_by": format!("c5c3 image build: {}", layer.recipe),
        })).collect::<Vec<_>>(),
    })
}
