//! Traits, consumers and candidates in Placement.

use std::collections::{BTreeMap, BTreeSet};

use http::Method;
use serde::Deserialize;
use serde_json::json;

use crate::error::{Result, optional};
use crate::identity::{piece, query};
use crate::session::Session;

/// Traits of this kind may be made by anybody; all others come with Placement.
const CUSTOM: &str = "CUSTOM_";
/// Nova's scheduler leaves out hosts with it.
const NOT_DISABLED: &str = "!COMPUTE_STATUS_DISABLED";

#[derive(Deserialize)]
struct Traits {
    traits: BTreeSet<String>,
    resource_provider_generation: i64,
}

#[derive(Deserialize)]
struct Consumers {
    allocations: BTreeMap<String, Held>,
}

#[derive(Deserialize)]
struct Held {
    resources: BTreeMap<String, i64>,
}

#[derive(Deserialize)]
struct Candidates {
    allocation_requests: Vec<Candidate>,
}

#[derive(Deserialize)]
struct Candidate {
    allocations: BTreeMap<String, Held>,
}

fn of(provider: &str, part: &str) -> String {
    format!("/resource_providers/{}/{part}", piece(provider))
}

pub(super) async fn traits(session: &Session, provider: &str) -> Result<Option<(i64, BTreeSet<String>)>> {
    let doing = format!("read traits of {provider}");
    let path = of(provider, "traits");
    let answer: Option<Traits> = optional(session.placed(&doing, Method::GET, &path, None).await)?;
    Ok(answer.map(|answer| (answer.resource_provider_generation, answer.traits)))
}

pub(super) async fn set_traits(
    session: &Session,
    provider: &str,
    generation: i64,
    traits: &BTreeSet<String>,
) -> Result<()> {
    for name in traits.iter().filter(|name| name.starts_with(CUSTOM)) {
        let doing = format!("make trait {name} known");
        let path = format!("/traits/{}", piece(name));
        session.placed_quietly(&doing, Method::PUT, &path, None).await?;
    }
    let doing = format!("set traits of {provider}");
    let body = json!({"resource_provider_generation": generation, "traits": traits});
    let path = of(provider, "traits");
    session
        .placed_quietly(&doing, Method::PUT, &path, Some(&body))
        .await
}

pub(super) async fn consumers(
    session: &Session,
    provider: &str,
) -> Result<BTreeMap<String, BTreeMap<String, i64>>> {
    let doing = format!("read allocations of {provider}");
    let path = of(provider, "allocations");
    let answer: Option<Consumers> = optional(session.placed(&doing, Method::GET, &path, None).await)?;
    let all = answer.map(|answer| answer.allocations).unwrap_or_default();
    Ok(all.into_iter().map(|(id, held)| (id, held.resources)).collect())
}

pub(super) async fn candidates(
    session: &Session,
    resources: &BTreeMap<String, i64>,
) -> Result<BTreeSet<String>> {
    let wanted: Vec<String> = resources
        .iter()
        .map(|(class, amount)| format!("{class}:{amount}"))
        .collect();
    let filter = [
        ("resources", wanted.join(",")),
        ("required", NOT_DISABLED.to_owned()),
        ("limit", "50".to_owned()),
    ];
    let filter: Vec<(&str, &str)> = filter.iter().map(|(key, value)| (*key, value.as_str())).collect();
    let path = query("/allocation_candidates", &filter);
    let doing = "look for hosts with room";
    let answer: Candidates = session.placed(doing, Method::GET, &path, None).await?;
    let requests = answer.allocation_requests.into_iter();
    Ok(requests
        .flat_map(|request| request.allocations.into_keys())
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fleet::Fleet;
    use crate::test_server::{Server as TestServer, answer, logged_in};

    #[tokio::test]
    async fn own_traits_are_made_known_and_candidates_are_providers() {
        let server = TestServer::start(logged_in(|q| match (q.method.as_str(), q.path.as_str()) {
            ("GET", "/resource_providers/p1/traits") => answer(
                200,
                &json!({"traits": ["HW_CPU_X86_AVX"], "resource_provider_generation": 4}),
            ),
            ("GET", "/resource_providers/gone/traits" | "/resource_providers/gone/allocations") => {
                answer(404, &json!({}))
            }
            ("PUT", "/traits/CUSTOM_A" | "/resource_providers/p1/traits") => answer(200, &json!({})),
            (
                "GET",
                "/allocation_candidates?resources=VCPU%3A1&required=%21COMPUTE_STATUS_DISABLED&limit=50",
            ) => answer(
                200,
                &json!({"allocation_requests": [{"allocations": {"p2": {"resources": {"VCPU": 1}}}}]}),
            ),
            _ => answer(500, &json!({})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        let (generation, mut traits) = session.provider_traits("p1").await.expect("read").expect("there");
        assert_eq!(generation, 4);
        assert_eq!(session.provider_traits("gone").await.expect("read"), None);
        assert!(session.consumers("gone").await.expect("read").is_empty());
        traits.insert("CUSTOM_A".into());
        session.set_provider_traits("p1", 4, &traits).await.expect("set");
        let sent = server.asked().last().expect("asked").json();
        assert_eq!(sent["traits"], json!(["CUSTOM_A", "HW_CPU_X86_AVX"]));
        let room = session.candidates(&[("VCPU".to_owned(), 1)].into()).await;
        assert_eq!(room.expect("asked"), BTreeSet::from(["p2".to_owned()]));
    }
}
