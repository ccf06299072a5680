//! `c5c3 up`.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::Context;
use c5c3_api::c5c3::ControlPlane;
use c5c3_image_builder::Images;
use clap::{Args, ValueEnum};
use kube::Api;
use machine::plan::ClusterPlan;
use machine::{Plan, Settings, up};

use super::bring::{Exposed, bring};
use super::farewell::farewell;
use super::{NAMES, StateDir, absolute, elsewhere, failed, own};
use crate::cloud::access::Target;
use crate::cloud::images;
use crate::cloud::profile::Bundle;
use crate::commands::block_on;
use crate::failure::Failure;
use crate::output::{print, say_when};

const EXAMPLES: &str = "\
Examples:
  c5c3 up                          a complete small cloud, or resume the existing one
  c5c3 up --profile volumes        the same without Ceph, in one cluster: volumes are files
  c5c3 up --profile core           Keystone, Glance and Placement only, on one node
  c5c3 up --profile ha             three of everything, including hypervisors
  c5c3 up -f my-cloud.yaml         a ControlPlane of your own, or any other objects
  c5c3 up --profile none           the cluster and all operators, without a cloud
  c5c3 up --nodes 3 --hypervisors 2                          one cluster for everything
  c5c3 up --cluster control-plane=3 --cluster hypervisor=3   more of both
  c5c3 up --cluster-only           plain Kubernetes, without CobaltCore's CRDs and operators
  c5c3 up -f my-cloud.yaml --kubeconfig production.yaml      on your own cluster

Without --profile and --file it waits for the existing clouds. If there is none, it creates a small
one (`core` if no node of the cluster runs guests). Objects without a namespace in a file are
created in `openstack`. You can interrupt it at any time: the deployment continues, and another
`c5c3 up` waits for it.

Exit codes: 2 if a file or directory is refused, 4 if the cloud is not ready in time.";

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Profile {
    /// One replica of everything; two hypervisors, and Ceph, in clusters of their own.
    Small,
    /// The same without Ceph, in one cluster with one hypervisor: volumes are files.
    Volumes,
    /// Keystone, Glance and Placement, one replica of each.
    Core,
    /// Three replicas of everything on three nodes; three hypervisors, three nodes with Ceph and one with its arbiter, in
    /// clusters of their own.
    Ha,
    /// No cloud.
    None,
}

impl Profile {
    fn text(self) -> Option<&'static str> {
        match self {
            Profile::Small => Some(concat!(
                include_str!("../../../../deploy/profiles/small.yaml"),
                "---\n",
                include_str!("../../../../deploy/quickstart/storage.yaml")
            )),
            Profile::Volumes => Some(include_str!("../../../../deploy/profiles/volumes.yaml")),
            Profile::Core => Some(include_str!("../../../../deploy/profiles/core.yaml")),
            Profile::Ha => Some(concat!(
                include_str!("../../../../deploy/quickstart/storage.yaml"),
                "---\n",
                include_str!("../../../../deploy/quickstart/arbiter.yaml"),
                "---\n",
                include_str!("../../../../deploy/profiles/ha.yaml")
            )),
            Profile::None => None,
        }
    }

    /// Nodes of a new machine with one cluster, and how many of them run guests.
    fn machine(self) -> (Option<u8>, u8) {
        match self {
            Profile::Small | Profile::Volumes => (Some(2), 1),
            Profile::Ha => (Some(6), 3),
            Profile::Core | Profile::None => (None, 0),
        }
    }
}

