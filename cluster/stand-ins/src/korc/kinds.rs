//! The kinds that need nothing beyond their fields.

use std::time::Duration;

use c5c3_api::foreign::korc::{Domain, Endpoint, Group, Project, Role, Service};
use c5c3_kit::Finalizer;
use kube::ResourceExt;
use openstack_client::{Cloud, Fields, Kind};
use serde_json::json;

use super::resource::{Head, Ids, Need, Resource, Target};

/// With Keystone gone, an object goes after this and says what it leaves behind.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// The part of spec and status that every kind has under the same names.
macro_rules! head {
    () => {
        fn head(&self) -> Head<'_> {
            let status = self.status.as_ref();
            Head {
                credentials: &self.spec.cloud_credentials_ref,
                policy: self.spec.management_policy,
                import: self.spec.import.as_ref(),
                has_resource: self.spec.resource.is_some(),
                id: status.and_then(|status| status.id.as_deref()),
                shown: status.and_then(|status| status.resource.as_ref()),
                conditions: status.map_or(&[], |status| &status.conditions),
            }
        }
    };
}
pub(super) use head;

/// It may name the domain that it is in.
macro_rules! in_domain {
    () => {
        fn needs(&self) -> Vec<Need> {
            let resource = self.spec.resource.as_ref();
            let domain = resource.and_then(|resource| resource.domain_ref.as_ref());
            Need::of("domain_id", Target::Domain, domain)
                .into_iter()
                .collect()
        }
        fn watches() -> Vec<Target> {
            vec![Target::Domain]
        }
    };
}

pub(crate) const fn finalizer(name: &'static str) -> Finalizer {
    Finalizer { name, within: BOUND }
}

/// The name in OpenStack: of the spec, or else the object's own.
pub(crate) fn named(name: Option<&String>, object: &impl ResourceExt) -> Fields {
    Fields::new().with("name", name.cloned().unwrap_or_else(|| object.name_any()))
}

/// What the spec leaves open is not looked at.
pub(crate) fn maybe(fields: Fields, name: &str, value: Option<impl Into<serde_json::Value>>) -> Fields {
    match value {
        Some(value) => fields.with(name, value),
        None => fields,
    }
}

impl Resource for Domain {
    type Extra = ();
    const CONTROLLER: &'static str = "k-orc-domain";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/domain");
    const SHOWN: &'static [(&'static str, &'static str)] = &[
        ("name", "name"),
        ("description", "description"),
        ("enabled", "enabled"),
    ];
    head!();

    fn collection(&self, _ids: &Ids) -> Option<Kind> {
        Some(Kind::Domain)
    }
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }
    fn watches() -> Vec<Target> {
        Vec::new()
    }
    fn wanted(&self, _ids: &Ids, _cloud: &Cloud) -> Fields {
        let resource = self.spec.resource.clone().unwrap_or_default();
        let fields = named(resource.name.as_ref(), self).with("enabled", resource.enabled.unwrap_or(true));
        fields.with("description", resource.description.unwrap_or_default())
    }
}

impl Resource for Project {
    type Extra = ();
    const CONTROLLER: &'static str = "k-orc-project";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/project");
    const SHOWN: &'static [(&'static str, &'static str)] = &[
        ("name", "name"),
        ("description", "description"),
        ("domain_id", "domainID"),
        ("enabled", "enabled"),
        ("tags", "tags"),
    ];
    const FIXED: &'static [(&'static str, &'static str)] = &[("domain_id", "domainRef")];
    head!();

    fn collection(&self, _ids: &Ids) -> Option<Kind> {
        Some(Kind::Project)
    }
    in_domain!();
    fn wanted(&self, ids: &Ids, _cloud: &Cloud) -> Fields {
        let resource = self.spec.resource.clone().unwrap_or_default();
        let fields = named(resource.name.as_ref(), self)
            .with("enabled", resource.enabled.unwrap_or(true))
            .with("description", resource.description.unwrap_or_default())
            .with("tags", json!(resource.tags));
        maybe(fields, "domain_id", ids.get("domain_id"))
    }
}

