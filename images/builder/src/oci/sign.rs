//! Signatures of images and attestations of their bills of materials, in cosign's formats with a key pair of
//! one's own. Both are kept as referrers of the image, so they travel with it.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::oci::key::{PrivateKey, PublicKey};
use crate::oci::sbom;
use crate::oci::store::{CONFIG, Descriptor, MANIFEST, Manifest, Store};

/// What a signature is in the index of a store or registry.
pub(crate) const SIGNATURE: &str = "application/vnd.dev.cosign.artifact.sig.v1+json";
pub(crate) const ATTESTATION: &str = "application/vnd.dev.cosign.artifact.att.v1+json";
const PAYLOAD: &str = "application/vnd.dev.cosign.simplesigning.v1+json";
const ENVELOPE: &str = "application/vnd.dsse.envelope.v1+json";
const STATEMENT: &str = "application/vnd.in-toto+json";
const SIGNED_BY: &str = "dev.cosignproject.cosign/signature";
const CYCLONEDX: &str = "https://cyclonedx.org/bom";

/// How the tag ends under which cosign looks for such a manifest.
pub(crate) fn tag_ending(artifact_type: Option<&str>) -> Option<&'static str> {
    match artifact_type {
        Some(SIGNATURE) => Some("sig"),
        Some(ATTESTATION) => Some("att"),
        _ => None,
    }
}

/// Signs an image, and attests its bill of materials when it has one. What was signed before is replaced.
pub(crate) fn sign(store: &Store, image: &Descriptor, key: &PrivateKey) -> Result<()> {
    let name = image.reference().rsplit_once(':').map_or("", |(name, _)| name);
    let payload = payload(name, &image.digest).to_string();
    let signature = BASE64.encode(key.sign(payload.as_bytes())?);
    let annotations = [(SIGNED_BY, signature.as_str())];
    let mut signed = vec![artifact(
        store,
        image,
        SIGNATURE,
        PAYLOAD,
        payload.as_bytes(),
        &annotations,
    )?];
    if let Some(bill) = sbom::of(store, image)? {
        let envelope = envelope(&statement(name, &image.digest, &bill), key)?.to_string();
        let annotations = [(SIGNED_BY, ""), ("predicateType", CYCLONEDX)];
        signed.push(artifact(
            store,
            image,
            ATTESTATION,
            ENVELOPE,
            envelope.as_bytes(),
            &annotations,
        )?);
    }
    store.update_index(|index| index.enter(signed))
}

/// Checks an image in the store: its signature, and that its bill of materials is the attested one.
pub(crate) fn verify(store: &Store, image: &Descriptor, key: &PublicKey) -> Result<()> {
    let about: Vec<Descriptor> = store.index()?.manifests;
    let about: Vec<Descriptor> = about
        .into_iter()
        .filter(|other| other.subject() == Some(&image.digest))
        .collect();
    let refuse = |what: &str| {
        let reference = image.reference();
        Err(Error::Request(format!("{reference} ({}): {what}", image.digest)))
    };
    if !is_signed(store, &image.digest, &about, key)? {
        return refuse("this key did not sign it; `c5c3 image sign` does");
    }
    let Some(bill) = sbom::of(store, image)? else {
        return Ok(());
    };
    match attested(store, &image.digest, &about, key)? {
        Some(attested) if attested == bill => Ok(()),
        Some(_) => refuse("its bill of materials is not the one that was signed"),
        None => refuse("this key did not sign its bill of materials"),
    }
}

/// Whether one of these manifests is a signature of `digest` by this key.
pub(crate) fn is_signed(store: &Store, digest: &str, about: &[Descriptor], key: &PublicKey) -> Result<bool> {
    for (layer, content) in layers(store, about, SIGNATURE)? {
        let signature = layer.annotations.get(SIGNED_BY).map_or("", String::as_str);
        let Ok(signature) = BASE64.decode(signature) else {
            continue;
        };
        let payload: Value = serde_json::from_slice(&content).unwrap_or_default();
        let signed = &payload["critical"]["image"]["docker-manifest-digest"];
        if key.verify(&content, &signature) && signed == digest {
            return Ok(true);
        }
    }
    Ok(false)
}