/// Bring up a cloud on this machine; it keeps running after this command returns.
#[derive(Args)]
#[command(after_help = EXAMPLES)]
pub(crate) struct Arguments {
    #[command(flatten)]
    place: StateDir,
    /// Size of the cloud [default: small]
    #[arg(long, value_enum, conflicts_with_all = ["file", "cluster_only"])]
    profile: Option<Profile>,
    /// Your own ControlPlane and the objects it needs; - reads standard input.
    #[arg(long, short, conflicts_with = "cluster_only")]
    file: Option<PathBuf>,
    /// Kubeconfig file of an existing cluster in which to create the cloud of --file.
    #[arg(long, value_name = "FILE", requires = "file",
        conflicts_with_all = ["nodes", "hypervisors", "clusters", "registries", "port_offset"])]
    kubeconfig: Option<PathBuf>,
    /// Context in that file [default: the current one]
    #[arg(long, requires = "file",
        conflicts_with_all = ["nodes", "hypervisors", "clusters", "registries", "port_offset"])]
    context: Option<String>,
    /// Number of nodes of a new single cluster [default: 1; 6 for ha]
    #[arg(long, value_parser = clap::value_parser!(u8).range(1..=32))]
    nodes: Option<u8>,
    /// How many of these nodes run guests, counted from the last [default: 0; 1 for small, 3 for ha]
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u8).range(0..=32))]
    hypervisors: Option<u8>,
    /// A cluster with its own nodes, NAME=NODES; the first one is the default cluster [default: set by the profile]
    #[arg(long = "cluster", value_name = "NAME=NODES", conflicts_with_all = ["nodes", "hypervisors"])]
    clusters: Vec<ClusterPlan>,
    /// Shift the public ports on this machine by this number, to run a second cloud.
    #[arg(long, value_name = "NUMBER", default_value_t = 0)]
    port_offset: u16,
    /// How long to wait for the cloud before giving up with exit code 4; its deployment continues.
    #[arg(long, value_name = "SECONDS", default_value_t = 1800)]
    wait: u64,
    /// Allow images from this registry, `*` for any; registries on this machine are always allowed.
    #[arg(long = "registry", value_name = "HOST")]
    registries: Vec<String>,
    /// Leave out CobaltCore's CRDs and operators.
    #[arg(long)]
    cluster_only: bool,
    /// Image store, shared with `c5c3 image`.
    #[arg(
        long,
        value_name = "DIRECTORY",
        env = "C5C3_IMAGE_STORE",
        value_parser = absolute,
        default_value = c5c3_image_builder::STORE
    )]
    image_store: PathBuf,
}

impl Arguments {
    /// The cluster that is meant, when it is none of this machine.
    fn elsewhere(&self) -> Option<Target> {
        let (file, context) = (&self.kubeconfig, &self.context);
        (file.is_some() || context.is_some())
            .then(|| Target::elsewhere(&self.place, file.clone(), context.clone()))
    }

    fn known(&self) -> bool {
        self.place.path().join("api").exists()
    }

    /// What is made, as far as it is clear before the cluster runs.
    fn profile(&self) -> Profile {
        match self.profile {
            Some(profile) => profile,
            None if self.file.is_some() || self.cluster_only || self.known() => Profile::None,
            None => Profile::Small,
        }
    }

    /// The machine is there, with clusters that have their nodes.
    fn has_clusters(&self) -> Result<bool, Failure> {
        if !self.known() {
            return Ok(false);
        }
        let (_, settings) = Settings::existing(NAMES, self.place.path())?;
        Ok(!settings.is_single())
    }

    /// At least so many nodes, and so many that run guests. Clusters say theirs themselves.
    fn machine(&self, clusters: bool) -> (Option<u8>, u8) {
        let (nodes, hypervisors) = if clusters {
            (None, 0)
        } else {
            self.profile().machine()
        };
        let hypervisors = self.hypervisors.unwrap_or(hypervisors);
        // Somebody has to run beside the guests.
        let usual = nodes.map(|nodes| nodes.max(hypervisors.saturating_add(1)));
        (self.nodes.or(usual), hypervisors)
    }

    /// What is asked for; `None` when the clouds that are there already decide.
    fn asked(&self) -> Result<Option<Bundle>, Failure> {
        match (&self.file, self.profile) {
            _ if self.cluster_only => Ok(Some(Bundle::default())),
            (Some(file), _) => {
                let bundle = self.parse(&read(file)?)?;
                if bundle.objects.is_empty() {
                    return Err(Failure::Usage(format!("{} contains no object", file.display())));
                }
                Ok(Some(bundle))
            }
            (None, Some(profile)) => self.of(profile).map(Some),
            (None, None) if self.known() => Ok(None),
            (None, None) => self.of(Profile::Small).map(Some),
        }
    }

    fn of(&self, profile: Profile) -> Result<Bundle, Failure> {
        let bundle = self.parse(profile.text().unwrap_or_default())?;
        Ok(match self.settled()? {
            Some(clusters) => bundle.on(&clusters),
            None => bundle,
        })
    }

    /// The clusters, where they are not the profile's to say: those that are there, or that are asked
    /// for. Numbers of nodes mean one for everything.
    fn settled(&self) -> Result<Option<Vec<String>>, Failure> {
        if self.known() {
            let (_, settings) = Settings::existing(NAMES, self.place.path())?;
            return Ok(Some(settings.clusters));
        }
        let numbers = self.nodes.is_some() || self.hypervisors.is_some();
        let named = self.clusters.iter().map(|cluster| cluster.name.clone());
        Ok((numbers || !self.clusters.is_empty()).then(|| named.collect()))
    }

