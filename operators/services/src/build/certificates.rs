//! Certificates of nodes as Secrets: the authority at home, the others where their nodes are.

use c5c3_authority::Data;
use c5c3_kit::Wanted;
use serde_json::{Value, json};

use crate::facts::Facts;
use crate::names::Names;

/// The authority first: certificates without it could not be renewed.
pub fn certificates(names: &Names, facts: &Facts) -> Vec<Wanted> {
    let Some(certificates) = &facts.certificates else {
        return Vec::new();
    };
    let volume = &certificates.volume;
    let mut wanted = vec![Wanted::raw(secret(
        names,
        &names.authority_of(volume),
        &certificates.authority,
    ))];
    for (place, data) in &certificates.by_cluster {
        let there = secret(names, &names.suffixed(volume), data);
        wanted.push(Wanted::raw(there).in_cluster(place.clone()));
    }
    wanted
}

fn secret(names: &Names, name: &str, data: &Data) -> Value {
    json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": names.metadata(name), "data": data,
    })
}
