//! Glance: images, on a volume, in Ceph or in an object store.

use c5c3_api::common::{Cache, Database, KeystoneAuth};
use c5c3_api::conditions::{CEPH_CONNECTED, DATABASE_READY, DEPLOYMENT_READY, service};
use c5c3_api::openstack::{GLANCE_FILE_SIZE, Glance, GlanceBackend, port};
use c5c3_kit::Part;

use crate::build::Servers;
use crate::config::Ini;
use crate::descriptor::{Descriptor, Format, Port, Process, Runs, Step};
use crate::subject::{ExtraVolume, Extras, SecretOption, Sharing, Subject, VolumeSource};

pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "glance",
    endpoint_path: "",
    config_file: "glance-api.conf",
    format: Format::Oslo,
    environment: &[
        ("OS_GLANCE_CONFIG_DIR", "/etc/glance"),
        ("OS_GLANCE_CONFIG_FILES", "glance-api.conf"),
    ],
    defaults: &[
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
        ("database", "max_pool_size", "5"),
        ("database", "connection_recycle_time", "280"),
        ("database", "retry_interval", "1"),
    ],
    schema: &[Step::new("db-sync", &[MANAGE, CONFIG[0], CONFIG[1], "db_sync"])],
    expand: &[
        Step::new("db-expand", &[MANAGE, CONFIG[0], CONFIG[1], "db", "expand"]),
        Step::new("db-migrate", &[MANAGE, CONFIG[0], CONFIG[1], "db", "migrate"]),
    ],
    contract: &[Step::new(
        "db-contract",
        &[MANAGE, CONFIG[0], CONFIG[1], "db", "contract"],
    )],
    starts_early: true,
    processes: &[Process {
        name: "api",
        runs: Runs::Wsgi {
            module: "glance.wsgi.api:application",
            port: Port {
                number: port::GLANCE,
                path: Some("/healthcheck"),
            },
            // A transfer holds its thread for as long as it takes.
            processes: 2,
            threads: 16,
            extra: &[("http-auto-chunked", "true"), ("http-chunked-input", "true")],
        },
        after: &[],
        // An image on its way is brought to its end.
        grace: 600,
        part: DEPLOYMENT_READY,
    }],
    parts: &[
        Part::required(DATABASE_READY),
        Part::required(service::STORAGE_READY),
        Part::required(CEPH_CONNECTED),
        Part::required(DEPLOYMENT_READY),
    ],
};

const MANAGE: &str = "glance-manage";
const CONFIG: [&str; 2] = ["--config-file", "/etc/glance/glance-api.conf"];
const IMAGES: &str = "/var/lib/glance";

/// Rook names the user after its CephClient.
fn ceph_user(glance: &Glance) -> &str {
    let rbd = glance.spec.storage.rbd.as_ref();
    rbd.and_then(|rbd| rbd.ceph_client_ref.as_ref())
        .map_or("glance", |client| client.name.as_str())
}

impl Subject for Glance {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const CONTROLLER: &'static str = "glance";
    const CEPH: bool = true;

    super::one_process!();

    fn databases(&self) -> Vec<(String, Database)> {
        vec![("database".to_owned(), self.spec.database.clone())]
    }

    fn cache(&self) -> Option<&Cache> {
        self.spec.cache.as_ref()
    }

    fn keystone(&self) -> Option<&KeystoneAuth> {
        Some(&self.spec.keystone)
    }

    fn configure(&self, config: &mut Ini, _cache: Option<&Servers>) {
        let storage = &self.spec.storage;
        match storage.backend {
            GlanceBackend::File => {
                config.set("store", "filesystem_store_datadir", format!("{IMAGES}/images"));
            }
            GlanceBackend::Rbd => {
                config.set("DEFAULT", "enabled_backends", "store:rbd");
                if let Some(rbd) = &storage.rbd {
                    config.set("store", "rbd_store_pool", &rbd.pool);
                }
                config
                    .set("store", "rbd_store_user", ceph_user(self))
                    .set("store", "rbd_store_ceph_conf", "/etc/ceph/ceph.conf")
                    .set("DEFAULT", "show_image_direct_url", "true");
            }
            GlanceBackend::S3 => {
                config.set("DEFAULT", "enabled_backends", "store:s3");
                if let Some(s3) = &storage.s3 {
                    config
                        .set("store", "s3_store_host", &s3.endpoint)
                        .set("store", "s3_store_bucket", &s3.bucket)
                        .set("store", "s3_store_create_bucket_on_put", "true");
                }
            }
        }
    }

    fn free_groups(&self) -> Vec<&str> {
        // The last two are stores that Glance makes by itself.
        vec!["store", "os_glance_tasks_store", "os_glance_staging_store"]
    }

    fn extras(&self) -> Extras {
        let storage = &self.spec.storage;
        let scaling = self.spec.common.autoscaling.as_ref();
        let most = scaling.map_or(self.spec.replicas, |scaling| scaling.max_replicas);
        // What is staged lies in one pod; the others pass a request on to it.
        let elsewhere = Extras {
            scratch: vec![("scratch", IMAGES)],
            own_address: Some(("DEFAULT", "worker_self_reference_url")),
            ..Extras::default()
        };
        let no_ceph = (CEPH_CONNECTED, "no Ceph in this storage backend".to_owned());
        match storage.backend {
            GlanceBackend::File => {
                let file = storage.file.clone().unwrap_or_default();
                Extras {
                    volumes: vec![ExtraVolume {
                        name: "images".into(),
                        path: IMAGES.into(),
                        part: service::STORAGE_READY,
                        source: VolumeSource::Claim {
                            size: file.size.unwrap_or_else(|| GLANCE_FILE_SIZE.to_owned()),
                            class: file.storage_class,
                            sharing: match file.shared {
                                _ if most > 1 => Sharing::Now,
                                Some(true) => Sharing::Later,
                                _ => Sharing::None,
                            },
                        },
                    }],
                    settled: vec![no_ceph],
                    ..Extras::default()
                }
            }
            GlanceBackend::Rbd => Extras {
                volumes: storage
                    .rbd
                    .iter()
                    .map(|rbd| ExtraVolume {
                        name: "ceph".into(),
                        path: "/etc/ceph".into(),
                        part: CEPH_CONNECTED,
                        source: VolumeSource::Secret {
                            name: rbd.ceph_secret_ref.name.clone(),
                            files: vec![
                                ("ceph.conf", "ceph.conf".to_owned()),
                                ("keyring", format!("ceph.client.{}.keyring", ceph_user(self))),
                            ],
                            ceph_client: rbd.ceph_client_ref.clone(),
                        },
                    })
                    .collect(),
                settled: vec![(service::STORAGE_READY, "images are kept in Ceph".to_owned())],
                ..elsewhere
            },
            GlanceBackend::S3 => Extras {
                secret_options: storage
                    .s3
                    .iter()
                    .flat_map(|s3| {
                        let option = |option, key| SecretOption {
                            group: "store",
                            option,
                            secret: s3.secret_ref.name.clone(),
                            key,
                        };
                        [
                            option("s3_store_access_key", "accessKey"),
                            option("s3_store_secret_key", "secretKey"),
                        ]
                    })
                    .collect(),
                settled: vec![
                    no_ceph,
                    (
                        service::STORAGE_READY,
                        "images are kept in the object store".to_owned(),
                    ),
                ],
                ..elsewhere
            },
        }
    }
}
