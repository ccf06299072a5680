//! The scheduler asks Cortex: a filter and a weigher of ours, beside its configuration. They are part
//! of the configuration and not of the image, so that every image of Nova can ask, patched or not.

use c5c3_api::openstack::Nova;

use crate::shape::{Process, Service, Settings, Variable};

const SCHEDULER: &str = "scheduler";
/// Nova's own, and ours behind them: it asks about what they left.
const FILTERS: &str = "ComputeFilter,ComputeCapabilitiesFilter,ImagePropertiesFilter,\
                       ServerGroupAntiAffinityFilter,ServerGroupAffinityFilter,CortexFilter";
const WEIGHERS: &str = "nova.scheduler.weights.all_weighers,nova_cortex.CortexWeigher";
/// The pipeline for flavours that name no hypervisor.
const PIPELINE: &str = "kvm-general-purpose-load-balancing";

pub(super) fn add(nova: &Nova, service: &mut Service) {
    let external = nova.spec.scheduler.external_scheduler.as_ref();
    let endpoint = external.filter(|external| external.enabled);
    // Admission wants an endpoint of one that is enabled.
    let Some(endpoint) = endpoint.and_then(|external| external.endpoint.as_ref()) else {
        return;
    };
    let main = service.settings.iter().find(|settings| settings.name.is_empty());
    let Some(main) = main.cloned() else { return };
    let own = Settings {
        name: SCHEDULER.to_owned(),
        files: vec![
            (
                "cortex_client.py".to_owned(),
                include_str!("cortex_client.py").to_owned(),
            ),
            (
                "nova_cortex.py".to_owned(),
                include_str!("nova_cortex.py").to_owned(),
            ),
        ],
        ..main
    };
    service.settings.push(own.with(&[
        ("filter_scheduler", "available_filters", "nova_cortex.all_filters"),
        ("filter_scheduler", "enabled_filters", FILTERS),
        ("filter_scheduler", "weight_classes", WEIGHERS),
    ]));
    let is_scheduler = |process: &&mut Process| process.name == SCHEDULER;
    if let Some(process) = service.processes.iter_mut().find(is_scheduler) {
        process.settings = SCHEDULER.to_owned();
        let text = |name: &str, value: &str| (name.to_owned(), Variable::Text(value.to_owned()));
        process.environment.extend([
            text("CORTEX_ENDPOINT", endpoint),
            text("CORTEX_PIPELINE", PIPELINE),
            text("PYTHONPATH", "/etc/nova"),
        ]);
    }
}
