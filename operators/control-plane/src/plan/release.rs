//! Which version each service runs, and the way from one release to the next.

use c5c3_api::c5c3::UpdatePhase;
use c5c3_api::common::Image;
use c5c3_api::conditions::reason;
use c5c3_catalogue::{Move, Release, way};

/// Why the wanted release is not rolled out. What is running stays as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    #[error("openStackRelease: {wanted} is not known; use one of {}", known.join(", "))]
    Unknown { wanted: String, known: Vec<String> },
    #[error("openStackRelease: {from} cannot be upgraded to {to} directly; set {} first", next.join(" or "))]
    TooFar {
        from: String,
        to: String,
        next: Vec<String>,
    },
    #[error(
        "openStackRelease: {to} is older than {from}, which is in the database of {service}; a schema cannot be downgraded: \
         set {from}, or restore a backup into a new ControlPlane"
    )]
    Back {
        from: String,
        to: String,
        service: String,
    },
    #[error("openStackRelease: {release} has no image of {service}; set services.{service}.image")]
    NoImage { release: String, service: String },
}

impl Refusal {
    pub fn reason(&self) -> &'static str {
        match self {
            Refusal::Unknown { .. } | Refusal::NoImage { .. } => reason::UNKNOWN_RELEASE,
            Refusal::TooFar { .. } => reason::UPGRADE_NOT_POSSIBLE,
            Refusal::Back { .. } => reason::RESTORE_NEEDED,
        }
    }

    /// Nothing is done, forward or back.
    pub fn phase(&self) -> UpdatePhase {
        UpdatePhase::Validating
    }
}

pub(crate) fn is_newer(release: &str, than: &str) -> bool {
    way(release, than) == Some(Move::Back)
}

/// Only the next release, or SLURP to SLURP.
pub(crate) fn step(from: &str, to: &str) -> Result<(), Refusal> {
    let (from, to) = (from.to_owned(), to.to_owned());
    match way(&from, &to) {
        None | Some(Move::Same | Move::Next) => Ok(()),
        Some(Move::TooFar(next)) => Err(Refusal::TooFar { from, to, next }),
        Some(Move::Back) => Err(Refusal::Back {
            from,
            to,
            service: "this cloud".to_owned(),
        }),
    }
}

/// The release in which a service has this version; a tag may carry `-p<patches>`.
pub(crate) fn of_version<'a>(releases: &'a [Release], service: &str, version: &str) -> Option<&'a Release> {
    releases.iter().find(|release| release.has(service, version))
}

/// The image of this very program, which has the program's version in every release.
const PROGRAM: &str = "c5c3";

/// `spec.image` of a service.
pub(crate) fn image(release: &Release, service: &str) -> Result<Image, Refusal> {
    let own = (service == PROGRAM).then_some(env!("CARGO_PKG_VERSION"));
    let tag = own.or_else(|| release.versions.get(service).map(String::as_str));
    let tag = tag.ok_or_else(|| Refusal::NoImage {
        release: release.name.clone(),
        service: service.to_owned(),
    })?;
    Ok(Image {
        repository: format!("{}/{service}", release.registry),
        tag: Some(tag.to_owned()),
        digest: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_next_release_or_slurp_to_slurp() {
        for (from, to) in [
            ("2025.1", "2025.2"),
            ("2025.2", "2026.1"),
            ("2025.1", "2026.1"),
            ("2025.2", "2025.2"),
        ] {
            assert_eq!(step(from, to), Ok(()), "{from} → {to}");
        }
        let table = [
            ("2025.2", "2026.2", "directly; set 2026.1 first"),
            ("2025.1", "2026.2", "directly; set 2025.2 or 2026.1 first"),
            ("2024.1", "2026.1", "directly; set 2024.2 or 2025.1 first"),
            ("2026.1", "2025.2", "restore a backup"),
        ];
        for (from, to, words) in table {
            let refusal = step(from, to).expect_err(from).to_string();
            assert!(refusal.contains(words) && refusal.contains(to), "{refusal}");
        }
    }
}
