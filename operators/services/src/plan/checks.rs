//! Input that is refused before anything is planned.

use c5c3_api::common::Cache;
use c5c3_catalogue::{Move, Release, way};

use crate::build;
use crate::error::Error;
use crate::shape::{Process, Service, Workload};

/// What would change nothing is refused: nobody should wait for its effect.
pub(super) fn check_ignored(service: &Service) -> Result<(), Error> {
    let name = service.names.service;
    let tells = name == "keystone" || build::address_option(service).is_some();
    if service.common.public_endpoint.is_some() && !tells {
        return Err(Error::NotSupported {
            field: "publicEndpoint",
            value: "an address",
            way_out: "leave it out; clients find this service by the catalogue, which services.*.publicEndpoint of a ControlPlane fills",
        });
    }
    let backend = service.cache.as_ref().map(|cache| cache.backend.as_str());
    if name != "keystone" && backend.is_some_and(|backend| backend != Cache::pool()) {
        return Err(Error::NotSupported {
            field: "cache.backend",
            value: "another one than the default",
            way_out: "leave it out; only Keystone's own cache has a backend, others keep checked tokens there",
        });
    }
    Ok(())
}

/// From the version whose schema is in place to the wanted one there must be a way.
pub(super) fn check_way(service: &Service) -> Result<(), Error> {
    let installed = service
        .status
        .as_ref()
        .and_then(|status| status.installed_release.clone());
    let Some((from, to)) = installed.zip(service.version()).filter(|(from, to)| from != to) else {
        return Ok(());
    };
    let release =
        |version: &str| Release::with_version(service.names.service, version).map(|found| found.name);
    let releases = release(&from).zip(release(&to));
    refuse_way(from, to, releases)
}

fn refuse_way(from: String, to: String, releases: Option<(String, String)>) -> Result<(), Error> {
    let Some((release, new)) = releases else {
        // Of a build that no release knows the number before the first dot tells: it grows with each.
        let major = |version: &str| version.split('.').next()?.parse::<u64>().ok();
        return match major(&from).zip(major(&to)) {
            Some((here, there)) if there < here => Err(Error::Downgrade { from, to }),
            _ => Ok(()),
        };
    };
    match way(&release, &new) {
        Some(Move::Back) => Err(Error::Downgrade { from, to }),
        Some(Move::TooFar(next)) => Err(Error::ReleaseSkipped {
            from,
            release,
            to,
            next,
        }),
        None | Some(Move::Same | Move::Next) => Ok(()),
    }
}

/// A pod bears the name of its process in a label, and that of a StatefulSet with a revision behind it.
pub(super) fn check_length(service: &Service, process: &Process) -> Result<(), Error> {
    let made = build::workload_name(service, process);
    let longest = match process.workload {
        Workload::StatefulSet { .. } => 52,
        _ => 63,
    };
    if made.len() <= longest {
        return Ok(());
    }
    Err(Error::PartTooLong {
        what: "process",
        name: process.name.clone(),
        made,
        longest,
    })
}

#[cfg(test)]
mod tests {
    use super::refuse_way;

    #[test]
    fn a_service_refuses_downgrades_and_skipped_releases_by_itself() {
        let table = [
            ("28.1.0", "29.1.0", Some(("2025.2", "2026.1")), ""),
            ("28.1.0", "28.1.1", Some(("2025.2", "2025.2")), ""),
            (
                "29.1.0",
                "28.1.0",
                Some(("2026.1", "2025.2")),
                "image: 28.1.0 is older than 29.1.0",
            ),
            (
                "28.1.0",
                "30.0.0",
                Some(("2025.2", "2026.2")),
                "directly; set an image of 2026.1 first",
            ),
            // Builds of which no release knows.
            (
                "29.1.0-mine",
                "28.0.0-mine",
                None,
                "a schema cannot be downgraded",
            ),
            ("28.1.0", "nightly", None, ""),
            ("28.1.0", "28.1.0-mine", None, ""),
        ];
        for (from, to, releases, words) in table {
            let releases = releases.map(|(old, new)| (old.to_owned(), new.to_owned()));
            let said = refuse_way(from.to_owned(), to.to_owned(), releases);
            let said = said.err().map(|error| error.to_string()).unwrap_or_default();
            assert!(
                said.contains(words) && said.is_empty() == words.is_empty(),
                "{from} → {to}: {said}"
            );
        }
    }
}
