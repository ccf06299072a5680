//! Bills of materials: CycloneDX 1.6 of what the builder knows about an image, kept as a referrer of its
//! manifest. The same image has the same bill.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use crate::error::{Error, Result};
use crate::oci::image::architecture;
use crate::oci::store::{Descriptor, EMPTY, MANIFEST, Manifest, Record, Store};
use crate::sources::pins::normalise;

pub(crate) const BILL: &str = "application/vnd.cyclonedx+json";

/// What a bill is about.
pub(crate) struct Subject<'a> {
    /// The manifest, under its full reference.
    pub manifest: &'a Descriptor,
    pub name: &'a str,
    pub version: &'a str,
    /// The service on the package index: patches may name the image instead.
    pub package: Option<&'a str>,
    pub is_disk: bool,
    pub suite: &'a str,
    /// RFC 3339.
    pub date: &'a str,
    pub layers: &'a [&'a Record],
    /// Python packages whose pin was changed by hand.
    pub overridden: &'a [String],
}

/// Writes the bill and the manifest that refers to its subject.
pub(crate) fn write(store: &Store, subject: &Subject<'_>) -> Result<Descriptor> {
    let text = serde_json::to_vec_pretty(&bill(subject)).map_err(|e| Error::Damaged(e.to_string()))?;
    let manifest = Manifest {
        schema_version: 2,
        media_type: MANIFEST.into(),
        artifact_type: Some(BILL.into()),
        config: store.put(EMPTY, b"{}")?,
        layers: vec![store.put(BILL, &text)?],
        subject: Some(Descriptor {
            artifact_type: None,
            annotations: BTreeMap::new(),
            ..subject.manifest.clone()
        }),
    };
    store.refer(&manifest)
}

/// The bill of an image in the store, as it was written.
pub(crate) fn read(store: &Store, reference: &str) -> Result<Value> {
    let image = store.find(reference)?;
    of(store, &image)?.ok_or_else(|| {
        Error::Request(format!(
            "{} has no bill of materials: `c5c3 image build` writes it",
            image.reference()
        ))
    })
}

/// The same, where an image may have none.
pub(crate) fn of(store: &Store, image: &Descriptor) -> Result<Option<Value>> {
    let index = store.index()?;
    let bill = index
        .manifests
        .iter()
        .find(|other| other.subject() == Some(&image.digest) && other.artifact_type.as_deref() == Some(BILL));
    let Some(bill) = bill else {
        return Ok(None);
    };
    let manifest: Manifest = store.read(&bill.digest)?;
    let text = manifest.layers.first().map(|text| store.read(&text.digest));
    text.transpose()
}

/// Pure.
fn bill(subject: &Subject<'_>) -> Value {
    let (mut debian, mut python) = (BTreeMap::new(), BTreeMap::new());
    let mut patches: BTreeMap<String, Vec<Value>> = BTreeMap::new();
    for layer in subject.layers {
        debian.extend(&layer.debian);
        python.extend(&layer.python);
        for patch in &layer.patches {
            let component = normalise(patch.split('/').next().unwrap_or_default());
            let own = normalise(subject.name) == component && !layer.python.contains_key(&component);
            let component = subject.package.filter(|_| own).map_or(component, normalise);
            let patch = json!({"type": "unofficial", "diff": {"url": format!("patches/{patch}")}});
            patches.entry(component).or_default().push(patch);
        }
    }
    let debian = debian.into_iter().map(|(name, version)| {
        let purl = format!(
            "pkg:deb/debian/{}@{}?arch={}&distro={}",
            encoded(name),
            encoded(version),
            architecture(),
            encoded(subject.suite)
        );
        component(name, version, &purl)
    });
    let python = python.into_iter().map(|(name, version)| {
        let purl = format!("pkg:pypi/{}@{}", encoded(name), encoded(version));
        let mut component = component(name, version, &purl);
        if let Some(patches) = patches.get(name) {
            component["pedigree"] = json!({ "patches": patches });
        }
        if subject.overridden.contains(name) {
            component["properties"] = json!([{"name": "c5c3:constraint-override", "value": version}]);
        }
        component
    });
    let components: Vec<Value> = debian.chain(python).collect();
    let reference = subject.manifest.reference();
    let place = reference.rsplit_once(':').map_or(reference, |(place, _)| place);
    let purl = format!(
        "pkg:oci/{}@{}?repository_url={}&tag={}",
        encoded(subject.name),
        encoded(&subject.manifest.digest),
        encoded(place),
        encoded(subject.version)
    );
    json!({
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": serial(&subject.manifest.digest),
        "version": 1,
        "metadata": {
            "timestamp": subject.date,
            "tools": {"components": [
                {"type": "application", "name": "c5c3", "version": env!("CARGO_PKG_VERSION")}
            ]},
            "component": {
                "type": if subject.is_disk { "operating-system" } else { "container" },
                "bom-ref": purl,
                "name": subject.name,
                "version": subject.version,
                "purl": purl,
            },
        },
        "components": components,
    })
}

fn component(name: &str, version: &str, purl: &str) -> Value {
    json!({"type": "library", "bom-ref": purl, "name": name, "version": version, "purl": purl})
}

