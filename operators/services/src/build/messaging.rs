//! The message bus: Vhost, User and Permission of a managed one, and the address for the programs.

use c5c3_api::common::Messaging;
use c5c3_api::foreign::{NameRef, rabbitmq};
use c5c3_kit::{Kind, Wanted};

use super::secrets::percent;
use crate::error::Error;
use crate::facts::{BROKERS_READY, Facts, Trouble, readiness, value};
use crate::names::Names;
use crate::shape::{BUS_PORT, NamedBus, Service};

/// None for brokers that somebody else runs.
pub fn messaging_objects(service: &Service) -> Vec<Wanted> {
    let buses = service.buses.iter();
    buses
        .flat_map(|NamedBus { name, bus }| topology(&service.names, name, bus))
        .collect()
}

fn topology(names: &Names, bus: &str, messaging: &Messaging) -> Vec<Wanted> {
    let own = names.bus_object(bus);
    let Some(cluster) = &messaging.cluster_ref else {
        return Vec::new();
    };
    let broker = rabbitmq::ClusterReference {
        name: Some(cluster.name.clone()),
        ..rabbitmq::ClusterReference::default()
    };
    let metadata = names.metadata(&own);
    let all = || Some(".*".to_owned());
    vec![
        Wanted::of(&rabbitmq::Vhost {
            metadata: metadata.clone(),
            spec: rabbitmq::VhostSpec {
                name: own.clone(),
                default_queue_type: Some("quorum".to_owned()),
                rabbitmq_cluster_reference: broker.clone(),
            },
            status: None,
        }),
        Wanted::of(&rabbitmq::User {
            metadata: metadata.clone(),
            spec: rabbitmq::UserSpec {
                import_credentials_secret: Some(NameRef::new(&messaging.secret_ref.name)),
                rabbitmq_cluster_reference: broker.clone(),
                ..rabbitmq::UserSpec::default()
            },
            status: None,
        }),
        Wanted::of(&rabbitmq::Permission {
            metadata,
            spec: rabbitmq::PermissionSpec {
                vhost: own.clone(),
                user_reference: Some(NameRef::new(own)),
                permissions: rabbitmq::VhostPermissions {
                    configure: all(),
                    write: all(),
                    read: all(),
                },
                rabbitmq_cluster_reference: broker,
                ..rabbitmq::PermissionSpec::default()
            },
            status: None,
        }),
    ]
}

/// Brokers of others are all named. A managed cluster tells its Service, which leads to one that is up.
pub(super) fn transport_url(
    names: &Names,
    bus: &str,
    messaging: &Messaging,
    facts: &Facts,
) -> Result<String, Error> {
    let user = percent(&value(facts, &messaging.secret_ref.name, "username")?);
    let password = percent(&value(facts, &messaging.secret_ref.name, "password")?);
    let hosts: Vec<String> = match &messaging.cluster_ref {
        None => messaging.hosts.clone(),
        Some(cluster) => {
            let name = &cluster.name;
            let broker = facts
                .brokers
                .get(name)
                .ok_or_else(|| Error::BrokerMissing(name.clone()))?;
            let status = broker
                .status
                .as_ref()
                .and_then(|status| status.default_user.as_ref());
            let service = status
                .and_then(|user| user.service_reference.as_ref())
                .ok_or_else(|| Error::BrokerUnknown(name.clone()))?;
            let namespace = Some(&service.namespace).filter(|namespace| !namespace.is_empty());
            let namespace = namespace.unwrap_or(&names.namespace);
            vec![format!("{}.{namespace}.svc:{BUS_PORT}", service.name)]
        }
    };
    let brokers: Vec<String> = hosts
        .iter()
        .map(|host| format!("{user}:{password}@{host}"))
        .collect();
    // Brokers of others are used with their default virtual host.
    let managed = messaging.cluster_ref.is_some();
    let vhost = if managed {
        names.bus_object(bus)
    } else {
        String::new()
    };
    Ok(format!("rabbit://{}/{vhost}", brokers.join(",")))
}

/// Why a managed bus cannot be used yet.
pub fn messaging_ready(service: &Service, facts: &Facts) -> Result<(), Trouble> {
    let mut buses = service.buses.iter();
    buses.try_for_each(|NamedBus { name, bus }| ready(&service.names, name, bus, facts))
}

