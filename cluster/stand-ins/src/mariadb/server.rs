//! A MariaDB server as a StatefulSet with its volume.

use std::convert::Infallible;

use c5c3_api::foreign::mariadb::MariaDb;
use c5c3_kit::{Applied, Controller, Decision, Kind, Observed, Part, Reader, Report, States, Wanted};
use k8s_openapi::api::apps::v1::StatefulSet;
use k8s_openapi::api::core::v1::{ConfigMap, Secret, Service};
use kube::ResourceExt;
use serde_json::{Value, json};

use super::{SERVER, UID};
use crate::error::Error;
use crate::image::server_image;
use crate::objects::{container_security, encode, hash, labels, metadata, pod_security};
use crate::random::password;

const RUNS: &str = "StatefulSetReady";

/// The controller of servers.
#[derive(Debug, Default, Clone, Copy)]
pub struct Servers;

#[derive(Debug, Default)]
pub struct Facts {
    password: Option<String>,
    ready: i32,
    random: [u8; 32],
}

/// The Secret and key of the root password.
pub fn root_secret(server: &MariaDb) -> (String, String) {
    match &server.spec.root_password_secret_key_ref {
        Some(reference) => (reference.name.clone(), reference.key.clone()),
        None => (format!("{}-root", server.name_any()), "password".to_owned()),
    }
}

impl Controller for Servers {
    type Kind = MariaDb;
    type Facts = Facts;
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "stand-in-mariadb";
    const PARTS: &'static [Part] = &[Part::required(RUNS)];

    fn owns(&self) -> Vec<Kind> {
        vec![
            Kind::of::<Secret>(),
            Kind::of::<ConfigMap>(),
            Kind::of::<Service>(),
            Kind::of::<StatefulSet>(),
        ]
    }

    async fn observe(&self, object: &MariaDb, reader: &Reader) -> Result<Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let (name, key) = root_secret(object);
        let secret: Option<Secret> = reader.get(&namespace, &name).await?;
        let data = secret.and_then(|secret| secret.data).unwrap_or_default();
        let password = data
            .get(&key)
            .and_then(|value| String::from_utf8(value.0.clone()).ok());
        let set: Option<StatefulSet> = reader.get(&namespace, &object.name_any()).await?;
        let status = set.and_then(|set| set.status);
        Ok(Facts {
            password,
            ready: status.and_then(|status| status.ready_replicas).unwrap_or(0),
            random: rand::random(),
        })
    }

    fn decide(observed: &Observed<Self>) -> Result<Decision<Infallible>, Error> {
        let server = &observed.object;
        if server.spec.replicas.unwrap_or(1) != 1 {
            let reason = "only one server is supported on the embedded cluster so far: set 1".to_owned();
            return Err(Error::Invalid {
                field: "spec.replicas",
                reason,
            });
        }
        Ok(Decision::want(
            objects(server, &observed.facts)?.into_iter().map(Wanted::raw),
        ))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, _applied: &Applied<Self>) -> Report {
        let ready = observed.facts.ready;
        let states = if ready >= 1 {
            States::default().met(RUNS, "StatefulSetReady", "Running")
        } else {
            States::default().unmet(RUNS, "StatefulSetNotReady", "the server is starting")
        };
        let primary = (ready >= 1).then(|| format!("{}-0", observed.object.name_any()));
        Report::new(states).status(&json!({"replicas": ready, "currentPrimary": primary}))
    }
}

