//! Images to a registry. Blobs that it has are not sent again, and what is about an image (its bill of
//! materials, its signatures) goes with it.

use std::path::Path;

use serde_json::{Value, json};

use super::http::{Answer, Registry, Request};
use super::{INDEX, Repository, fallback};
use crate::error::Result;
use crate::oci::sign;
use crate::oci::store::{Descriptor, EMPTY, MANIFEST, Manifest, Store};

/// Sends one image and what is about it; gives its reference there.
pub(crate) fn push(store: &Store, image: &Descriptor, to: &Repository, ca: Option<&Path>) -> Result<String> {
    let (repository, tag) = to.of(image.reference())?;
    let work = store.work("push")?;
    let registry = Registry::new(&to.host, &repository, ca, &work.path);
    send(store, &registry, image, &tag)?;
    for about in store.index()?.manifests {
        if about.subject() == Some(&image.digest) {
            let answer = send(store, &registry, &about, &about.digest)?;
            // A registry that knows referrers says so.
            if answer.header("oci-subject").is_none() {
                list(&registry, &image.digest, &about)?;
            }
            // cosign finds its own by a tag.
            if let Some(ending) = sign::tag_ending(about.artifact_type.as_deref()) {
                let tag = format!("{}.{ending}", fallback(&image.digest));
                send(store, &registry, &about, &tag)?;
            }
        }
    }
    Ok(format!("{}/{repository}:{tag}", to.host))
}

/// Blobs first: whatever manifest the registry has is complete.
fn send(store: &Store, registry: &Registry<'_>, top: &Descriptor, name: &str) -> Result<Answer> {
    let manifest: Manifest = store.read(&top.digest)?;
    for blob in manifest.layers.iter().chain([&manifest.config]) {
        upload(store, registry, blob)?;
    }
    registry.expect(
        &Request::put(&format!("manifests/{name}"), MANIFEST, &store.blob(&top.digest)),
        &[201],
    )
}

fn upload(store: &Store, registry: &Registry<'_>, blob: &Descriptor) -> Result<()> {
    let path = format!("blobs/{}", blob.digest);
    if registry.send(&Request::head(&path))?.status == 200 {
        return Ok(());
    }
    let place = registry.expect(&Request::post("blobs/uploads/"), &[202])?;
    let place = place
        .header("location")
        .ok_or_else(|| registry.odd("it names no place for an upload"))?;
    let joint = if place.contains('?') { '&' } else { '?' };
    let place = format!("{place}{joint}digest={}", blob.digest);
    let media_type = "application/octet-stream";
    registry.expect(
        &Request::put(&place, media_type, &store.blob(&blob.digest)),
        &[201],
    )?;
    Ok(())
}

/// For registries that know no referrers: an index under a tag that is made of the subject's digest.
fn list(registry: &Registry<'_>, subject: &str, about: &Descriptor) -> Result<()> {
    let path = format!("manifests/{}", fallback(subject));
    let known = registry.send(&Request::get(&path, INDEX))?;
    let known = match known.status {
        200 => serde_json::from_slice(&known.body).unwrap_or_default(),
        _ => Value::Null,
    };
    let text = listed(&known, about).to_string();
    let file = registry.note("referrers", text.as_bytes())?;
    registry
        .expect(&Request::put(&path, INDEX, &file), &[201])
        .map(drop)
}

/// The index with one more entry. Pure.
fn listed(known: &Value, about: &Descriptor) -> Value {
    let others = known["manifests"].as_array().into_iter().flatten();
    let mut manifests: Vec<Value> = others
        .filter(|entry| entry["digest"] != json!(about.digest))
        .cloned()
        .collect();
    manifests.push(json!({
        "mediaType": about.media_type,
        "digest": about.digest,
        "size": about.size,
        "artifactType": about.artifact_type.as_deref().unwrap_or(EMPTY),
    }));
    json!({"schemaVersion": 2, "mediaType": INDEX, "manifests": manifests})
}

#[cfg(test)]
#[path = "push_tests.rs"]
mod tests;
