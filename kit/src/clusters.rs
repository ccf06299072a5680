//! Several clusters in one process: each has a name, and a client that comes from a kubeconfig context.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use kube::Client;
use kube::config::{Config, InferConfigError, KubeConfigOptions, Kubeconfig, KubeconfigError};

use crate::fault::{plain, with_causes};
use crate::kinds::Kind;

pub type ClusterName = Cow<'static, str>;

/// The cluster that holds the objects a controller watches.
pub const HOME: ClusterName = Cow::Borrowed("home");

/// In the declaration of a kind: all known clusters except the home cluster.
pub const OTHERS: ClusterName = Cow::Borrowed("*");

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("there is no cluster {name:?}, only {known}. Name it with --cluster NAME=CONTEXT")]
    UnknownCluster { name: String, known: String },
    // The causes are in the text, once: as sources they would be said again by whoever prints those.
    #[error("kubeconfig: {0}")]
    Kubeconfig(String),
    #[error("no kubeconfig found, and not running inside a cluster: {0}. Set KUBECONFIG or --kubeconfig")]
    NoConfiguration(String),
    #[error("client of cluster {name:?}: {why}")]
    Client { name: String, why: String },
    #[error("a watch of the controller {controller} panicked; see its log")]
    Watch { controller: &'static str },
}

impl From<KubeconfigError> for ClusterError {
    fn from(error: KubeconfigError) -> Self {
        ClusterError::Kubeconfig(with_causes(&error))
    }
}

impl From<InferConfigError> for ClusterError {
    fn from(error: InferConfigError) -> Self {
        ClusterError::NoConfiguration(with_causes(&error))
    }
}

/// Clients by cluster name. There is always a home.
#[derive(Clone)]
pub struct Clusters {
    home: Client,
    others: BTreeMap<String, Client>,
}

impl Clusters {
    pub fn of(home: Client) -> Self {
        Clusters {
            home,
            others: BTreeMap::new(),
        }
    }

    pub fn with(mut self, name: impl Into<String>, client: Client) -> Self {
        self.others.insert(name.into(), client);
        self
    }

    /// `context` picks the home (else the current context, or the cluster we run in);
    /// `others` maps names to contexts of the same kubeconfig.
    pub async fn connect(
        kubeconfig: Option<&Path>,
        context: Option<&str>,
        others: &[(String, String)],
    ) -> Result<Self, ClusterError> {
        let home = configuration(kubeconfig, context).await?;
        Clusters::of(client(&HOME, home)?).join(kubeconfig, others).await
    }

    /// More clusters: names, and contexts of a kubeconfig. A program that runs inside of its home needs one
    /// for them alone.
    pub async fn join(
        mut self,
        kubeconfig: Option<&Path>,
        others: &[(String, String)],
    ) -> Result<Self, ClusterError> {
        for (name, context) in others {
            let config = configuration(kubeconfig, Some(context)).await?;
            self = self.with(name.clone(), client(name, config)?);
        }
        Ok(self)
    }

    pub fn home(&self) -> &Client {
        &self.home
    }

    /// Each kind of [`OTHERS`] becomes one for each of them.
    pub(crate) fn spread(&self, kinds: Vec<Kind>) -> Vec<Kind> {
        let others = |kind: &Kind| -> Vec<Kind> {
            let names = self.others.keys().cloned();
            names.map(|name| kind.clone().in_cluster(name)).collect()
        };
        let one = |kind: Kind| {
            if kind.cluster == OTHERS {
                others(&kind)
            } else {
                vec![kind]
            }
        };
        kinds.into_iter().flat_map(one).collect()
    }

    pub(crate) fn names(&self) -> Vec<ClusterName> {
        let others = self.others.keys().cloned().map(Cow::Owned);
        [HOME].into_iter().chain(others).collect()
    }

    pub fn get(&self, name: &str) -> Result<&Client, ClusterError> {
        if name == HOME {
            return Ok(&self.home);
        }
        self.others.get(name).ok_or_else(|| ClusterError::UnknownCluster {
            name: name.to_owned(),
            known: self.names().join(", "),
        })
    }
}

async fn configuration(path: Option<&Path>, context: Option<&str>) -> Result<Config, ClusterError> {
    let options = KubeConfigOptions {
        context: context.map(str::to_owned),
        ..KubeConfigOptions::default()
    };
    Ok(match (path, context) {
        (Some(path), _) => Config::from_custom_kubeconfig(Kubeconfig::read_from(path)?, &options).await?,
        (None, Some(_)) => Config::from_kubeconfig(&options).await?,
        (None, None) => Config::infer().await?,
    })
}

fn client(name: &str, config: Config) -> Result<Client, ClusterError> {
    Client::try_from(config).map_err(|error| ClusterError::Client {
        name: name.to_owned(),
        why: plain(&error),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn kinds_of_all_others_are_those_of_each() {
        let client = || {
            let config = Config::new("http://127.0.0.1:1".parse().expect("a URL"));
            Client::try_from(config).expect("a client")
        };
        let secrets = Kind::of::<k8s_openapi::api::core::v1::Secret>;
        let declared = || vec![secrets(), secrets().in_cluster(OTHERS)];
        let alone = Clusters::of(client());
        assert_eq!(alone.spread(declared()), [secrets()]);
        let three = alone.with("b", client()).with("a", client());
        let spread = three.spread(declared());
        let names: Vec<&str> = spread.iter().map(|kind| kind.cluster.as_ref()).collect();
        assert_eq!(names, ["home", "a", "b"]);
    }

    #[tokio::test]
    async fn a_kubeconfig_that_is_not_there_is_said_once() {
        let path = Path::new("/nonexistent/kubeconfig");
        let error = Clusters::connect(Some(path), None, &[]).await.err();
        let error: Box<dyn std::error::Error> = error.expect("no such file").into();
        let text = error.to_string();
        assert_eq!(text.matches("No such file").count(), 1, "{text}");
        assert_eq!(text.matches("/nonexistent/kubeconfig").count(), 1, "{text}");
        assert!(error.source().is_none(), "or it is said again: {text}");
    }
}