fn objects(server: &MariaDb, facts: &Facts) -> Result<Vec<Value>, Error> {
    let (namespace, name) = (server.namespace().unwrap_or_default(), server.name_any());
    let meta = |own: &str| metadata(&namespace, own, SERVER, &name);
    let (secret, key) = root_secret(server);
    let generated = server
        .spec
        .root_password_secret_key_ref
        .as_ref()
        .is_none_or(|reference| reference.generate == Some(true));
    let password = match &facts.password {
        Some(password) => password.clone(),
        None if generated => password(&facts.random),
        None => return Err(Error::SecretMissing { name: secret, key }),
    };
    let mut all = Vec::new();
    if generated {
        all.push(json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(&secret), "data": {key: encode(&password)}}));
    }
    // Read at each start: the password follows its Secret.
    let init = format!(
        "CREATE USER IF NOT EXISTS 'root'@'%' IDENTIFIED BY '{password}';\n\
         ALTER USER 'root'@'%' IDENTIFIED BY '{password}';\n\
         ALTER USER 'root'@'localhost' IDENTIFIED BY '{password}';\n\
         GRANT ALL PRIVILEGES ON *.* TO 'root'@'%' WITH GRANT OPTION;\nFLUSH PRIVILEGES;\n"
    );
    all.push(json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque", "metadata": meta(&format!("{name}-init")), "data": {"init.sql": encode(&init)}}));
    let config = configuration(server.spec.my_cnf.as_deref());
    all.push(json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta(&format!("{name}-config")), "data": {"my.cnf": config}}));
    let port = json!([{"name": "mariadb", "port": 3306, "targetPort": 3306}]);
    let pods = labels(SERVER, &name);
    for own in [name.clone(), format!("{name}-primary")] {
        all.push(json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(&own), "spec": {"selector": pods, "ports": port}}));
    }
    let internal = format!("{name}-internal");
    all.push(
        json!({"apiVersion": "v1", "kind": "Service", "metadata": meta(&internal),
        "spec": {"clusterIP": "None", "publishNotReadyAddresses": true, "selector": pods, "ports": port}}),
    );
    let image = server_image(SERVER, server.spec.image.as_deref())?;
    let restart = hash(&json!([config, init]));
    all.push(json!({
        "apiVersion": "apps/v1", "kind": "StatefulSet", "metadata": meta(&name),
        "spec": {
            "replicas": 1, "serviceName": internal, "podManagementPolicy": "Parallel",
            "selector": {"matchLabels": pods},
            "template": {"metadata": {"labels": pods, "annotations": {"c5c3.io/config": restart}}, "spec": pod(&image, &name)},
            "volumeClaimTemplates": [claim(server)],
        },
    }));
    Ok(all)
}

fn claim(server: &MariaDb) -> Value {
    let storage = server.spec.storage.clone().unwrap_or_default();
    let size = storage.size.map_or_else(|| "1Gi".to_owned(), |size| size.0);
    let mut spec = json!({"accessModes": ["ReadWriteOnce"], "resources": {"requests": {"storage": size}}});
    if let Some(class) = storage.storage_class_name {
        spec["storageClassName"] = class.into();
    }
    json!({"metadata": {"name": "storage"}, "spec": spec})
}

fn configuration(extra: Option<&str>) -> String {
    let own = "[mysqld]\ndatadir=/var/lib/mysql/data\nsocket=/run/mysqld/mysqld.sock\npid-file=/run/mysqld/mysqld.pid\n\
               tmpdir=/run/mysqld\nbind-address=0.0.0.0\nskip-name-resolve\nmax_connections=400\n\
               innodb_buffer_pool_size=128M\nperformance_schema=OFF\ncharacter-set-server=utf8mb3\n\
               init-file=/etc/c5c3/init/init.sql\n";
    extra.map_or_else(|| own.to_owned(), |extra| format!("{own}\n{extra}\n"))
}

fn pod(image: &str, name: &str) -> Value {
    let mounts = json!([
        {"name": "storage", "mountPath": "/var/lib/mysql"},
        {"name": "run", "mountPath": "/run/mysqld"},
        {"name": "config", "mountPath": "/etc/c5c3/config", "readOnly": true},
        {"name": "init", "mountPath": "/etc/c5c3/init", "readOnly": true},
    ]);
    // Made beside and moved: a directory that was cut short is never taken for a database.
    let install = "set -e; cd /var/lib/mysql; [ -d data ] && exit 0; rm -rf new; \
                   mariadb-install-db --no-defaults --datadir=/var/lib/mysql/new --tmpdir=/run/mysqld \
                   --auth-root-authentication-method=normal --skip-test-db >/dev/null; mv new data";
    json!({
        "securityContext": pod_security(UID),
        "automountServiceAccountToken": false,
        "enableServiceLinks": false,
        "terminationGracePeriodSeconds": 60,
        "initContainers": [{"name": "install", "image": image, "command": ["sh", "-c", install],
            "securityContext": container_security(), "volumeMounts": mounts, "terminationMessagePolicy": "FallbackToLogsOnError"}],
        "containers": [{
            "name": "mariadb", "image": image, "command": ["mariadbd", "--defaults-file=/etc/c5c3/config/my.cnf"],
            "ports": [{"name": "mariadb", "containerPort": 3306}],
            "securityContext": container_security(), "volumeMounts": mounts,
            "startupProbe": {"tcpSocket": {"port": 3306}, "periodSeconds": 1, "failureThreshold": 120},
            "readinessProbe": {"tcpSocket": {"port": 3306}, "periodSeconds": 5},
            "livenessProbe": {"tcpSocket": {"port": 3306}, "periodSeconds": 20, "failureThreshold": 6},
            "terminationMessagePolicy": "FallbackToLogsOnError",
        }],
        "volumes": [
            {"name": "run", "emptyDir": {}},
            {"name": "config", "configMap": {"name": format!("{name}-config")}},
            {"name": "init", "secret": {"secretName": format!("{name}-init")}},
        ],
    })
}
