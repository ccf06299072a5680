//! What happens before a sandbox or container is made: volumes, image, environment.

pub mod container;
pub mod env;
pub mod fields;
pub mod names;
pub mod resources;
pub mod sandbox;
pub mod security;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use k8s_cri::v1::{ContainerConfig, Mount};
use k8s_openapi::api::core::v1::{Container, Pod, PodSpec};

use crate::beneath::Beneath;
use crate::enter;
use crate::error::Error;
use crate::pods::host::{Event, Host};
use crate::pods::observe::view;
use crate::pods::start::container::Parts;
use crate::pods::start::security::ImageUser;
use crate::pods::volumes::contents::{self, Content, Found};
use crate::pods::volumes::place::{self, Job};
use crate::pods::volumes::{self, needs, pod_directory};

/// Why something was not made: reason and message of the container's waiting state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Trouble {
    pub reason: String,
    pub message: String,
}

impl Trouble {
    pub(super) fn new(reason: &str, message: impl Into<String>) -> Self {
        Self {
            reason: reason.into(),
            message: message.into(),
        }
    }
}

/// A volume's path on the node.
#[derive(Clone, Debug)]
pub(super) struct Placed {
    pub path: PathBuf,
    pub read_only: bool,
}

/// Collects what the pod names.
pub(super) async fn find(host: &Host, pod: &Pod, spec: &PodSpec) -> Result<Found, Error> {
    let needs = needs(spec);
    let mut found = Found::default();
    for name in &needs.config_maps {
        if let Some(map) = host.objects.config_map(pod, name).await? {
            found.sources.config_maps.insert(name.clone(), map);
        }
    }
    for name in &needs.secrets {
        if let Some(secret) = host.objects.secret(pod, name).await? {
            found.sources.secrets.insert(name.clone(), secret);
        }
    }
    for name in &needs.claims {
        let claimed = host.objects.claim(pod, name).await?;
        found.claims.insert(name.clone(), claimed);
    }
    for request in &needs.tokens {
        let token = host.objects.token(pod, request).await?;
        found.tokens.insert(request.clone(), token.value);
    }
    Ok(found)
}

/// Puts every volume in place, or brings its content up to date.
pub(super) async fn volumes(
    host: &Host,
    pod: &Pod,
    spec: &PodSpec,
    found: &Found,
    address: Option<&str>,
) -> Result<BTreeMap<String, Placed>, String> {
    let place = host.place(address);
    let pods = host.node.layout.pods();
    let group = spec
        .security_context
        .as_ref()
        .and_then(|c| c.fs_group)
        .and_then(|g| u32::try_from(g).ok());
    let mut jobs = Vec::new();
    for volume in spec.volumes.iter().flatten() {
        let content = contents::content(pod, volume, &place, found)
            .map_err(|e| format!("MountVolume.SetUp failed for volume {:?} : {e}", volume.name))?;
        jobs.push(Job {
            name: volume.name.clone(),
            pods: pods.clone(),
            directory: volumes::directory(pod, &volume.name),
            content,
            group,
        });
    }
    if jobs.is_empty() {
        return Ok(BTreeMap::new());
    }
    let put = move || {
        jobs.into_iter()
            .map(|job| {
                let read_only = match &job.content {
                    Content::Files { .. } => true,
                    Content::Persistent { read_only, .. } => *read_only,
                    _ => false,
                };
                let path = place::put(&job)?;
                Ok((job.name, Placed { path, read_only }))
            })
            .collect::<Result<BTreeMap<_, _>, Error>>()
    };
    enter::mounts_of(host.node.init, put)
        .await
        .map_err(|e| format!("MountVolume.SetUp failed: {e}"))
}

