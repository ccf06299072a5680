//! Datasource: reads Nova, Placement or Prometheus regularly. Knowledge: computes features from the
//! data.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::cortex::{Datasource, Knowledge, OpenStackSource, PrometheusSource};
use c5c3_kit::{
    Applied, Controller, Decision, Kind, Observed, Part, Reader, Reference, Report, States, Touch,
};
use jiff::{SignedDuration, Span, Timestamp};
use k8s_openapi::api::core::v1::Secret;
use kube::ResourceExt;
use openstack_client::{Cloud, Limits, Session};
use serde_json::{Value, json};

use super::{Error, Shared};
use crate::fleet::Features;
use crate::service::Source;
use crate::sources::{openstack, prometheus};

/// One whose duration cannot be read is read this often.
const USUAL: Duration = Duration::from_secs(600);
const CLOUD: &str = "openstack";

/// What the last read of a source gave.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Synced {
    at: Timestamp,
    objects: i64,
    generation: Option<i64>,
}

/// Durations as Kubernetes writes them: `600s`, `1h30m`.
fn duration(text: &str) -> Duration {
    let span: Option<Span> = text.parse().ok();
    let read = span.and_then(|span| SignedDuration::try_from(span).ok());
    read.and_then(|read| Duration::try_from(read).ok())
        .unwrap_or(USUAL)
}

fn interval(object: &Datasource) -> Duration {
    let spec = &object.spec;
    let openstack = spec.openstack.as_ref().map(|one| duration(&one.sync_interval));
    let prometheus = spec.prometheus.as_ref().map(|one| duration(&one.resolution));
    openstack
        .or(prometheus)
        .unwrap_or(USUAL)
        .max(Duration::from_secs(10))
}

/// What Datasources read when they name no Secret, for OpenStack and for Prometheus. The account that we make may read
/// these alone: it lives beside the passwords of a whole cloud.
const SECRETS: [&str; 2] = ["cortex-clouds-yaml", "cortex-prometheus"];

#[derive(Clone, Debug)]
pub(crate) struct Datasources(pub Shared);

fn text(secret: &Secret, key: &str) -> Option<String> {
    let bytes = secret.data.as_ref()?.get(key)?;
    String::from_utf8(bytes.0.clone()).ok()
}

impl Datasources {
    async fn secret(&self, reader: &Reader, name: Option<&str>) -> Result<(String, Secret), Error> {
        let name = name.unwrap_or(SECRETS[0]);
        let full = format!("{}/{name}", self.0.namespace);
        let found: Option<Secret> = reader.get(&self.0.namespace, name).await?;
        found
            .map(|secret| (full.clone(), secret))
            .ok_or(Error::NoSecret(full))
    }

    /// A session lasts as long as its Secret says the same.
    async fn session(
        &self,
        name: &str,
        source: &OpenStackSource,
        reader: &Reader,
    ) -> Result<Arc<Session>, Error> {
        let wanted = source.secret_ref.as_ref().map(|one| one.name.as_str());
        let (full, secret) = self.secret(reader, wanted).await?;
        let bad = |problem: &str| Error::BadSecret {
            secret: full.clone(),
            problem: problem.to_owned(),
        };
        let clouds = text(&secret, "clouds.yaml").ok_or_else(|| bad("it has no clouds.yaml: add it"))?;
        let cloud = text(&secret, "cloud").unwrap_or_else(|| CLOUD.to_owned());
        // The parser's words may quote the text, which has a password.
        let cloud = Cloud::parse(&clouds, &cloud, text(&secret, "cacert"))
            .map_err(|_| bad(&format!("clouds.yaml has no cloud {cloud} that can be read")))?;
        if let Some(known) = self.0.read().sessions.get(name)
            && *known.cloud() == cloud
        {
            return Ok(known.clone());
        }
        let session = Arc::new(Session::with(cloud, self.0.dial.clone(), Limits::default())?);
        self.0.read().sessions.insert(name.to_owned(), session.clone());
        Ok(session)
    }

    async fn openstack(&self, name: &str, source: &OpenStackSource, reader: &Reader) -> Result<i64, Error> {
        if !matches!(source.type_.as_str(), "nova" | "placement") {
            let text = format!("openstack.type: {} is not supported yet; use nova", source.type_);
            return Err(Error::NotSupported(text));
        }
        let session = self.session(name, source, reader).await?;
        let (hosts, servers) = openstack::read(&session).await?;
        let count = hosts.len() + servers.len();
        self.0.scheduler.world.tell(Source::OpenStack { hosts, servers });
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }

