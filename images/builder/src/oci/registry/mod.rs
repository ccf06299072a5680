//! Images to and from registries, by OCI's distribution API.

mod http;
pub(crate) mod pull;
pub(crate) mod push;
#[cfg(test)]
pub(crate) mod testing;

use serde_json::Value;

use crate::error::{Error, Result};
use crate::oci::store::MANIFEST;

const INDEX: &str = "application/vnd.oci.image.index.v1+json";

/// `REGISTRY/PATH`: where images are kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Repository {
    host: String,
    path: String,
}

impl Repository {
    /// Reads what `--to` or `--from` was given.
    pub(crate) fn parse(option: &str, text: &str) -> Result<Self> {
        let (host, path) = text.split_once('/').unwrap_or((text, ""));
        let plain = |part: &str, more: &str| {
            !part.is_empty()
                && part
                    .chars()
                    .all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || more.contains(c))
        };
        let path = path.trim_end_matches('/');
        if !plain(host, ".-:") || !(path.is_empty() || path.split('/').all(|part| plain(part, "._-"))) {
            return Err(Error::Request(format!(
                "{option} {text}: write REGISTRY/PATH in lower case, without http:// and without a tag"
            )));
        }
        Ok(Self {
            host: host.to_owned(),
            path: path.to_owned(),
        })
    }

    /// Repository and tag there of a full reference here.
    fn of(&self, reference: &str) -> Result<(String, String)> {
        let (name, tag) = reference
            .rsplit_once(':')
            .ok_or_else(|| Error::Damaged(format!("`{reference}` has no tag")))?;
        let name = name.rsplit('/').next().unwrap_or(name);
        let path = [self.path.as_str(), name];
        let path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
        Ok((path.join("/"), tag.to_owned()))
    }
}

/// The tag under which registries without a referrers API list what is about a manifest.
fn fallback(digest: &str) -> String {
    digest.replace(':', "-")
}

/// The digests in an index that are manifests about another one. Pure.
fn referrers(index: &Value) -> Vec<String> {
    let entries = index["manifests"].as_array().into_iter().flatten();
    entries
        .filter(|entry| entry["mediaType"] == MANIFEST)
        .filter_map(|entry| entry["digest"].as_str().map(str::to_owned))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_gives_each_image_its_repository() {
        let of =
            |place: &str, reference: &str| Repository::parse("--to", place).unwrap().of(reference).unwrap();
        assert_eq!(
            of("ghcr.io/acme/cloud/", "r.example/c5c3/nova:1.0-p2"),
            ("acme/cloud/nova".to_owned(), "1.0-p2".to_owned())
        );
        assert_eq!(
            of("localhost:5000", "r/nova:1"),
            ("nova".to_owned(), "1".to_owned())
        );
        for bad in [
            "",
            "http://r.example/x",
            "r.example//x",
            "r.example/X",
            "r.example/a b",
        ] {
            let error = Repository::parse("--to", bad).unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("--to {bad}: write REGISTRY/PATH")),
                "{error}"
            );
        }
    }
}