/// Brings the image to the node and says who it runs as.
async fn image(host: &Host, pod: &Pod, wanted: &Container) -> Result<ImageUser, Trouble> {
    let reference = wanted.image.as_deref().unwrap_or_default();
    if reference.is_empty() {
        return Err(Trouble::new("InvalidImageName", "the container names no image"));
    }
    let failed = |e: Error| Trouble::new("ErrImageInspect", e.to_string());
    let mut present = host.cri.find_image(reference).await.map_err(failed)?;
    // "Always" takes what the store has now; without the store, what the node has.
    let policy = wanted.image_pull_policy.as_deref();
    let always = policy == Some("Always");
    let rebuilt = match &present {
        Some(image) if policy != Some("Never") => is_rebuilt(host, reference, &image.id).await,
        _ => false,
    };
    let mut text = format!("Container image {reference:?} already present on machine");
    if present.is_none() || always || rebuilt {
        let started = std::time::Instant::now();
        let provided = host
            .images
            .provide(&host.node.layout.name, reference, always)
            .await;
        match provided {
            Ok(id) => {
                present = known(host, reference, &id).await.map_err(failed)?;
                let took = started.elapsed().as_secs_f32();
                text = format!("Successfully pulled image {reference:?} in {took:.3}s");
            }
            Err(_) if present.is_some() => {}
            Err(e) => {
                let reason = match policy {
                    Some("Never") => "ErrImageNeverPull",
                    _ => "ImagePullBackOff",
                };
                let message = format!("Failed to pull image {reference:?}: {e}");
                host.event(pod, Event::warning("Failed", message.clone()).about(&wanted.name));
                return Err(Trouble::new(reason, message));
            }
        }
    }
    host.event(pod, Event::normal("Pulled", text).about(&wanted.name));
    let image = present.unwrap_or_default();
    Ok(ImageUser {
        id: image.uid.map(|u| u.value),
        name: image.username,
    })
}

/// The local store has another image under this name by now. A store that cannot be read at the
/// moment stops nothing: the node has the image.
async fn is_rebuilt(host: &Host, reference: &str, id: &str) -> bool {
    match host.images.stored(reference).await {
        Ok(stored) => stored.is_some_and(|stored| stored != id),
        Err(e) => {
            tracing::warn!("{e}; what the node has is used");
            false
        }
    }
}

/// The runtime learns of an imported image by an event, shortly after the import.
async fn known(host: &Host, reference: &str, id: &str) -> Result<Option<k8s_cri::v1::Image>, Error> {
    let mut found = None;
    for _ in 0..100 {
        found = host.cri.find_image(reference).await?;
        if found.as_ref().is_some_and(|image| image.id == id) {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(20)).await;
    }
    Ok(found)
}

/// Everything that making a container needs.
pub(super) async fn config(
    host: &Host,
    pod: &Pod,
    spec: &PodSpec,
    wanted: &Container,
    attempt: u32,
    address: &str,
) -> Result<ContainerConfig, Trouble> {
    let user = image(host, pod, wanted).await?;
    let wrong = |message: String| {
        host.event(
            pod,
            Event::warning("Failed", format!("Error: {message}")).about(&wanted.name),
        );
        Trouble::new("CreateContainerConfigError", message)
    };
    let found = find(host, pod, spec).await.map_err(|e| wrong(e.to_string()))?;
    let services = match spec.enable_service_links {
        // The API's own are there all the same.
        Some(false) => host.objects.services(""),
        _ => host.objects.services(view::namespace(pod)),
    };
    let place = host.place(Some(address));
    let variables = env::variables(pod, wanted, &place, &found.sources, &services).map_err(wrong)?;
    let placed = volumes(host, pod, spec, &found, Some(address))
        .await
        .map_err(|message| {
            host.event(pod, Event::warning("FailedMount", message.clone()));
            Trouble::new("CreateContainerConfigError", message)
        })?;
    let hosts = sandbox::hosts(pod, spec, address, &host.node.layout.name, &host.dns);
    let mounts = mounts(host, pod, wanted, attempt, hosts, &variables, &placed)
        .await
        .map_err(wrong)?;
    let parts = Parts {
        attempt,
        image: wanted.image.clone().unwrap_or_default(),
        user,
        variables,
        mounts,
    };
    container::config(pod, spec, wanted, parts).map_err(wrong)
}

