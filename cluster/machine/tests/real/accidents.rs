//! Accidents: each part of a cluster is lost, and it comes back as it was, with no pod running
//! twice at any time. Pods hold a lock on a shared volume while they run: a second instance of
//! the same pod would find it held and say so.

use std::collections::BTreeSet;
use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use embedded_node::{cgroups, fabric};
use k8s_cri::v1 as cri;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use super::outside::Machine;
use super::test_cluster::{TestCluster, both, get, hold_port};
use super::traffic;

const WEB: &str = r#"
apiVersion: v1
kind: PersistentVolumeClaim
metadata: { name: locks }
spec: { accessModes: [ReadWriteMany], resources: { requests: { storage: 1Mi } } }
---
apiVersion: apps/v1
kind: Deployment
metadata: { name: web }
spec:
  replicas: 2
  selector: { matchLabels: { app: web } }
  template:
    metadata: { labels: { app: web } }
    spec:
      terminationGracePeriodSeconds: 1
      containers:
      - name: main
        image: c5c3.local/busybox:1
        command:
        - sh
        - -c
        - |
          hostname > /www/name
          /usr/bin/flock -n -E 99 /locks/$UID httpd -f -p 8080 -h /www
          test $? = 99 && echo $UID >> /locks/twice
          exit 1
        env: [{ name: UID, valueFrom: { fieldRef: { fieldPath: metadata.uid } } }]
        readinessProbe: { httpGet: { path: /name, port: 8080 }, periodSeconds: 1 }
        volumeMounts:
        - { name: locks, mountPath: /locks }
        - { name: usr, mountPath: /usr, readOnly: true }
        - { name: lib, mountPath: /lib, readOnly: true }
        - { name: lib64, mountPath: /lib64, readOnly: true }
      volumes:
      - { name: locks, persistentVolumeClaim: { claimName: locks } }
      - { name: usr, hostPath: { path: /usr } }
      - { name: lib, hostPath: { path: /usr/lib } }
      - { name: lib64, hostPath: { path: /usr/lib64 } }
      topologySpreadConstraints:
      - { maxSkew: 1, topologyKey: kubernetes.io/hostname, whenUnsatisfiable: ScheduleAnyway,
          labelSelector: { matchLabels: { app: web } } }
---
apiVersion: v1
kind: Service
metadata: { name: web, annotations: { c5c3.io/expose: "EXPOSED" } }
spec: { selector: { app: web }, ports: [{ port: 80, targetPort: 8080 }] }
---
apiVersion: v1
kind: Pod
metadata: { name: client }
spec:
  nodeName: node-1
  terminationGracePeriodSeconds: 0
  containers:
  - name: main
    image: c5c3.local/busybox:1
    command:
    - sh
    - -c
    - |
      while true; do
        answer=$(printf 'GET /name HTTP/1.0\r\n\r\n' | nc -w 1 web 80 2>/dev/null | tail -1)
        echo "${answer:-failed}"
        busybox usleep 20000
      done
"#;

#[test]
fn accidents() {
    let before = Machine::look();
    let cluster = TestCluster::new(2);
    cluster.up();
    let (held, port) = hold_port();
    cluster.apply(&WEB.replace("EXPOSED", &port.to_string()));
    drop(held);
    let case = Case { cluster, port };
    case.all_well();

    case.killed_daemon();
    case.killed_container();
    case.killed_runtime_and_cable();
    case.lost_bridge();
    case.unknown_container();
    case.node_killed_under_traffic();
    case.lost_fabric();
    case.reboot();
    case.half_written_state();
    before.is_untouched();

    case.cluster.down(false);
    case.cluster.left_nothing();
    before.is_untouched();
}

struct Case {
    cluster: TestCluster,
    port: u16,
}

impl Case {
    fn pods(&self, path: &str) -> String {
        let path = format!("jsonpath={{range .items[*]}}{path}{{'\\n'}}{{end}}");
        self.cluster
            .kubectl(&["get", "pods", "-l", "app=web", "-o", &path])
    }

    fn names(&self) -> BTreeSet<String> {
        self.pods("{.metadata.name}").lines().map(String::from).collect()
    }

    fn containers(&self) -> String {
        self.pods("{.metadata.uid} {.status.containerStatuses[0].containerID} {.status.containerStatuses[0].restartCount}")
    }

