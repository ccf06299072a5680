//! Merges Secrets into one and keeps it so.

mod merge;

use std::collections::BTreeMap;
use std::convert::Infallible;

use c5c3_api::c5c3::{SecretAggregate, SecretAggregateStatus};
use c5c3_api::common::Time;
use c5c3_api::conditions::{reason, secret_aggregate::SOURCES_RESOLVED};
use c5c3_kit::{
    Applied, Controller, Decision, Fault, Kind, Observed, Part, ReadError, Reader, Reference, Report, Retry,
    States, Wanted,
};
use futures::future::try_join_all;
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::ResourceExt;

pub use merge::{Data, MergeError, merge};

/// The controller.
#[derive(Clone, Copy, Debug, Default)]
pub struct SecretAggregates;

#[derive(Debug, thiserror::Error)]
pub enum Error {
    #[error("{0}")]
    SecretMissing(MergeError),
    #[error("{0}")]
    KeyMissing(MergeError),
    #[error("{0}")]
    DuplicateKey(MergeError),
    #[error(transparent)]
    Unreadable(#[from] ReadError),
}

impl From<MergeError> for Error {
    fn from(error: MergeError) -> Self {
        match error {
            MergeError::Secrets(_) => Error::SecretMissing(error),
            MergeError::Keys(_) => Error::KeyMissing(error),
            MergeError::Duplicates(_) => Error::DuplicateKey(error),
        }
    }
}

impl Fault for Error {
    fn part(&self) -> Option<&'static str> {
        Some(SOURCES_RESOLVED)
    }

    fn retry(&self) -> Retry {
        match self {
            // A watch tells when a source appears or changes.
            Error::SecretMissing(_) | Error::KeyMissing(_) | Error::DuplicateKey(_) => Retry::OnChange,
            Error::Unreadable(_) => Retry::Backoff,
        }
    }
}

impl Controller for SecretAggregates {
    type Kind = SecretAggregate;
    /// The data of each source that exists, by name.
    type Facts = BTreeMap<String, Data>;
    type Plan = ();
    type Action = Infallible;
    type Error = Error;

    const NAME: &'static str = "secret-aggregate";
    const PARTS: &'static [Part] = &[Part::required(SOURCES_RESOLVED)];

    fn owns() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    fn watches() -> Vec<Kind> {
        vec![Kind::of::<Secret>()]
    }

    /// The target too: when somebody else's Secret stops being in the way, it is our turn.
    fn references(object: &SecretAggregate) -> Vec<Reference> {
        let namespace = object.namespace();
        let sources = object.spec.sources.iter().map(|source| &source.secret_ref);
        sources
            .chain([&object.spec.target])
            .map(|secret| Kind::of::<Secret>().named(namespace.as_deref(), &secret.name))
            .collect()
    }

