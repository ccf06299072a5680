//! Nodes and pods for real: needs root, containerd, runc, the CNI plugins and nftables.
//! Every test has a state directory, and so a fabric and node names, of its own.

mod real {
    mod accidents;
    mod borders;
    mod clusters;
    mod data;
    mod exceptions;
    pub(crate) mod memory_api;
    mod nodes;
    pub(crate) mod outside;
    mod placing;
    mod pods;
    mod ports;
    mod probes;
    mod rebuilt;
    mod registry;
    mod rights;
    mod session;
    mod takeover;
    mod terminals;
    pub(crate) mod test_cluster;
    pub(crate) mod test_nodes;
    mod traffic;
    mod volumes;
    mod workloads;
}
