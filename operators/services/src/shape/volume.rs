//! Volumes of a process, beside its settings.

use c5c3_api::common::ObjectRef;

use super::OvnCaller;

#[derive(Debug, Clone)]
pub struct Volume {
    pub name: String,
    pub path: String,
    /// The condition that tells whether it is there; none for what every node and every pod has.
    pub part: Option<&'static str>,
    pub source: VolumeSource,
}

#[derive(Debug, Clone)]
pub enum VolumeSource {
    /// A claim that outlives the service, as its data should.
    Claim {
        size: String,
        class: Option<String>,
        sharing: Sharing,
    },
    /// A claim that another service looks after.
    Lent { claim: String },
    /// The way to Ceph, in a Secret.
    Keyring {
        login: CephLogin,
        /// Its keys that are mounted, as files of the same names.
        files: &'static [&'static str],
        /// The CephClient whose key it holds.
        ceph_client: Option<ObjectRef>,
        /// The pool that a pod opens with it before its program starts.
        opens: Option<String>,
        /// The program does not get it, guests do: a container before the program logs in with it.
        tried: bool,
        /// Further users whose keys are beside it: those that others tell this process to be.
        also: Vec<CephLogin>,
    },
    /// A certificate for each title and node of the process, from an authority of the service's own: files
    /// `<title>-<node>.crt` and `.key`, and `ca.crt`. Changes reach running pods.
    NodeCertificates { titles: &'static [&'static str] },
    /// `tls.crt`, `tls.key` and `ca.crt` with which a process logs in to OVN, as a copy that is named by its content:
    /// with others the pods are recreated, and each tries them before its program starts. Nothing without TLS.
    OvnCertificates(OvnCaller),
    /// A directory that goes with the pod.
    Scratch,
    /// A directory of the node.
    Host {
        path: &'static str,
        /// What is mounted in it on one side shows on the other.
        shared: bool,
    },
}

/// Who a process is in Ceph. The keyring of the Secret has the last word.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CephLogin {
    pub secret: String,
    /// The user that the spec names, if it does.
    pub named: Option<String>,
    /// The user as long as nothing else is known.
    pub service: &'static str,
}

/// Whether several pods use a claim at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    None,
    /// Not yet: one that is there already may stay as it is.
    Later,
    Now,
}

impl Volume {
    pub fn scratch(name: &str, path: &str) -> Self {
        Volume {
            name: name.to_owned(),
            path: path.to_owned(),
            part: None,
            source: VolumeSource::Scratch,
        }
    }

    /// A directory of the node, at the same path in the pod.
    pub fn host(path: &'static str) -> Self {
        Volume::host_at(path, path)
    }

    pub fn host_at(host: &'static str, path: &str) -> Self {
        Volume {
            name: host.trim_start_matches('/').replace(['/', '.'], "-"),
            path: path.to_owned(),
            part: None,
            source: VolumeSource::Host {
                path: host,
                shared: false,
            },
        }
    }

    pub fn shared_host(path: &'static str) -> Self {
        Volume {
            source: VolumeSource::Host { path, shared: true },
            ..Volume::host(path)
        }
    }
}
