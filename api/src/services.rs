//! The OpenStack services: one table from which everything derives that has to know all of them.
//!
//! A row holds what is the same wherever a service is named: kind, catalogue entry, order of updates,
//! conditions, images. What a service consists of is its shape (`operators/services/src/kinds`).

use crate::c5c3::{ControlPlaneSpec, ServiceToggle};
use crate::common::Image;
use crate::conditions::{
    CEPH_CONNECTED, DATABASE_READY, DEPLOYMENT_READY, MESSAGING_READY, READY, service as part,
};
use crate::openstack::port;

/// Calls a macro with the types of all services that the services operator looks after, in the order of
/// the table.
#[macro_export]
macro_rules! each_service {
    ($callback:ident) => {
        $callback! {
            $crate::openstack::Keystone,
            $crate::openstack::Glance,
            $crate::openstack::Placement,
            $crate::openstack::Nova,
            $crate::openstack::Neutron,
            $crate::openstack::Cinder,
            $crate::cortex::Cortex,
            $crate::openstack::Tempest
        }
    };
}

/// A row of the table.
pub struct Service {
    /// Of its object in a cloud, its image, its database and its user.
    pub name: &'static str,
    /// For people.
    pub title: &'static str,
    /// Its kind, and the group of that.
    pub kind: &'static str,
    pub group: &'static str,
    /// An operator looks after the kind: a cloud can have it.
    pub served: bool,
    /// Type in the catalogue of Keystone, and what it is; empty for what nobody calls.
    pub catalogue: (&'static str, &'static str),
    pub port: u16,
    /// What follows host and port in the catalogue.
    pub path: &'static str,
    /// It sends messages.
    pub messaging: bool,
    /// Services are updated one tier after the other.
    pub tier: u8,
    /// The field of a ControlPlane that turns it off.
    pub switch: &'static str,
    pub enabled: fn(&ControlPlaneSpec) -> bool,
    pub toggle: fn(&ControlPlaneSpec) -> Option<&ServiceToggle>,
    /// Its image, where that has another name than the service.
    pub image: &'static str,
    /// The image that a ControlPlane names for it.
    pub pin: fn(&ControlPlaneSpec) -> Option<&Image>,
    /// It has a database and uses the cache.
    pub keeps: bool,
    /// It is no part of the cloud but judges it: it verifies an update, which does not wait for it.
    pub judges: bool,
    /// `spec.replicas` for it, where a ControlPlane has one number for all of its processes.
    pub replicas: fn(&ControlPlaneSpec) -> Option<i32>,
    /// Steps of a ControlPlane's plan that must be done before it can run, beside those of all services.
    pub needs: &'static [&'static str],
    /// Images that come with it.
    pub images: &'static [&'static str],
    /// Its object names its public address: the service tells it to others itself.
    pub tells_address: bool,
    /// Programs on hypervisors call it.
    pub called_by_hypervisors: bool,
    /// Condition types of its kind, `Ready` first.
    pub conditions: &'static [&'static str],
}

impl Service {
    /// It is wanted, and an operator can run it.
    pub fn runs(&self, spec: &ControlPlaneSpec) -> bool {
        self.served && (self.enabled)(spec)
    }

    /// The name of its image.
    pub fn image(&self) -> &'static str {
        if self.image.is_empty() {
            self.name
        } else {
            self.image
        }
    }

    pub fn api_version(&self) -> String {
        format!("{}/v1alpha1", self.group)
    }
}

impl std::fmt::Debug for Service {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name)
    }
}

/// What a row does not say.
const NONE: Service = Service {
    name: "",
    title: "",
    kind: "",
    group: "",
    served: false,
    catalogue: ("", ""),
    port: 0,
    path: "",
    messaging: false,
    tier: 0,
    switch: "",
    enabled: |_| false,
    toggle: |_| None,
    image: "",
    pin: |_| None,
    keeps: true,
    judges: false,
    replicas: |_| None,
    needs: &[],
    images: &[],
    tells_address: false,
    called_by_hypervisors: false,
    conditions: &[],
};

/// A service with a field of its own under `spec.services`.
macro_rules! of_field {
    ($field:ident, $kind:literal) => {
        Service {
            name: stringify!($field),
            title: $kind,
            kind: $kind,
            group: concat!(stringify!($field), ".openstack.c5c3.io"),
            served: true,
            switch: concat!("services.", stringify!($field), ".enabled"),
            enabled: |spec| spec.services.$field.common.enabled,
            toggle: |spec| Some(&spec.services.$field.common),
            pin: |spec| spec.services.$field.common.image.as_ref(),
            ..NONE
        }
    };
}

