//! A cloud as all passes share it: its calls, and one picture of all hosts that is at most a few
//! seconds old. With it ten thousand hosts cost three lists, not thirty thousand reads.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use openstack_client::{Fleet, Result, Service};
use tokio::sync::Mutex;

/// Oldest picture that a decision may rest on. Calls that cannot be repeated rest on reads of their own.
const OLDEST: SignedDuration = SignedDuration::from_secs(5);

/// A host aggregate, without its members.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    pub id: i64,
    pub uuid: String,
    pub name: String,
}

/// The result of looking up a name or id in Nova.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Found {
    #[default]
    Nothing,
    One(Service),
    /// Several services could be meant; none is touched.
    Several(Vec<String>),
}

/// One host, as Nova knows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Host {
    pub service: Found,
    /// Id of hypervisor and resource provider.
    pub provider: Option<String>,
    pub groups: Arc<Vec<Group>>,
    pub member_of: BTreeSet<i64>,
    /// Of all hosts of the cloud, and those that Nova hears.
    pub hosts: usize,
    pub heard: usize,
}

#[derive(Default)]
struct Picture {
    heard: usize,
    at: Option<Timestamp>,
    services: HashMap<String, Service>,
    by_host: HashMap<String, String>,
    /// First labels of host names, with the services that have them.
    by_label: HashMap<String, Vec<String>>,
    providers: HashMap<String, String>,
    groups: Arc<Vec<Group>>,
    members: HashMap<String, BTreeSet<i64>>,
}

pub struct Nova {
    pub fleet: Arc<dyn Fleet>,
    picture: Mutex<Picture>,
}

fn label(host: &str) -> &str {
    host.split('.').next().unwrap_or(host)
}

impl Picture {
    /// By the id that is known, else by the exact name; a name with and one without domain are the
    /// same only where no third could be meant.
    fn find(&self, id: Option<&str>, name: &str) -> Found {
        if let Some(known) = id.and_then(|id| self.services.get(id)) {
            return Found::One(known.clone());
        }
        let by_id = |id: &String| self.services.get(id).cloned();
        if let Some(exact) = self.by_host.get(name).and_then(by_id) {
            return Found::One(exact);
        }
        let alike = self
            .by_label
            .get(label(name))
            .map(Vec::as_slice)
            .unwrap_or_default();
        let alike: Vec<Service> = alike
            .iter()
            .filter_map(by_id)
            .filter(|service| !service.host.contains('.') || !name.contains('.'))
            .collect();
        match alike.as_slice() {
            [] => Found::Nothing,
            [one] => Found::One(one.clone()),
            several => Found::Several(several.iter().map(|one| one.host.clone()).collect()),
        }
    }
}

impl Nova {
    pub fn new(fleet: Arc<dyn Fleet>) -> Self {
        Nova {
            fleet,
            picture: Mutex::default(),
        }
    }

    /// The host with that service, or of that name.
    pub async fn host(&self, id: Option<&str>, name: &str, now: Timestamp) -> Result<Host> {
        let mut picture = self.picture.lock().await;
        // A clock that was set back would keep an old picture forever.
        let fresh = |at: Timestamp| now >= at && now.duration_since(at) <= OLDEST;
        if !picture.at.is_some_and(fresh) {
            *picture = self.take(now).await?;
        }
        let service = picture.find(id, name);
        let (provider, member_of) = match &service {
            Found::One(one) => (
                picture.providers.get(&one.id).cloned(),
                picture.members.get(&one.host).cloned().unwrap_or_default(),
            ),
            _ => (None, BTreeSet::new()),
        };
        Ok(Host {
            service,
            provider,
            groups: picture.groups.clone(),
            member_of,
            hosts: picture.services.len(),
            heard: picture.heard,
        })
    }

    async fn take(&self, now: Timestamp) -> Result<Picture> {
        let (services, hypervisors, aggregates) = futures::try_join!(
            self.fleet.compute_hosts(),
            self.fleet.hypervisors(),
            self.fleet.aggregates()
        )?;
        let mut by_label: HashMap<String, Vec<String>> = HashMap::new();
        for service in &services {
            let same = by_label.entry(label(&service.host).to_owned()).or_default();
            same.push(service.id.clone());
        }
        let mut members: HashMap<String, BTreeSet<i64>> = HashMap::new();
        for aggregate in &aggregates {
            for host in &aggregate.hosts {
                members.entry(host.clone()).or_default().insert(aggregate.id);
            }
        }
        let groups = aggregates.into_iter().map(|one| Group {
            id: one.id,
            uuid: one.uuid,
            name: one.name,
        });
        Ok(Picture {
            heard: services.iter().filter(|one| one.up()).count(),
            at: Some(now),
            by_host: services
                .iter()
                .map(|one| (one.host.clone(), one.id.clone()))
                .collect(),
            services: services.into_iter().map(|one| (one.id.clone(), one)).collect(),
            by_label,
            providers: hypervisors.into_iter().map(|one| (one.service, one.id)).collect(),
            groups: Arc::new(groups.collect()),
            members,
        })
    }

