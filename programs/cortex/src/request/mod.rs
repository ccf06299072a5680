//! What Nova, Cinder and Manila ask. Names of hosts are borrowed from the body: a question about ten
//! thousand hosts makes no string.

mod nova;

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;

use c5c3_api::cortex::SchedulingDomain;
use serde::de::{Deserializer, MapAccess, Visitor};
use serde::{Deserialize, Serialize};

pub use nova::{Destination, Flavor, Group, ImageType, Intent, Spec};

use crate::fleet::ReservationKind;
use crate::fleet::names::QuickMap;

/// Set at call time, for one run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default)]
pub struct Options {
    /// Nothing is remembered of the run.
    pub read_only: bool,
    pub assume_empty_hosts: bool,
    pub lock_reservations: bool,
    pub ignored_reservation_types: Vec<ReservationKind>,
    /// 0: no limit.
    pub max_candidates: usize,
    pub skip_history: bool,
    /// The caller can place on hosts that it did not ask about.
    pub allow_other_hosts: bool,
}

/// A question, checked.
#[derive(Clone, Debug, Default)]
pub struct Request<'a> {
    pub domain: SchedulingDomain,
    /// Empty: it follows from the flavour.
    pub pipeline: Cow<'a, str>,
    /// With the weight that the caller gave it. One that is named twice counts once.
    pub hosts: Vec<(Cow<'a, str>, f64)>,
    pub spec: Spec,
    pub options: Options,
}

/// Why a question has no answer. The caller did it.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BadRequest {
    #[error("failed to decode request body: {0}")]
    Json(String),
    #[error("missing weight for host {0}")]
    NoWeight(String),
    #[error("weight assigned to unknown host {0}")]
    NoHost(String),
    #[error("{0}")]
    NoPipeline(String),
}

#[derive(Deserialize)]
struct Body<'a, S> {
    spec: Option<S>,
    #[serde(borrow, default)]
    hosts: Vec<HostEntry<'a>>,
    #[serde(borrow, default)]
    weights: Weights<'a>,
    #[serde(borrow, default)]
    pipeline: Option<Cow<'a, str>>,
    #[serde(default)]
    options: Option<Options>,
}

#[derive(Deserialize)]
struct HostEntry<'a> {
    #[serde(borrow)]
    host: Cow<'a, str>,
}

/// Host → weight, in the order in which they were written: mostly that of the hosts.
#[derive(Default)]
struct Weights<'a>(Vec<(Cow<'a, str>, f64)>);

#[derive(Deserialize)]
#[serde(transparent)]
struct Key<'a>(#[serde(borrow)] Cow<'a, str>);

impl<'de: 'a, 'a> Deserialize<'de> for Weights<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Pairs;
        impl<'de> Visitor<'de> for Pairs {
            type Value = Weights<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a weight for each host")
            }

            fn visit_unit<E>(self) -> Result<Self::Value, E> {
                Ok(Weights::default())
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut pairs = Vec::with_capacity(map.size_hint().unwrap_or(64));
                while let Some((Key(host), weight)) = map.next_entry()? {
                    pairs.push((host, weight));
                }
                Ok(Weights(pairs))
            }
        }
        deserializer.deserialize_any(Pairs)
    }
}

/// Joins hosts and weights, which must name the same hosts.
fn join<'a>(
    hosts: Vec<HostEntry<'a>>,
    weights: Vec<(Cow<'a, str>, f64)>,
) -> Result<Vec<(Cow<'a, str>, f64)>, BadRequest> {
    let same_order = hosts.len() == weights.len()
        && hosts
            .iter()
            .zip(&weights)
            .all(|(host, (weighed, _))| host.host == *weighed);
    if same_order {
        return Ok(weights);
    }
    let by_name: QuickMap<&str, f64> = weights.iter().map(|(host, weight)| (&**host, *weight)).collect();
    let mut joined = Vec::with_capacity(hosts.len());
    for entry in &hosts {
        match by_name.get(&*entry.host) {
            Some(weight) => joined.push((entry.host.clone(), *weight)),
            None => return Err(BadRequest::NoWeight(entry.host.to_string())),
        }
    }
    let joined = each_once(joined);
    if by_name.len() > joined.len() {
        let known: QuickMap<&str, ()> = joined.iter().map(|(host, _)| (&**host, ())).collect();
        let unknown = weights.iter().find(|(host, _)| !known.contains_key(&**host));
        let unknown = unknown.map(|(host, _)| host.to_string()).unwrap_or_default();
        return Err(BadRequest::NoHost(unknown));
    }
    Ok(joined)
}

