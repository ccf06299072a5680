//! Helm charts as OCI artifacts, as `helm push` makes them: `helm install NAME oci://REGISTRY/PATH/CHART` reads them.

use std::collections::BTreeMap;
use std::io::Write as _;
use std::path::Path;

use flate2::{Compression, GzBuilder};
use serde_json::Value;

use crate::error::{Context, Error, Result};
use crate::oci::store::{Descriptor, MANIFEST, Manifest, NAME, REF_NAME, Store};

const CONFIG: &str = "application/vnd.cncf.helm.config.v1+json";
const CONTENT: &str = "application/vnd.cncf.helm.chart.content.v1.tar+gzip";

/// Puts a chart into the store: the files below its directory, by their path there.
pub(crate) fn put(store: &Store, registry: &str, files: &[(&str, &str)]) -> Result<Descriptor> {
    let about = files.iter().find(|(path, _)| *path == "Chart.yaml");
    let (_, about) = about.ok_or_else(|| Error::Request("a chart has no Chart.yaml".into()))?;
    let about: Value = serde_saphyr::from_str(about)
        .map_err(|error| Error::Request(format!("a chart's Chart.yaml cannot be read: {error}")))?;
    let field = |name: &str| {
        let found = about[name].as_str();
        found.ok_or_else(|| Error::Request(format!("a chart's Chart.yaml has no {name}")))
    };
    let (name, version) = (field("name")?, field("version")?);
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: Some(CONFIG.into()),
        config: store.put(CONFIG, about.to_string().as_bytes())?,
        layers: vec![store.put(CONTENT, &packed(name, files)?)?],
        subject: None,
    };
    let reference = format!("{registry}/{name}:{version}");
    let text = serde_json::to_vec(&manifest).map_err(|error| Error::Damaged(error.to_string()))?;
    let chart = Descriptor {
        artifact_type: manifest.artifact_type,
        annotations: BTreeMap::from([
            (NAME.to_owned(), reference.clone()),
            (REF_NAME.to_owned(), reference),
        ]),
        ..store.put(MANIFEST, &text)?
    };
    store.update_index(|index| index.enter(vec![chart.clone()]))?;
    Ok(chart)
}

/// The same files make the same bytes.
fn packed(name: &str, files: &[(&str, &str)]) -> Result<Vec<u8>> {
    let here = Path::new("the chart");
    let mut tar = tar::Builder::new(GzBuilder::new().write(Vec::new(), Compression::best()));
    for (path, text) in files {
        let mut header = tar::Header::new_gnu();
        header.set_mode(0o644);
        header.set_size(text.len() as u64);
        let path = format!("{name}/{path}");
        tar.append_data(&mut header, path, text.as_bytes())
            .context("writing", here)?;
    }
    let mut gzip = tar.into_inner().context("writing", here)?;
    gzip.flush().and_then(|()| gzip.finish()).context("writing", here)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHART: &[(&str, &str)] = &[
        ("Chart.yaml", "apiVersion: v2\nname: one\nversion: 0.1.0\n"),
        ("templates/a.yaml", "kind: ConfigMap\n"),
    ];

    #[test]
    fn a_chart_is_stored_as_helm_reads_it() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let chart = put(&store, "r.example/cloud", CHART).unwrap();
        assert_eq!(
            put(&store, "r.example/cloud", CHART).unwrap(),
            chart,
            "the same again"
        );
        assert_eq!(chart.reference(), "r.example/cloud/one:0.1.0");
        let manifest: Manifest = store.read(&chart.digest).unwrap();
        let about: Value = store.read(&manifest.config.digest).unwrap();
        assert_eq!(
            (&manifest.config.media_type[..], &about["name"]),
            (CONFIG, &"one".into())
        );
        let content = store.content(&manifest.layers[0].digest).unwrap();
        let mut tar = tar::Archive::new(flate2::read::GzDecoder::new(&content[..]));
        let paths = tar.entries().unwrap();
        let paths: Vec<String> = paths
            .map(|entry| entry.unwrap().path().unwrap().display().to_string())
            .collect();
        assert_eq!(paths, ["one/Chart.yaml", "one/templates/a.yaml"]);
    }

    #[test]
    fn what_is_no_chart_is_refused() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        for (files, said) in [
            (&[][..], "has no Chart.yaml"),
            (&[("Chart.yaml", "name: one\n")][..], "has no version"),
            (&[("Chart.yaml", "{")][..], "cannot be read"),
        ] {
            let error = put(&store, "r.example", files).unwrap_err().to_string();
            assert!(error.contains(said), "{error}");
        }
    }
}
