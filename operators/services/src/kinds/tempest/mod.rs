//! Tempest: others' tests of the cloud. One step does a whole run (`run.py`): it asks the cloud what it has,
//! makes an administrator for this run alone, runs the tests, deletes what they left and tells the results.

use c5c3_api::common::ServiceCommon;
use c5c3_api::conditions::service::TESTS_PASSED;
use c5c3_api::openstack::{RUN_NOW, RUN_ONLY, Tempest};
use c5c3_kit::Part;
use kube::ResourceExt;
use serde_json::json;

use crate::shape::{
    Asked, Login, Recurring, Service, Settings, Sharing, Step, Subject, Volume, VolumeSource,
};

/// A whole run of all tests takes a few hours without acceleration.
const LONGEST: u32 = 6 * 3600;
/// The newest ten reports are well below it.
const REPORTS: &str = "1Gi";

/// The files of a run, beside its options.
pub(crate) const FILES: [(&str, &str); 6] = [
    ("run.py", include_str!("run.py")),
    ("cloud.py", include_str!("cloud.py")),
    ("selection.py", include_str!("selection.py")),
    ("outcome.py", include_str!("outcome.py")),
    ("sweep.py", include_str!("sweep.py")),
    ("skips.txt", include_str!("skips.txt")),
];

impl Subject for Tempest {
    const SERVICE: &'static str = "tempest";
    const PARTS: &'static [Part] = &[Part::required(TESTS_PASSED)];
    const RECURRING: bool = true;

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let common = ServiceCommon {
            image: spec.image.clone(),
            depends_on: spec.depends_on.clone(),
            resources: spec.resources.clone(),
            pods: spec.pods.clone(),
            extra_config: spec.extra_config.clone(),
            ..ServiceCommon::default()
        };
        let mut settings =
            Settings::new("tempest.conf").with(&[("identity", "uri_v3", &spec.keystone.auth_url)]);
        if spec.keystone.ca_secret_ref.is_some() {
            let path = format!("/etc/tempest/{}", super::CA_FILE);
            settings = settings.with(&[("identity", "ca_certificates_file", &path)]);
        }
        settings.files = FILES
            .map(|(name, text)| (name.to_owned(), text.to_owned()))
            .into();
        settings.logins.push(Login {
            group: "auth",
            secret: spec.keystone.app_credential_ref.secret_name.clone(),
        });
        let tests = &spec.tests;
        let wish = json!({
            "include": tests.include_regex, "exclude": tests.exclude_regex,
            "services": tests.services, "concurrency": tests.concurrency,
        });
        let run = ["/etc/tempest/run.py", &wish.to_string()];
        Service {
            settings: vec![settings],
            keystone: Some(spec.keystone.clone()),
            recurring: vec![Recurring {
                steps: vec![Step::new("tests", &run).with_credentials()],
                schedule: spec.schedule.clone(),
                part: Some(TESTS_PASSED),
                told: Some(json!(self.status)),
                asked: asked(self),
                volumes: vec![reports()],
                longest: Some(LONGEST),
                ..Recurring::default()
            }],
            ..Service::new(self, common)
        }
    }
}

/// A run that the annotations ask for.
fn asked(tempest: &Tempest) -> Option<Asked> {
    let note = |name: &str| tempest.annotations().get(name).filter(|text| !text.is_empty());
    let only =
        note(RUN_ONLY).map(|only| json!({"include": only, "exclude": null, "services": []}).to_string());
    Some(Asked {
        mark: note(RUN_NOW)?.clone(),
        arguments: only.into_iter().collect(),
    })
}

/// Reports of the newest runs: what every test said, and JUnit.
fn reports() -> Volume {
    Volume {
        name: "reports".to_owned(),
        path: "/var/lib/tempest".to_owned(),
        part: None,
        source: VolumeSource::Claim {
            size: REPORTS.to_owned(),
            class: None,
            sharing: Sharing::None,
        },
    }
}
