//! Which images a cloud needs. Pure.

use c5c3_api::c5c3::ControlPlane;
use c5c3_api::services::{SERVICES, Service};
use c5c3_catalogue::releases;
use serde_json::Value;

use super::health::{kind, text};
use super::profile::Bundle;

/// Images that these clouds need, by release.
pub(crate) fn wanted(bundle: &Bundle) -> Vec<(String, Vec<String>)> {
    let planes = bundle.planes.iter();
    let mut wanted: Vec<(String, Vec<String>)> = planes
        .map(|plane| (plane.spec.open_stack_release.clone(), of(plane)))
        .collect();
    if bundle.objects.iter().any(is_storage) {
        let newest = || releases().last().map(|release| (release.clone(), Vec::new()));
        if wanted.is_empty() {
            wanted.extend(newest());
        }
        // It is the same image in all releases.
        wanted
            .iter_mut()
            .take(1)
            .for_each(|(_, images)| images.push("ceph".to_owned()));
    }
    wanted
}

/// A Ceph cluster that brings no image of its own.
fn is_storage(object: &Value) -> bool {
    kind(object) == "CephCluster" && text(object, "/spec/cephVersion/image").is_empty()
}

fn of(plane: &ControlPlane) -> Vec<String> {
    let infrastructure = &plane.spec.infrastructure;
    let running = || SERVICES.iter().filter(|service| service.runs(&plane.spec));
    // One of somebody else's is not built here.
    let given = |service: &Service| (service.pin)(&plane.spec).is_some();
    let own = running().filter(|service| !given(service)).map(Service::image);
    let with_them = running().flat_map(|service| service.images).copied();
    let nova = plane.spec.services.nova.common.enabled;
    let talks = running().any(|service| service.messaging);
    let messaging = &infrastructure.messaging;
    let parts = [
        ("mariadb", infrastructure.database.host.is_none()),
        ("memcached", infrastructure.cache.servers.is_empty()),
        (
            "rabbitmq",
            messaging.replicas.is_some() || talks && messaging.hosts.is_empty(),
        ),
        ("valkey", infrastructure.valkey.replicas.is_some()),
        // The agents of hypervisors are roles of this program, as Cortex is.
        ("c5c3", nova && !own.clone().any(|image| image == "c5c3")),
        // The first image of Glance: something to start.
        ("guest", nova && cfg!(target_arch = "x86_64")),
        ("openstackclient", true),
    ];
    let parts = parts.iter().filter(|(_, needed)| *needed).map(|(name, _)| *name);
    own.chain(parts).chain(with_them).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMALL: &str = include_str!("../../../deploy/profiles/small.yaml");
    const CORE: &str = include_str!("../../../deploy/profiles/core.yaml");
    const HA: &str = include_str!("../../../deploy/profiles/ha.yaml");
    const VOLUMES: &str = include_str!("../../../deploy/profiles/volumes.yaml");
    const IDENTITY: [&str; 6] = [
        "keystone",
        "glance",
        "placement",
        "mariadb",
        "memcached",
        "openstackclient",
    ];

    fn images(text: &str) -> Vec<String> {
        let (release, images) = wanted(&Bundle::parse(text).expect("parses")).remove(0);
        assert_eq!(release, "2025.2");
        images
    }

    fn plane(services: &str) -> Vec<String> {
        images(&format!(
            "apiVersion: c5c3.io/v1alpha1\nkind: ControlPlane\nmetadata: {{name: x}}\n\
             spec: {{openStackRelease: '2025.2', services: {services}}}\n"
        ))
    }

    #[test]
    fn a_profile_says_its_images() {
        assert_eq!(images(CORE), IDENTITY);
        let small = images(SMALL);
        let servers = ["nova", "neutron", "rabbitmq", "ovs", "ovn", "libvirt"];
        for image in IDENTITY.iter().chain(&servers) {
            assert!(small.iter().any(|found| found == image), "{image}: {small:?}");
        }
        assert!(images(VOLUMES).contains(&"cinder".to_owned()));
        let without_ceph = |images: Vec<String>| -> Vec<String> {
            let all = images.into_iter();
            all.filter(|image| image != "ceph").collect()
        };
        assert_eq!(without_ceph(images(HA)), small, "more of the same");
    }

    #[test]
    fn storage_brings_its_image() {
        const STORAGE: &str = include_str!("../../../deploy/quickstart/storage.yaml");
        let alone = wanted(&Bundle::parse(STORAGE).expect("parses"));
        assert_eq!(alone.len(), 1);
        assert_eq!(alone[0].1, ["ceph"]);
        assert!(images(&format!("{SMALL}\n---\n{STORAGE}")).contains(&"ceph".to_owned()));
        let other = STORAGE.replace("dataDirHostPath: /var/lib/rook", "cephVersion: {image: other}");
        assert_eq!(wanted(&Bundle::parse(&other).expect("parses")), []);
    }

    #[test]
    fn what_nobody_wants_is_not_built() {
        let without = "{nova: {enabled: false}, neutron: {enabled: false}, cinder: {enabled: false}}";
        assert_eq!(plane(without), IDENTITY);
    }

    #[test]
    fn a_service_brings_what_it_stands_on() {
        for (services, wanted, unwanted) in [
            (
                "{nova: {enabled: false}, neutron: {enabled: true}, cinder: {enabled: false}}",
                vec!["neutron", "ovs", "ovn", "rabbitmq"],
                vec!["nova", "libvirt", "guest", "c5c3"],
            ),
            (
                "{nova: {enabled: true}, neutron: {enabled: true}, cinder: {enabled: false}}",
                vec!["nova", "neutron", "ovs", "ovn", "libvirt", "rabbitmq", "c5c3"],
                vec!["cinder"],
            ),
            (
                "{nova: {enabled: false}, neutron: {enabled: false}, cinder: {enabled: true}}",
                vec!["cinder", "rabbitmq"],
                vec!["ovs", "libvirt", "guest"],
            ),
        ] {
            let images = plane(services);
            let has = |name: &&str| images.iter().any(|image| image == name);
            assert!(wanted.iter().all(has), "{services}: {images:?}");
            assert!(!unwanted.iter().any(has), "{services}: {images:?}");
        }
    }
}
