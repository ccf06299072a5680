//! Keys that sign images: ECDSA on P-256, as files that cosign and openssl read too.

use std::fs::{self, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_ASN1, ECDSA_P256_SHA256_ASN1_SIGNING, EcdsaKeyPair, KeyPair, UnparsedPublicKey,
};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;

use crate::error::{Context, Error, Result};

const PRIVATE: &str = "PRIVATE KEY";
const PUBLIC: &str = "PUBLIC KEY";

pub(crate) struct PrivateKey(EcdsaKeyPair);

/// In X.509's form.
pub(crate) struct PublicKey(Vec<u8>);

/// Where the public half of a private key is written: `cosign.key` → `cosign.pub`.
pub(crate) fn public_file(private: &Path) -> PathBuf {
    private.with_extension("pub")
}

/// Makes a key pair. Existing files are never replaced: what they signed could no longer be verified.
pub(crate) fn make(private: &Path) -> Result<PathBuf> {
    let public = public_file(private);
    if public == private {
        return Err(Error::Request(format!(
            "--file {}: the public key gets this name; write NAME.key",
            private.display()
        )));
    }
    if let Some(there) = [private, &public].into_iter().find(|path| path.exists()) {
        return Err(Error::Request(format!(
            "{} already exists: choose another file, or move it away",
            there.display()
        )));
    }
    let failed = |_| Error::Request("the machine's random numbers cannot be used".to_owned());
    let pair = EcdsaKeyPair::generate(&ECDSA_P256_SHA256_ASN1_SIGNING).map_err(failed)?;
    let secret = pair.to_pkcs8v1().map_err(failed)?;
    let known = pair.public_key().as_der().map_err(failed)?;
    write(private, 0o600, &armoured(PRIVATE, secret.as_ref()))?;
    write(&public, 0o644, &armoured(PUBLIC, known.as_ref()))?;
    Ok(public)
}

fn write(path: &Path, mode: u32, text: &str) -> Result<()> {
    let file = OpenOptions::new()
        .write(true)
        .create_new(true)
        .mode(mode)
        .open(path);
    file.context("creating", path)?
        .write_all(text.as_bytes())
        .context("writing", path)
}

impl PrivateKey {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = read(path, PRIVATE)?;
        let pair = EcdsaKeyPair::from_pkcs8(&ECDSA_P256_SHA256_ASN1_SIGNING, &bytes);
        pair.map(Self).map_err(|_| unfit(path, PRIVATE))
    }

    pub(crate) fn sign(&self, message: &[u8]) -> Result<Vec<u8>> {
        let signature = self.0.sign(&SystemRandom::new(), message);
        let failed = |_| Error::Request("the key cannot sign".to_owned());
        signature
            .map(|signature| signature.as_ref().to_vec())
            .map_err(failed)
    }
}

impl PublicKey {
    pub(crate) fn read(path: &Path) -> Result<Self> {
        let bytes = read(path, PUBLIC)?;
        aws_lc_rs::signature::ParsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &bytes)
            .map_err(|_| unfit(path, PUBLIC))?;
        Ok(Self(bytes))
    }

    pub(crate) fn verify(&self, message: &[u8], signature: &[u8]) -> bool {
        UnparsedPublicKey::new(&ECDSA_P256_SHA256_ASN1, &self.0)
            .verify(message, signature)
            .is_ok()
    }
}

fn unfit(path: &Path, kind: &str) -> Error {
    Error::Request(format!(
        "{} is no {kind} in PEM of an ECDSA key on P-256: `c5c3 image key` makes one",
        path.display()
    ))
}

fn read(path: &Path, kind: &str) -> Result<Vec<u8>> {
    let text = fs::read_to_string(path).context("reading", path)?;
    stripped(kind, &text).ok_or_else(|| unfit(path, kind))
}

/// PEM. Pure.
fn armoured(kind: &str, bytes: &[u8]) -> String {
    let text = BASE64.encode(bytes);
    let lines: Vec<&str> = text
        .as_bytes()
        .chunks(64)
        .filter_map(|line| std::str::from_utf8(line).ok())
        .collect();
    format!(
        "-----BEGIN {kind}-----\n{}\n-----END {kind}-----\n",
        lines.join("\n")
    )
}

fn stripped(kind: &str, text: &str) -> Option<Vec<u8>> {
    let (_, rest) = text.split_once(&format!("-----BEGIN {kind}-----"))?;
    let (body, _) = rest.split_once(&format!("-----END {kind}-----"))?;
    let body: String = body.split_whitespace().collect();
    BASE64.decode(body).ok()
}
