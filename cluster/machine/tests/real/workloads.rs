//! Every workload controller with real containers on two nodes, a section for each.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use super::placing;
use super::test_cluster::TestCluster;

type Section = (&'static str, fn(&TestCluster));

#[test]
fn workloads() {
    let cluster = TestCluster::new(2);
    cluster.up();
    // Its minute comes while the others run.
    let t = Instant::now();
    cron_job(&cluster);
    let sections: [Section; 15] = [
        ("DaemonSet", daemon_set),
        ("Jobs", jobs),
        ("rolling update", rolling_update),
        ("history and deadline", history_and_deadline),
        ("StatefulSet in order", ordered),
        ("StatefulSet in parallel", parallel),
        ("budgets", placing::budgets),
        ("scheduler", placing::scheduler),
        ("the API from inside", placing::api_from_inside),
        ("names of pods", placing::pod_names),
        ("a Secret at once", placing::secret_at_once),
        ("forced away", placing::forced_away),
        ("a node blinks", placing::node_blinks),
        ("a node returns", placing::node_returns),
        ("CronJob", cron_job_ran),
    ];
    for (name, section) in sections {
        section(&cluster);
        eprintln!("{:5.1} s  {name}", t.elapsed().as_secs_f32());
    }
    cluster.down(false);
    cluster.left_nothing();
}

/// One line for each pod with this label.
pub(super) fn pods(cluster: &TestCluster, label: &str, path: &str) -> Vec<String> {
    let path = format!("jsonpath={{range .items[*]}}{path}{{'\\n'}}{{end}}");
    let text = cluster.kubectl(&["get", "pods", "-l", label, "-o", &path]);
    text.lines().map(String::from).collect()
}

pub(super) fn field(cluster: &TestCluster, what: &[&str], path: &str) -> String {
    let path = format!("jsonpath={path}");
    let mut args = vec!["get"];
    args.extend(what);
    args.extend(["-o", &path]);
    cluster.kubectl(&args)
}

pub(super) fn rolled_out(cluster: &TestCluster, what: &str) {
    cluster.kubectl(&["rollout", "status", what, "--timeout=90s"]);
}

const CRON: &str = r#"
apiVersion: batch/v1
kind: CronJob
metadata: { name: minute }
spec:
  schedule: "SCHEDULE"
  timeZone: Asia/Kathmandu
  jobTemplate:
    spec:
      template:
        spec:
          restartPolicy: Never
          containers: [{ name: main, image: 'c5c3.local/busybox:1', command: ['true'] }]
"#;

/// Every minute of this hour as a zone counts it that is 5:45 hours ahead.
fn cron_job(cluster: &TestCluster) {
    let now = jiff::Timestamp::now().in_tz("Asia/Kathmandu").unwrap();
    let schedule = format!("* {},{} * * *", now.hour(), (now.hour() + 1) % 24);
    cluster.apply(&CRON.replace("SCHEDULE", &schedule));
}

fn cron_job_ran(cluster: &TestCluster) {
    cluster.until("run by its schedule", || {
        !field(cluster, &["cronjob", "minute"], "{.status.lastSuccessfulTime}").is_empty()
    });
    cluster.kubectl(&["delete", "cronjob", "minute"]);
}

pub(super) const DAEMONS: &str = r#"
apiVersion: apps/v1
kind: DaemonSet
metadata: { name: agent }
spec:
  selector: { matchLabels: { app: agent } }
  template:
    metadata: { labels: { app: agent } }
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - { name: main, image: 'c5c3.local/busybox:1', command: [sleep, '1000'], env: [{ name: V, value: '1' }] }
"#;

/// One pod for each node; a new template reaches each. It stays for later sections.
fn daemon_set(cluster: &TestCluster) {
    cluster.apply(DAEMONS);
    rolled_out(cluster, "daemonset/agent");
    let place = || {
        let mut nodes = pods(
            cluster,
            "app=agent",
            "{.spec.nodeName} {.spec.containers[0].env[0].value}",
        );
        nodes.sort();
        nodes
    };
    assert_eq!(place(), ["node-1 1", "node-2 1"]);
    cluster.kubectl(&["set", "env", "daemonset/agent", "V=2"]);
    rolled_out(cluster, "daemonset/agent");
    cluster.until("replaced", || place() == ["node-1 2", "node-2 2"]);
}

const JOB: &str = r#"
apiVersion: batch/v1
kind: Job
metadata: { name: NAME }
spec:
  SPEC
  template:
    spec:
      restartPolicy: Never
      containers: [{ name: main, image: 'c5c3.local/busybox:1', command: [sh, -c, 'SCRIPT'] }]
"#;

fn jobs(cluster: &TestCluster) {
    let job = |name: &str, spec: &str, script: &str| {
        let text = JOB.replace("NAME", name).replace("SPEC", spec);
        cluster.apply(&text.replace("SCRIPT", script));
    };
    job("three", "completions: 3\n  parallelism: 2", "sleep 1");
    cluster.until("complete", || {
        let path = "{.status.active} {.status.succeeded} {.status.conditions[?(@.type=='Complete')].status}";
        let status = field(cluster, &["job", "three"], path);
        assert!(!status.starts_with('3'), "two at a time");
        status == " 3 True"
    });
    assert_eq!(
        pods(cluster, "job-name=three", "{.status.phase}"),
        ["Succeeded"; 3]
    );

    job("hopeless", "backoffLimit: 0", "exit 1");
    cluster.kubectl(&["wait", "--for=condition=failed", "job/hopeless", "--timeout=60s"]);
    let reason = "{.status.conditions[?(@.type=='Failed')].reason} {.status.failed}";
    assert_eq!(
        field(cluster, &["job", "hopeless"], reason),
        "BackoffLimitExceeded 1"
    );

    job("brief", "ttlSecondsAfterFinished: 1", "true");
    cluster.until("gone by itself", || {
        let left = cluster.kubectl(&["get", "jobs,pods", "-o", "name"]);
        !left.contains("brief")
    });
    cluster.kubectl(&["delete", "job", "three", "hopeless"]);
}

const ROLL: &str = r#"
apiVersion: apps/v1
kind: Deployment
metadata: { name: roll }
spec:
  replicas: 3
  strategy: { rollingUpdate: { maxSurge: 1, maxUnavailable: 0 } }
  selector: { matchLabels: { app: roll } }
  template:
    metadata: { labels: { app: roll } }
    spec:
      terminationGracePeriodSeconds: 0
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command: [sleep, '1000']
        env: [{ name: V, value: '1' }]
        readinessProbe: { exec: { command: ['true'] }, initialDelaySeconds: 1, periodSeconds: 1 }
"#;

/// The most pods that were wanted and the fewest that were ready, seen as often as kubectl
/// can until the update is over. Wanted, not living: old and new ones are made and deleted
/// by two hands.
fn extremes(cluster: &TestCluster, version: &str) -> (usize, usize) {
    let (mut most, mut fewest) = (0, usize::MAX);
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let path = "{.metadata.deletionTimestamp},{.status.conditions[?(@.type=='Ready')].status},\
                    {.spec.containers[0].env[0].value}";
        let living = pods(cluster, "app=roll", path);
        let living: Vec<_> = living.iter().filter(|l| l.starts_with(',')).collect();
        let ready = living.iter().filter(|l| l.contains(",True,")).count();
        let sets = field(
            cluster,
            &["replicasets", "-l", "app=roll"],
            "{.items[*].spec.replicas}",
        );
        let wanted = sets.split(' ').filter_map(|n| n.parse::<usize>().ok()).sum();
        (most, fewest) = (most.max(wanted), fewest.min(ready));
        if living.len() == 3 && living.iter().all(|l| l.ends_with(&format!(",True,{version}"))) {
            return (most, fewest);
        }
        assert!(Instant::now() < deadline, "{living:?}");
    }
}