    async fn observe(&self, object: &SecretAggregate, reader: &Reader) -> Result<Self::Facts, Error> {
        let namespace = object.namespace().unwrap_or_default();
        let reads: Vec<_> = object
            .spec
            .sources
            .iter()
            .map(|source| reader.get::<Secret>(&namespace, &source.secret_ref.name))
            .collect();
        let found = try_join_all(reads).await?;
        Ok(found
            .into_iter()
            .flatten()
            .map(|secret| (secret.name_any(), secret.data.unwrap_or_default()))
            .collect())
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(observed: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Error> {
        let Observed { object, facts, .. } = observed;
        let data = merge(&object.spec.sources, facts)?;
        let target = Secret {
            metadata: ObjectMeta {
                name: Some(object.spec.target.name.clone()),
                namespace: object.namespace(),
                ..ObjectMeta::default()
            },
            data: Some(data),
            ..Secret::default()
        };
        Ok(Decision::want([Wanted::of(&target)]))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Error> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), applied: &Applied<Self>) -> Report {
        let object = &observed.object;
        let written = applied.written::<Secret>(object.namespace().as_deref(), &object.spec.target.name);
        let before = object
            .status
            .as_ref()
            .and_then(|status| status.last_aggregated.clone());
        let last = before.filter(|_| !written).unwrap_or(Time(observed.now));
        let states = States::default().met(
            SOURCES_RESOLVED,
            reason::ALL_SOURCES_AVAILABLE,
            "every source was read",
        );
        Report::new(states).status(&SecretAggregateStatus {
            last_aggregated: Some(last),
            ..SecretAggregateStatus::default()
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use c5c3_api::c5c3::{SecretAggregateSpec, SecretSource};
    use c5c3_api::common::LocalRef;
    use jiff::Timestamp;
    use k8s_openapi::ByteString;

    fn aggregate() -> SecretAggregate {
        let source = |name: &str| SecretSource {
            secret_ref: LocalRef::new(name),
            keys: vec![],
        };
        let mut object = SecretAggregate::new(
            "all",
            SecretAggregateSpec {
                sources: vec![source("a"), source("b")],
                target: LocalRef::new("merged"),
            },
        );
        object.metadata.namespace = Some("ns".into());
        object
    }

    fn seen(object: SecretAggregate, secrets: &[(&str, &str)], now: i64) -> Observed<SecretAggregates> {
        let facts = secrets.iter().map(|(name, key)| {
            (
                (*name).to_owned(),
                Data::from([((*key).to_owned(), ByteString(b"x".to_vec()))]),
            )
        });
        Observed {
            object,
            facts: facts.collect(),
            now: Timestamp::from_second(now).expect("a time"),
        }
    }

    #[test]
    fn every_field_acts_or_is_refused() {
        let digest = |spec: &serde_json::Value| {
            let mut object = aggregate();
            object.spec = serde_json::from_value(spec.clone()).expect("a spec");
            let references = SecretAggregates::references(&object);
            let observed = seen(object, &[("a", "user"), ("b", "password")], 5);
            match observed.decide() {
                Ok(decision) => format!("{references:?} {:?}", decision.wanted()[0].object()),
                Err(refused) => format!("{references:?} {refused}"),
            }
        };
        let spec = serde_json::json!(aggregate().spec);
        let ignored = c5c3_api::fields::ignored("SecretAggregate", &[spec], digest);
        assert_eq!(ignored, Vec::<String>::new(), "accepted and ignored");
    }

    #[test]
    fn depends_on_its_sources_and_its_target() {
        let names: Vec<_> = SecretAggregates::references(&aggregate())
            .iter()
            .map(ToString::to_string)
            .collect();
        assert_eq!(names, ["Secret ns/a", "Secret ns/b", "Secret ns/merged"]);
    }

    #[test]
    fn wants_one_secret_with_all_keys() {
        let observed = seen(aggregate(), &[("a", "user"), ("b", "password")], 5);
        let decision = observed.decide().expect("decides");
        let [target] = decision.wanted() else {
            panic!("one object")
        };
        let object = target.object();
        assert_eq!(object["metadata"]["name"], "merged");
        assert_eq!(
            object["data"]
                .as_object()
                .expect("data")
                .keys()
                .collect::<Vec<_>>(),
            ["password", "user"]
        );
        assert!(object.get("type").is_none() && object.get("status").is_none());
    }

    #[test]
    fn the_time_moves_only_when_the_target_was_written() {
        let observed = seen(aggregate(), &[("a", "user"), ("b", "password")], 50);
        let decision = observed.decide().expect("decides");
        let report = observed.report(&Applied::rehearse(decision));
        assert_eq!(report.status_fields()["lastAggregated"], "1970-01-01T00:00:50Z");

        let mut object = aggregate();
        object.status = Some(SecretAggregateStatus {
            last_aggregated: Some(Time(Timestamp::from_second(7).expect("a time"))),
            ..SecretAggregateStatus::default()
        });
        let observed = seen(object, &[("a", "user"), ("b", "password")], 50);
        let report = observed.report(&Applied::rehearse(Decision::hold()));
        assert_eq!(report.status_fields()["lastAggregated"], "1970-01-01T00:00:07Z");
    }

    #[test]
    fn the_reason_is_one_that_the_api_names() {
        let missing = seen(aggregate(), &[("a", "user")], 1).decide().expect_err("b");
        assert_eq!(missing.reason(), reason::SECRET_MISSING);
        let twice = seen(aggregate(), &[("a", "k"), ("b", "k")], 1)
            .decide()
            .expect_err("k");
        assert_eq!(twice.reason(), reason::DUPLICATE_KEY);
        assert_eq!(
            Error::from(MergeError::Keys(vec![])).reason(),
            reason::KEY_MISSING
        );
    }
}