/// A kind that has a name and a description, in a domain.
macro_rules! described {
    ($kind:ident, $word:literal) => {
        impl Resource for $kind {
            type Extra = ();
            const CONTROLLER: &'static str = concat!("k-orc-", $word);
            const FINALIZER: Finalizer = finalizer(concat!("openstack.k-orc.cloud/", $word));
            const SHOWN: &'static [(&'static str, &'static str)] = &[
                ("name", "name"),
                ("description", "description"),
                ("domain_id", "domainID"),
            ];
            const FIXED: &'static [(&'static str, &'static str)] = &[("domain_id", "domainRef")];
            head!();

            fn collection(&self, _ids: &Ids) -> Option<Kind> {
                Some(Kind::$kind)
            }
            in_domain!();
            fn wanted(&self, ids: &Ids, _cloud: &Cloud) -> Fields {
                let resource = self.spec.resource.clone().unwrap_or_default();
                let fields = named(resource.name.as_ref(), self)
                    .with("description", resource.description.unwrap_or_default());
                maybe(fields, "domain_id", ids.get("domain_id"))
            }
        }
    };
}

described!(Role, "role");
described!(Group, "group");

impl Resource for Service {
    type Extra = ();
    const CONTROLLER: &'static str = "k-orc-service";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/service");
    const SHOWN: &'static [(&'static str, &'static str)] = &[
        ("name", "name"),
        ("type", "type"),
        ("description", "description"),
        ("enabled", "enabled"),
    ];
    const SAME: &'static [&'static str] = &["name", "type"];
    head!();

    fn collection(&self, _ids: &Ids) -> Option<Kind> {
        Some(Kind::Service)
    }
    fn needs(&self) -> Vec<Need> {
        Vec::new()
    }
    fn watches() -> Vec<Target> {
        Vec::new()
    }
    fn wanted(&self, _ids: &Ids, _cloud: &Cloud) -> Fields {
        let resource = self.spec.resource.clone().unwrap_or_default();
        named(resource.name.as_ref(), self)
            .with("type", resource.type_)
            .with("enabled", resource.enabled.unwrap_or(true))
            .with("description", resource.description.unwrap_or_default())
    }
}

impl Resource for Endpoint {
    type Extra = ();
    const CONTROLLER: &'static str = "k-orc-endpoint";
    const FINALIZER: Finalizer = finalizer("openstack.k-orc.cloud/endpoint");
    const SHOWN: &'static [(&'static str, &'static str)] = &[
        ("service_id", "serviceID"),
        ("interface", "interface"),
        ("url", "url"),
        ("region", "region"),
        ("enabled", "enabled"),
        ("description", "description"),
    ];
    const SAME: &'static [&'static str] = &["service_id", "interface", "url", "region"];
    head!();

    fn collection(&self, _ids: &Ids) -> Option<Kind> {
        Some(Kind::Endpoint)
    }
    fn needs(&self) -> Vec<Need> {
        let resource = self.spec.resource.as_ref();
        let service = resource.map(|resource| &resource.service_ref);
        Need::of("service_id", Target::Service, service)
            .into_iter()
            .collect()
    }
    fn watches() -> Vec<Target> {
        vec![Target::Service]
    }
    /// Without a region of its own an endpoint is in that of the login: clients look there.
    fn wanted(&self, ids: &Ids, cloud: &Cloud) -> Fields {
        let resource = self.spec.resource.clone().unwrap_or_default();
        let fields = Fields::new()
            .with("interface", resource.interface)
            .with("url", resource.url)
            .with("enabled", resource.enabled.unwrap_or(true))
            .with("description", resource.description.unwrap_or_default());
        let fields = maybe(fields, "region", resource.region.or_else(|| cloud.region.clone()));
        maybe(fields, "service_id", ids.get("service_id"))
    }
}
