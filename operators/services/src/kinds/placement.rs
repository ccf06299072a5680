//! Placement: what hypervisors have and who uses it.

use c5c3_api::conditions::{DATABASE_READY, DEPLOYMENT_READY};
use c5c3_api::openstack::{Placement, port};
use c5c3_kit::Part;

use crate::shape::{Process, Runs, Schema, Service, Settings, Step, Subject};

const DATABASE: &str = "placement_database";

impl Subject for Placement {
    const SERVICE: &'static str = "placement";
    const PARTS: &'static [Part] = &[Part::required(DATABASE_READY), Part::required(DEPLOYMENT_READY)];

    fn shape(&self) -> Service {
        let spec = &self.spec;
        let mut settings = Settings::new("placement.conf")
            .with(&[
                ("api", "auth_strategy", "keystone"),
                ("oslo_middleware", "enable_proxy_headers_parsing", "true"),
            ])
            .database(DATABASE, DATABASE);
        super::pool(&mut settings.options, DATABASE);
        super::authtoken(&mut settings, Self::SERVICE, &spec.keystone, spec.cache.is_some());
        let sync = [
            "placement-manage",
            "--config-file",
            "/etc/placement/placement.conf",
            "db",
            "sync",
        ];
        let api = Runs::wsgi("placement.wsgi.api:application", port::PLACEMENT, "/");
        Service {
            status: self.status.as_ref().map(|status| status.common.clone()),
            environment: vec![("OS_PLACEMENT_CONFIG_DIR".into(), "/etc/placement".into())],
            settings: vec![settings],
            databases: vec![super::database(DATABASE, &spec.database)],
            cache: spec.cache.clone(),
            keystone: Some(spec.keystone.clone()),
            // Its one command only adds, so the version before goes on. The processes read their
            // traits from the database when they start.
            schema: Schema {
                steps: vec![Step::new("db-sync", &sync)],
                ..Schema::default()
            },
            processes: vec![Process::new("api", api, DEPLOYMENT_READY).replicas(spec.replicas)],
            ..Service::new(self, spec.common.clone())
        }
    }
}
