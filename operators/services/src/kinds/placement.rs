//! Placement: what hypervisors have and who uses it.

use c5c3_api::common::{Cache, Database, KeystoneAuth};
use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY};
use c5c3_api::openstack::{Placement, port};
use c5c3_kit::Part;

use crate::descriptor::{Descriptor, Process, Runs, Step};
use crate::subject::Subject;

pub const DESCRIPTOR: Descriptor = Descriptor {
    name: "placement",
    endpoint_path: "",
    config_file: "placement.conf",
    environment: &[("OS_PLACEMENT_CONFIG_DIR", "/etc/placement")],
    defaults: &[
        ("api", "auth_strategy", "keystone"),
        ("placement_database", "max_pool_size", "5"),
        ("placement_database", "connection_recycle_time", "280"),
        ("placement_database", "retry_interval", "1"),
    ],
    schema: &[Step {
        name: "db-sync",
        command: &[
            "placement-manage",
            "--config-file",
            "/etc/placement/placement.conf",
            "db",
            "sync",
        ],
    }],
    // It reads its traits from the database when it starts.
    starts_early: false,
    processes: &[Process {
        name: "api",
        runs: Runs::Wsgi {
            module: "placement.wsgi.api:application",
            port: port::PLACEMENT,
            path: "/",
            extra: &[],
        },
        part: DEPLOYMENT_READY,
    }],
    parts: &[Part::required(DATABASE_READY), Part::required(DEPLOYMENT_READY)],
};

impl Subject for Placement {
    const DESCRIPTOR: &'static Descriptor = &DESCRIPTOR;
    const CONTROLLER: &'static str = "placement";

    super::one_process!();

    fn databases(&self) -> Vec<(&'static str, &Database)> {
        vec![("placement_database", &self.spec.database)]
    }

    fn cache(&self) -> Option<&Cache> {
        self.spec.cache.as_ref()
    }

    fn keystone(&self) -> Option<&KeystoneAuth> {
        Some(&self.spec.keystone)
    }
}
