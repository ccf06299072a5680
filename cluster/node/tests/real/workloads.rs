//! Every workload controller with real containers on two nodes, a section for each.

use std::io::{BufRead, BufReader, Read};
use std::time::{Duration, Instant};

use super::placing;
use super::town::Town;

type Section = (&'static str, fn(&Town));

#[test]
fn workloads() {
    let town = Town::new(2);
    town.up();
    // Its minute comes while the others run.
    let t = Instant::now();
    cron_job(&town);
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
        section(&town);
        eprintln!("{:5.1} s  {name}", t.elapsed().as_secs_f32());
    }
    town.down(false);
    town.left_nothing();
}

/// One line for each pod with this label.
pub fn pods(town: &Town, label: &str, path: &str) -> Vec<String> {
    let path = format!("jsonpath={{range .items[*]}}{path}{{'\\n'}}{{end}}");
    let text = town.kubectl(&["get", "pods", "-l", label, "-o", &path]);
    text.lines().map(String::from).collect()
}

pub fn field(town: &Town, what: &[&str], path: &str) -> String {
    let path = format!("jsonpath={path}");
    let mut args = vec!["get"];
    args.extend(what);
    args.extend(["-o", &path]);
    town.kubectl(&args)
}

pub fn rolled_out(town: &Town, what: &str) {
    town.kubectl(&["rollout", "status", what, "--timeout=90s"]);
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
fn cron_job(town: &Town) {
    let now = jiff::Timestamp::now().in_tz("Asia/Kathmandu").unwrap();
    let schedule = format!("* {},{} * * *", now.hour(), (now.hour() + 1) % 24);
    town.apply(&CRON.replace("SCHEDULE", &schedule));
}

fn cron_job_ran(town: &Town) {
    town.until("run by its schedule", || {
        !field(town, &["cronjob", "minute"], "{.status.lastSuccessfulTime}").is_empty()
    });
    town.kubectl(&["delete", "cronjob", "minute"]);
}

pub const DAEMONS: &str = r#"
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
fn daemon_set(town: &Town) {
    town.apply(DAEMONS);
    rolled_out(town, "daemonset/agent");
    let place = || {
        let mut nodes = pods(
            town,
            "app=agent",
            "{.spec.nodeName} {.spec.containers[0].env[0].value}",
        );
        nodes.sort();
        nodes
    };
    assert_eq!(place(), ["node-1 1", "node-2 1"]);
    town.kubectl(&["set", "env", "daemonset/agent", "V=2"]);
    rolled_out(town, "daemonset/agent");
    town.until("replaced", || place() == ["node-1 2", "node-2 2"]);
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

fn jobs(town: &Town) {
    let job = |name: &str, spec: &str, script: &str| {
        let text = JOB.replace("NAME", name).replace("SPEC", spec);
        town.apply(&text.replace("SCRIPT", script));
    };
    job("three", "completions: 3\n  parallelism: 2", "sleep 1");
    town.until("complete", || {
        let path = "{.status.active} {.status.succeeded} {.status.conditions[?(@.type=='Complete')].status}";
        let status = field(town, &["job", "three"], path);
        assert!(!status.starts_with('3'), "two at a time");
        status == " 3 True"
    });
    assert_eq!(pods(town, "job-name=three", "{.status.phase}"), ["Succeeded"; 3]);

    job("hopeless", "backoffLimit: 0", "exit 1");
    town.kubectl(&["wait", "--for=condition=failed", "job/hopeless", "--timeout=60s"]);
    let reason = "{.status.conditions[?(@.type=='Failed')].reason} {.status.failed}";
    assert_eq!(
        field(town, &["job", "hopeless"], reason),
        "BackoffLimitExceeded 1"
    );

    job("brief", "ttlSecondsAfterFinished: 1", "true");
    town.until("gone by itself", || {
        let left = town.kubectl(&["get", "jobs,pods", "-o", "name"]);
        !left.contains("brief")
    });
    town.kubectl(&["delete", "job", "three", "hopeless"]);
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
fn extremes(town: &Town, version: &str) -> (usize, usize) {
    let (mut most, mut fewest) = (0, usize::MAX);
    let deadline = Instant::now() + Duration::from_secs(90);
    loop {
        let path = "{.metadata.deletionTimestamp},{.status.conditions[?(@.type=='Ready')].status},\
                    {.spec.containers[0].env[0].value}";
        let living = pods(town, "app=roll", path);
        let living: Vec<_> = living.iter().filter(|l| l.starts_with(',')).collect();
        let ready = living.iter().filter(|l| l.contains(",True,")).count();
        let sets = field(
            town,
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

fn rolling_update(town: &Town) {
    town.apply(ROLL);
    rolled_out(town, "deployment/roll");
    town.kubectl(&["set", "env", "deployment/roll", "V=2"]);
    assert_eq!(extremes(town, "2"), (4, 3), "one more, none less");
    rolled_out(town, "deployment/roll");
    let other = r#"{"spec":{"strategy":{"rollingUpdate":{"maxSurge":0,"maxUnavailable":1}}}}"#;
    town.kubectl(&["patch", "deployment/roll", "-p", other]);
    town.kubectl(&["set", "env", "deployment/roll", "V=3"]);
    assert_eq!(extremes(town, "3"), (3, 2), "none more, one less");
    rolled_out(town, "deployment/roll");
}

fn history_and_deadline(town: &Town) {
    let history = town.kubectl(&["rollout", "history", "deployment/roll"]);
    let revisions = history
        .lines()
        .filter_map(|l| l.split_whitespace().next()?.parse::<u32>().ok());
    assert_eq!(revisions.collect::<Vec<_>>(), [1, 2, 3], "{history}");
    let second = town.kubectl(&["rollout", "history", "deployment/roll", "--revision=2"]);
    assert!(second.contains("V:\t2"), "{second}");
    town.kubectl(&["rollout", "undo", "deployment/roll", "--to-revision=1"]);
    rolled_out(town, "deployment/roll");
    let value = "{.spec.template.spec.containers[0].env[0].value}";
    assert_eq!(field(town, &["deployment", "roll"], value), "1");

    // Only now: the updates above may take as long as the machine needs.
    let soon = r#"{"spec":{"progressDeadlineSeconds":5}}"#;
    town.kubectl(&["patch", "deployment/roll", "-p", soon]);
    town.kubectl(&["set", "image", "deployment/roll", "main=c5c3.local/missing:1"]);
    let reason = "{.status.conditions[?(@.type=='Progressing')].reason}";
    town.until("given up", || {
        field(town, &["deployment", "roll"], reason) == "ProgressDeadlineExceeded"
    });
    let (good, text) = town.try_kubectl(&["rollout", "status", "deployment/roll", "--timeout=20s"]);
    assert!(!good && text.contains("exceeded its progress deadline"), "{text}");
    let ready = field(town, &["deployment", "roll"], "{.status.availableReplicas}");
    assert_eq!(ready, "2", "the old ones serve on, one less as allowed");
    town.kubectl(&["delete", "deployment", "roll"]);
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
fn ordered(town: &Town) {
    town.apply(&members("row", "OrderedReady", "'true'"));
    rolled_out(town, "statefulset/row");
    let times = |name: &str| {
        let path =
            "{.metadata.creationTimestamp} {.status.conditions[?(@.type=='Ready')].lastTransitionTime}";
        let text = field(town, &["pod", name], path);
        let (made, ready) = text.split_once(' ').unwrap();
        (made.to_owned(), ready.to_owned())
    };
    // Times of the API compare as text.
    for (first, second) in [("row-0", "row-1"), ("row-1", "row-2")] {
        let (first, second) = (times(first), times(second));
        assert!(first.1 <= second.0, "{first:?} {second:?}");
    }
    town.kubectl(&["set", "env", "statefulset/row", "V=2"]);
    rolled_out(town, "statefulset/row");
    for (first, second) in [("row-2", "row-1"), ("row-1", "row-0")] {
        let (first, second) = (times(first), times(second));
        assert!(first.1 <= second.0, "{first:?} {second:?}");
    }
    let path = "jsonpath={.metadata.name} {.metadata.deletionTimestamp}{'\\n'}";
    let mut watch = town.spawn(&["get", "pods", "-l", "app=row", "-w", "-o", path]);
    let mut shown = BufReader::new(watch.stdout.take().unwrap());
    let mut seen = String::new();
    // The three that are there: from now on nothing is missed.
    for _ in 0..3 {
        shown.read_line(&mut seen).unwrap();
    }
    town.kubectl(&["scale", "statefulset/row", "--replicas=1"]);
    town.until("one left", || {
        pods(town, "app=row", "{.metadata.name}") == ["row-0"]
    });
    watch.kill().unwrap();
    watch.wait().unwrap();
    shown.read_to_string(&mut seen).unwrap();
    let first = |name: &str| seen.lines().position(|l| l.starts_with(&format!("{name} 2")));
    let (second, third) = (first("row-1"), first("row-2"));
    assert!(third.is_some() && third < second, "{seen}");
    town.kubectl(&["delete", "statefulset", "row"]);
}

/// None waits for another.
fn parallel(town: &Town) {
    town.apply(&members("crowd", "Parallel", "'false'"));
    town.until("all running, none ready", || {
        let path = "{.status.phase} {.status.conditions[?(@.type=='Ready')].status}";
        pods(town, "app=crowd", path) == ["Running False"; 3]
    });
    town.kubectl(&["delete", "statefulset", "crowd"]);
}