/// The bill of materials that this key attested for `digest`.
fn attested(store: &Store, digest: &str, about: &[Descriptor], key: &PublicKey) -> Result<Option<Value>> {
    let hex = digest.trim_start_matches("sha256:");
    for (_, content) in layers(store, about, ATTESTATION)? {
        let Some(statement) = opened(&serde_json::from_slice(&content).unwrap_or_default(), key) else {
            continue;
        };
        if statement["subject"][0]["digest"]["sha256"] == hex && statement["predicateType"] == CYCLONEDX {
            return Ok(Some(statement["predicate"].clone()));
        }
    }
    Ok(None)
}

/// The layers of all manifests of a type, each with its content.
fn layers(store: &Store, about: &[Descriptor], kind: &str) -> Result<Vec<(Descriptor, Vec<u8>)>> {
    let mut found = Vec::new();
    for about in about
        .iter()
        .filter(|about| about.artifact_type.as_deref() == Some(kind))
    {
        let manifest: Manifest = store.read(&about.digest)?;
        for layer in manifest.layers {
            let content = store.content(&layer.digest)?;
            found.push((layer, content));
        }
    }
    Ok(found)
}

fn artifact(
    store: &Store,
    image: &Descriptor,
    kind: &str,
    media_type: &str,
    content: &[u8],
    annotations: &[(&str, &str)],
) -> Result<Descriptor> {
    let annotations = annotations
        .iter()
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()));
    let layer = Descriptor {
        annotations: annotations.collect(),
        ..store.put(media_type, content)?
    };
    // cosign reads it as an image of one layer.
    let config = json!({
        "architecture": "", "os": "", "config": {},
        "rootfs": {"type": "layers", "diff_ids": [layer.digest]},
    });
    store.refer(&Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: Some(kind.into()),
        config: store.put(CONFIG, config.to_string().as_bytes())?,
        layers: vec![layer],
        subject: Some(Descriptor {
            artifact_type: None,
            annotations: BTreeMap::new(),
            ..image.clone()
        }),
    })
}

/// What is signed of an image. Pure.
fn payload(name: &str, digest: &str) -> Value {
    json!({
        "critical": {
            "identity": {"docker-reference": name},
            "image": {"docker-manifest-digest": digest},
            "type": "cosign container image signature",
        },
        "optional": null,
    })
}

fn statement(name: &str, digest: &str, bill: &Value) -> Value {
    json!({
        "_type": "https://in-toto.io/Statement/v0.1",
        "predicateType": CYCLONEDX,
        "subject": [{"name": name, "digest": {"sha256": digest.trim_start_matches("sha256:")}}],
        "predicate": bill,
    })
}

fn envelope(statement: &Value, key: &PrivateKey) -> Result<Value> {
    let text = statement.to_string();
    let signature = key.sign(&signed_bytes(text.as_bytes()))?;
    Ok(json!({
        "payloadType": STATEMENT,
        "payload": BASE64.encode(text),
        "signatures": [{"keyid": "", "sig": BASE64.encode(signature)}],
    }))
}

/// The statement in an envelope that this key signed.
fn opened(envelope: &Value, key: &PublicKey) -> Option<Value> {
    let text = BASE64.decode(envelope["payload"].as_str()?).ok()?;
    let signatures = envelope["signatures"].as_array()?;
    let signed = signed_bytes(&text);
    let valid = signatures
        .iter()
        .filter_map(|signature| BASE64.decode(signature["sig"].as_str()?).ok())
        .any(|signature| key.verify(&signed, &signature));
    (valid && envelope["payloadType"] == STATEMENT)
        .then(|| serde_json::from_slice(&text).ok())
        .flatten()
}

/// The bytes that DSSE signs: type and text, each with its length in front.
fn signed_bytes(text: &[u8]) -> Vec<u8> {
    let head = format!("DSSEv1 {} {STATEMENT} {} ", STATEMENT.len(), text.len());
    [head.as_bytes(), text].concat()
}

#[cfg(test)]
#[path = "sign_tests.rs"]
mod tests;