    /// Two pods, each reached by the Service; no pod has ever run twice.
    fn all_well(&self) {
        let cluster = &self.cluster;
        cluster.until("two ready pods", || {
            let ready =
                self.pods("{.status.conditions[?(@.type=='Ready')].status} {.metadata.deletionTimestamp}");
            ready == "True \nTrue \n"
        });
        let wanted = self.names();
        let seen = std::cell::RefCell::new(BTreeSet::new());
        cluster.until("answered by both", || {
            if let Ok(text) = get(self.port, "/name") {
                seen.borrow_mut().extend(text.lines().last().map(str::to_owned));
            }
            seen.borrow().is_superset(&wanted)
        });
        self.nothing_twice();
    }

    fn nothing_twice(&self) {
        let volumes = self.cluster.layout().volumes();
        let twice: Vec<PathBuf> = walk(&volumes)
            .into_iter()
            .filter(|p| p.ends_with("twice"))
            .collect();
        assert!(twice.is_empty(), "a pod ran twice: {twice:?}");
    }

    fn kill_daemon(&self) {
        kill(Pid::from_raw(self.cluster.daemon()), Signal::SIGKILL).unwrap();
    }

    fn killed_daemon(&self) {
        let before = self.containers();
        self.kill_daemon();
        let t = Instant::now();
        self.cluster.up();
        eprintln!("up after kill -9 in {:?}", t.elapsed());
        self.all_well();
        std::thread::sleep(Duration::from_secs(2));
        assert_eq!(self.containers(), before, "the same containers, no restart");
    }

    /// One container's process is killed: it is started again in the same pod.
    fn killed_container(&self) {
        let victim = self.names().into_iter().next().unwrap();
        let before = self.names();
        // Process 1 of a container takes no signal from inside.
        let group = format!(
            "pods/{}",
            self.cluster
                .kubectl(&["get", "pod", &victim, "-o", "jsonpath={.metadata.uid}"])
        );
        let process = find_process("httpd", &group);
        kill(Pid::from_raw(process), Signal::SIGKILL).unwrap();
        self.cluster.until("restarted", || {
            let path =
                "jsonpath={.status.containerStatuses[0].restartCount} {.status.containerStatuses[0].ready}";
            self.cluster.kubectl(&["get", "pod", &victim, "-o", path]) == "1 true"
        });
        assert_eq!(self.names(), before);
        self.all_well();
    }

