//! Neutron: networks and what hangs on them. Its kinds are alike, so that one set of calls serves all.

use std::fmt::Debug;

use async_trait::async_trait;
use http::Method;
use serde_json::json;

use crate::error::Result;
use crate::identity::{Entity, Fields, piece, query, unwrap, unwrap_all};
use crate::session::{Asked, Destination, Session};

const NEUTRON: Destination = Destination::Service("network");

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NetworkKind {
    Network,
    Subnet,
    Router,
    Port,
    SecurityGroup,
    SecurityGroupRule,
    FloatingIp,
}

impl NetworkKind {
    fn singular(self) -> &'static str {
        match self {
            Self::Network => "network",
            Self::Subnet => "subnet",
            Self::Router => "router",
            Self::Port => "port",
            Self::SecurityGroup => "security_group",
            Self::SecurityGroupRule => "security_group_rule",
            Self::FloatingIp => "floatingip",
        }
    }

    fn plural(self) -> String {
        format!("{}s", self.singular())
    }

    fn path(self) -> String {
        format!("/v2.0/{}", self.plural().replace('_', "-"))
    }

    /// For people.
    fn words(self) -> String {
        match self {
            Self::FloatingIp => "floating address".to_owned(),
            _ => self.singular().replace('_', " "),
        }
    }
}

#[async_trait]
pub trait Networking: Debug + Send + Sync {
    /// Those whose fields are as the filter says.
    async fn found(&self, kind: NetworkKind, filter: &[(&str, &str)]) -> Result<Vec<Entity>>;
    async fn make(&self, kind: NetworkKind, fields: &Fields) -> Result<Entity>;
    async fn change(&self, kind: NetworkKind, id: &str, fields: &Fields) -> Result<Entity>;
    /// Gives a router the gateway's address of a subnet.
    async fn add_router_interface(&self, router: &str, subnet: &str) -> Result<()>;
}

#[async_trait]
impl Networking for Session {
    async fn found(&self, kind: NetworkKind, filter: &[(&str, &str)]) -> Result<Vec<Entity>> {
        let doing = format!("list each {}", kind.words());
        let path = query(&kind.path(), filter);
        let asked = Asked::new(&doing, Method::GET, &path);
        unwrap_all(&doing, &kind.plural(), self.read(NEUTRON, asked).await?)
    }

    async fn make(&self, kind: NetworkKind, fields: &Fields) -> Result<Entity> {
        let name = fields.text("name").unwrap_or_default();
        let doing = format!("create {} {name}", kind.words()).trim_end().to_owned();
        let body = json!({kind.singular(): fields.0});
        let path = kind.path();
        let asked = Asked::new(&doing, Method::POST, &path).body(&body);
        unwrap(&doing, kind.singular(), self.read(NEUTRON, asked).await?)
    }

    async fn change(&self, kind: NetworkKind, id: &str, fields: &Fields) -> Result<Entity> {
        let doing = format!("change {} {id}", kind.words());
        let body = json!({kind.singular(): fields.0});
        let path = format!("{}/{}", kind.path(), piece(id));
        let asked = Asked::new(&doing, Method::PUT, &path).body(&body);
        unwrap(&doing, kind.singular(), self.read(NEUTRON, asked).await?)
    }

    async fn add_router_interface(&self, router: &str, subnet: &str) -> Result<()> {
        let doing = format!("connect router {router} with subnet {subnet}");
        let body = json!({"subnet_id": subnet});
        let path = format!("/v2.0/routers/{}/add_router_interface", piece(router));
        let asked = Asked::new(&doing, Method::PUT, &path).body(&body);
        self.send(NEUTRON, asked).await.map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::test_server::{Server, answer, logged_in};

    #[tokio::test]
    async fn each_kind_is_found_made_and_changed_at_its_own_path() {
        let server = Server::start(logged_in(|q| match (q.method.as_str(), q.path.as_str()) {
            ("GET", "/v2.0/security-groups?name=demo") => answer(
                200,
                &json!({"security_groups": [{"id": "g1", "name": "demo", "rules": []}]}),
            ),
            ("POST", "/v2.0/floatingips") => answer(
                201,
                &json!({"floatingip": {"id": "f1", "floating_ip_address": "10.194.0.120"}}),
            ),
            ("PUT", "/v2.0/floatingips/f1") => {
                answer(200, &json!({"floatingip": {"id": "f1", "port_id": "p1"}}))
            }
            ("PUT", "/v2.0/routers/r1/add_router_interface") => answer(200, &json!({})),
            _ => answer(
                409,
                &json!({"NeutronError": {"type": "InUse", "message": "it is there", "detail": ""}}),
            ),
        }))
        .await;
        let session = Session::new(server.cloud()).expect("a session");
        let groups = session
            .found(NetworkKind::SecurityGroup, &[("name", "demo")])
            .await
            .expect("a list");
        assert_eq!((groups.len(), groups[0].id.as_str()), (1, "g1"));
        let address = Fields::new().with("floating_network_id", "n1");
        let floating = session
            .make(NetworkKind::FloatingIp, &address)
            .await
            .expect("made");
        assert_eq!(floating.text("floating_ip_address"), Some("10.194.0.120"));
        let port = Fields::new().with("port_id", "p1");
        let changed = session
            .change(NetworkKind::FloatingIp, "f1", &port)
            .await
            .expect("changed");
        assert_eq!(changed.text("port_id"), Some("p1"));
        session.add_router_interface("r1", "s1").await.expect("connected");
        let asked = server.asked();
        assert_eq!(
            asked[2].json(),
            json!({"floatingip": {"floating_network_id": "n1"}})
        );
        assert_eq!(asked[4].json(), json!({"subnet_id": "s1"}));

        let refused = session
            .make(NetworkKind::SecurityGroupRule, &Fields::new())
            .await
            .expect_err("refused");
        assert_eq!(
            refused.to_string(),
            "create security group rule: 409 Conflict: it is there"
        );
    }
}