/// As package URLs want it.
fn encoded(text: &str) -> String {
    text.bytes().fold(String::new(), |mut out, byte| {
        if byte.is_ascii_alphanumeric() || b".-_~".contains(&byte) {
            out.push(char::from(byte));
        } else {
            out.push('%');
            out.push_str(&hex::encode([byte]).to_ascii_uppercase());
        }
        out
    })
}

/// A UUID (version 8) made of the digest: the same bill has the same number.
fn serial(digest: &str) -> String {
    let hex = digest.strip_prefix("sha256:").unwrap_or(digest);
    let part = |range| hex.get(range).unwrap_or_default();
    format!(
        "urn:uuid:{}-{}-8{}-8{}-{}",
        part(0..8),
        part(8..12),
        part(12..15),
        part(15..18),
        part(18..30)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::oci::store::NAME;

    fn record(debian: &[(&str, &str)], python: &[(&str, &str)], patches: &[&str]) -> Record {
        let map = |pairs: &[(&str, &str)]| {
            let owned = pairs.iter().map(|(a, b)| ((*a).to_owned(), (*b).to_owned()));
            owned.collect::<BTreeMap<_, _>>()
        };
        Record {
            recipe: "r".into(),
            key: "k".into(),
            diff_id: String::new(),
            digest: String::new(),
            size: 0,
            tar_size: 0,
            seconds: 0.0,
            debian: map(debian),
            python: map(python),
            patches: patches.iter().map(|patch| (*patch).to_owned()).collect(),
        }
    }

    fn manifest() -> Descriptor {
        Descriptor {
            media_type: MANIFEST.into(),
            digest: format!("sha256:{}", "0123456789abcdef".repeat(4)),
            size: 3,
            artifact_type: None,
            annotations: BTreeMap::from([(NAME.to_owned(), "r.io/c5c3/placement:1".to_owned())]),
        }
    }

    fn made(manifest: &Descriptor) -> Value {
        let base = record(&[("libc6", "2.41-12"), ("apt", "3.0.4")], &[], &[]);
        let service = record(
            &[("libc6", "1:2.41-13+deb13u1")],
            &[("openstack-placement", "1"), ("six", "1.17.0")],
            &["placement/R/0001-a.patch"],
        );
        bill(&Subject {
            manifest,
            name: "placement",
            version: "1",
            package: Some("openstack-placement"),
            is_disk: false,
            suite: "trixie",
            date: "2025-10-01T00:00:00Z",
            layers: &[&base, &service],
            overridden: &["six".to_owned()],
        })
    }

    #[test]
    fn a_bill_names_every_package_once_with_patches_and_overrides() {
        let bill = made(&manifest());
        assert_eq!(
            (&bill["bomFormat"], &bill["specVersion"]),
            (&json!("CycloneDX"), &json!("1.6"))
        );
        let components = bill["components"].as_array().unwrap();
        let purls: Vec<&str> = components.iter().filter_map(|c| c["purl"].as_str()).collect();
        let arch = architecture();
        assert_eq!(
            purls,
            [
                format!("pkg:deb/debian/apt@3.0.4?arch={arch}&distro=trixie"),
                // The upper layer's.
                format!("pkg:deb/debian/libc6@1%3A2.41-13%2Bdeb13u1?arch={arch}&distro=trixie"),
                "pkg:pypi/openstack-placement@1".to_owned(),
                "pkg:pypi/six@1.17.0".to_owned(),
            ]
        );
        assert_eq!(
            components[2]["pedigree"]["patches"][0]["diff"]["url"],
            "patches/placement/R/0001-a.patch"
        );
        assert_eq!(components[3]["properties"][0]["name"], "c5c3:constraint-override");
        assert_eq!(
            bill["serialNumber"],
            "urn:uuid:01234567-89ab-8cde-8f01-23456789abcd"
        );
    }

    #[test]
    fn a_bill_is_found_by_its_image_and_goes_with_it() {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(directory.path()).unwrap();
        let image = manifest();
        let layers: [&Record; 0] = [];
        let subject = Subject {
            manifest: &image,
            name: "placement",
            version: "1",
            package: None,
            is_disk: false,
            suite: "trixie",
            date: "d",
            layers: &layers,
            overridden: &[],
        };
        let bill = write(&store, &subject).unwrap();
        store
            .update_index(|index| index.enter(vec![image.clone(), bill.clone()]))
            .unwrap();
        store
            .update_index(|index| index.enter(vec![bill.clone()]))
            .unwrap();
        assert_eq!(store.index().unwrap().manifests.len(), 2);
        assert_eq!(
            read(&store, "placement").unwrap()["metadata"]["component"]["name"],
            "placement"
        );
        // Another image under the same name: the old bill of materials belongs to none.
        let newer = Descriptor {
            digest: format!("sha256:{}", "f".repeat(64)),
            ..image
        };
        store.update_index(|index| index.enter(vec![newer])).unwrap();
        assert_eq!(store.index().unwrap().manifests.len(), 1);
        let error = read(&store, "placement").unwrap_err().to_string();
        assert!(error.contains("no bill of materials"), "{error}");
    }
}