fn rolling_update(cluster: &TestCluster) {
    cluster.apply(ROLL);
    rolled_out(cluster, "deployment/roll");
    cluster.kubectl(&["set", "env", "deployment/roll", "V=2"]);
    assert_eq!(extremes(cluster, "2"), (4, 3), "one more, none less");
    rolled_out(cluster, "deployment/roll");
    let other = r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}"#;
    cluster.kubectl(&["patch", "deployment/roll", "-p", other]);
    cluster.kubectl(&["set", "env", "deployment/roll", "V=3"]);
    assert_eq!(extremes(cluster, "3"), (3, 2), "none more, one less");
    rolled_out(cluster, "deployment/roll");
}

fn history_and_deadline(cluster: &TestCluster) {
    let history = cluster.kubectl(&["rollout", "history", "deployment/roll"]);
    let revisions = history
        .lines()
        .filter_map(|l| l.split_whitespace().next()?.parse::<u32>().ok());
    assert_eq!(revisions.collect::<Vec<_>>(), [1, 2, 3], "{history}");
    let second = cluster.kubectl(&["rollout", "history", "deployment/roll", "--revision=2"]);
    assert!(second.contains("V:\t2"), "{second}");
    cluster.kubectl(&["rollout", "undo", "deployment/roll", "--to-revision=1"]);
    rolled_out(cluster, "deployment/roll");
    let value = "{.spec.template.spec.containers[0].env[0].value}";
    assert_eq!(field(cluster, &["deployment", "roll"], value), "1");

    // Only now: the updates above may take as long as the machine needs.
    let soon = r#"{"spec":{"progressDeadlineSeconds":5}}"#;
    cluster.kubectl(&["patch", "deployment/roll", "-p", soon]);
    cluster.kubectl(&["set", "image", "deployment/roll", "main=c5c3.local/missing:1"]);
    let reason = "{.status.conditions[?(@.type=='Progressing')].reason}";
    cluster.until("given up", || {
        field(cluster, &["deployment", "roll"], reason) == "ProgressDeadlineExceeded"
    });
    let (good, text) = cluster.try_kubectl(&["rollout", "status", "deployment/roll", "--timeout=20s"]);
    assert!(!good && text.contains("exceeded its progress deadline"), "{text}");
    let ready = field(cluster, &["deployment", "roll"], "{.status.availableReplicas}");
    assert_eq!(ready, "2", "the old ones serve on, one less as allowed");
    cluster.kubectl(&["delete", "deployment", "roll"]);
}