/// In the order of dependence. A new service is one more row.
pub static SERVICES: &[Service] = &[
    Service {
        catalogue: ("identity", "Identity"),
        port: port::KEYSTONE,
        path: "/v3",
        tier: 0,
        replicas: |spec| spec.services.keystone.replicas,
        tells_address: true,
        called_by_hypervisors: true,
        conditions: &[
            READY,
            DATABASE_READY,
            part::FERNET_KEYS_READY,
            part::CREDENTIAL_KEYS_READY,
            part::BOOTSTRAP_READY,
            DEPLOYMENT_READY,
        ],
        ..of_field!(keystone, "Keystone")
    },
    Service {
        catalogue: ("image", "Images"),
        port: port::GLANCE,
        tier: 1,
        replicas: |spec| spec.services.glance.replicas,
        tells_address: true,
        called_by_hypervisors: true,
        conditions: &[
            READY,
            DATABASE_READY,
            part::STORAGE_READY,
            CEPH_CONNECTED,
            DEPLOYMENT_READY,
        ],
        ..of_field!(glance, "Glance")
    },
    Service {
        catalogue: ("placement", "Resource tracking"),
        port: port::PLACEMENT,
        tier: 1,
        replicas: |spec| spec.services.placement.replicas,
        called_by_hypervisors: true,
        conditions: &[READY, DATABASE_READY, DEPLOYMENT_READY],
        ..of_field!(placement, "Placement")
    },
    Service {
        catalogue: ("compute", "Compute"),
        port: port::NOVA,
        path: "/v2.1",
        messaging: true,
        tier: 2,
        tells_address: true,
        needs: &["messaging"],
        images: &["libvirt"],
        conditions: &[
            READY,
            DATABASE_READY,
            MESSAGING_READY,
            CEPH_CONNECTED,
            part::CONDUCTOR_READY,
            part::SCHEDULER_READY,
            part::API_READY,
            part::CELLS_READY,
        ],
        ..of_field!(nova, "Nova")
    },
    Service {
        catalogue: ("network", "Networks"),
        port: port::NEUTRON,
        messaging: true,
        tier: 3,
        replicas: |spec| spec.services.neutron.replicas,
        needs: &["messaging", "ovn"],
        images: &["ovn", "ovs"],
        called_by_hypervisors: true,
        conditions: &[
            READY,
            DATABASE_READY,
            MESSAGING_READY,
            part::OVN_CONNECTED,
            DEPLOYMENT_READY,
        ],
        ..of_field!(neutron, "Neutron")
    },
    Service {
        catalogue: ("block-storage", "Volumes"),
        port: port::CINDER,
        path: "/v3",
        messaging: true,
        tier: 4,
        tells_address: true,
        needs: &["messaging"],
        called_by_hypervisors: true,
        conditions: &[
            READY,
            DATABASE_READY,
            MESSAGING_READY,
            CEPH_CONNECTED,
            part::BACKENDS_READY,
            part::SCHEDULER_READY,
            part::API_READY,
        ],
        ..of_field!(cinder, "Cinder")
    },
    Service {
        name: "cortex",
        title: "Cortex",
        kind: "Cortex",
        group: "cortex.c5c3.io",
        served: true,
        image: "c5c3",
        port: port::CORTEX,
        tier: 5,
        switch: "cortex.enabled",
        enabled: |spec| spec.cortex.enabled,
        pin: |spec| spec.cortex.image.as_ref(),
        keeps: false,
        replicas: |spec| spec.cortex.replicas,
        conditions: &[READY, DEPLOYMENT_READY],
        ..NONE
    },
    Service {
        name: "tempest",
        title: "Tempest",
        kind: "Tempest",
        group: "tempest.openstack.c5c3.io",
        served: true,
        tier: 6,
        switch: "tempest.enabled",
        enabled: |spec| spec.tempest.enabled,
        pin: |spec| spec.tempest.image.as_ref(),
        keeps: false,
        judges: true,
        conditions: &[READY, part::TESTS_PASSED],
        ..NONE
    },
];

/// The identity service, on which all others stand.
pub fn keystone() -> &'static Service {
    // The first row of the table above.
    &SERVICES[0]
}

/// The row of a kind.
pub fn of_kind(kind: &str) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.kind == kind)
}

/// The row of a service.
pub fn named(name: &str) -> Option<&'static Service> {
    SERVICES.iter().find(|service| service.name == name)
}

/// The API groups of all services that an operator looks after.
pub fn groups() -> impl Iterator<Item = &'static str> {
    let served = SERVICES.iter().filter(|service| service.served);
    served.map(|service| service.group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use kube::Resource;

    #[test]
    fn the_types_are_those_of_the_table() {
        macro_rules! types {
            ($($kind:ty),*) => {
                vec![$((<$kind>::kind(&()).into_owned(), <$kind>::group(&()).into_owned())),*]
            };
        }
        let types: Vec<(String, String)> = each_service!(types);
        let served = SERVICES.iter().filter(|service| service.served);
        let rows: Vec<(String, String)> = served
            .map(|service| (service.kind.to_owned(), service.group.to_owned()))
            .collect();
        assert_eq!(types, rows);
    }

    #[test]
    fn every_row_is_a_kind_with_conditions() {
        for service in SERVICES {
            let found = crate::registry()
                .iter()
                .any(|kind| (kind.kind.as_str(), kind.group.as_str()) == (service.kind, service.group));
            assert!(found, "{service:?}");
            assert_eq!(service.conditions.first(), Some(&READY), "{service:?}");
        }
        assert_eq!(keystone().name, "keystone");
    }
}
