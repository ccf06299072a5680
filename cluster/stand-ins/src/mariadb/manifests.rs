//! The objects that run MariaDB.

use c5c3_api::foreign::mariadb::MariaDb;
use c5c3_kit::Wanted;
use c5c3_kit::pod::{env, env_field, mount, mount_read_only, scratch};
use k8s_openapi::api::core::v1::{Container, PodSpec, Probe};
use kube::ResourceExt;

use super::server::{is_cluster, pod_name, replicas};
use super::{SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{
    Files, Instance, POD_NAME, Set, accepts, claim, config_volume, container_port, read_only, succeeds, words,
};

const PORT: u16 = 3306;

fn instance(server: &MariaDb) -> Instance {
    Instance::of(SERVER, server)
}

pub(crate) fn root(server: &MariaDb, secret: &str, key: &str, password: &str) -> Wanted {
    Wanted::of(&instance(server).secret(secret, [(key, password.to_owned())]))
}

/// All but the root password. Writes go to the primary only.
pub(crate) fn all(server: &MariaDb, primary: Option<usize>) -> Result<Vec<Wanted>, Error> {
    let (name, instance) = (server.name_any(), instance(server));
    let ports = [("mariadb", PORT)];
    let files = files(server);
    let mut writer = instance.labels();
    if is_cluster(server) {
        // While no member serves, the name of the first keeps the Service from selecting all of them.
        writer.insert(POD_NAME.to_owned(), pod_name(server, primary.unwrap_or(0)));
    }
    let mut all = vec![
        Wanted::of(&instance.config_map(&format!("{name}-config"), &files)),
        Wanted::of(&instance.service(&name, instance.labels(), &ports)),
        Wanted::of(&instance.service(&format!("{name}-primary"), writer, &ports)),
        Wanted::of(&instance.members(&internal(server), &ports)),
    ];
    if is_cluster(server) {
        all.push(Wanted::of(&instance.budget(&name)));
    }
    let image = server_image(SERVER, server.spec.image.as_deref())?;
    let storage = server.spec.storage.clone().unwrap_or_default();
    all.push(Wanted::of(&instance.stateful_set(Set {
        name,
        replicas: replicas(server),
        headless: internal(server),
        files: &files,
        pod: pod(server, &image),
        claim: Some(claim("storage", storage.size, storage.storage_class_name)),
    })));
    Ok(all)
}

fn internal(server: &MariaDb) -> String {
    format!("{}-internal", server.name_any())
}

fn files(server: &MariaDb) -> Files {
    let scripts = [
        ("start.sh", include_str!("scripts/start.sh")),
        ("order.sh", include_str!("scripts/order.sh")),
        ("report.sh", include_str!("scripts/report.sh")),
        ("ready.sh", include_str!("scripts/ready.sh")),
        ("wsrep_sst_marked", include_str!("scripts/wsrep_sst_marked")),
    ];
    let mut files = Files::from(scripts.map(|(name, text)| (name, text.to_owned())));
    files.insert("my.cnf", configuration(server));
    files
}

/// The log is written at each commit and flushed each second: a crash of the server loses nothing.
const SINGLE: &str = "[mysqld]
datadir=/var/lib/mysql/data
socket=/run/mysqld/mysqld.sock
pid-file=/run/mysqld/mysqld.pid
tmpdir=/run/mysqld
bind-address=0.0.0.0
skip-name-resolve
log_warnings=1
max_connections=400
character-set-server=utf8mb3
performance_schema=OFF
innodb_buffer_pool_size=128M
loose_innodb_snapshot_isolation=OFF
innodb_log_file_size=32M
innodb_flush_log_at_trx_commit=2
";

fn configuration(server: &MariaDb) -> String {
    let mut text = SINGLE.to_owned();
    if is_cluster(server) {
        text.push_str(&cluster_configuration(server));
    }
    if let Some(extra) = &server.spec.my_cnf {
        text.push_str(&format!("\n{extra}\n"));
    }
    text
}

fn cluster_configuration(server: &MariaDb) -> String {
    let members: Vec<String> = (0..replicas(server))
        .map(|n| format!("{}.{}", pod_name(server, n), internal(server)))
        .collect();
    // A cluster begins where our decision says, not by what a member remembers of its last view.
    let options = "gcache.size=64M;pc.recovery=no;evs.suspect_timeout=PT3S;evs.inactive_timeout=PT10S";
    format!(
        "binlog_format=ROW
default_storage_engine=InnoDB
innodb_autoinc_lock_mode=2
wsrep_on=ON
wsrep_provider=/usr/lib/galera/libgalera_smm.so
wsrep_cluster_name={}
wsrep_cluster_address=gcomm://{}
wsrep_sst_method=marked
wsrep_provider_options=\"{options}\"
",
        server.name_any(),
        members.join(",")
    )
}

/// Where the server looks for its way of state transfer: among the scripts of its configuration.
const SEARCH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/etc/c5c3/config";

fn container(server: &MariaDb, image: &str) -> Container {
    let mut container = Container {
        name: SERVER.to_owned(),
        image: Some(image.to_owned()),
        command: Some(words(&["sh", "/etc/c5c3/config/start.sh"])),
        env: Some(vec![
            env_field("POD_NAME", "metadata.name"),
            env_field("POD_IP", "status.podIP"),
            env("PATH", SEARCH),
        ]),
        ports: Some(vec![container_port("mariadb", PORT)]),
        security_context: Some(read_only()),
        volume_mounts: Some(vec![
            mount("storage", "/var/lib/mysql"),
            mount("run", "/run/mysqld"),
            mount("tmp", "/tmp"),
            mount_read_only("config", "/etc/c5c3/config"),
        ]),
        resources: server.spec.resources.clone(),
        termination_message_policy: Some("File".to_owned()),
        ..Container::default()
    };
    let started = |failures: i32| Probe {
        period_seconds: Some(1),
        failure_threshold: Some(failures),
        ..accepts(PORT)
    };
    if is_cluster(server) {
        container
            .command
            .get_or_insert_default()
            .push("cluster".to_owned());
        // A member waits for its order as long as it takes.
        container.startup_probe = Some(started(1_000_000));
        container.readiness_probe = Some(Probe {
            period_seconds: Some(3),
            timeout_seconds: Some(3),
            failure_threshold: Some(2),
            ..succeeds(&["sh", "/etc/c5c3/config/ready.sh"])
        });
    } else {
        container.startup_probe = Some(started(120));
        container.readiness_probe = Some(Probe {
            period_seconds: Some(5),
            ..accepts(PORT)
        });
        container.liveness_probe = Some(Probe {
            period_seconds: Some(20),
            failure_threshold: Some(6),
            ..accepts(PORT)
        });
    }
    container
}

fn pod(server: &MariaDb, image: &str) -> PodSpec {
    let config = format!("{}-config", server.name_any());
    PodSpec {
        termination_grace_period_seconds: Some(60),
        volumes: Some(vec![
            scratch("run"),
            scratch("tmp"),
            config_volume("config", &config, Some(0o555)),
        ]),
        ..instance(server).pod(UID, vec![container(server, image)])
    }
}