fn each_once<'a>(hosts: Vec<(Cow<'a, str>, f64)>) -> Vec<(Cow<'a, str>, f64)> {
    let mut seen: QuickMap<&str, ()> = QuickMap::default();
    seen.reserve(hosts.len());
    let twice: Vec<bool> = hosts
        .iter()
        .map(|(host, _)| seen.insert(host, ()).is_some())
        .collect();
    if !twice.contains(&true) {
        return hosts;
    }
    let pairs = hosts.into_iter().zip(twice);
    pairs
        .filter_map(|(host, again)| (!again).then_some(host))
        .collect()
}

impl<'a> Request<'a> {
    pub fn parse(domain: SchedulingDomain, body: &'a [u8]) -> Result<Self, BadRequest> {
        match domain {
            SchedulingDomain::Nova => Self::read(domain, body, |spec: Spec| spec),
            // Theirs has no shape that could be relied on.
            SchedulingDomain::Cinder | SchedulingDomain::Manila => {
                Self::read(domain, body, |spec: serde_json::Value| Spec::untyped(&spec))
            }
        }
    }

    fn read<S: Deserialize<'a>>(
        domain: SchedulingDomain,
        body: &'a [u8],
        spec: impl Fn(S) -> Spec,
    ) -> Result<Self, BadRequest> {
        let body: Body<'a, S> =
            serde_json::from_slice(body).map_err(|error| BadRequest::Json(error.to_string()))?;
        Ok(Request {
            domain,
            pipeline: body.pipeline.unwrap_or_default(),
            hosts: join(body.hosts, body.weights.0)?,
            spec: body.spec.map(spec).unwrap_or_default(),
            options: body.options.unwrap_or_default(),
        })
    }

    /// The pipeline that is asked for, or the one that follows from the flavour.
    pub fn pipeline(&self) -> Result<String, BadRequest> {
        if !self.pipeline.is_empty() {
            return Ok(self.pipeline.to_string());
        }
        match self.domain {
            SchedulingDomain::Cinder => Ok("cinder".to_owned()),
            SchedulingDomain::Manila => Ok("manila".to_owned()),
            SchedulingDomain::Nova => inferred(&self.spec.flavor.extra_specs),
        }
    }
}

fn inferred(extra_specs: &BTreeMap<String, String>) -> Result<String, BadRequest> {
    let lower = |key: &str| extra_specs.get(key).map(|value| value.to_lowercase());
    let kind = match lower("capabilities:hypervisor_type").as_deref() {
        Some("qemu" | "ch") => "kvm",
        Some("vmware vcenter server") => "vmware",
        Some(other) => {
            return Err(BadRequest::NoPipeline(format!(
                "unsupported hypervisor_type: {other}"
            )));
        }
        None => {
            let text = "failed to determine hypervisor type from request data: the flavour has no extra spec \
                        capabilities:hypervisor_type; name a pipeline, or set it";
            return Err(BadRequest::NoPipeline(text.to_owned()));
        }
    };
    let purpose = match lower("trait:CUSTOM_HANA_EXCLUSIVE_HOST").as_deref() {
        Some("required") => "hana-bin-packing",
        None | Some("forbidden") => "general-purpose-load-balancing",
        Some(other) => {
            let text = format!("unsupported value for trait:CUSTOM_HANA_EXCLUSIVE_HOST: {other}");
            return Err(BadRequest::NoPipeline(text));
        }
    };
    Ok(format!("{kind}-{purpose}"))
}

#[cfg(test)]
mod tests;
