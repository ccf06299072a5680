//! Does a service answer? One short listing through an endpoint of the catalogue tells.

use http::Method;
use serde_json::Value;

use crate::catalogue::Interface;
use crate::error::{Cause, Error, Result};
use crate::session::{Asked, Session};

/// What a service is asked for, by its type in the catalogue: short, and not to be had without a token
/// that it has checked.
fn path(service: &str) -> Option<&'static str> {
    Some(match service {
        "identity" => "/auth/projects",
        "image" => "/v2/images?limit=1",
        "placement" => "/resource_providers?name=none",
        "compute" => "/servers?limit=1",
        "network" => "/v2.0/networks?limit=1",
        "block-storage" => "/volumes?limit=1",
        _ => return None,
    })
}

impl Session {
    /// Asks a service for a listing through one of its endpoints. Of a type that is not known here, nothing
    /// is asked.
    pub async fn listing(&self, service: &str, interface: Interface) -> Result<()> {
        let Some(path) = path(service) else {
            return Ok(());
        };
        let doing = format!("ask {service} through its {interface} endpoint");
        let reply = self
            .send_to(service, interface, Asked::new(&doing, Method::GET, path))
            .await?;
        serde_json::from_slice::<Value>(&reply.body)
            .map(drop)
            .map_err(|e| Error::new(&doing, Cause::Garbled(e.to_string())))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::Class;
    use crate::test_server::{Server, answer, logged_in};

    #[tokio::test]
    async fn only_a_listing_is_an_answer() {
        let server = Server::start(logged_in(|question| match question.path.as_str() {
            "/servers?limit=1" => answer(200, &json!({"servers": []})),
            "/v2/images?limit=1" => answer(503, &json!({"message": "no database"})),
            _ => answer(404, &json!({})),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        session
            .listing("compute", Interface::Public)
            .await
            .expect("a listing");
        let refused = session
            .listing("image", Interface::Public)
            .await
            .expect_err("no listing");
        assert!(
            refused
                .to_string()
                .contains("ask image through its public endpoint"),
            "{refused}"
        );
        let missing = session
            .listing("compute", Interface::Internal)
            .await
            .expect_err("no endpoint");
        assert!(matches!(missing.cause, Cause::NoEndpoint { .. }), "{missing}");
        assert_ne!(missing.class(), Class::Unauthorized);
        session
            .listing("cortex", Interface::Public)
            .await
            .expect("not asked");
    }
}