    pub async fn enable(&self, service: &str) -> Result<()> {
        self.fleet.enable(service).await?;
        self.changed(service, |one| {
            one.status = "enabled".to_owned();
            one.disabled_reason = None;
        })
        .await;
        Ok(())
    }

    pub async fn disable(&self, service: &str, reason: &str) -> Result<()> {
        self.fleet.disable(service, reason).await?;
        self.changed(service, |one| {
            one.status = "disabled".to_owned();
            one.disabled_reason = Some(reason.to_owned());
        })
        .await;
        Ok(())
    }

    pub async fn force_down(&self, service: &str, down: bool) -> Result<()> {
        self.fleet.force_down(service, down).await?;
        self.changed(service, |one| one.forced_down = down).await;
        Ok(())
    }

    /// What was just written is in the picture before Nova is asked again.
    async fn changed(&self, service: &str, change: impl FnOnce(&mut Service)) {
        if let Some(one) = self.picture.lock().await.services.get_mut(service) {
            change(one);
        }
    }

    pub async fn join(&self, aggregate: i64, host: &str) -> Result<()> {
        match self.fleet.join_aggregate(aggregate, host).await {
            // It is a member already: the picture was old.
            Err(error) if error.class() != openstack_client::Class::Conflict => return Err(error),
            _ => {}
        }
        let mut picture = self.picture.lock().await;
        picture
            .members
            .entry(host.to_owned())
            .or_default()
            .insert(aggregate);
        Ok(())
    }

    pub async fn leave(&self, aggregate: i64, host: &str) -> Result<()> {
        self.fleet.leave_aggregate(aggregate, host).await?;
        if let Some(own) = self.picture.lock().await.members.get_mut(host) {
            own.remove(&aggregate);
        }
        Ok(())
    }

    pub async fn delete_service(&self, service: &str) -> Result<()> {
        self.fleet.delete_service(service).await?;
        let mut picture = self.picture.lock().await;
        if let Some(gone) = picture.services.remove(service) {
            picture.by_host.remove(&gone.host);
            picture.providers.remove(service);
        }
        Ok(())
    }

    /// Discards everything that was read so far.
    pub async fn forget(&self) {
        self.picture.lock().await.at = None;
    }
}

/// Amounts by resource class.
pub type Amounts = BTreeMap<String, i64>;

#[cfg(test)]
mod tests {
    use super::*;
    use openstack_client::SimulatedFleet;

    async fn found(hosts: &[&str], id: Option<&str>, name: &str) -> Found {
        let fleet = SimulatedFleet::default();
        for host in hosts {
            fleet.add_host(host, 1, 1);
        }
        let nova = Nova::new(Arc::new(fleet));
        nova.host(id, name, Timestamp::UNIX_EPOCH)
            .await
            .expect("a picture")
            .service
    }

    fn host(found: &Found) -> String {
        match found {
            Found::Nothing => "-".to_owned(),
            Found::One(service) => service.host.clone(),
            Found::Several(hosts) => hosts.join("|"),
        }
    }

    #[tokio::test]
    async fn names_are_exact_with_and_without_domain() {
        for (hosts, name, expected) in [
            (&["node1", "node10"][..], "node1", "node1"),
            (&["node10", "node11"], "node1", "-"),
            (
                &["node1.a.example", "node10.a.example"],
                "node1",
                "node1.a.example",
            ),
            (&["node1", "node10"], "node1.a.example", "node1"),
            (
                &["node1.a.example", "node1.b.example"],
                "node1.b.example",
                "node1.b.example",
            ),
            (&["node1.a.example"], "node1.b.example", "-"),
        ] {
            assert_eq!(
                host(&found(hosts, None, name).await),
                expected,
                "{name} in {hosts:?}"
            );
        }
        let several = found(&["node1.a.example", "node1.b.example"], None, "node1").await;
        assert!(matches!(several, Found::Several(hosts) if hosts.len() == 2));
    }
}