    /// containerd of a node dies, then its cable is cut: pods run on and are reached again.
    fn killed_runtime_and_cable(&self) {
        let before = self.containers();
        let init = self.cluster.init(2);
        let children = std::fs::read_to_string(format!("/proc/{init}/task/{init}/children")).unwrap();
        let runtime = children
            .split_whitespace()
            .filter_map(|pid| pid.parse::<i32>().ok())
            .find(|pid| {
                std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|c| c == "containerd\n")
            })
            .unwrap();
        kill(Pid::from_raw(runtime), Signal::SIGKILL).unwrap();
        self.in_fabric(&["ip", "link", "del", "n2"]);
        let t = Instant::now();
        for pod in self.names() {
            self.cluster.until("able to run commands again", || {
                self.cluster
                    .try_kubectl(&["exec", &pod, "--", "hostname"])
                    .1
                    .contains(&pod)
            });
        }
        self.all_well();
        eprintln!("runtime and cable back after {:?}", t.elapsed());
        assert_eq!(self.containers(), before, "the same containers, no restart");
    }

    fn in_fabric(&self, args: &[&str]) {
        let done = Command::new("nsenter")
            .arg(format!("--net={}", self.cluster.layout().fabric().display()))
            .args(args)
            .output()
            .unwrap();
        assert!(done.status.success(), "{}", both(&done));
    }

    fn lost_bridge(&self) {
        let before = self.containers();
        self.in_fabric(&["ip", "link", "del", "fab0"]);
        self.all_well();
        assert_eq!(self.containers(), before, "the same containers, no restart");
    }

    /// What runs on a node though the API knows no such pod is ended.
    fn unknown_container(&self) {
        let cluster = &self.cluster;
        // The daemon would end the pod while it is half made.
        let held = Held::new(cluster.daemon());
        let made = cluster.runtime(1, async |runtime| {
            let labels = [
                ("io.kubernetes.pod.uid", "nobody"),
                ("io.kubernetes.pod.name", "nobody"),
                ("io.kubernetes.pod.namespace", "default"),
            ];
            let labels: std::collections::HashMap<String, String> =
                labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into();
            let config = cri::PodSandboxConfig {
                metadata: Some(cri::PodSandboxMetadata {
                    name: "nobody".into(),
                    uid: "nobody".into(),
                    namespace: "default".into(),
                    attempt: 0,
                }),
                labels: labels.clone(),
                log_directory: cluster
                    .node_layout(1)
                    .logs()
                    .join("nobody")
                    .to_string_lossy()
                    .into(),
                linux: Some(cri::LinuxPodSandboxConfig {
                    cgroup_parent: "/pods/nobody".into(),
                    ..Default::default()
                }),
                ..Default::default()
            };
            let sandbox = runtime.run_sandbox(config.clone()).await.unwrap();
            let container = cri::ContainerConfig {
                metadata: Some(cri::ContainerMetadata {
                    name: "main".into(),
                    attempt: 0,
                }),
                image: Some(cri::ImageSpec {
                    image: super::test_nodes::BUSYBOX.into(),
                    ..Default::default()
                }),
                command: vec!["sleep".into(), "1000".into()],
                labels,
                log_path: "main.log".into(),
                ..Default::default()
            };
            let id = runtime
                .create_container(&sandbox, container, config)
                .await
                .unwrap();
            runtime.start_container(&id).await.unwrap();
            sandbox
        });
        drop(held);
        let t = Instant::now();
        cluster.until("ended the unknown pod", || {
            let left = cluster.runtime(1, async |runtime| runtime.sandboxes(&[]).await.unwrap());
            left.iter().all(|s| s.id != made)
        });
        eprintln!("a pod that the API does not know ended after {:?}", t.elapsed());
        self.all_well();
    }

    /// Process 1 of a node dies while a pod of the other node sends requests without a pause.
    fn node_killed_under_traffic(&self) {
        let cluster = &self.cluster;
        let lost = self.pods("{.spec.nodeName} {.metadata.name} {.status.podIP}");
        let lost = lost.lines().find_map(|l| l.strip_prefix("node-2 ")).unwrap();
        let (lost, ip) = lost.split_once(' ').unwrap();
        let ready = "jsonpath={.metadata.name} {.status.conditions[?(@.type=='Ready')].status}{'\\n'}";
        let mut watch = cluster.spawn(&["get", "pods", "-l", "app=web", "--watch-only", "-o", ready]);
        cluster.until("traffic to both", || {
            let log = cluster.kubectl(&["logs", "client", "--tail=50"]);
            self.names().iter().all(|name| log.contains(name))
        });
        let pulled = jiff::Timestamp::now();
        let t = Instant::now();
        cluster.node(&["kill", "node-2"]);
        let rules = || both(&cluster.inside(1, &["nft", "list", "table", "ip", "c5c3"]));
        cluster.until("out of the rules", || !rules().contains(&format!("{ip}:8080")));
        eprintln!("endpoint out of the other node's rules within {:?}", t.elapsed());
        let slices = || {
            cluster.kubectl(&[
                "get",
                "endpointslices",
                "-l",
                "kubernetes.io/service-name=web",
                "-o",
                "jsonpath={range .items[*].endpoints[?(@.conditions.ready==true)]}{.addresses[0]} {end}",
            ])
        };
        cluster.until("out of the slices", || !slices().contains(ip));
        eprintln!("and out of the API within {:?}", t.elapsed());
        // A node that is only silent is taken for lost after forty seconds.
        assert!(
            t.elapsed() < Duration::from_secs(30),
            "its end was seen, not its silence"
        );
        let state = "jsonpath={.status.conditions[?(@.type=='Ready')].status}";
        cluster.until("marked down", || {
            cluster.kubectl(&["get", "node", "node-2", "-o", state]) == "False"
        });
        cluster.until("two pods on the other node", || {
            self.pods("{.spec.nodeName} {.status.conditions[?(@.type=='Ready')].status}")
                == "node-1 True\nnode-1 True\n"
        });
        eprintln!("two ready replicas on the other node after {:?}", t.elapsed());
        assert!(cluster.node(&["list"]).contains("node-2\t10.190.0.2\tOff"));
        std::thread::sleep(Duration::from_secs(3));
        let log = cluster.kubectl(&["logs", "client", "--timestamps"]);
        traffic::judge(&log, pulled, lost);

        let t = Instant::now();
        cluster.node(&["start", "node-2"]);
        cluster.until("back", || {
            cluster.kubectl(&["get", "node", "node-2", "-o", state]) == "True"
        });
        eprintln!("node back after {:?}", t.elapsed());
        // Its old pods are gone from it: they were given up and replaced.
        cluster.until("empty", || {
            let left = cluster.runtime(2, async |runtime| runtime.containers(&[]).await.unwrap());
            left.is_empty()
        });
        watch.kill().unwrap();
        let seen = watch.wait_with_output().unwrap();
        let seen = String::from_utf8_lossy(&seen.stdout).into_owned();
        assert!(seen.contains(&format!("{lost} False")), "marked lost: {seen}");
        self.nothing_twice();
        // One on each node again.
        cluster.kubectl(&["rollout", "restart", "deployment/web"]);
        cluster.kubectl(&["rollout", "status", "deployment/web", "--timeout=60s"]);
        self.all_well();
    }

    /// The fabric's namespace is gone, and every cable with it, while nobody looks.
    fn lost_fabric(&self) {
        let before = self.containers();
        self.kill_daemon();
        let handle = self.cluster.layout().fabric();
        while embedded_node::process::Process::of(self.cluster.daemon()).is_some() {
            std::thread::sleep(Duration::from_millis(10));
        }
        nix::mount::umount2(&handle, nix::mount::MntFlags::MNT_DETACH).unwrap();
        let uplink = || both(&self.cluster.inside(2, &["ip", "-o", "link", "show", "eth0"]));
        self.cluster
            .until("without its cable", || uplink().contains("does not exist"));
        let t = Instant::now();
        self.cluster.up();
        self.all_well();
        eprintln!("fabric made anew and all reached after {:?}", t.elapsed());
        assert_eq!(self.containers(), before, "the same containers, no restart");
    }

    /// Every process, mount, namespace and cgroup is gone; the state directory is there.
    fn power_cut(&self) {
        let layout = self.cluster.layout();
        let inits = [self.cluster.init(1), self.cluster.init(2)];
        self.kill_daemon();
        for init in inits {
            kill(Pid::from_raw(init), Signal::SIGKILL).unwrap();
        }
        for init in inits {
            while embedded_node::process::Process::of(init).is_some() {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        fabric::remove(&layout).unwrap();
        for index in [1, 2] {
            cgroups::remove(&self.cluster.node_layout(index).cgroup, Duration::from_secs(10)).unwrap();
        }
        self.cluster.left_nothing();
    }

    fn reboot(&self) {
        let before = self.names();
        self.power_cut();
        let t = Instant::now();
        self.cluster.up();
        self.all_well();
        eprintln!("all well {:?} after a reboot", t.elapsed());
        assert_eq!(self.names(), before, "the same pods, started again");
    }

    /// The power goes while files are written: some are cut short, one node's are gone.
    fn half_written_state(&self) {
        let before = self.names();
        self.power_cut();
        let state = &self.cluster.state;
        for (file, text) in [
            ("cluster.json", "{ \"clusters\": ["),
            ("daemon.json", "{"),
            ("builtin/index.json", ""),
            ("nodes/node-1/containerd.toml", "version ="),
            ("nodes/node-1/cni/10-pods.conflist", "{"),
            ("nodes/node-1/etc/hosts", ""),
        ] {
            assert!(state.join(file).exists(), "{file}");
            std::fs::write(state.join(file), text).unwrap();
        }
        std::fs::remove_dir_all(state.join("nodes/node-2")).unwrap();
        self.cluster.up();
        self.all_well();
        assert_eq!(self.names(), before, "the same pods, started again");
        // A daemon whose own file is damaged is found by its lock.
        std::fs::write(state.join("daemon.json"), "{").unwrap();
        assert!(self.cluster.up().contains("KUBECONFIG"), "it runs already");
    }
}

fn walk(directory: &std::path::Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            found.extend(walk(&entry.path()));
        } else {
            found.push(entry.path());
        }
    }
    found
}

/// A process of a pod, by its command and its cgroup.
fn find_process(command: &str, group: &str) -> i32 {
    std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|e| e.file_name().to_str()?.parse::<i32>().ok())
        .find(|pid| {
            let read =
                |file: &str| std::fs::read_to_string(format!("/proc/{pid}/{file}")).unwrap_or_default();
            read("cmdline").starts_with(command) && read("cgroup").contains(group)
        })
        .unwrap_or_else(|| panic!("no {command} in {group}"))
}

/// A process that stands still as long as this lives.
struct Held(Pid);

impl Held {
    fn new(process: i32) -> Self {
        let process = Pid::from_raw(process);
        kill(process, Signal::SIGSTOP).unwrap();
        Self(process)
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let _ = kill(self.0, Signal::SIGCONT);
    }
}
