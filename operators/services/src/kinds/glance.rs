//! Glance: images, on a volume, in Ceph or in an object store.

use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, DEPLOYMENT_READY, service};
use c5c3_api::openstack::{GLANCE_FILE_SIZE, Glance, GlanceBackend, port};
use c5c3_kit::Part;

use super::ceph;
use crate::names::HOST;
use crate::shape::{
    Port, Process, Recurring, Runs, Schema, SecretOption, Service, Settings, Sharing, Step, Subject, Tries,
    Variable, Volume, VolumeSource,
};

const IMAGES: &str = "/var/lib/glance";

impl Subject for Glance {
    const SERVICE: &'static str = "glance";
    const PARTS: &'static [Part] = &[
        Part::required(DATABASE_READY),
        Part::required(service::STORAGE_READY),
        Part::required(CEPH_CONNECTED),
        Part::required(DEPLOYMENT_READY),
    ];
    const CEPH: bool = true;
    const RECURRING: bool = true;

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let api = Runs::Wsgi {
            module: "glance.wsgi.api:application",
            port: Port {
                number: port::GLANCE,
                path: Some("/healthcheck"),
            },
            // A transfer holds its thread for as long as it takes.
            processes: 2,
            threads: 16,
            extra: vec![
                ("http-auto-chunked", "true"),
                ("http-chunked-input", "true"),
                // Nova and the command line send chunks of a mebibyte, which is just above the usual limit.
                ("chunked-input-limit", "16777216"),
            ],
        };
        let variable = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            environment: vec![
                variable("OS_GLANCE_CONFIG_DIR", "/etc/glance"),
                variable("OS_GLANCE_CONFIG_FILES", "glance-api.conf"),
            ],
            settings: vec![settings(self)],
            databases: vec![super::database("database", &spec.database)],
            cache: spec.cache.clone(),
            keystone: Some(spec.keystone.clone()),
            schema: Schema {
                steps: vec![manage("db-sync", &["db_sync"])],
                expand: vec![
                    manage("db-expand", &["db", "expand"]),
                    manage("db-migrate", &["db", "migrate"]),
                ],
                contract: vec![manage("db-contract", &["db", "contract"])],
                starts_early: true,
                ..Schema::default()
            },
            processes: vec![Process {
                // An image on its way is brought to its end.
                grace: 600,
                environment: own_address(self),
                volumes: volumes(self),
                tries: bucket(self),
                ..Process::new("api", api, DEPLOYMENT_READY).replicas(spec.replicas)
            }],
            recurring: vec![purge()],
            // The last two are stores that Glance makes by itself.
            free_groups: ["store", "os_glance_tasks_store", "os_glance_staging_store"]
                .map(str::to_owned)
                .into(),
            not_required: not_required(spec.storage.backend),
            ..Service::new(self, spec.common.clone())
        }
    }
}

fn manage(name: &str, arguments: &[&str]) -> Step {
    let fixed = ["glance-manage", "--config-file", "/etc/glance/glance-api.conf"];
    Step::new(name, &[&fixed, arguments].concat())
}

/// Rows of what was deleted a month ago. Those of images stay longer: an image whose row is gone could be made again
/// under its id by somebody else, while servers and volumes still name it.
fn purge() -> Recurring {
    let purge = |name, what, days: &str| {
        let age = format!("--age_in_days={days}");
        manage(name, &["db", what, &age, "--max_rows=-1"])
    };
    Recurring {
        steps: vec![
            purge("db-purge-images", "purge_images_table", "180"),
            purge("db-purge", "purge", "30"),
        ],
        schedule: Some("53 3 * * 0".to_owned()),
        ..Recurring::default()
    }
}

