//! The programs of Kubernetes on a node, with their arguments and files. Pure but for writing the files.

use std::path::{Path, PathBuf};

use embedded_node::init::Program;
use embedded_node::layout::NodeLayout;
use embedded_node::{Addresses, Error, Result};
use serde_json::{Value, json};

use crate::access::Access;

/// Port of the API on the first node's address.
pub(crate) const API_PORT: u16 = 6443;
pub(crate) const DOMAIN: &str = "cluster.local";

const CONTROL: [&str; 4] = [
    "etcd",
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
];
const EVERY: [&str; 2] = ["kubelet", "kube-proxy"];

/// Refuses a directory that lacks a program, before anything is started.
pub(crate) fn check(directory: &Path) -> Result<()> {
    let mut all = CONTROL.iter().chain(&EVERY);
    match all.find(|name| !directory.join(name).is_file()) {
        None => Ok(()),
        Some(name) => Err(Error::Refused(format!(
            "{} has no {name}: scripts/build-kubernetes builds it",
            directory.display()
        ))),
    }
}

/// Arguments of the programs beside their configuration.
pub(crate) struct Ground<'a> {
    pub programs: &'a Path,
    /// Of the API: the store's data, and everyone's access.
    pub api: &'a Path,
    pub access: &'a Access,
    pub addresses: &'a Addresses,
}

impl Ground<'_> {
    /// The programs of a node; the first one has the control plane too. Their files are written.
    pub(crate) fn of(&self, node: &NodeLayout, first: bool) -> Result<Vec<Program>> {
        let kubelet = node.data.join("kubelet.json");
        let proxy = node.data.join("kube-proxy.json");
        let script = node.data.join("kubelet.sh");
        write(&kubelet, &format!("{:#}\n", self.kubelet(node)))?;
        write(&proxy, &format!("{:#}\n", self.proxy(node)))?;
        write(&script, KUBELET)?;
        let mut all = Vec::new();
        let mut add = |name: &str, command: Vec<String>| {
            all.push(Program {
                command,
                log: node.data.join(format!("{name}.log")),
            });
        };
        if first {
            for (name, arguments) in self.control_plane() {
                add(name, self.command(name, arguments));
            }
        }
        let arguments = vec![
            format!("--config={}", kubelet.display()),
            format!("--kubeconfig={}", self.access.config(&node.name).display()),
            format!("--hostname-override={}", node.name),
            format!("--node-ip={}", self.addresses.node(node.index)),
        ];
        let mut command = vec!["/bin/sh".to_owned(), text(&script)];
        command.extend(self.command("kubelet", arguments));
        add("kubelet", command);
        let arguments = vec![format!("--config={}", proxy.display())];
        add("kube-proxy", self.command("kube-proxy", arguments));
        Ok(all)
    }

    fn command(&self, program: &str, arguments: Vec<String>) -> Vec<String> {
        std::iter::once(text(&self.programs.join(program)))
            .chain(arguments)
            .collect()
    }

    fn control_plane(&self) -> [(&'static str, Vec<String>); 4] {
        let key = |name: &str| text(&self.access.file(name));
        let config = |name: &str| text(&self.access.config(name));
        let etcd = vec![
            format!("--data-dir={}", self.api.join("etcd").display()),
            "--listen-client-urls=http://127.0.0.1:2379".to_owned(),
            "--advertise-client-urls=http://127.0.0.1:2379".to_owned(),
            "--listen-peer-urls=http://127.0.0.1:2380".to_owned(),
            // The cluster is for tests: what a power cut takes is made again.
            "--unsafe-no-fsync".to_owned(),
            "--log-level=warn".to_owned(),
        ];
        let server = vec![
            "--etcd-servers=http://127.0.0.1:2379".to_owned(),
            "--bind-address=0.0.0.0".to_owned(),
            format!("--secure-port={API_PORT}"),
            format!("--advertise-address={}", self.addresses.node(1)),
            format!("--tls-cert-file={}", key("serving.crt")),
            format!("--tls-private-key-file={}", key("serving.key")),
            format!("--client-ca-file={}", key("ca.crt")),
            "--service-account-issuer=https://kubernetes.default.svc".to_owned(),
            format!("--service-account-key-file={}", key("accounts.pub")),
            format!("--service-account-signing-key-file={}", key("accounts.key")),
            format!("--service-cluster-ip-range={}", self.addresses.service_network()),
            "--authorization-mode=Node,RBAC".to_owned(),
            "--enable-admission-plugins=NodeRestriction".to_owned(),
            "--allow-privileged=true".to_owned(),
            "--kubelet-preferred-address-types=InternalIP".to_owned(),
        ];
        let controllers = vec![
            format!("--kubeconfig={}", config("kube-controller-manager")),
            "--use-service-account-credentials=true".to_owned(),
            format!("--service-account-private-key-file={}", key("accounts.key")),
            format!("--root-ca-file={}", key("ca.crt")),
            "--bind-address=127.0.0.1".to_owned(),
            "--allocate-node-cidrs=false".to_owned(),
            // There is one: it need not wait for the lease of the one before.
            "--leader-elect=false".to_owned(),
        ];
        let scheduler = vec![
            format!("--kubeconfig={}", config("kube-scheduler")),
            "--bind-address=127.0.0.1".to_owned(),
            "--leader-elect=false".to_owned(),
        ];
        let [one, two, three, four] = CONTROL;
        [
            (one, etcd),
            (two, server),
            (three, controllers),
            (four, scheduler),
        ]
    }

    fn kubelet(&self, node: &NodeLayout) -> Value {
        json!({
            "apiVersion": "kubelet.config.k8s.io/v1beta1",
            "kind": "KubeletConfiguration",
            // Machines with the first version of control groups are still there.
            "failCgroupV1": false,
            "cgroupDriver": "cgroupfs",
            "cgroupRoot": "/",
            "enforceNodeAllocatable": [],
            "oomScoreAdj": 0,
            "maxOpenFiles": 20000,
            "failSwapOn": false,
            "clusterDNS": [self.addresses.node(1)],
            "clusterDomain": DOMAIN,
            "resolvConf": "/etc/resolv.conf",
            "containerRuntimeEndpoint": "unix:///run/containerd/containerd.sock",
            // Reached from the nodes' own network alone, which has no way out.
            "authentication": {"anonymous": {"enabled": true}, "webhook": {"enabled": false}},
            "authorization": {"mode": "AlwaysAllow"},
            "address": self.addresses.node(node.index),
            "registerNode": true,
            "hairpinMode": "none",
            "maxPods": 200,
            "localStorageCapacityIsolation": false,
            "evictionHard": {"memory.available": "100Mi", "nodefs.available": "1%", "imagefs.available": "1%"},
            "imageGCHighThresholdPercent": 100,
            "serializeImagePulls": false,
        })
    }

    fn proxy(&self, node: &NodeLayout) -> Value {
        json!({
            "apiVersion": "kubeproxy.config.k8s.io/v1alpha1",
            "kind": "KubeProxyConfiguration",
            "mode": "nftables",
            "clientConnection": {"kubeconfig": self.access.config("kube-proxy")},
            "clusterCIDR": self.addresses.all_pods().to_string(),
            "hostnameOverride": node.name,
            "healthzBindAddress": "127.0.0.1:10256",
            "metricsBindAddress": "127.0.0.1:10249",
            // The machine's own limits stay.
            "conntrack": {"maxPerCore": 0, "min": 0, "tcpEstablishedTimeout": "0s", "tcpCloseWaitTimeout": "0s"},
        })
    }

    /// Directories that a node has to see at the same path.
    pub(crate) fn shared(&self, volumes: PathBuf) -> Vec<PathBuf> {
        vec![volumes, self.api.to_owned(), self.programs.to_owned()]
    }
}

