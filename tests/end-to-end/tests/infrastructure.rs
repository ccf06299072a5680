//! Databases, messaging and caches as the stand-ins run them: real servers, killed and stopped.
//!
//! Needs root. The images are built first; that takes minutes once, then nothing.

use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use end_to_end::cloud::Cloud;

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: infra}\n---\n";

/// Tries until it gives something; what was wrong last is in the error.
fn until<T>(seconds: u64, what: &str, mut attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    let start = Instant::now();
    loop {
        match attempt() {
            Ok(done) => return Ok(done),
            Err(error) if start.elapsed() > Duration::from_secs(seconds) => {
                return Err(error.context(format!("{what}: not within {seconds} s")));
            }
            Err(_) => std::thread::sleep(Duration::from_millis(500)),
        }
    }
}

struct Infra(Cloud);

impl Infra {
    fn up(objects: &str) -> anyhow::Result<Self> {
        let infra = Self(Cloud::up(&["mariadb", "rabbitmq", "valkey"])?);
        infra.apply(&format!("{NAMESPACE}{objects}"))?;
        Ok(infra)
    }

    fn apply(&self, objects: &str) -> anyhow::Result<()> {
        self.0.kubectl(&["apply", "-f", "-"], objects).map(drop)
    }

    fn kubectl(&self, arguments: &[&str]) -> anyhow::Result<String> {
        self.0.kubectl(&[&["-n", "infra"], arguments].concat(), "")
    }

    fn field(&self, object: &str, path: &str) -> anyhow::Result<String> {
        self.kubectl(&["get", object, "-o", &format!("jsonpath={{{path}}}")])
    }

    fn wait(&self, object: &str, condition: &str, seconds: u64) -> anyhow::Result<()> {
        let wanted = format!("--for=condition={condition}");
        let limit = format!("--timeout={seconds}s");
        let waited = self.kubectl(&["wait", &wanted, object, &limit]);
        waited.map(drop).or_else(|error| {
            let state = self.kubectl(&["get", object, "-o", "yaml"])?;
            let pods = self.kubectl(&["get", "pods", "-o", "wide"])?;
            Err(error.context(format!("{state}\n{pods}")))
        })
    }

    /// Pulls the plug of these pods.
    fn kill(&self, pods: &[&str]) -> anyhow::Result<()> {
        let how = ["--force", "--grace-period=0", "--wait=false"];
        self.kubectl(&[&["delete", "pod"], pods, &how].concat()).map(drop)
    }

    /// Runs a shell command in a pod, with this input.
    fn shell(&self, pod: &str, script: &str, input: &str) -> anyhow::Result<String> {
        let command = [
            "-n", "infra", "exec", "-i", pod, "--", "timeout", "15", "sh", "-c", script,
        ];
        self.0.kubectl(&command, input)
    }

    /// SQL as the administrator of that server.
    fn sql(&self, pod: &str, statements: &str) -> anyhow::Result<String> {
        let client = "mariadb --no-defaults -u mysql -S /run/mysqld/mysqld.sock -N";
        Ok(self.shell(pod, client, statements)?.trim().to_owned())
    }

    fn evaluate(&self, pod: &str, expression: &str) -> anyhow::Result<String> {
        let said = self.shell(
            pod,
            "erl_call -name $RABBITMQ_NODENAME -e",
            &format!("{expression}\n"),
        )?;
        let said = said.trim();
        let inner = said.strip_prefix("{ok, ").and_then(|s| s.strip_suffix('}'));
        inner.map(str::to_owned).with_context(|| said.to_owned())
    }
}