    fn parse(&self, text: &str) -> Result<Bundle, Failure> {
        let named = |error| match &self.file {
            Some(file) => Failure::Usage(format!("{}: {error}", file.display())),
            None => Failure::Usage(error),
        };
        Bundle::parse(text)
            .and_then(|bundle| bundle.shifted(self.port_offset))
            .map_err(named)
    }
}

fn read(file: &Path) -> Result<String, Failure> {
    let mut text = String::new();
    if file == Path::new("-") {
        std::io::stdin().read_to_string(&mut text)?;
    } else {
        text = std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
    }
    Ok(text)
}

pub(crate) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let asked = arguments.asked()?;
    let start = Instant::now();
    if let (Some(bundle), Some(target)) = (&asked, arguments.elsewhere()) {
        return block_on(elsewhere::run(target, bundle, arguments.wait, start));
    }
    let store = &arguments.image_store;
    // Images are built while the cluster starts, when it is clear which.
    let building = asked.as_ref().and_then(|bundle| build(store, bundle, start));
    let machine = asked.as_ref().map(|bundle| bundle.machine.clone());
    let up = cluster(arguments, machine.unwrap_or_default(), start)?;
    let bundle = match asked {
        Some(bundle) => bundle,
        None => block_on(present(arguments))?,
    };
    if let Some(building) = building.or_else(|| build(store, &bundle, start)) {
        building
            .join()
            .unwrap_or_else(|panic| std::panic::resume_unwind(panic))?;
    }
    if !bundle.objects.is_empty() || !bundle.planes.is_empty() {
        let target = Target::embedded(&arguments.place);
        block_on(bring(target, &bundle, Exposed::OnLoopback, arguments.wait, start))?;
    }
    print(&farewell(&arguments.place, &up, &bundle, start.elapsed()))
}

type Building = std::thread::JoinHandle<Result<(), c5c3_image_builder::Error>>;

/// Builds what is missing, beside whatever else happens.
fn build(store: &Path, bundle: &Bundle, start: Instant) -> Option<Building> {
    let wanted = images::wanted(bundle);
    if wanted.is_empty() {
        return None;
    }
    let store = Images::at(store);
    Some(std::thread::spawn(move || {
        for (release, names) in wanted {
            store.build(&release, &names, move |line| say_when(start, line))?;
        }
        Ok(())
    }))
}

fn cluster(arguments: &Arguments, mut plan: Plan, start: Instant) -> Result<up::Up, Failure> {
    plan.clusters.extend(arguments.clusters.iter().cloned());
    let state = arguments.place.path().to_string_lossy().into_owned();
    let store = arguments.image_store.to_string_lossy().into_owned();
    let mut command = vec!["daemon", "--state-dir", &state, "--image-store", &store];
    if arguments.cluster_only {
        command.push("--cluster-only");
    }
    let named = !plan.clusters.is_empty() || arguments.has_clusters()?;
    let (nodes, hypervisors) = arguments.machine(named);
    let options = up::Options {
        names: NAMES,
        state: arguments.place.path().to_owned(),
        plan,
        nodes,
        hypervisors,
        registries: arguments.registries.clone(),
        daemon: own(&command)?,
    };
    let mut say = |line: &str| say_when(start, line);
    block_on(async { up::up(&options, &mut say).await.map_err(failed) })
}