fn ready(names: &Names, bus: &str, messaging: &Messaging, facts: &Facts) -> Result<(), Trouble> {
    let own = names.bus_object(bus);
    let Some(cluster) = &messaging.cluster_ref else {
        return Ok(());
    };
    let name = &cluster.name;
    let trouble = |text: String| Trouble::with::<rabbitmq::RabbitmqCluster>(name, text);
    let broker = facts
        .brokers
        .get(name)
        .ok_or_else(|| trouble(format!("RabbitmqCluster {name} is missing")))?;
    let status = broker.status.as_ref().map(|status| status.common.clone());
    readiness(status, BROKERS_READY).map_err(|why| trouble(format!("RabbitmqCluster {name}: {why}")))?;
    for (kind, resource) in [
        ("Vhost", Kind::of::<rabbitmq::Vhost>()),
        ("broker User", Kind::of::<rabbitmq::User>()),
        ("Permission", Kind::of::<rabbitmq::Permission>()),
    ] {
        if let Some(Err(why)) = facts.backend_objects.get(&(kind, own.clone())) {
            return Err(Trouble {
                text: format!("{kind} {own}: {why}"),
                blocker: Some(resource.named(None, &own)),
            });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::common::LocalRef;
    use serde_json::{Value, json};
    use std::collections::BTreeMap;

    fn names() -> Names {
        Names {
            namespace: "openstack".into(),
            name: "nova".into(),
            service: "nova",
        }
    }

    fn managed() -> Messaging {
        Messaging {
            cluster_ref: Some(LocalRef::new("rabbitmq")),
            secret_ref: LocalRef::new("nova-rabbitmq-credentials"),
            ..Messaging::default()
        }
    }

    fn facts(ready: &str) -> Facts {
        let broker = json!({"metadata": {"name": "rabbitmq"}, "spec": {"replicas": 3},
            "status": {"conditions": [{"type": "AllReplicasReady", "status": ready, "message": "2 of 3 up"}],
                "defaultUser": {"serviceReference": {"name": "rabbitmq", "namespace": "bus"}}}});
        let secret = [("username", "nova"), ("password", "p@ss")];
        Facts {
            brokers: BTreeMap::from([(
                "rabbitmq".to_owned(),
                serde_json::from_value(broker).expect("a cluster"),
            )]),
            secrets: BTreeMap::from([(
                "nova-rabbitmq-credentials".to_owned(),
                secret
                    .map(|(key, value)| (key.to_owned(), value.as_bytes().to_vec()))
                    .into(),
            )]),
            ..Facts::default()
        }
    }

    #[test]
    fn a_managed_bus_has_its_objects_and_the_address_that_its_status_tells() {
        let kinds: Vec<Value> = topology(&names(), "", &managed())
            .into_iter()
            .map(|wanted| wanted.object()["kind"].clone())
            .collect();
        assert_eq!(kinds, ["Vhost", "User", "Permission"]);
        assert_eq!(
            transport_url(&names(), "", &managed(), &facts("True")).expect("an address"),
            "rabbit://nova:p%40ss@rabbitmq.bus.svc:5672/nova"
        );
        let mut young = facts("False");
        young.brokers.get_mut("rabbitmq").expect("there").status = None;
        let unknown = transport_url(&names(), "", &managed(), &young).expect_err("no address yet");
        assert_eq!(
            unknown.to_string(),
            "RabbitmqCluster rabbitmq reports no address yet (status.defaultUser.serviceReference)"
        );
    }

    #[test]
    fn brokers_of_others_are_used_as_they_are() {
        let messaging = Messaging {
            cluster_ref: None,
            hosts: vec!["mq1:5672".into(), "mq2:5673".into()],
            ..managed()
        };
        assert!(topology(&names(), "", &messaging).is_empty());
        assert_eq!(
            transport_url(&names(), "", &messaging, &facts("False")).expect("an address"),
            "rabbit://nova:p%40ss@mq1:5672,nova:p%40ss@mq2:5673/"
        );
        assert_eq!(ready(&names(), "", &messaging, &Facts::default()), Ok(()));
    }

    #[test]
    fn the_bus_says_what_it_waits_for() {
        assert_eq!(
            ready(&names(), "", &managed(), &Facts::default()).map_err(|trouble| trouble.text),
            Err("RabbitmqCluster rabbitmq is missing".to_owned())
        );
        assert_eq!(
            ready(&names(), "", &managed(), &facts("False")).map_err(|trouble| trouble.text),
            Err("RabbitmqCluster rabbitmq: 2 of 3 up".to_owned())
        );
        let mut waiting = facts("True");
        waiting.backend_objects.insert(
            ("Permission", "nova".into()),
            Err("user nova is not there".into()),
        );
        assert_eq!(
            ready(&names(), "", &managed(), &waiting).map_err(|trouble| trouble.text),
            Err("Permission nova: user nova is not there".to_owned())
        );
        assert_eq!(ready(&names(), "", &managed(), &facts("True")), Ok(()));
    }
}