const SQL: &str = r#"
apiVersion: v1
kind: Secret
metadata: {namespace: infra, name: app}
stringData: {password: "it's \"first\""}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: MariaDB
metadata: {namespace: infra, name: mariadb}
spec: {replicas: 1}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Database
metadata: {namespace: infra, name: app}
spec: {mariaDbRef: {name: mariadb}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: User
metadata: {namespace: infra, name: app}
spec: {mariaDbRef: {name: mariadb}, passwordSecretKeyRef: {name: app, key: password}}
---
apiVersion: k8s.mariadb.com/v1alpha1
kind: Grant
metadata: {namespace: infra, name: app-on-app}
spec: {mariaDbRef: {name: mariadb}, username: app, database: app, privileges: [ALL PRIVILEGES]}
"#;

#[test]
fn a_database_with_its_user_and_grant() -> anyhow::Result<()> {
    let infra = Infra::up(SQL)?;
    for object in [
        "mariadb/mariadb",
        "database/app",
        "users.k8s.mariadb.com/app",
        "grant/app-on-app",
    ] {
        infra.wait(object, "Ready", 120)?;
    }
    let login = "IFS= read -r MYSQL_PWD; export MYSQL_PWD; mariadb --no-defaults -h mariadb -u app app -Ne \
                 'create table if not exists t(a int); insert into t values (1); select count(*) from t'";
    let count = infra.shell("mariadb-0", login, "it's \"first\"\n")?;
    assert_eq!(count.trim(), "1");
    assert!(infra.shell("mariadb-0", login, "guess\n").is_err());

    // A changed password is in force soon, and the old one is not.
    infra.kubectl(&[
        "patch",
        "secret",
        "app",
        "-p",
        r#"{"stringData":{"password":"second"}}"#,
    ])?;
    until(20, "the new password", || {
        infra.shell("mariadb-0", login, "second\n")
    })?;
    assert!(infra.shell("mariadb-0", login, "it's \"first\"\n").is_err());

    // A server that is killed keeps its data and takes statements again.
    infra.kill(&["mariadb-0"])?;
    let count = until(60, "the killed server", || {
        infra.shell("mariadb-0", login, "second\n")
    })?;
    assert_eq!(count.trim(), "3");

    infra.kubectl(&[
        "delete",
        "grant/app-on-app",
        "users.k8s.mariadb.com/app",
        "database/app",
        "--timeout=60s",
    ])?;
    let left = infra.sql(
        "mariadb-0",
        "select count(*) from mysql.user where user='app'; show databases like 'app'",
    )?;
    assert_eq!(left, "0", "the user and the database are gone");
    Ok(())
}

const GALERA: &str = "apiVersion: k8s.mariadb.com/v1alpha1\nkind: MariaDB\nmetadata: {namespace: infra, name: db}\n\
                      spec: {replicas: 3, galera: {enabled: true}}\n";

#[test]
fn a_galera_cluster_loses_nothing() -> anyhow::Result<()> {
    let infra = Infra::up(GALERA)?;
    infra.wait("mariadb/db", "Ready", 180)?;
    infra.sql(
        "db-0",
        "create database t; create table t.x(a varchar(20) primary key); insert into t.x values ('first')",
    )?;
    assert_eq!(infra.sql("db-2", "select a from t.x")?, "first");

    // The primary dies: another takes the writes, and the dead one comes back.
    let primary = infra.field("mariadb/db", ".status.currentPrimary")?;
    infra.kill(&[&primary])?;
    let other = ["db-0", "db-1", "db-2"]
        .into_iter()
        .find(|pod| *pod != primary)
        .context("another")?;
    let encoded = infra.field("secret/db-root", ".data.password")?;
    let write = format!(
        "MYSQL_PWD=$(echo {encoded} | base64 -d) mariadb --no-defaults -h db-primary -u root --connect-timeout=3 \
         -Ne \"replace into t.x values ('second'); select @@hostname\""
    );
    let took = until(60, "a write after the primary's end", || {
        let took = infra.shell(other, &write, "")?;
        ensure!(took.trim() != primary, "the dead one");
        Ok(took)
    })?;
    assert_ne!(took.trim(), primary);
    until(120, "three members", || three_members(&infra, other))?;

    // Everything stops at once; who knows most begins, and it is one cluster again.
    infra.kill(&["db-0", "db-1", "db-2"])?;
    until(180, "the cluster after a full stop", || {
        three_members(&infra, "db-1")
    })?;
    for pod in ["db-0", "db-1", "db-2"] {
        assert_eq!(
            infra.sql(pod, "select a from t.x order by a")?,
            "first\nsecond",
            "{pod}"
        );
    }
    let histories = ["db-0", "db-1", "db-2"]
        .map(|pod| infra.sql(pod, "select variable_value from information_schema.global_status where variable_name='wsrep_cluster_state_uuid'"));
    let [a, b, c] = histories;
    let a = a?;
    assert!(a == b? && a == c?, "one history");
    Ok(())
}

fn three_members(infra: &Infra, pod: &str) -> anyhow::Result<()> {
    let ready = infra.field("mariadb/db", ".status.replicas")?;
    let size = infra.sql(
        pod,
        "select variable_value from information_schema.global_status where variable_name='wsrep_cluster_size'",
    )?;
    ensure!(
        ready == "3" && size == "3",
        "{ready} ready, {size} in the cluster"
    );
    Ok(())
}

const MESSAGING: &str = r#"
apiVersion: v1
kind: Secret
metadata: {namespace: infra, name: nova-rabbitmq-credentials}
stringData: {username: nova, password: 'say "x"'}
---
apiVersion: rabbitmq.com/v1beta1
kind: RabbitmqCluster
metadata: {namespace: infra, name: mq}
spec: {replicas: 3}
---
apiVersion: rabbitmq.com/v1beta1
kind: Vhost
metadata: {namespace: infra, name: nova-host}
spec: {name: nova, rabbitmqClusterReference: {name: mq}}
---
apiVersion: rabbitmq.com/v1beta1
kind: User
metadata: {namespace: infra, name: nova}
spec: {importCredentialsSecret: {name: nova-rabbitmq-credentials}, rabbitmqClusterReference: {name: mq}}
---
apiVersion: rabbitmq.com/v1beta1
kind: Permission
metadata: {namespace: infra, name: nova}
spec: {vhost: nova, userReference: {name: nova}, permissions: {configure: ".*", write: ".*", read: ".*"}, rabbitmqClusterReference: {name: mq}}
"#;

#[test]
fn a_quorum_queue_outlives_a_node() -> anyhow::Result<()> {
    let infra = Infra::up(MESSAGING)?;
    infra.wait("rabbitmqcluster/mq", "AllReplicasReady", 240)?;
    for object in [
        "vhost/nova-host",
        "users.rabbitmq.com/nova",
        "permissions.rabbitmq.com/nova",
    ] {
        infra.wait(object, "Ready", 60)?;
    }
    let [first, second, third] = ["mq-server-0", "mq-server-1", "mq-server-2"];
    let members = "length(rabbit_nodes:all_running()).";
    assert_eq!(infra.evaluate(first, members)?, "3");
    let login = r#"element(1, rabbit_access_control:check_user_pass_login(<<"nova">>, <<"say \"x\"">>))."#;
    assert_eq!(infra.evaluate(second, login)?, "ok");

    let declare = r#"element(1, rabbit_amqqueue:declare(rabbit_misc:r(<<"nova">>, queue, <<"q">>), true, false,
        [{<<"x-queue-type">>, longstr, <<"quorum">>}], none, <<"test">>))."#;
    assert_eq!(infra.evaluate(first, &declare.replace('\n', " "))?, "new");
    let publish =
        r#"rabbit_basic:publish(rabbit_misc:r(<<"nova">>, exchange, <<>>), <<"q">>, [], <<"hello">>)."#;
    let published = infra.evaluate(first, publish)?;
    assert_eq!(published, "ok");

    infra.kill(&[first])?;
    let count = r#"begin {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"nova">>, queue, <<"q">>)), rabbit_amqqueue:stat(Q) end."#;
    for pod in [second, third] {
        until(60, "the queue without its first node", || {
            let stat = infra.evaluate(pod, count)?;
            ensure!(stat.starts_with("{ok, 1,"), "{stat}");
            Ok(())
        })?;
    }
    until(180, "three nodes", || {
        ensure!(infra.evaluate(first, members)? == "3", "not yet");
        Ok(())
    })?;

    infra.kubectl(&[
        "delete",
        "permissions.rabbitmq.com/nova",
        "users.rabbitmq.com/nova",
        "vhost/nova-host",
        "--timeout=60s",
    ])?;
    assert_eq!(infra.evaluate(second, "length(rabbit_vhost:list_names()).")?, "1");
    Ok(())
}

