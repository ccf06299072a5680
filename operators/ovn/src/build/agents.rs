//! What runs on every hypervisor: Open vSwitch and ovn-controller.

use std::collections::BTreeMap;

use c5c3_api::ovn::{OvnAgent, OvnCluster};
use c5c3_kit::pod::{env, env_field, mount, scratch};
use k8s_openapi::api::apps::v1::{DaemonSet, DaemonSetSpec, DaemonSetUpdateStrategy, RollingUpdateDaemonSet};
use k8s_openapi::api::core::v1::{
    ConfigMap, ConfigMapVolumeSource, Container, ExecAction, Lifecycle, LifecycleHandler, PodSpec,
    PodTemplateSpec, Toleration, Volume, VolumeMount,
};
use k8s_openapi::apimachinery::pkg::util::intstr::IntOrString;

use super::pod::{Tls, asks, of_node, privileged, pull_secrets, script};
use crate::names::Names;

pub const SWITCH: &str = "ovs";
pub const CONTROLLER: &str = "controller";
/// Component of what both read.
const CHASSIS: &str = "chassis";

const OVSDB: &str = include_str!("../scripts/ovsdb.sh");
const VSWITCHD: &str = include_str!("../scripts/vswitchd.sh");
const VSWITCHD_STOP: &str = include_str!("../scripts/vswitchd-stop.sh");
const START: &str = include_str!("../scripts/controller.sh");

/// Settings of every chassis, by node; the pods follow them without a restart.
pub fn settings(cluster: &OvnCluster, by_node: BTreeMap<String, String>) -> ConfigMap {
    let names = Names::of(cluster);
    ConfigMap {
        metadata: names.meta(names.suffixed(CHASSIS), CHASSIS),
        data: Some(by_node),
        ..ConfigMap::default()
    }
}

fn settings_volume(names: &Names) -> (Volume, VolumeMount) {
    let volume = Volume {
        name: CHASSIS.to_owned(),
        config_map: Some(ConfigMapVolumeSource {
            name: names.suffixed(CHASSIS),
            ..ConfigMapVolumeSource::default()
        }),
        ..Volume::default()
    };
    (volume, mount(CHASSIS, "/chassis"))
}

fn daemon_set(
    cluster: &OvnCluster,
    component: &str,
    agent: &OvnAgent,
    grace: i64,
    pod: PodSpec,
) -> DaemonSet {
    let names = Names::of(cluster);
    DaemonSet {
        metadata: names.meta(names.suffixed(component), component),
        spec: DaemonSetSpec {
            selector: names.pods(component),
            template: PodTemplateSpec {
                metadata: Some(names.pod_meta(component)),
                spec: Some(PodSpec {
                    image_pull_secrets: pull_secrets(cluster),
                    automount_service_account_token: Some(false),
                    enable_service_links: Some(false),
                    host_network: Some(true),
                    dns_policy: Some("ClusterFirstWithHostNet".to_owned()),
                    node_selector: Some(agent.node_selector.clone()).filter(|labels| !labels.is_empty()),
                    // Guests on a node that takes no new pods need their network all the same.
                    tolerations: Some(vec![Toleration {
                        operator: Some("Exists".to_owned()),
                        ..Toleration::default()
                    }]),
                    termination_grace_period_seconds: Some(grace),
                    ..pod
                }),
            },
            update_strategy: Some(DaemonSetUpdateStrategy {
                type_: Some("RollingUpdate".to_owned()),
                rolling_update: Some(RollingUpdateDaemonSet {
                    max_unavailable: Some(IntOrString::Int(1)),
                    ..RollingUpdateDaemonSet::default()
                }),
            }),
            ..DaemonSetSpec::default()
        },
        ..DaemonSet::default()
    }
}

pub fn switch(cluster: &OvnCluster) -> DaemonSet {
    let names = Names::of(cluster);
    let agent = &cluster.spec.ovs;
    let (run, run_mount) = of_node("run-openvswitch", "/run/openvswitch");
    let (data, data_mount) = of_node("var-lib-openvswitch", "/var/lib/openvswitch");
    let (modules, modules_mount) = settings_volume(&names);
    let container = |name: &str, start: &str, more: Option<VolumeMount>| {
        let mut mounts = vec![run_mount.clone(), data_mount.clone(), mount("tmp", "/tmp")];
        mounts.extend(more);
        privileged(Container {
            name: name.to_owned(),
            image: Some(cluster.spec.ovs_image.reference()),
            command: Some(script(start)),
            env: Some(vec![env_field("NODE", "spec.nodeName")]),
            volume_mounts: Some(mounts),
            ..Container::default()
        })
    };
    let version = ["ovs-appctl", "--timeout=4", "version"];
    let vswitchd = Container {
        readiness_probe: Some(asks(version.map(str::to_owned).into(), 5, 3)),
        lifecycle: Some(Lifecycle {
            pre_stop: Some(LifecycleHandler {
                exec: Some(ExecAction {
                    command: Some(script(VSWITCHD_STOP)),
                }),
                ..LifecycleHandler::default()
            }),
            ..Lifecycle::default()
        }),
        resources: agent.resources.clone(),
        ..container("vswitchd", VSWITCHD, Some(modules_mount))
    };
    let pod = PodSpec {
        containers: vec![container("ovsdb", OVSDB, None), vswitchd],
        volumes: Some(vec![run, data, modules, scratch("tmp")]),
        ..PodSpec::default()
    };
    daemon_set(cluster, SWITCH, agent, 15, pod)
}

pub fn controller(cluster: &OvnCluster, tls: &Tls) -> DaemonSet {
    let names = Names::of(cluster);
    let agent = &cluster.spec.controller;
    let (run, run_mount) = of_node("run-openvswitch", "/run/openvswitch");
    let (own, own_mount) = of_node("run-ovn", "/run/ovn");
    let (settings, settings_mount) = settings_volume(&names);
    let mut volumes = vec![run, own, settings, scratch("tmp")];
    volumes.extend(tls.volume());
    let mut mounts = vec![run_mount, own_mount, settings_mount, mount("tmp", "/tmp")];
    mounts.extend(tls.mount());
    let status = [
        "ovn-appctl",
        "--timeout=4",
        "-t",
        "ovn-controller",
        "connection-status",
    ];
    let connected = format!("{} | grep -qx connected", status.join(" "));
    let container = privileged(Container {
        name: CONTROLLER.to_owned(),
        image: Some(cluster.spec.ovn_image.reference()),
        command: Some(script(START)),
        env: Some(vec![
            env_field("NODE", "spec.nodeName"),
            env("PROTOCOL", tls.protocol),
        ]),
        readiness_probe: Some(asks(script(&connected), 5, 3)),
        resources: agent.resources.clone(),
        volume_mounts: Some(mounts),
        ..Container::default()
    });
    let pod = PodSpec {
        containers: vec![container],
        volumes: Some(volumes),
        ..PodSpec::default()
    };
    daemon_set(cluster, CONTROLLER, agent, 5, pod)
}
