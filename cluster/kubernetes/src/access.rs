//! Keys of the cluster, and a kubeconfig for everyone who acts in it.

use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use apiserver::auth::{Authority, ClientCertificate};
use embedded_node::{Addresses, Error, Result};
use serde_json::{Value, json};

/// Programs of the control plane and the user that Kubernetes' own roles are bound to.
const PROGRAMS: [(&str, &str); 3] = [
    ("kube-controller-manager", "system:kube-controller-manager"),
    ("kube-scheduler", "system:kube-scheduler"),
    ("kube-proxy", "system:kube-proxy"),
];

/// Where the files of access are.
pub(crate) struct Access {
    directory: PathBuf,
}

impl Access {
    /// Makes what is missing. `port` is that of the API on loopback, `nodes` are names and addresses.
    pub(crate) fn prepare(
        directory: &Path,
        addresses: &Addresses,
        port: u16,
        nodes: &[(String, String)],
    ) -> Result<Self> {
        let access = Self {
            directory: directory.to_owned(),
        };
        let failed = |e: &dyn std::fmt::Display| Error::said(format!("keys of the cluster: {e}"));
        let mut names: Vec<String> = ["kubernetes", "kubernetes.default", "kubernetes.default.svc"]
            .map(str::to_owned)
            .to_vec();
        names.push("kubernetes.default.svc.cluster.local".to_owned());
        names.push(addresses.api_service().to_string());
        names.extend(nodes.iter().map(|(_, address)| address.clone()));
        let authority = Authority::open(&access.keys(), &names).map_err(|e| failed(&e))?;
        if !access.file("accounts.pub").exists() {
            let key = rcgen::KeyPair::generate().map_err(|e| failed(&e))?;
            write(&access.file("accounts.key"), &key.serialize_pem())?;
            write(&access.file("accounts.pub"), &key.public_key_pem())?;
        }
        let inside = nodes.first().map_or("127.0.0.1", |(_, address)| address);
        let inside = format!("https://{inside}:{}", crate::programs::API_PORT);
        let outside = format!("https://127.0.0.1:{port}");
        write_config(
            &directory.join("kubeconfig"),
            &authority,
            &outside,
            authority.admin(),
        )?;
        for (program, user) in PROGRAMS {
            let certificate = authority.issue_client(user, &[]).map_err(|e| failed(&e))?;
            write_config(&access.config(program), &authority, &inside, &certificate)?;
        }
        for (node, _) in nodes {
            let user = format!("system:node:{node}");
            let certificate = authority
                .issue_client(&user, &["system:nodes"])
                .map_err(|e| failed(&e))?;
            write_config(&access.config(node), &authority, &inside, &certificate)?;
        }
        Ok(access)
    }

    fn keys(&self) -> PathBuf {
        self.directory.join("keys")
    }

    /// A key or certificate.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.keys().join(name)
    }

    /// The kubeconfig of a program or node.
    pub(crate) fn config(&self, name: &str) -> PathBuf {
        self.keys().join(format!("{name}.kubeconfig"))
    }
}

fn write_config(path: &Path, authority: &Authority, server: &str, user: &ClientCertificate) -> Result<()> {
    let config = kubeconfig(authority.certificate(), server, user);
    write(path, &format!("{config:#}\n"))
}

/// JSON is YAML: every reader of kubeconfigs takes it.
fn kubeconfig(authority: &str, server: &str, user: &ClientCertificate) -> Value {
    use k8s_openapi::ByteString;
    let data = |text: &str| json!(ByteString(text.as_bytes().to_vec()));
    json!({
        "apiVersion": "v1",
        "kind": "Config",
        "current-context": "kubernetes",
        "contexts": [{"name": "kubernetes", "context": {"cluster": "kubernetes", "user": "own"}}],
        "clusters": [{"name": "kubernetes", "cluster": {
            "server": server, "certificate-authority-data": data(authority),
        }}],
        "users": [{"name": "own", "user": {
            "client-certificate-data": data(&user.certificate), "client-key-data": data(&user.key),
        }}],
    })
}

/// For root alone: most of these files hold a key.
fn write(path: &Path, text: &str) -> Result<()> {
    use std::io::Write;
    std::fs::File::options()
        .write(true)
        .create(true)
        .truncate(true)
        .mode(0o600)
        .open(path)
        .and_then(|mut file| file.write_all(text.as_bytes()))
        .map_err(Error::file("write", path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn everyone_has_a_kubeconfig_that_nobody_else_reads() {
        let directory = tempfile::tempdir().expect("a directory");
        let nodes = [("node-1".to_owned(), "10.190.0.1".to_owned())];
        let access = Access::prepare(directory.path(), &Addresses::default(), 7443, &nodes).expect("keys");
        let admin = directory.path().join("kubeconfig");
        for file in [
            admin.clone(),
            access.config("node-1"),
            access.config("kube-proxy"),
        ] {
            let mode = std::fs::metadata(&file)
                .expect("it is there")
                .permissions()
                .mode();
            assert_eq!(mode & 0o777, 0o600, "{}", file.display());
            kube::config::Kubeconfig::read_from(&file).expect("a kubeconfig");
        }
        let text = std::fs::read_to_string(&admin).expect("it is there");
        assert!(text.contains("https://127.0.0.1:7443"), "{text}");
        let key = std::fs::read(access.file("accounts.key")).expect("a key");
        Access::prepare(directory.path(), &Addresses::default(), 7443, &nodes).expect("again");
        let kept = std::fs::read(access.file("accounts.key")).expect("a key");
        assert_eq!(kept, key, "tokens of before are good");
    }
}