/// `hosts` is what its /etc/hosts says.
async fn mounts(
    host: &Host,
    pod: &Pod,
    wanted: &Container,
    attempt: u32,
    hosts: String,
    variables: &[(String, String)],
    placed: &BTreeMap<String, Placed>,
) -> Result<Vec<Mount>, String> {
    let mut mounts = Vec::new();
    let mut sub_paths = Vec::new();
    for mount in wanted.volume_mounts.iter().flatten() {
        let volume = placed
            .get(&mount.name)
            .ok_or_else(|| format!("volume {:?} is not defined in the pod", mount.name))?;
        let sub = match (&mount.sub_path_expr, &mount.sub_path) {
            (Some(expression), _) => Some(env::expand(expression, variables)),
            (None, sub) => sub.clone(),
        };
        if let Some(sub) = sub.filter(|s| !s.is_empty()) {
            sub_paths.push(SubPath {
                index: mounts.len(),
                volume: volume.path.clone(),
                path: sub,
            });
        }
        let path = volume.path.to_string_lossy().into_owned();
        mounts.push(container::mount(mount, path, volume.read_only));
    }
    let own = Own {
        pods: host.node.layout.pods(),
        uid: view::uid(pod).into(),
        container: wanted.name.clone(),
        attempt,
        hosts,
        sub_paths,
    };
    let directory = pod_directory(&own.pods, pod);
    let hosts = directory.join(HOSTS);
    let message = directory.join(message_file(&wanted.name, attempt));
    let resolved = enter::mounts_of(host.node.init, move || own.make())
        .await
        .map_err(|e| e.to_string())?;
    for (index, path) in resolved {
        mounts[index].host_path = path.to_string_lossy().into_owned();
    }
    let taken = |at: &str| mounts.iter().any(|m| m.container_path == at);
    let own = |at: &str, path: PathBuf| Mount {
        container_path: at.into(),
        host_path: path.to_string_lossy().into_owned(),
        ..Mount::default()
    };
    let mut extra = vec![own(container::message_path(wanted), message)];
    // Without it a container would see the node's.
    if !taken("/etc/hosts") {
        extra.push(own("/etc/hosts", hosts));
    }
    mounts.extend(extra);
    Ok(mounts)
}

const HOSTS: &str = "etc-hosts";

/// Where a container leaves its last words, below its pod's directory.
pub(super) fn message_file(container: &str, attempt: u32) -> PathBuf {
    Path::new("containers").join(container).join(attempt.to_string())
}

/// A part of a volume that a mount of a container wants.
struct SubPath {
    /// Of the mount.
    index: usize,
    volume: PathBuf,
    path: String,
}

/// What a container has beside its volumes, in its pod's directory.
struct Own {
    pods: PathBuf,
    uid: String,
    container: String,
    attempt: u32,
    hosts: String,
    sub_paths: Vec<SubPath>,
}

impl Own {
    /// Paths of the mounts that show a part of a volume, by their index.
    fn make(&self) -> Result<Vec<(usize, PathBuf)>, Error> {
        let message = message_file(&self.container, self.attempt);
        self.write(&message)
            .map_err(Error::file("write files of", &self.uid))?;
        let place = Path::new(&self.uid).join("sub-paths").join(&self.container);
        self.sub_paths
            .iter()
            .map(|part| {
                let name = part.index.to_string();
                let at = place::sub_path(&part.volume, &part.path, &self.pods, &place, &name)?;
                Ok((part.index, at))
            })
            .collect()
    }

    fn write(&self, message: &Path) -> std::io::Result<()> {
        let pod = Beneath::made(&self.pods)?.make(Path::new(&self.uid), 0o755)?;
        pod.write(Path::new(HOSTS), self.hosts.as_bytes(), 0o644)?;
        if let Some(parent) = message.parent() {
            pod.make(parent, 0o755)?;
        }
        pod.write(message, b"", 0o666)
    }
}
