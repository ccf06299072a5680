//! Databases, messaging and caches as the stand-ins run them: real servers, killed and stopped.
//!
//! Needs root. The images are built first; that takes minutes once, then nothing.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::{Context, bail, ensure};
use end_to_end::cloud::Cloud;
use end_to_end::patience::until_ok;

const NAMESPACE: &str = "apiVersion: v1\nkind: Namespace\nmetadata: {name: infra}\n---\n";

fn until<T>(seconds: u64, what: &str, attempt: impl FnMut() -> anyhow::Result<T>) -> anyhow::Result<T> {
    until_ok(what, Duration::from_secs(seconds), attempt)
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

    /// Ends the program in these pods with SIGKILL, in all at once.
    fn kill(&self, pods: &[&str], program: &str) -> anyhow::Result<()> {
        self.0.kill_containers("infra", pods, program)
    }

    /// Removes these pods: their servers are told to stop.
    fn stop(&self, pods: &[&str]) -> anyhow::Result<()> {
        let how = ["--force", "--grace-period=0", "--wait=false"];
        self.kubectl(&[&["delete", "pod"], pods, &how].concat()).map(drop)
    }

    fn restarts(&self, pod: &str) -> anyhow::Result<u32> {
        let path = ".status.containerStatuses[0].restartCount";
        Ok(self.field(&format!("pod/{pod}"), path)?.parse()?)
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
    // Written by key: a try that was cut off after its insert does not count twice.
    let login = "IFS= read -r MYSQL_PWD; export MYSQL_PWD; IFS= read -r key; \
                 mariadb --no-defaults -h mariadb -u app app -Ne \
                 \"create table if not exists t(a varchar(20) primary key); replace into t values ('$key'); \
                 select a from t order by a\"";
    let rows = until(30, "the first login", || {
        infra.shell("mariadb-0", login, "it's \"first\"\na\n")
    })?;
    assert_eq!(rows.trim(), "a");
    assert!(infra.shell("mariadb-0", login, "guess\nx\n").is_err());

    // A changed password is in force soon, and the old one is not.
    infra.kubectl(&[
        "patch",
        "secret",
        "app",
        "-p",
        r#"{"stringData":{"password":"second"}}"#,
    ])?;
    until(20, "the new password", || {
        infra.shell("mariadb-0", login, "second\nb\n")
    })?;
    assert!(infra.shell("mariadb-0", login, "it's \"first\"\nx\n").is_err());

    // A server that is killed keeps its data and takes statements again.
    infra.kill(&["mariadb-0"], "mariadbd")?;
    let rows = until(60, "the killed server", || {
        infra.shell("mariadb-0", login, "second\nc\n")
    })?;
    assert_eq!(rows.trim(), "a\nb\nc");
    assert_eq!(infra.restarts("mariadb-0")?, 1);

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
    // A member gets what was committed on another a moment later.
    until(20, "the row on another member", || {
        let said = infra.sql("db-2", "select a from t.x")?;
        ensure!(said == "first", "{said}");
        Ok(())
    })?;

    let pods = ["db-0", "db-1", "db-2"];

    // The primary is killed: another takes the writes, and the dead one comes back.
    let primary = infra.field("mariadb/db", ".status.currentPrimary")?;
    infra.kill(&[&primary], "mariadbd")?;
    let other = pods.into_iter().find(|pod| *pod != primary).context("another")?;
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

    // All are killed at once, with a write that only one of them has seen answered.
    infra.sql(other, "insert into t.x values ('third')")?;
    infra.kill(&pods, "mariadbd")?;
    until(240, "the cluster after a crash of all", || {
        three_members(&infra, "db-1")
    })?;
    same_data(&infra, "first\nsecond\nthird")?;

    // All are stopped: who knows most begins, and it is one cluster again.
    infra.stop(&pods)?;
    until(240, "the cluster after a full stop", || {
        three_members(&infra, "db-1")
    })?;
    same_data(&infra, "first\nsecond\nthird")
}

/// The same rows and one history in all members.
fn same_data(infra: &Infra, rows: &str) -> anyhow::Result<()> {
    let history = "select variable_value from information_schema.global_status where variable_name='wsrep_cluster_state_uuid'";
    let mut histories = BTreeSet::new();
    for pod in ["db-0", "db-1", "db-2"] {
        assert_eq!(infra.sql(pod, "select a from t.x order by a")?, rows, "{pod}");
        histories.insert(infra.sql(pod, history)?);
    }
    assert_eq!(histories.len(), 1, "one history: {histories:?}");
    Ok(())
}

/// A member that cannot recover its data stops everything until a person decides.
#[test]
fn galera_does_not_guess() -> anyhow::Result<()> {
    let infra = Infra::up(GALERA)?;
    infra.wait("mariadb/db", "Ready", 180)?;
    infra.sql(
        "db-0",
        "create database t; create table t.x(a varchar(20) primary key); insert into t.x values ('kept')",
    )?;
    let spoil = "printf garbage >/var/lib/mysql/data/ibdata1; rm -f /var/lib/mysql/data/ib_logfile0";
    infra.shell("db-1", spoil, "")?;
    infra.kill(&["db-0", "db-1", "db-2"], "mariadbd")?;
    let message = ".status.conditions[?(@.type=='GaleraReady')].message";
    until(120, "a word of the member that failed", || {
        let said = infra.field("mariadb/db", message)?;
        ensure!(said.contains("member 1 cannot recover its data"), "{said}");
        Ok(())
    })?;
    let force = r#"{"spec":{"galera":{"recovery":{"forceClusterBootstrapInPod":"db-2"}}}}"#;
    infra.kubectl(&["patch", "mariadb", "db", "--type=merge", "-p", force])?;
    until(240, "the cluster as a person decided", || {
        three_members(&infra, "db-1")
    })?;
    same_data(&infra, "kept")
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
spec: {name: nova, defaultQueueType: quorum, rabbitmqClusterReference: {name: mq}}
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

    // As the channel of a client declares it: the virtual host says what a queue is that does not.
    let declare = r#"begin A = rabbit_amqqueue:augment_declare_args(<<"nova">>, true, false, false, []), element(1, rabbit_amqqueue:declare(rabbit_misc:r(<<"nova">>, queue, <<"q">>), true, false, A, none, <<"test">>)) end."#;
    assert_eq!(infra.evaluate(first, declare)?, "new");
    let kind = r#"begin {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"nova">>, queue, <<"q">>)), amqqueue:get_type(Q) end."#;
    assert_eq!(infra.evaluate(second, kind)?, "rabbit_quorum_queue");
    // A message without properties, into the queue of its key by the exchange without a name.
    let publish = r#"begin X = rabbit_misc:r(<<"nova">>, exchange, <<>>), P = erlang:make_tuple(15, undefined, [{1, 'P_basic'}]), {ok, M} = mc_amqpl:message(X, <<"q">>, rabbit_basic:build_content(P, [<<"hello">>])), rabbit_queue_type:publish_at_most_once(X, M) end."#;
    let published = infra.evaluate(first, publish)?;
    assert_eq!(published, "ok");

    let count = r#"begin {ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<"nova">>, queue, <<"q">>)), rabbit_amqqueue:stat(Q) end."#;
    let kept = |pod: &str| {
        let stat = infra.evaluate(pod, count)?;
        ensure!(stat.starts_with("{ok, 1,"), "{stat}");
        Ok(())
    };
    let together = |pod: &str| {
        let seen = infra.evaluate(pod, members)?;
        ensure!(seen == "3", "{pod} sees {seen}");
        Ok(())
    };
    infra.kill(&[first], "beam.smp")?;
    for pod in [second, third] {
        until(60, "the queue without its first node", || kept(pod))?;
    }
    until(180, "three nodes", || together(first))?;

    // All at once, by a crash and by a stop: one cluster again, and the message is there.
    infra.kill(&[first, second, third], "beam.smp")?;
    until(300, "three nodes after a crash of all", || together(second))?;
    until(60, "the queue after a crash of all", || kept(third))?;
    infra.stop(&[first, second, third])?;
    until(300, "three nodes after a full stop", || together(second))?;
    until(60, "the queue after a full stop", || kept(third))?;
    infra.wait("rabbitmqcluster/mq", "AllReplicasReady", 60)?;

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
    until(30, "the first write", || {
        let said = ask("valkey-1", "set key kept")?;
        ensure!(said == "OK", "{said}");
        Ok(())
    })?;
    until(30, "both replicas", || {
        let role = ask("valkey-1", "wait 2 1000")?;
        ensure!(role == "2", "{role}");
        Ok(())
    })?;
    infra.kill(&["valkey-0"], "valkey-server")?;
    until(60, "a write after the primary's end", || {
        let said = ask("valkey-1", "set other 1")?;
        ensure!(said == "OK", "{said}");
        Ok(())
    })?;
    let kept = until(30, "a read after the primary's end", || {
        ask("valkey-2", "get key")
    })?;
    assert_eq!(kept, "kept");
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