const CACHE: &str = "apiVersion: cache.cs.sap.com/v1alpha1\nkind: Valkey\nmetadata: {namespace: infra, name: valkey}\n\
                     spec: {replicas: 3, sentinel: {enabled: true}}\n";

#[test]
fn valkey_fails_over() -> anyhow::Result<()> {
    let infra = Infra::up(CACHE)?;
    infra.wait("valkey/valkey", "Ready", 120)?;
    let ask = |pod: &str, words: &str| {
        let auth = "REDISCLI_AUTH=$(cat /etc/c5c3/secret/password)";
        let said = infra.shell(pod, &format!("{auth} valkey-cli -h valkey {words}"), "")?;
        Ok::<_, anyhow::Error>(said.trim().to_owned())
    };
    assert_eq!(ask("valkey-1", "set key kept")?, "OK");
    until(30, "both replicas", || {
        let role = ask("valkey-1", "wait 2 1000")?;
        ensure!(role == "2", "{role}");
        Ok(())
    })?;
    infra.kill(&["valkey-0"])?;
    until(60, "a write after the primary's end", || {
        let said = ask("valkey-1", "set other 1")?;
        ensure!(said == "OK", "{said}");
        Ok(())
    })?;
    assert_eq!(ask("valkey-2", "get key")?, "kept");
    until(120, "both as replicas", || {
        let said = ask("valkey-2", "info replication")?;
        if !said.contains("role:master") {
            bail!("{said}");
        }
        ensure!(said.contains("connected_slaves:2"), "{said}");
        Ok(())
    })?;
    infra.wait("valkey/valkey", "Ready", 60)
}