const MEMBERS: &str = r#"
apiVersion: apps/v1
kind: StatefulSet
metadata: { name: NAME }
spec:
  serviceName: NAME
  replicas: 3
  podManagementPolicy: POLICY
  selector: { matchLabels: { app: NAME } }
  template:
    metadata: { labels: { app: NAME } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command: [sh, -c, 'trap "exit 0" TERM; while true; do sleep 0.1; done']
        env: [{ name: V, value: '1' }]
        readinessProbe: { exec: { command: [PROBE] }, initialDelaySeconds: 1, periodSeconds: 1 }
"#;

fn members(name: &str, policy: &str, probe: &str) -> String {
    let text = MEMBERS.replace("NAME", name).replace("POLICY", policy);
    text.replace("PROBE", probe)
}

/// Each waits for the one before it; the last goes first.
fn ordered(cluster: &TestCluster) {
    cluster.apply(&members("row", "OrderedReady", "'true'"));
    rolled_out(cluster, "statefulset/row");
    let times = |name: &str| {
        let path =
            "{.metadata.creationTimestamp} {.status.conditions[?(@.type=='Ready')].lastTransitionTime}";
        let text = field(cluster, &["pod", name], path);
        let (made, ready) = text.split_once(' ').unwrap();
        (made.to_owned(), ready.to_owned())
    };
    // Times of the API compare as text.
    for (first, second) in [("row-0", "row-1"), ("row-1", "row-2")] {
        let (first, second) = (times(first), times(second));
        assert!(first.1 <= second.0, "{first:?} {second:?}");
    }
    cluster.kubectl(&["set", "env", "statefulset/row", "V=2"]);
    rolled_out(cluster, "statefulset/row");
    for (first, second) in [("row-2", "row-1"), ("row-1", "row-0")] {
        let (first, second) = (times(first), times(second));
        assert!(first.1 <= second.0, "{first:?} {second:?}");
    }
    let path = "jsonpath={.metadata.name} {.metadata.deletionTimestamp}{'\\n'}";
    let mut watch = cluster.spawn(&["get", "pods", "-l", "app=row", "-w", "-o", path]);
    let mut shown = BufReader::new(watch.stdout.take().unwrap());
    let mut seen = String::new();
    // The three that are there: from now on nothing is missed.
    for _ in 0..3 {
        shown.read_line(&mut seen).unwrap();
    }
    cluster.kubectl(&["scale", "statefulset/row", "--replicas=1"]);
    cluster.until("one left", || {
        pods(cluster, "app=row", "{.metadata.name}") == ["row-0"]
    });
    watch.kill().unwrap();
    watch.wait().unwrap();
    shown.read_to_string(&mut seen).unwrap();
    let first = |name: &str| seen.lines().position(|l| l.starts_with(&format!("{name} 2")));
    let (second, third) = (first("row-1"), first("row-2"));
    assert!(third.is_some() && third < second, "{seen}");
    cluster.kubectl(&["delete", "statefulset", "row"]);
}

/// None waits for another.
fn parallel(cluster: &TestCluster) {
    cluster.apply(&members("crowd", "Parallel", "'false'"));
    cluster.until("all running, none ready", || {
        let path = "{.status.phase} {.status.conditions[?(@.type=='Ready')].status}";
        pods(cluster, "app=crowd", path) == ["Running False"; 3]
    });
    cluster.kubectl(&["delete", "statefulset", "crowd"]);
}
