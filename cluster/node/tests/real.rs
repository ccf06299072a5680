//! Nodes and pods for real: needs root, containerd, runc, the CNI plugins and nftables.
//! Every test has a state directory, and so a fabric and node names, of its own.

mod real {
    pub mod bed;
    mod cluster;
    pub mod desk;
    mod nodes;
    mod pods;
    pub mod town;
    mod volumes;
}
