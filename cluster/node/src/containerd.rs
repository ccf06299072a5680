//! A node's containerd: its configuration and the pods' network.

use std::path::Path;

use serde_json::json;

use crate::addresses::Addresses;
use crate::layout::NodeLayout;

/// Where the CNI plugins are: Debian's path, else the usual one elsewhere.
pub fn plugin_directory() -> Option<&'static str> {
    ["/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"]
        .into_iter()
        .find(|d| Path::new(d).join("bridge").exists())
}

/// What differs between machines.
#[derive(Clone, Debug)]
pub struct Machine {
    pub plugins: String,
    pub runc: String,
    pub apparmor: bool,
    pub snapshotter: String,
}

/// containerd's configuration. Paths below /run are the node's own.
pub fn config(node: &NodeLayout, machine: &Machine) -> String {
    let Machine {
        plugins,
        runc,
        apparmor,
        snapshotter,
    } = machine;
    let root = quoted(&node.containerd_root());
    let cni = quoted(&node.cni());
    let pause = node.names.pause();
    format!(
        r#"version = 2
root = {root}
state = "/run/containerd"
oom_score = 0
[grpc]
  address = "/run/containerd/containerd.sock"
[plugins."io.containerd.gc.v1.scheduler"]
  startup_delay = "10s"
[plugins."io.containerd.grpc.v1.cri"]
  sandbox_image = "{pause}"
  stream_server_address = "127.0.0.1"
  stream_server_port = "0"
  restrict_oom_score_adj = true
  disable_apparmor = {disable_apparmor}
  max_container_log_line_size = 16384
  [plugins."io.containerd.grpc.v1.cri".cni]
    bin_dir = "{plugins}"
    conf_dir = {cni}
  [plugins."io.containerd.grpc.v1.cri".containerd]
    snapshotter = "{snapshotter}"
    [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc]
      runtime_type = "io.containerd.runc.v2"
      [plugins."io.containerd.grpc.v1.cri".containerd.runtimes.runc.options]
        SystemdCgroup = false
        BinaryName = "{runc}"
"#,
        disable_apparmor = !apparmor,
    )
}

fn quoted(path: &Path) -> String {
    // A JSON string is a TOML string too.
    json!(path.to_string_lossy()).to_string()
}

/// The pods' bridge. No masquerading: pod addresses are routed between nodes, and
/// nothing beyond them is reachable.
pub fn network(node: &NodeLayout, addresses: &Addresses) -> String {
    let conflist = json!({
        "cniVersion": "0.4.0",
        "name": "pods",
        "plugins": [
            {
                "type": "bridge",
                "bridge": "cni0",
                "isGateway": true,
                "ipMasq": false,
                "hairpinMode": true,
                "ipam": {
                    "type": "host-local",
                    "dataDir": node.ipam(),
                    "ranges": [[{
                        "subnet": addresses.pod_network(node.index).to_string(),
                        "gateway": addresses.pod_gateway(node.index),
                    }]],
                    "routes": [{ "dst": "0.0.0.0/0" }],
                },
            },
            { "type": "portmap", "capabilities": { "portMappings": true }, "snat": true },
        ],
    });
    format!("{conflist:#}\n")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::Layout;

    #[test]
    fn hostile_paths_stay_quoted() {
        let base = tempfile::tempdir().unwrap();
        let node = Layout::new(crate::names::EXAMPLE, &base.path().join("a\"b"))
            .unwrap()
            .node("n", 2);
        let machine = Machine {
            plugins: "/usr/lib/cni".into(),
            runc: "/usr/sbin/runc".into(),
            apparmor: false,
            snapshotter: "overlayfs".into(),
        };
        let text = config(&node, &machine);
        assert!(text.contains(r#"a\"b/nodes/n/containerd""#), "{text}");
        assert!(text.contains("disable_apparmor = true"));
        assert!(network(&node, &Addresses::default()).contains("10.191.2.0/24"));
    }
}