fn settings(glance: &Glance) -> Settings {
    let spec = &glance.spec;
    let mut settings = Settings::new("glance-api.conf")
        .with(&[
            (
                "DEFAULT",
                "enabled_import_methods",
                "[glance-direct,web-download]",
            ),
            ("DEFAULT", "use_keystone_limits", "false"),
            ("DEFAULT", "enabled_backends", "store:file"),
            ("glance_store", "default_backend", "store"),
            (
                "os_glance_tasks_store",
                "filesystem_store_datadir",
                "/var/lib/glance/tasks",
            ),
            (
                "os_glance_staging_store",
                "filesystem_store_datadir",
                "/var/lib/glance/staging",
            ),
            ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
            ("paste_deploy", "flavor", "keystone"),
            (
                "paste_deploy",
                "config_file",
                "/var/lib/openstack/etc/glance/glance-api-paste.ini",
            ),
        ])
        .database("database", "database");
    super::pool(&mut settings.options, "database");
    super::authtoken(&mut settings, "glance", &spec.keystone, spec.cache.is_some());
    let options = &mut settings.options;
    match spec.storage.backend {
        GlanceBackend::File => {
            options.set("store", "filesystem_store_datadir", format!("{IMAGES}/images"));
        }
        GlanceBackend::Rbd => {
            options.set("DEFAULT", "enabled_backends", "store:rbd");
            if let Some(rbd) = &spec.storage.rbd {
                options.set("store", "rbd_store_pool", &rbd.pool);
                let user = ceph::user_option("store", "rbd_store_user", rbd, "glance");
                settings.ceph.push(user);
            }
            options
                .set("store", "rbd_store_ceph_conf", ceph::CONFIGURATION)
                // Cinder and Nova clone what they find there, where they may read the pool.
                .set("DEFAULT", "show_image_direct_url", "true");
        }
        GlanceBackend::S3 => {
            options.set("DEFAULT", "enabled_backends", "store:s3");
            if let Some(s3) = &spec.storage.s3 {
                options
                    .set("store", "s3_store_host", &s3.endpoint)
                    .set("store", "s3_store_bucket", &s3.bucket)
                    // Names of buckets are no names of hosts where nobody made them so.
                    .set("store", "s3_store_bucket_url_format", "path")
                    .set("store", "s3_store_create_bucket_on_put", "true");
                for (option, key) in [
                    ("s3_store_access_key", "accessKey"),
                    ("s3_store_secret_key", "secretKey"),
                ] {
                    settings.secret_options.push(SecretOption {
                        group: "store",
                        option,
                        secret: s3.secret_ref.name.clone(),
                        key,
                    });
                }
            }
        }
    }
    settings
}

fn volumes(glance: &Glance) -> Vec<Volume> {
    let storage = &glance.spec.storage;
    let scratch = Volume::scratch("scratch", IMAGES);
    match storage.backend {
        GlanceBackend::File => {
            let file = storage.file.clone().unwrap_or_default();
            let scaling = glance.spec.common.autoscaling.as_ref();
            let most = scaling.map_or(glance.spec.replicas, |scaling| scaling.max_replicas);
            vec![Volume {
                name: "images".into(),
                path: IMAGES.into(),
                part: Some(service::STORAGE_READY),
                source: VolumeSource::Claim {
                    size: file.size.unwrap_or_else(|| GLANCE_FILE_SIZE.to_owned()),
                    class: file.storage_class,
                    sharing: match file.shared {
                        _ if most > 1 => Sharing::Now,
                        Some(true) => Sharing::Later,
                        _ => Sharing::None,
                    },
                },
            }]
        }
        GlanceBackend::Rbd => {
            let rbd = storage.rbd.iter();
            let keyring = rbd.map(|rbd| ceph::keyring("ceph".to_owned(), rbd, "glance"));
            keyring.chain([scratch]).collect()
        }
        GlanceBackend::S3 => vec![scratch],
    }
}

/// A wrong key of the object store is told before the first image is sent.
fn bucket(glance: &Glance) -> Option<Tries> {
    let storage = &glance.spec.storage;
    let s3 = storage
        .s3
        .as_ref()
        .filter(|_| storage.backend == GlanceBackend::S3)?;
    Some(Tries {
        name: "s3",
        part: service::STORAGE_READY,
        script: include_str!("../build/s3.py"),
        arguments: vec![s3.endpoint.clone(), s3.bucket.clone()],
        what: format!("asked for bucket {} at {}", s3.bucket, s3.endpoint),
    })
}

/// What is staged lies in one pod, unless all share a volume; the others pass a request on to it.
fn own_address(glance: &Glance) -> Vec<(String, Variable)> {
    if glance.spec.storage.backend == GlanceBackend::File {
        return Vec::new();
    }
    let url = format!("http://{HOST}:{}", port::GLANCE);
    vec![
        ("POD_IP".to_owned(), Variable::Field("status.podIP")),
        (
            "OS_DEFAULT__WORKER_SELF_REFERENCE_URL".to_owned(),
            Variable::Text(url),
        ),
    ]
}

fn not_required(backend: GlanceBackend) -> Vec<(&'static str, String)> {
    let no_ceph = (CEPH_CONNECTED, "no Ceph in this storage backend".to_owned());
    match backend {
        GlanceBackend::File => vec![no_ceph],
        GlanceBackend::Rbd => vec![(service::STORAGE_READY, "images are kept in Ceph".to_owned())],
        GlanceBackend::S3 => vec![no_ceph],
    }
}
