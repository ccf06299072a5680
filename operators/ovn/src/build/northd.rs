//! ovn-northd: of several replicas the one that holds the lock in the southbound database works.

use c5c3_api::ovn::OvnCluster;
use c5c3_kit::pod::{env, mount, scratch};
use k8s_openapi::api::apps::v1::{Deployment, DeploymentSpec};
use k8s_openapi::api::core::v1::{Container, PodTemplateSpec};

use super::pod::{self, Tls, asks, plain, script};
use crate::names::Names;

pub const COMPONENT: &str = "northd";
const START: &str = include_str!("../scripts/northd.sh");

pub fn replicas(cluster: &OvnCluster) -> i32 {
    let members = cluster
        .spec
        .northbound
        .replicas
        .max(cluster.spec.southbound.replicas);
    if members > 1 { 2 } else { 1 }
}

pub fn deployment(cluster: &OvnCluster, northbound: &str, southbound: &str, tls: &Tls) -> Deployment {
    let names = Names::of(cluster);
    let mut volumes = vec![scratch("run"), scratch("tmp")];
    volumes.extend(tls.volume());
    let mut mounts = vec![mount("run", "/run/ovn"), mount("tmp", "/tmp")];
    mounts.extend(tls.mount());
    let status = ["ovn-appctl", "--timeout=4", "-t", "/run/ovn/northd.ctl", "status"].map(str::to_owned);
    let container = plain(Container {
        name: COMPONENT.to_owned(),
        image: Some(cluster.spec.ovn_image.reference()),
        command: Some(script(START)),
        env: Some(vec![
            env("NORTHBOUND", northbound),
            env("SOUTHBOUND", southbound),
            env("PROTOCOL", tls.protocol),
            env("OVN_RUNDIR", "/run/ovn"),
            env("OVS_RUNDIR", "/run/ovn"),
        ]),
        readiness_probe: Some(asks(status.into(), 5, 3)),
        volume_mounts: Some(mounts),
        ..Container::default()
    });
    let mut pod = pod::server(cluster, COMPONENT, container, volumes);
    pod.termination_grace_period_seconds = Some(5);
    Deployment {
        metadata: names.meta(names.suffixed(COMPONENT), COMPONENT),
        spec: DeploymentSpec {
            replicas: Some(replicas(cluster)),
            selector: names.pods(COMPONENT),
            template: PodTemplateSpec {
                metadata: Some(names.pod_meta(COMPONENT)),
                spec: Some(pod),
            },
            ..DeploymentSpec::default()
        },
        ..Deployment::default()
    }
}