/// The kubelet sets switches of the kernel that belong to the whole machine. It finds them set: files with
/// the values that it wants lie over them, in the node alone. The kernel's log is the machine's, too.
const KUBELET: &str = r#"set -eu
set_for_kubelet() {
    if [ "$(cat "/proc/sys/$1")" = "$2" ]; then return; fi
    seen=/run/kubelet-$(echo "$1" | tr / -)
    echo "$2" >"$seen"
    mount --bind "$seen" "/proc/sys/$1"
}
set_for_kubelet vm/overcommit_memory 1
set_for_kubelet vm/panic_on_oom 0
set_for_kubelet kernel/panic 10
set_for_kubelet kernel/panic_on_oops 1
set_for_kubelet kernel/keys/root_maxkeys 1000000
set_for_kubelet kernel/keys/root_maxbytes 25000000
[ -e /dev/kmsg ] || ln -s null /dev/kmsg
exec "$@"
"#;

fn text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

fn write(path: &Path, content: &str) -> Result<()> {
    if let Some(parent) = path.parent() {
        std::fs::create_dir_all(parent).map_err(Error::file("make directory", parent))?;
    }
    std::fs::write(path, content).map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_control_plane_is_on_the_first_node_alone() {
        let directory = tempfile::tempdir().expect("a directory");
        let layout = embedded_node::Layout::new(crate::NAMES, directory.path()).expect("a layout");
        let addresses = Addresses::default();
        let nodes = ["node-1", "node-2"].map(|name| (name.to_owned(), "10.190.0.1".to_owned()));
        let access = Access::prepare(directory.path(), &addresses, 1, &nodes).expect("keys");
        let ground = Ground {
            programs: Path::new("/p"),
            api: directory.path(),
            access: &access,
            addresses: &addresses,
        };
        let programs = |index: u8, first| {
            let node = layout.node(&format!("node-{index}"), index);
            let all = ground.of(&node, first).expect("programs");
            let name = |program: &Program| {
                let file = program.log.file_stem();
                file.map_or_else(String::new, |name| name.to_string_lossy().into_owned())
            };
            all.iter().map(name).collect::<Vec<_>>().join(" ")
        };
        assert_eq!(
            programs(1, true),
            "etcd kube-apiserver kube-controller-manager kube-scheduler kubelet kube-proxy"
        );
        assert_eq!(programs(2, false), "kubelet kube-proxy");
    }

    #[test]
    fn a_missing_program_is_named() {
        let directory = tempfile::tempdir().expect("a directory");
        std::fs::write(directory.path().join("etcd"), "").expect("written");
        let said = check(directory.path())
            .expect_err("no kube-apiserver")
            .to_string();
        assert!(
            said.contains("has no kube-apiserver: scripts/build-kubernetes"),
            "{said}"
        );
    }
}