    async fn prometheus(&self, name: &str, source: &PrometheusSource, reader: &Reader) -> Result<i64, Error> {
        let wanted = source.secret_ref.as_ref().map(|one| one.name.as_str());
        let (full, secret) = self.secret(reader, wanted.or(Some(SECRETS[1]))).await?;
        let url = text(&secret, "url").ok_or_else(|| Error::BadSecret {
            secret: full,
            problem: "it has no url: add it".to_owned(),
        })?;
        let query = prometheus::Query {
            url,
            query: source.query.clone(),
            range: duration(&source.time_range),
            step: duration(&source.resolution),
        };
        let series = prometheus::read(&query, Timestamp::now()).await?;
        let count = series.iter().map(|one| one.values.len()).sum::<usize>();
        self.0.read().series.insert(name.to_owned(), series);
        Ok(i64::try_from(count).unwrap_or(i64::MAX))
    }
}

impl Controller for Datasources {
    type Kind = Datasource;
    type Facts = Synced;
    type Plan = ();
    type Action = std::convert::Infallible;
    type Error = Error;

    const NAME: &'static str = "cortex-datasources";
    const PARTS: &'static [Part] = &[];

    fn touches() -> Vec<Touch> {
        vec![Touch::of::<Secret>(&["get"]).at_home().named(&SECRETS)]
    }

