//! Certificates of nodes as Secrets: the authority at home, the others where their nodes are.

use c5c3_authority::Data;
use c5c3_kit::Wanted;
use k8s_openapi::api::core::v1::Secret;

use crate::facts::Facts;
use crate::names::Names;

/// The authority first: certificates without it could not be renewed.
pub fn certificates(names: &Names, facts: &Facts) -> Vec<Wanted> {
    let Some(certificates) = &facts.certificates else {
        return Vec::new();
    };
    let volume = &certificates.volume;
    let authority = secret(names, &names.authority_of(volume), &certificates.authority);
    let mut wanted = vec![Wanted::of(&authority)];
    for (place, data) in &certificates.by_cluster {
        let there = secret(names, &names.suffixed(volume), data);
        wanted.push(Wanted::of(&there).in_cluster(place.clone()));
    }
    wanted
}

fn secret(names: &Names, name: &str, data: &Data) -> Secret {
    Secret {
        type_: Some("Opaque".to_owned()),
        metadata: names.metadata(name),
        data: Some(data.clone()),
        ..Secret::default()
    }
}
