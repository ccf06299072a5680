//! The controller of one Hypervisor's status: that of the host on which it runs.

use std::convert::Infallible;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use c5c3_api::conditions::hypervisor::{LIBVIRT_CONNECTION, LIBVIRTD_SERVICE, OPENVSWITCH_SERVICE};
use c5c3_api::hypervisor::{Hypervisor, OperatingSystem};
use c5c3_kit::{Applied, Controller, Decision, Observed, Part, Reader, Report, States};
use tokio::sync::watch;

use crate::status::desired;
use crate::units::{self, Units};
use crate::view::{Link, View};

/// Files of the system change without a word; the look costs no write when nothing did.
const SYSTEM: Duration = Duration::from_secs(3600);

pub struct NodeAgent {
    pub view: watch::Receiver<Arc<View>>,
    pub units: watch::Receiver<Arc<Units>>,
    /// Where the host's root is.
    pub root: PathBuf,
}

pub struct Facts {
    pub view: Arc<View>,
    pub units: Arc<Units>,
    pub system: OperatingSystem,
}

impl Controller for NodeAgent {
    type Kind = Hypervisor;
    type Facts = Facts;
    type Plan = ();
    type Action = Infallible;
    /// Trouble with libvirt is a fact to report, not an error of the agent.
    type Error = Infallible;

    const NAME: &'static str = "c5c3-node-agent";
    const PARTS: &'static [Part] = &[
        Part::informative(LIBVIRT_CONNECTION),
        Part::informative(LIBVIRTD_SERVICE),
        Part::informative(OPENVSWITCH_SERVICE),
    ];
    /// Both are the operator's.
    const READY: bool = false;
    const GENERATION: bool = false;

    async fn observe(&self, _: &Hypervisor, _: &Reader) -> Result<Facts, Infallible> {
        Ok(Facts {
            view: self.view.borrow().clone(),
            units: self.units.borrow().clone(),
            system: crate::system::read(&self.root),
        })
    }

    fn plan(_: &Observed<Self>) {}

    fn decide(_: &Observed<Self>, (): &()) -> Result<Decision<Infallible>, Infallible> {
        Ok(Decision::hold())
    }

    async fn act(&self, action: &Infallible) -> Result<(), Infallible> {
        match *action {}
    }

    fn report(observed: &Observed<Self>, (): &(), _: &Applied<Self>) -> Report {
        let live = observed.object.status.clone().unwrap_or_default();
        let Facts { view, units, system } = &observed.facts;
        let states = match &view.link {
            Link::Up => States::default().met(LIBVIRT_CONNECTION, "Connected", ""),
            Link::Starting => States::default().unknown(LIBVIRT_CONNECTION, "Connecting", "no answer yet"),
            Link::Down(why) => States::default().unmet(LIBVIRT_CONNECTION, "Disconnected", why),
        };
        let states = units::states(states, units);
        let status = desired(view, system.clone(), &observed.object.spec, &live);
        Report::new(states).status(&status).again_in(SYSTEM)
    }
}