    /// Reading the source is observing. It is read when its time has come, when its spec changed, and
    /// after a start: then nothing is in memory.
    async fn observe(&self, object: &Datasource, reader: &Reader) -> Result<Synced, Error> {
        let (name, now) = (object.name_any(), Timestamp::now());
        let known = self.0.read().synced.get(&name).cloned();
        if let Some(known) = known
            && known.generation == object.metadata.generation
            && now.duration_since(known.at).unsigned_abs() < interval(object)
        {
            return Ok(known);
        }
        let objects = match (&object.spec.openstack, &object.spec.prometheus) {
            (Some(source), _) => self.openstack(&name, source, reader).await?,
            (None, Some(source)) => self.prometheus(&name, source, reader).await?,
            (None, None) => {
                let text = "openstack, prometheus: set one of them".to_owned();
                return Err(Error::NotSupported(text));
            }
        };
        let synced = Synced {
            at: Timestamp::now(),
            objects,
            generation: object.metadata.generation,
        };
        self.0.read().synced.insert(name, synced.clone());
        Ok(synced)
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<std::convert::Infallible>, Error> {
        Ok(Decision::hold())
    }

    async fn act(&self, action: &std::convert::Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        let (synced, interval) = (&observed.facts, interval(&observed.object));
        let next = synced.at.checked_add(interval).unwrap_or(synced.at);
        let left = Duration::try_from(next.duration_since(observed.now)).unwrap_or_default();
        let second = |time: Timestamp| Timestamp::from_second(time.as_second()).unwrap_or(time);
        Report::new(States::default())
            .status(&json!({
                "lastSynced": second(synced.at),
                "numberOfObjects": synced.objects,
                "nextSyncTime": second(next),
            }))
            .again_in(left.max(Duration::from_secs(1)))
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Knowledges(pub Shared);

/// What the dependencies hold, and who the servers are.
pub(crate) struct Known {
    series: Vec<prometheus::Series>,
    missing: Vec<String>,
    servers: BTreeMap<String, crate::fleet::Server>,
}

/// Features of an extractor, as the world takes them and as the status shows them.
#[derive(Clone, Debug)]
pub(crate) struct Learnt {
    features: Features,
    raw: Value,
    count: i64,
}

fn extract(name: &str, known: &Known) -> Option<Learnt> {
    let mut features = Features::default();
    let (raw, count) = match name.strip_suffix("_extractor").unwrap_or(name) {
        "host_contention_long_term" => {
            let found = prometheus::contention(&known.series);
            let told = (json!(found), found.len());
            features.long_term = Some(found);
            told
        }
        "host_contention_short_term" => {
            let found = prometheus::contention(&known.series);
            let told = (json!(found), found.len());
            features.short_term = Some(found);
            told
        }
        "project_noisiness" => {
            let found = prometheus::noise(&known.series, &known.servers);
            let told = (json!(found), found.len());
            features.noise = Some(found);
            told
        }
        "kvm_libvirt_domain_cpu_steal_pct" => {
            let found = prometheus::steal(&known.series, &known.servers);
            let told = (json!(found), found.len());
            features.steal = Some(found);
            told
        }
        _ => return None,
    };
    Some(Learnt {
        features,
        raw,
        count: i64::try_from(count).unwrap_or(i64::MAX),
    })
}

/// Statuses are objects of Kubernetes: what is larger is used and not shown.
const SHOWN: i64 = 1000;

impl Controller for Knowledges {
    type Kind = Knowledge;
    type Facts = Known;
    type Plan = Option<Learnt>;
    type Action = Learnt;
    type Error = Error;

    const NAME: &'static str = "cortex-knowledges";
    const PARTS: &'static [Part] = &[];

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Datasource>()]
    }

    fn references(object: &Knowledge) -> Vec<Reference> {
        let sources = object.spec.dependencies.datasources.iter();
        sources
            .map(|one| Kind::of::<Datasource>().named(None, &one.name))
            .collect()
    }

    async fn observe(&self, object: &Knowledge, _: &Reader) -> Result<Known, Error> {
        let read = self.0.read();
        let (mut series, mut missing) = (Vec::new(), Vec::new());
        for source in &object.spec.dependencies.datasources {
            if let Some(found) = read.series.get(&source.name) {
                series.extend(found.iter().cloned());
            } else if !read.synced.contains_key(&source.name) {
                missing.push(source.name.clone());
            }
        }
        drop(read);
        Ok(Known {
            series,
            missing,
            servers: self.0.scheduler.world.draft().servers,
        })
    }

    fn plan(observed: &Observed<Self>) -> Option<Learnt> {
        let ready = observed.facts.missing.is_empty();
        extract(&observed.object.spec.extractor.name, &observed.facts).filter(|_| ready)
    }

    fn decide(_: &Observed<Self>, plan: &Option<Learnt>) -> Result<Decision<Learnt>, Error> {
        Ok(Decision::hold().act(plan.clone()))
    }

    async fn act(&self, action: &Learnt) -> Result<(), Error> {
        let learnt = action.features.clone();
        self.0.scheduler.world.learn(|features| {
            let had = std::mem::take(features);
            *features = Features {
                long_term: learnt.long_term.or(had.long_term),
                short_term: learnt.short_term.or(had.short_term),
                noise: learnt.noise.or(had.noise),
                steal: learnt.steal.or(had.steal),
                quotas: learnt.quotas.or(had.quotas),
            };
        });
        Ok(())
    }

    fn report(observed: &Observed<Self>, plan: &Option<Learnt>, _: &Applied<Self>) -> Report {
        let (spec, facts) = (&observed.object.spec, &observed.facts);
        let Some(learnt) = plan else {
            let states = if facts.missing.is_empty() {
                let text = format!("extractor.name: {} is unknown", spec.extractor.name);
                States::default().blocked_by("Unknown", text)
            } else {
                let text = format!("waiting for Datasource {}", facts.missing.join(", "));
                States::default().blocked_by("Waiting", text)
            };
            return Report::new(states).again_in(duration(&spec.recency));
        };
        let before = observed.object.status.as_ref();
        let raw = (learnt.count <= SHOWN).then(|| learnt.raw.clone());
        // The time of features that are still the same stays: an idle system writes nothing.
        let same = before.is_some_and(|status| status.raw == raw && status.raw_length == Some(learnt.count));
        let at = before
            .and_then(|status| status.last_extracted.as_ref())
            .filter(|_| same);
        let at = at.map_or(observed.now, |time| time.0);
        let at = Timestamp::from_second(at.as_second()).unwrap_or(at);
        Report::new(States::default())
            .status(&json!({"raw": raw, "rawLength": learnt.count, "lastExtracted": at}))
            .again_in(duration(&spec.recency))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_read_as_kubernetes_writes_them() {
        for (text, seconds) in [
            ("600s", 600),
            ("1h30m", 5400),
            ("672h", 2_419_200),
            ("nonsense", 600),
        ] {
            assert_eq!(duration(text).as_secs(), seconds, "{text}");
        }
    }

    #[test]
    fn extractors_are_known_with_and_without_their_suffix() {
        let known = || Known {
            series: vec![prometheus::Series {
                labels: [("host".to_owned(), "a".to_owned())].into(),
                values: vec![1.0, 3.0],
            }],
            missing: Vec::new(),
            servers: BTreeMap::new(),
        };
        let learnt = extract("host_contention_long_term", &known()).expect("known");
        assert_eq!((learnt.count, learnt.raw["a"]["avg"].as_f64()), (1, Some(2.0)));
        let learnt = extract("kvm_libvirt_domain_cpu_steal_pct_extractor", &known()).expect("known");
        assert_eq!((learnt.count, learnt.features.steal), (0, Some(Vec::new())));
        assert!(extract("of_mars", &known()).is_none());
    }
}