/// The clouds that are there, else a small one, or its core where no node runs guests.
async fn present(arguments: &Arguments) -> Result<Bundle, Failure> {
    let client = Target::embedded(&arguments.place).client().await?;
    let planes = match Api::<ControlPlane>::all(client).list(&Default::default()).await {
        Ok(list) => list.items,
        // Applying a cloud will say what to do about a cluster without our kinds.
        Err(kube::Error::Api(status)) if status.code == 404 => Vec::new(),
        Err(error) => return Err(error.into()),
    };
    let staying = |plane: &ControlPlane| plane.metadata.deletion_timestamp.is_none();
    let planes: Vec<ControlPlane> = planes.into_iter().filter(staying).collect();
    if planes.is_empty() {
        let (_, settings) = Settings::existing(NAMES, arguments.place.path())?;
        let guests = settings.nodes.iter().any(|node| node.traits.hypervisor);
        return arguments.of(if guests { Profile::Small } else { Profile::Core });
    }
    Ok(Bundle::of(planes))
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        arguments: Arguments,
    }

    fn machine(words: &str, clusters: bool) -> (Option<u8>, u8) {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path().join("new").to_string_lossy().into_owned();
        let words = ["up", "--state-dir", &state]
            .into_iter()
            .chain(words.split_whitespace());
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        line.arguments.machine(clusters)
    }

    #[test]
    fn clusters_that_are_there_keep_their_nodes() {
        let directory = tempfile::tempdir().expect("a directory");
        let state = directory.path().to_string_lossy().into_owned();
        std::fs::create_dir(directory.path().join("api")).expect("a directory");
        let words = ["up", "--state-dir", &state, "--profile", "small"];
        let line = Line::try_parse_from(words).unwrap_or_else(|error| panic!("{error}"));
        for (clusters, expected) in [
            (vec!["default"], false),
            (vec!["control-plane", "hypervisor"], true),
        ] {
            let settings = Settings {
                clusters: clusters.iter().map(|&name| name.to_owned()).collect(),
                ..Settings::default()
            };
            let text = serde_json::to_string(&settings).expect("settings");
            std::fs::write(directory.path().join("cluster.json"), text).expect("a file");
            let has = line.arguments.has_clusters();
            assert_eq!(
                has.unwrap_or_else(|error| panic!("{error}")),
                expected,
                "{clusters:?}"
            );
        }
    }

    #[test]
    fn high_availability_is_three_of_everything() {
        let text = Profile::Ha.text().expect("a profile");
        let bundle = Bundle::parse(text).expect("parses");
        for cluster in &bundle.machine.clusters {
            let nodes: u8 = cluster.nodes.iter().map(|group| group.count).sum();
            // An arbiter is one vote, and its cluster has nothing else.
            let expected = if cluster.name == "arbiter" { 1 } else { 3 };
            assert_eq!(nodes, expected, "{}", cluster.name);
        }
        let [plane] = bundle.planes.as_slice() else {
            panic!("{} clouds", bundle.planes.len());
        };
        let spec = serde_json::to_value(&plane.spec).expect("a value");
        let mut counted = 0;
        let numbers = |object: &serde_json::Value| -> Vec<serde_json::Value> {
            match &object["replicas"] {
                serde_json::Value::Object(each) => each.values().cloned().collect(),
                number => vec![number.clone()],
            }
        };
        for place in ["infrastructure", "services"] {
            for (name, part) in spec[place].as_object().expect("fields") {
                for number in numbers(part).iter().filter(|number| !number.is_null()) {
                    assert_eq!(number, 3, "{place}.{name}");
                    counted += 1;
                }
            }
        }
        // Of Nova there are three, of Cinder two, of the other four services and servers one each.
        assert_eq!(counted, 3 + 2 + 4 + 4, "{spec:#}");
        let of_kind = |kind: &str| -> Vec<&serde_json::Value> {
            let all = bundle.objects.iter();
            all.filter(|object| object["kind"] == kind).collect()
        };
        let [ceph] = of_kind("CephCluster")[..] else {
            panic!("one Ceph");
        };
        assert_eq!(ceph["spec"]["mon"]["count"], 3);
        assert_eq!(ceph["spec"]["storage"]["storageClassDeviceSets"][0]["count"], 3);
        let pools = of_kind("CephBlockPool");
        assert_eq!(pools.len(), 3);
        assert!(pools.iter().all(|pool| pool["spec"]["replicated"]["size"] == 3));
        assert_eq!(of_kind("CephClient").len(), 3, "as of the small profile");
    }

    #[test]
    fn a_profile_brings_its_nodes_unless_told_otherwise() {
        for (words, expected) in [
            ("", (Some(2), 1)),
            ("--profile small", (Some(2), 1)),
            ("--nodes 4", (Some(4), 1)),
            ("--hypervisors 3", (Some(4), 3)),
            ("--nodes 1 --hypervisors 0", (Some(1), 0)),
            ("--profile core", (None, 0)),
            ("--profile ha", (Some(6), 3)),
            ("--profile ha --nodes 4", (Some(4), 3)),
            ("--profile none", (None, 0)),
            ("--cluster-only", (None, 0)),
            ("-f x.yaml", (None, 0)),
            ("-f x.yaml --nodes 2 --hypervisors 1", (Some(2), 1)),
        ] {
            assert_eq!(machine(words, false), expected, "{words}");
        }
        assert_eq!(machine("", true), (None, 0), "clusters say theirs themselves");
    }
}
