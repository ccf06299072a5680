//! Placement: what hypervisors have and who uses it.

use c5c3_api::common::{Cache, Database, KeystoneAuth};
use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY};
use c5c3_api::openstack::{Placement, port};
use c5c3_kit::Part;

use crate::descriptor::{Descriptor, Format, Port, Process, Runs, Step};
use crate::subject::Subject;

pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "placement",
    endpoint_path: "",
    config_file: "placement.conf",
    format: Format::Oslo,
    environment: &[("OS_PLACEMENT_CONFIG_DIR", "/etc/placement")],
    defaults: &[
        ("api", "auth_strategy", "keystone"),
        ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
        ("placement_database", "max_pool_size", "5"),
        ("placement_database", "connection_recycle_time", "280"),
        ("placement_database", "retry_interval", "1"),
    ],
    schema: &[Step::new(
        "db-sync",
        &[
            "placement-manage",
            "--config-file",
            "/etc/placement/placement.conf",
            "db",
            "sync",
        ],
    )],
    // Its one command only adds: the version before goes on.
    expand: &[],
    contract: &[],
    // It reads its traits from the database when it starts.
    starts_early: false,
    processes: &[Process {
        name: "api",
        runs: Runs::Wsgi {
            module: "placement.wsgi.api:application",
            port: Port {
                number: port::PLACEMENT,
                path: Some("/"),
            },
            processes: 2,
            threads: 1,
            extra: &[],
        },
        after: &[],
        grace: 60,
        part: DEPLOYMENT_READY,
    }],
    parts: &[Part::required(DATABASE_READY), Part::required(DEPLOYMENT_READY)],
};

impl Subject for Placement {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const CONTROLLER: &'static str = "placement";

    super::one_process!();

    fn databases(&self) -> Vec<(String, Database)> {
        vec![("placement_database".to_owned(), self.spec.database.clone())]
    }

    fn cache(&self) -> Option<&Cache> {
        self.spec.cache.as_ref()
    }

    fn keystone(&self) -> Option<&KeystoneAuth> {
        Some(&self.spec.keystone)
    }
}
