//! Finds the cluster that a command acts on.

use std::path::{Path, PathBuf};

use anyhow::Context;
use c5c3_kit::Clusters;
use clap::Args;
use kube::Client;
use kube::config::Kubeconfig;

use super::NAMESPACE;
use super::sight::{self, Cluster, Sight};
use crate::commands::cluster::StateDir;
use crate::failure::Failure;

const STORAGE: &str = "storage";

/// The cluster and namespace of a cloud: the embedded one of this machine unless told otherwise.
#[derive(Args, Clone)]
pub(crate) struct Target {
    #[command(flatten)]
    place: StateDir,
    /// Kubeconfig file of another cluster [default: the embedded cluster's, else as kubectl does]
    #[arg(long, value_name = "FILE")]
    kubeconfig: Option<PathBuf>,
    /// Context in that file [default: the current one]
    #[arg(long)]
    context: Option<String>,
    /// Namespace of the cloud.
    #[arg(long, short, default_value = NAMESPACE)]
    pub namespace: String,
}

impl Target {
    /// A target on the embedded cluster below this state directory.
    pub(crate) fn embedded(place: &StateDir) -> Self {
        Target {
            place: place.clone(),
            kubeconfig: None,
            context: None,
            namespace: NAMESPACE.to_owned(),
        }
    }

    /// A target on another cluster.
    pub(crate) fn elsewhere(place: &StateDir, kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        Target {
            kubeconfig,
            context,
            ..Target::embedded(place)
        }
    }

    fn own(&self) -> PathBuf {
        self.place.path().join("api/kubeconfig")
    }

    fn file<'a>(&'a self, own: &'a Path) -> Result<Option<&'a Path>, Failure> {
        let there = own
            .try_exists()
            .with_context(|| format!("cannot read {}: run this command as root", own.display()))?;
        self.chosen(own, there)
    }

    /// The cluster of the cloud, and those of its hypervisors: contexts of the same file, under the
    /// names that the operators know.
    pub(crate) async fn sight(&self) -> Result<Sight, Failure> {
        let client = self.client().await?;
        let own = self.own();
        let mut sight = Sight {
            others: Vec::new(),
            blind: Vec::new(),
            home: Cluster {
                name: self.context_name(self.file(&own)?),
                client,
            },
        };
        let mut names = sight::others(&sight.home.client, &self.namespace).await?;
        names.extend(self.storage(&sight.home.name)?);
        for name in names {
            match self.other(&name).await {
                Ok(client) => sight.others.push(Cluster { name, client }),
                Err(why) => sight.blind.push((name, why.to_string())),
            }
        }
        Ok(sight)
    }

    /// The embedded cluster for storage, where it is one of its own: no object of a cloud names it.
    fn storage(&self, home: &str) -> Result<Option<String>, Failure> {
        let own = self.own();
        if self.file(&own)? != Some(own.as_path()) || home == STORAGE {
            return Ok(None);
        }
        let contexts = Kubeconfig::read_from(&own).map(|config| config.contexts);
        let named = contexts
            .unwrap_or_default()
            .into_iter()
            .map(|context| context.name);
        Ok(named.into_iter().find(|name| name == STORAGE))
    }

    /// Another cluster, by the context of that name.
    pub(crate) async fn other(&self, name: &str) -> Result<Client, Failure> {
        let own = self.own();
        let clusters = Clusters::connect(self.file(&own)?, Some(name), &[]).await?;
        let client = clusters.home().clone();
        client.apiserver_version().await?;
        Ok(client)
    }

    /// Ways to all clusters.
    pub(crate) fn kubeconfig(&self) -> Result<Kubeconfig, Failure> {
        let own = self.own();
        let file = self.file(&own)?;
        let read = file.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
        Ok(read.context("cannot read the kubeconfig")?)
    }

    /// What people call the cluster: the context.
    fn context_name(&self, file: Option<&Path>) -> String {
        let current = || {
            let read = file.map_or_else(Kubeconfig::read, Kubeconfig::read_from);
            read.ok().and_then(|config| config.current_context)
        };
        let name = self.context.clone().or_else(current);
        name.unwrap_or_else(|| c5c3_kit::HOME.into_owned())
    }

    pub(crate) async fn client(&self) -> Result<Client, Failure> {
        let own = self.own();
        let file = self.file(&own)?;
        let connected = Clusters::connect(file, self.context.as_deref(), &[]).await;
        let clusters = match (connected, file, &self.context) {
            (Err(error), None, None) => {
                return Err(Failure::NotFound(format!(
                    "there is no cluster: `c5c3 up` creates one on this machine; --kubeconfig selects another ({error})"
                )));
            }
            (connected, ..) => connected?,
        };
        let client = clusters.home().clone();
        if let Err(error) = client.apiserver_version().await {
            return Err(Failure::NotReady(if file == Some(own.as_path()) {
                let place = self.place.argument();
                format!("the embedded cluster is not running: start it with `c5c3 up{place}`")
            } else {
                format!("the cluster does not answer: {error}")
            }));
        }
        Ok(client)
    }

    /// The kubeconfig file that is meant; `None` for kubectl's own choice.
    fn chosen<'a>(&'a self, own: &'a Path, there: bool) -> Result<Option<&'a Path>, Failure> {
        match (&self.kubeconfig, &self.context) {
            (None, None) if there => Ok(Some(own)),
            // Whoever names a place does not mean another one.
            (None, None) if self.place.named() => Err(Failure::NotFound(format!(
                "--state-dir {0} contains no cluster: `c5c3 up --state-dir {0}` creates one",
                self.place.path().display()
            ))),
            (file, _) => Ok(file.as_deref()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(state: Option<&str>, kubeconfig: Option<&str>) -> Target {
        Target {
            kubeconfig: kubeconfig.map(PathBuf::from),
            ..Target::embedded(&StateDir::at(state.map(PathBuf::from)))
        }
    }

    #[test]
    fn a_place_that_is_named_is_the_one_that_is_meant() {
        let own = Path::new("/s/api/kubeconfig");
        let chosen = |target: &Target, there| target.chosen(own, there).map(|file| file.map(Path::to_owned));
        assert_eq!(
            chosen(&target(None, None), true).expect("own"),
            Some(own.to_owned())
        );
        assert_eq!(chosen(&target(None, None), false).expect("kubectl's"), None);
        assert_eq!(
            chosen(&target(Some("/s"), Some("/k")), false).expect("the file"),
            Some("/k".into())
        );
        let refused = chosen(&target(Some("/s"), None), false).expect_err("no cluster");
        assert!(matches!(refused, Failure::NotFound(_)), "{refused}");
        assert!(
            refused.to_string().contains("c5c3 up --state-dir /s"),
            "{refused}"
        );
    }
}
