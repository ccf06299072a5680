//! Controllers that do nothing, for tests of what the kit does around them.

use std::convert::Infallible;
use std::time::Duration;

use k8s_openapi::api::core::v1::ConfigMap;

use crate::{Applied, Controller, Decision, Finalizer, Observed, Part, Reader, Report};

/// Without and with a finalizer.
pub(crate) struct Doing<const FINALIZER: bool>;
pub(crate) type Idle = Doing<false>;
pub(crate) type Keen = Doing<true>;

impl<const FINALIZER: bool> Controller for Doing<FINALIZER> {
    type Kind = ConfigMap;
    type Facts = ();
    type Plan = ();
    type Action = Infallible;
    type Error = Infallible;

    const NAME: &'static str = "doing";
    const PARTS: &'static [Part] = &[];
    const FINALIZER: Option<Finalizer> = if FINALIZER {
        Some(Finalizer {
            name: "test.c5c3.io/doing",
            within: Duration::from_secs(1),
        })
    } else {
        None
    };

    async fn observe(&self, _: &ConfigMap, _: &Reader) -> Result<(), Infallible> {
        Ok(())
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Infallible> {
        Ok(Decision::want([]))
    }

    async fn act(&self, action: &Infallible) -> Result<(), Infallible> {
        match *action {}
    }

    fn report(_: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        Report::default()
    }
}
